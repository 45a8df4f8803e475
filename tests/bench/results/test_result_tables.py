"""What a run of the benchmark reports; what is wrong or not installed is not timed.

Nothing here, and in the files beside it, depends on how long anything takes.
"""

import dataclasses
import json
import os
import sys

import numpy as np
import pytest

from tvm_iree_ext import bench
from tvm_iree_ext.bench import suites
from tvm_iree_ext.bench.base import bench_case as case_module
from tvm_iree_ext.bench.base.bench_case import NUMPY, Library, Peer
from tvm_iree_ext.bench.measure import compare
from tvm_iree_ext.bench.measure.kernel_costs import MEMORY_SHAPE, Costs, Memory
from tvm_iree_ext.bench.measure.peaks import Peaks
from tvm_iree_ext.building.kernel_build import build


def run_one(case, **options):
    return bench.run([case], quick=True, costs=False, **options)


def outcomes(report):
    return {outcome.name: outcome for row in report.rows for outcome in row.outcomes}


def test_a_quick_run_fills_every_field_of_the_json(tiny, tmp_path):
    report = run_one(tiny, suite="tiny")
    path = tmp_path / "new" / "report.json"
    report.save_json(path)
    data = json.loads(path.read_text())
    assert data["schema"] == 2
    assert data["suite"] == "tiny"
    assert data["quick"] is True
    assert data["complete"] is True
    assert data["costs"] is None
    assert set(data["machine"]) == {"cpu", "processors", "system", "python", "versions"}
    assert {"apache-tvm", "numpy", "torch"} <= set(data["machine"]["versions"])
    (peaks,) = data["peaks"]
    assert peaks["threads"] == 1
    assert {"float32", "float64"} <= set(peaks["gflops"])
    rates = (*peaks["gflops"].values(), peaks["read_gbps"], *peaks["cached_gbps"].values())
    assert len(peaks["cached_gbps"]) == 4
    assert min(rates) > 0
    (row,) = data["rows"]
    assert (row["case"], row["threads"]) == ("attn_h2_s24_d16_f32", 1)
    assert row["flops"] == 4 * 2 * 16 * 24 * 16
    assert row["bytes"] == 4 * 2 * 16 * (16 + 24 + 24 + 16)
    assert row["limited_by"] in ("compute", "memory")
    assert row["unit"] in ("GFLOP/s", "GB/s")
    assert row["rate"] > 0
    assert row["share_of_limit"] > 0
    assert (row["op"], row["provenance"]) == ("iree_linalg_ext.attention", "heuristic")
    assert row["bar"] == (0.85 if row["limited_by"] == "compute" else 0.8)
    assert row["heuristic"] is None
    timed = [peer for peer in row["peers"] if peer["status"] == "timed"]
    fastest = min(timed, key=lambda peer: peer["speedup"]["median"], default={"name": None})
    assert row["fastest"] == fastest["name"]  # no peer is timed where none is installed
    (summary,) = data["summary"]
    assert (summary["threads"], summary["cases"]) == (1, min(1, len(timed)))
    assert summary["untimed"] == []
    assert (summary["geometric_mean"] or 0.0) > 0 or not timed
    ours = row["ours"]
    assert (ours["name"], ours["status"], ours["speedup"]) == ("tvm_iree_ext", "timed", None)
    assert 0 < ours["seconds"]["low"] <= ours["seconds"]["median"] <= ours["seconds"]["high"]
    assert ours["calls"] >= 2
    assert [peer["name"] for peer in row["peers"]] == ["NumPy", "PyTorch", "IREE"]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("gflops", "limited_by", "unit"), [(1.0, "compute", "GFLOP/s"), (1e6, "memory", "GB/s")]
)
def test_the_limit_is_the_larger_of_compute_and_memory(tiny, monkeypatch, gflops, limited_by, unit):
    peaks = [Peaks(1, {"float32": gflops}, 10.0)]
    monkeypatch.setattr(suites, "measure_peaks", lambda _: peaks)
    (row,) = run_one(tiny).rows
    assert (row.limited_by, row.unit) == (limited_by, unit)
    compute, memory = tiny.flops / gflops / 1e9, tiny.bytes / 10.0 / 1e9
    assert row.limit_seconds == max(compute, memory)
    assert row.share_of_limit == row.limit_seconds / row.ours.seconds.median
    work = tiny.flops if unit == "GFLOP/s" else tiny.bytes
    assert row.rate == work / row.ours.seconds.median / 1e9


