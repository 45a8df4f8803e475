"""Tables over lanes: short expressions, with the values of the tables on the simulator."""

import numpy as np
import pytest
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.schedules.gpu.emit.lane_tables import lane_condition, lane_table
from tvm_iree_ext.simulator import device_functions, simulate
from tvm_iree_ext.targets.names import make_target

SM_80 = make_target("cuda:sm_80")


LANES = np.arange(32)


TABLES = {
    "a constant": (np.full(32, 7), "7"),
    "the lane": (LANES, "lane"),
    "digits": (LANES // 2 % 4 * 5 + 1, "1 + lane // 2 % 4 * 5"),
    "xor": (LANES ^ 19, "19 ^ lane"),
    "bits": (np.array([3, 1, 4, 1, 5, 9, 2, 6] * 4), None),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_lanes_become_short_expressions(name):
    values, text = TABLES[name]
    lane = tirx.Var("lane", "int32")
    assert text in (None, str(lane_table(values[None], tirx.const(0, "int32"), lane)))
    values = np.stack([values, values[::-1], values])  # of three subgroups
    for table in (values, values[:1], values[:2]):
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            I.func_name("table")
            out = I.arg("out", I.Buffer(table.shape, "int32"))
            with (
                I.launch_thread("blockIdx.x", 1),
                I.launch_thread("threadIdx.y", len(table)) as subgroup,
                I.launch_thread("threadIdx.x", 32) as lane,
            ):
                I.buffer_store(out, lane_table(table, subgroup, lane), [subgroup, lane])
        (kernel,) = device_functions(lower_device(builder.get(), SM_80))
        found = np.zeros(table.shape, np.int32)
        simulate(kernel, [found]).check()
        np.testing.assert_array_equal(found, table)


def test_a_condition_that_always_holds_is_none():
    assert lane_condition(np.ones((2, 4)), None, None) is None
