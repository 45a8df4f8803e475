"""A tiny program through all that makes a row: built, checked, timed, and what goes wrong."""

import numpy as np
import pytest
import tiny_programs

from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.bench.base.bench_case import Library
from tvm_iree_ext.bench.programs import contenders, program_trial
from tvm_iree_ext.bench.programs.contenders import PEERS, Contestant
from tvm_iree_ext.bench.programs.listed_programs import PROGRAMS
from tvm_iree_ext.bench.programs.program_trial import ProgramTrial, tried
from tvm_iree_ext.runtime import tvm_runtime

pytest.importorskip("jax", reason="the tiny program is JAX's: scripts/setup dev bench")


def row_of(case, *peers, threads=(1,), **named):
    """The first row of a quick trial."""
    return tried(ProgramTrial(case, threads, peers, quick=True, **named))[0]


def test_a_program_is_checked_and_timed_beside_a_peer(tmp_path):
    stage = tmp_path / "stage"
    rows = tried(
        ProgramTrial(
            tiny_programs.case("sums"), (1, 2), ("JAX", "PyTorch"), quick=True, stage=stage
        )
    )
    assert [row.threads for row in rows] == [1, 2]
    for row in rows:
        assert [one.name for one in row.outcomes] == ["tvm_iree_ext", "JAX"]
        assert [one.status for one in row.outcomes] == ["timed", "timed"]
        assert row.fastest.name == "JAX"
        assert row.ratio > 0
        assert row.errors == {"tvm_iree_ext": 0.0, "JAX": 0.0}
        assert row.build_seconds["tvm_iree_ext"] > 0
        assert row.kernels >= 1
        assert row.weight_bytes == 0
        assert row.peak_bytes["tvm_iree_ext"] >= 0
    assert stage.read_text() == "timing"


@pytest.mark.costly
@pytest.mark.parametrize("name", ["nms", "embedding_bag", "linalg_solve", "cholesky"])
def test_a_program_of_the_list_is_right(name):
    pytest.importorskip(PROGRAMS[name].framework, reason="its framework: scripts/setup dev bench")
    row = row_of(PROGRAMS[name])
    assert (row.ours.status, row.ours.reason) == ("timed", "")


def test_who_is_wrong_is_not_timed(monkeypatch):
    def make(subject):
        return lambda: (np.zeros((3, 4), np.float32), np.zeros(3, np.float32))

    library = Library("JAX", "numpy", tvm_runtime.threads)
    monkeypatch.setitem(PEERS, "JAX", Contestant(library, ("jax",), make))
    row = row_of(tiny_programs.case("sums"), "JAX")
    assert row.peers[0].status == "wrong"
    assert "result 0[" in row.peers[0].reason
    assert row.errors["JAX"] == 1.0
    assert row.fastest is None
    assert np.isnan(row.ratio)


def test_a_peer_that_cannot_says_why(monkeypatch):
    def make(subject):
        raise NotImplementedError("no squares\nhere")

    library = Library("JAX", "numpy", tvm_runtime.threads)
    monkeypatch.setitem(PEERS, "JAX", Contestant(library, ("jax",), make))
    row = row_of(tiny_programs.case("sums"), "JAX")
    assert row.ours.status == "timed"
    assert (row.peers[0].status, row.peers[0].reason) == (
        "skipped",
        "NotImplementedError: no squares here",
    )


def test_a_reference_that_does_not_run_says_why(monkeypatch):
    def fails(case, subject):
        raise ValueError("float and double")

    monkeypatch.setattr(program_trial, "reference", fails)
    row = row_of(tiny_programs.case("sums"), "JAX")
    for one in (row.ours, *row.peers):
        assert (one.status, one.reason) == (
            "skipped",
            "the reference: ValueError: float and double",
        )


def test_who_ended_the_process_before_is_left_out():
    row = row_of(tiny_programs.case("sums"), "JAX", skipped={"tvm_iree_ext": "ended"})
    assert (row.ours.status, row.ours.reason) == ("skipped", "ended")
    assert "tvm_iree_ext" not in row.build_seconds
    assert row.peers[0].status == "timed"
    assert row.peers[0].speedup is None


def test_a_peer_that_takes_long_is_timed_once(monkeypatch):
    monkeypatch.setattr(program_trial, "_LONG_SECONDS", 0.0)
    row = row_of(tiny_programs.case("sums"), "JAX")
    assert row.peers[0].calls == 1
    assert row.ratio > 0


def test_a_tolerance_is_relative_to_the_largest_number():
    case = tiny_programs.case("sums", relative=0.0, absolute=1e-2)
    want = [np.array([0.0, 100.0])]
    assert not program_trial._complaint(case, [np.array([0.9, 100.0])], want)
    assert program_trial._complaint(case, [np.array([1.1, 100.0])], want)
    assert program_trial._complaint(case, [], want) == "0 results, expected 1"
    assert program_trial._complaint(case, [np.array([1])], [np.array([2])])


def test_pytorch_runs_beside_ours():
    pytest.importorskip("iree.turbine", reason="exports modules: scripts/setup dev pytorch")
    row = row_of(tiny_programs.case("linear", "torch"), "PyTorch", "JAX")
    assert [(one.name, one.status) for one in row.outcomes] == [
        ("tvm_iree_ext", "timed"),
        ("PyTorch", "timed"),
    ]
    assert 0 <= row.errors["PyTorch"] < 1e-6
    assert row.weight_bytes == 4 * (8 * 4 + 4)
    assert set(row.peak_bytes) == {"tvm_iree_ext", "PyTorch"}


@pytest.mark.costly
@pytest.mark.parametrize("name", ["ONNX Runtime", "IREE"])
def test_peers_run_modules(name, tmp_path):
    torch = pytest.importorskip("torch", reason="its module: scripts/setup dev bench pytorch")
    pytest.importorskip("iree.turbine", reason="exports modules: scripts/setup dev pytorch")
    for needed in ("onnxruntime", "onnxscript", "iree.runtime"):
        pytest.importorskip(needed, reason="a peer: scripts/setup dev bench")
    model = tiny_programs.linear()
    subject = contenders.ProgramSubject("torch", model, tmp_path)
    with torch.no_grad():
        want = model.function(*model.arguments).numpy()
        call = PEERS[name].make(subject)
        got = contenders.host_array(call()[0])
    assert not first_difference(name, got, want, program_trial.Tolerance(1e-5, 1e-5))
    assert subject.notes == {}


def test_bfloat16_comes_to_the_host_as_it_is():
    torch = pytest.importorskip("torch", reason="its tensor: scripts/setup dev bench")
    found = contenders.host_array(torch.tensor([1.5, -2.0], dtype=torch.bfloat16))
    assert str(found.dtype) == "bfloat16"
    assert found.astype(float).tolist() == [1.5, -2.0]
