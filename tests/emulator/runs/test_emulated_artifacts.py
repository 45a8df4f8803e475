import json

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext.base.errors import EmulationError, TargetError
from tvm_iree_ext.cli.main import main
from tvm_iree_ext.emulator import emulate_kernel

pytest.importorskip("tinygrad")

SOURCE = """
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def double(x: T.Buffer((64,), "int32"), y: T.Buffer((64,), "int32"), least: T.int32):
    T.func_attr({"global_symbol": "double"})
    for lane in T.thread_binding(64, thread="threadIdx.x"):
        with T.sblock("double"):
            i = T.axis.spatial(64, lane)
            y[i] = T.max(x[i] * 2, least)
"""


NARROW = """
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def third(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "bfloat16")):
    T.func_attr({"global_symbol": "third"})
    for lane in T.thread_binding(64, thread="threadIdx.x"):
        with T.sblock("third"):
            i = T.axis.spatial(64, lane)
            held = T.sblock_alloc_buffer((1,), "bfloat16", scope="local")
            with T.sblock("held"):
                held[0] = T.Cast("bfloat16", x[i] / T.float32(3))
            with T.sblock("stored"):
                y[i] = held[0]
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(SOURCE)
    return f"{path}:double"


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_what_is_computed_is_rounded_where_a_register_is_narrow(chip, tmp_path):
    (tmp_path / "narrow.py").write_text(NARROW)
    arrays = emulate_kernel(f"{tmp_path}/narrow.py:third", f"rocm:{chip}").arrays
    want = (arrays["x"] / np.float32(3)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(arrays["y"].view(np.uint16), want.view(np.uint16))


def test_a_kernel_of_a_file_is_compiled_and_executed(source):
    done = emulate_kernel(source, "rocm:gfx1100", sizes={"least": 1})
    x, y = done.arrays["x"], done.arrays["y"]
    assert (y == (2 * x).clip(1)).all()
    assert (done.chip, done.launches, done.findings) == ("gfx1100", 1, ())
    assert done.executed["s_endpgm"] == 2  # waves of 32 lanes


def test_the_command_prints_what_was_executed(source, capsys):
    assert main(["emulate", source, "least=1", "--target", "rocm:gfx942", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["findings"] == []
    assert found["executed"]["s_endpgm"] == 1


def test_a_number_that_is_missing_is_asked_for(source):
    with pytest.raises(EmulationError, match="takes a number least; give least=N"):
        emulate_kernel(source, "rocm:gfx942")


def test_a_matrix_instruction_runs_on_an_emulated_chip_that_has_it():
    assert emulate_kernel("mma:MFMA_F32_16x16x16_F16").chip == "gfx90a"  # and on gfx908
    with pytest.raises(TargetError, match="none of these is emulated"):
        emulate_kernel("mma:WMMA_F32_16x16x4_F32")  # of gfx1250 alone
