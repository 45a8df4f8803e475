"""A case that takes no time, peaks that need not be measured, and the command on both."""

import argparse
import dataclasses

import pytest

from tvm_iree_ext import bench
from tvm_iree_ext.bench import suites
from tvm_iree_ext.bench.cases.attention import attention_case
from tvm_iree_ext.bench.measure.peaks import Peaks
from tvm_iree_ext.cli.bench import add_bench


@pytest.fixture(scope="session")
def kernels(tmp_path_factory):
    """The cache of all files here."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="module", autouse=True)
def own_cache(kernels):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TVM_IREE_EXT_CACHE", str(kernels))
        yield


@pytest.fixture
def known_peaks(monkeypatch):
    """Peaks that need not be measured."""
    known = {"float32": 100.0, "float64": 50.0}
    monkeypatch.setattr(
        suites, "measure_peaks", lambda threads: [Peaks(count, known, 10.0) for count in threads]
    )


@pytest.fixture(scope="module")
def tiny():
    case = attention_case(2, 16, 24, 16, "float32")
    return dataclasses.replace(case, peers=case.peers[:3])  # the others take a while to set up


@pytest.fixture
def command(capsys, monkeypatch, tiny, known_peaks):
    """Runs ``bench`` with the tiny case for a suite; returns its status and what it prints."""
    monkeypatch.setitem(bench.SUITES, "attention", lambda: (tiny,))
    parser = argparse.ArgumentParser()
    add_bench(parser.add_subparsers(required=True))

    def run(*arguments):
        args = parser.parse_args(["bench", *map(str, arguments)])
        status = args.run(args)
        return status, capsys.readouterr().out

    return run