def test_a_tuned_kernel_is_timed_beside_the_heuristics(tiny, known_peaks, monkeypatch):
    def built(op, database=None):
        kernel = build(op)
        if database is None:
            manifest = dataclasses.replace(kernel.manifest, provenance="record exact")
            monkeypatch.setattr(kernel, "manifest", manifest)
        return kernel

    monkeypatch.setattr(compare.kernel_build, "build", built)
    report = run_one(dataclasses.replace(tiny, peers=()))
    (row,) = report.rows
    assert row.provenance == "record exact"
    assert (row.ours.status, row.heuristic.status) == ("timed", "timed")
    assert row.heuristic.speedup is not None
    header, (cells,) = report.table()
    assert "(" in cells[header.index("heuristic ms")]
    assert "(" in cells[header.index("tuned ms")]


def test_a_peer_that_is_wrong_is_not_timed(tiny, known_peaks):
    library = Library("Wrong", "numpy", NUMPY.limit)
    called = []

    def make(values):
        def call():
            called.append(1)
            return np.zeros(values["query"].shape, np.float32)

        return call

    report = run_one(dataclasses.replace(tiny, peers=(Peer(library, make),)))
    found = outcomes(report)["Wrong"]
    assert found.status == "wrong"
    assert "expected" in found.reason
    assert found.seconds is None
    assert len(called) == 1  # for the check
    assert report.wrong == [f"{tiny.name}: Wrong: {found.reason}"]
    header, (cells,) = report.table()
    assert cells[header.index("Wrong")] == "wrong"
    assert cells[header.index("fastest peer")] == ""


def test_a_peer_that_is_not_installed_is_skipped_by_name(tiny, known_peaks, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    report = run_one(tiny)
    assert outcomes(report)["PyTorch"].status == "skipped"
    assert report.machine.versions["torch"] == "not installed"
    assert not report.wrong
    header, (cells,) = report.table()
    assert cells[header.index("PyTorch")] == "not installed"
    assert "scripts/setup dev bench" in report.markdown()


def test_numpy_without_threadpoolctl_is_timed_with_all_threads_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    monkeypatch.setattr(case_module.tvm_runtime, "available_processors", lambda: 4)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with NUMPY.limit(4):
        pass
    with pytest.raises(case_module.Skipped, match="needs threadpoolctl"):
        NUMPY.limit(1)


def test_refuses_more_threads_than_processors(tiny):
    processors = len(os.sched_getaffinity(0))
    for count in (0, processors + 1):
        with pytest.raises(ValueError, match=f"threads is {count}; .* 1 to {processors} proc"):
            run_one(tiny, threads=(count,))


def test_markdown_has_both_tables(tiny, known_peaks):
    report = run_one(tiny)
    report.costs = Costs([Memory(2, 3 << 20)], *range(1, 11))
    lines = report.markdown().splitlines()
    assert any(line.startswith(f"| {tiny.name} | 1 | ") for line in lines)
    shape = "x".join(map(str, MEMORY_SHAPE))
    assert f"| memory of a call at {shape} f32, 2 threads | 1.50 MiB per thread |" in lines
    assert "A quick run: fewer cases, measured briefly." in lines


def test_a_report_warns_of_busy_neighbours(tiny, known_peaks):
    report = run_one(tiny)
    report.other_load = 0.5
    assert "Other processes took 50% of the processors" in report.markdown()
    report.other_load = 0.01
    assert "Other processes" not in report.markdown()


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "report.json"
    bench.write_whole(path, "first")
    with pytest.raises(UnicodeEncodeError):
        bench.write_whole(path, "\ud800")
    assert path.read_text() == "first"
    bench.write_whole(path, "second")
    assert path.read_text() == "second"
    assert [entry.name for entry in tmp_path.glob("*report*")] == ["report.json"]
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []
