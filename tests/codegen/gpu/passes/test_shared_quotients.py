"""What a workgroup's lanes share is divided once, before any branch."""

import numpy as np
import pytest
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_function
from tvm_iree_ext.targets.names import make_target


def places():
    """Workgroups of 32 in rows of a width that is known at call time."""
    with IRBuilder() as built, I.prim_func(s_tir=True):
        I.func_name("places")
        width = I.arg("width", I.int32())
        target = I.arg("target", I.Buffer((6, 32), "int32"))
        with I.launch_thread("blockIdx.x", 6) as group, I.launch_thread("threadIdx.x", 32) as lane:
            for part in range(2):
                with I.If(group // width + lane < 20 + part), I.Then():
                    value = group // width * 100 + group % width * 10 + part
                    I.buffer_store(target, value, [group, lane])
    return built.get()


@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx942"])
def test_a_place_is_divided_once(chip):
    ((_, kernel),) = lower_device(places(), make_target(chip)).functions.items()
    text = kernel.script()
    assert text.count("T.Div(") == 1
    assert text.count("quotient") > 2


def test_places_are_those_of_the_division():
    target = np.zeros((6, 32), "int32")
    (done,) = simulate_function(places(), "cuda:sm_80", {"width": 4, "target": target})
    assert done.findings == []
    assert target[:, 0].tolist() == [1, 11, 21, 31, 101, 111]
    assert target[3:, 20].tolist() == [31, 0, 0]
