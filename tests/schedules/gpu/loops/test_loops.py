"""Plain loops on a GPU, on the simulator."""

import numpy as np
import pytest
from tvm import tirx
from tvm.script import tirx as T

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.schedules.dispatch import schedule_loops
from tvm_iree_ext.simulator import device_functions, simulate, simulate_function
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


@T.prim_func(s_tir=True)
def row_sums(x_handle: T.handle, y_handle: T.handle):
    m, n = T.int64(), T.int64()
    x = T.match_buffer(x_handle, (m, n), "float32")
    y = T.match_buffer(y_handle, (m,), "float32")
    for i, j in T.grid(m, n):
        with T.sblock("reduce"):
            a, b = T.axis.remap("SR", [i, j])
            with T.init():
                y[a] = T.float32(0)
            y[a] = y[a] + x[a, b]


@T.prim_func(s_tir=True)
def column_maxima(x_handle: T.handle, y_handle: T.handle):
    m, n = T.int64(), T.int64()
    x = T.match_buffer(x_handle, (n, m), "float32")
    y = T.match_buffer(y_handle, (m,), "float32")
    for i, j in T.grid(m, n):
        with T.sblock("reduce"):
            a, b = T.axis.remap("SR", [i, j])
            with T.init():
                y[a] = T.float32(-9)
            y[a] = T.max(y[a], x[b, a])


@pytest.mark.costly
@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("target", ["cuda:sm_90a", "rocm:gfx942", "rocm:gfx1100"])
@pytest.mark.parametrize(
    ("function", "rows", "length", "is_cut"),
    [
        (row_sums, 2, 10_001, True),
        (row_sums, 1, 16_384, True),
        (row_sums, 3, 100, False),
        (column_maxima, 3, 20_000, True),
        (column_maxima, 5, 300, None),
    ],
)
def test_workgroups_share_long_reductions(function, rows, length, is_cut, target, dynamic):
    """Whether the extents are known before the call or not."""
    made = make_target(target)
    by_rows = function is row_sums
    x = np.random.default_rng(0).integers(-8, 9, (rows, length) if by_rows else (length, rows))
    x = x.astype("float32")
    y = np.zeros(rows, "float32")
    if not dynamic:
        shape = [tirx.const(n, "int64") for n in x.shape]
        given = tirx.decl_buffer(shape, "float32")
        function = function.specialize({function.params[0]: given})
    done = simulate_function(schedule_loops(function, made, "reduced"), made, {"x": x, "y": y})
    for one in done:
        one.check()
    np.testing.assert_array_equal(y, x.sum(1) if by_rows else x.max(0))
    assert is_cut is None or (len(done) == 2 and done[0].grid > (1, 1, 1)) == is_cut


def test_what_is_no_nest_is_refused():
    @T.prim_func(s_tir=True)
    def called(x: T.Buffer((4,), "float32")):
        with T.sblock("call"):
            T.reads(x[0:4])
            T.writes(x[0:4])
            T.evaluate(T.call_extern("void", "work", x.data))

    with pytest.raises(ScheduleError, match="called: no schedule for cuda: it is neither nests"):
        schedule_loops(called, make_target("cuda:sm_80"), "called")
