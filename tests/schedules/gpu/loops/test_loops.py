"""Plain loops on a GPU, on the simulator."""

import numpy as np
import pytest
from tvm import tirx
from tvm.script import tirx as T

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.schedules.dispatch import schedule_loops
from tvm_iree_ext.simulator import device_functions, simulate
from tvm_iree_ext.targets.names import make_target


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
@pytest.mark.parametrize("length", [3, 32, 1000])
def test_every_element_of_a_map_is_computed(length, target):
    extent = tirx.const(length, "int64")

    @T.prim_func(s_tir=True)
    def doubled(x: T.Buffer((extent,), "float32"), y: T.Buffer((extent,), "float32")):
        for i in T.serial(extent):
            with T.sblock("double"):
                v = T.axis.spatial(extent, i)
                y[v] = x[v] * T.float32(2) + T.float32(1)

    made = make_target(target)
    scheduled = schedule_loops(doubled, made, "doubled")
    (kernel,) = device_functions(lower_device(scheduled, made))
    x = np.arange(length, dtype="float32")
    y = np.zeros_like(x)
    simulate(kernel, [x, y]).check()
    np.testing.assert_array_equal(y, np.arange(length) * 2 + 1)


def test_what_is_no_nest_is_refused():
    @T.prim_func(s_tir=True)
    def called(x: T.Buffer((4,), "float32")):
        with T.sblock("call"):
            T.reads(x[0:4])
            T.writes(x[0:4])
            T.evaluate(T.call_extern("void", "work", x.data))

    with pytest.raises(ScheduleError, match="called: no schedule for cuda: it is no nest of loops"):
        schedule_loops(called, make_target("cuda:sm_80"), "called")
