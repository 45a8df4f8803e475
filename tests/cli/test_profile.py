"""Where the time of a program goes, as a user types it."""

import json

import numpy as np
import pytest

import tvm_iree_ext as ext

PROGRAM = """func.func @main(%x: tensor<8x4xf32>, %at: tensor<8x4xi32>) -> tensor<8x4xf32> {
  %0 = math.exp %x : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM)
    return path


def test_profile_lists_kernels_with_their_share_of_the_peak(command, program, tmp_path):
    trace = tmp_path / "trace.json"
    done = command("profile", program, "--threads", "1", "--runs", "2", "--trace", trace)
    first, header, _, row, written = done.lines
    assert "us a call with 1 thread; 1 call of 1 kernel" in first
    assert "of peak" in header
    assert row.endswith("plain loops: math.exp at 2:8")
    assert "%" in row.split()[5]
    assert written == f"written: {trace}"
    assert len(json.loads(trace.read_text())["traceEvents"]) == 1


def test_profile_takes_an_artifact_and_recorded_arrays(command, program, tmp_path):
    imported = ext.mlir.import_program(program)
    folder = ext.build_program(imported, folder=tmp_path / "made").folder
    arrays = {"in0": np.ones((8, 4)), "in1": np.zeros((8, 4)), "out0": np.ones((8, 4))}
    np.savez(tmp_path / "arrays.npz", **arrays)
    done = command(
        "profile", folder, "--no-peaks", "--runs", "1", "--inputs", tmp_path / "arrays.npz"
    )
    assert "of peak" not in done.out
    assert "math.exp at 2:8" in done.out


def test_profile_refuses_the_kernel_of_an_op(command, tmp_path):
    maps = ["(d0, d1, d2) -> (d0, d2)", "(d0, d1, d2) -> (d2, d1)", "(d0, d1, d2) -> (d0, d1)"]
    op = ext.ops.contraction((4, 4), (4, 4), indexing_maps=maps)
    folder = ext.build(op).export(tmp_path / "kernel")
    done = command("profile", folder)
    assert done.status == 1
    assert "is the kernel of one op; profile takes a program" in done.err


def test_profile_refuses_open_extents_without_arrays(command, tmp_path):
    path = tmp_path / "open.mlir"
    path.write_text(PROGRAM.replace("8x4", "?x4"))
    done = command("profile", path)
    assert done.status == 1
    assert "is known in a call only; expected arrays of a file" in done.err
