"""Long sums in plain loops: equal terms of float16, one after the other, end at 2048 of them."""

import itertools
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm.script import tirx as T

from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.codegen.linker import compile_library
from tvm_iree_ext.schedules.dispatch import schedule_loops
from tvm_iree_ext.schedules.shared.loops.cascaded_sums import run_lengths
from tvm_iree_ext.simulator import simulate_function
from tvm_iree_ext.targets.names import make_target

_N = 400_000  # an accumulator for each of 128 lanes has more than 2048 terms


@T.prim_func(s_tir=True)
def rows(x: T.Buffer((2, _N), "float16"), y: T.Buffer((2,), "float16")):
    for i, j in T.grid(2, _N):
        with T.sblock("reduce"):
            a, b = T.axis.remap("SR", [i, j])
            with T.init():
                y[a] = T.float16(0)
            y[a] = y[a] + x[a, b]


@T.prim_func(s_tir=True)
def rows_of_a_call(x_handle: T.handle, y_handle: T.handle):
    m, n = T.int64(), T.int64()
    x = T.match_buffer(x_handle, (m, n), "float16")
    y = T.match_buffer(y_handle, (m,), "float16")
    for i, j in T.grid(m, n):
        with T.sblock("reduce"):
            a, b = T.axis.remap("SR", [i, j])
            with T.init():
                y[a] = T.float16(0)
            y[a] = y[a] + x[a, b]


@T.prim_func(s_tir=True)
def columns(x: T.Buffer((_N, 5), "float16"), y: T.Buffer((5,), "float16")):
    for i, j in T.grid(5, _N):
        with T.sblock("reduce"):
            a, b = T.axis.remap("SR", [i, j])
            with T.init():
                y[a] = T.float16(0)
            y[a] = y[a] + x[b, a]


@T.prim_func(s_tir=True)
def two_sums(
    x: T.Buffer((5000, 2), "float16"), y: T.Buffer((2,), "float16"), z: T.Buffer((2,), "float16")
):
    for i, j in T.grid(2, 5000):
        with T.sblock("reduce"):
            a, b = T.axis.remap("SR", [i, j])
            with T.init():
                y[a] = T.float16(0)
                z[a] = T.float16(0)
            y[a] = y[a] + x[b, a]
            z[a] = z[a] + x[b, a] * T.float16(2)


@T.prim_func(s_tir=True)
def two_axes(x: T.Buffer((100, 3, 4000), "float16"), y: T.Buffer((3,), "float16")):
    for i, j, k in T.grid(3, 100, 4000):
        with T.sblock("reduce"):
            a, b, c = T.axis.remap("SRR", [i, j, k])
            with T.init():
                y[a] = T.float16(0)
            y[a] = y[a] + x[b, a, c]


@T.prim_func(s_tir=True)
def short_lines(x: T.Buffer((10000, 3, 4), "float16"), y: T.Buffer((3,), "float16")):
    for i, j, k in T.grid(3, 10000, 4):
        with T.sblock("reduce"):
            a, b, c = T.axis.remap("SRR", [i, j, k])
            with T.init():
                y[a] = T.float16(0)
            y[a] = y[a] + x[b, a, c]


@T.prim_func(s_tir=True)
def added_up(x: T.Buffer((5000, 2), "float16"), y: T.Buffer((2,), "float16")):
    for i, j in T.grid(2, 5000):
        with T.sblock("reduce"):
            a, b = T.axis.remap("SR", [i, j])
            y[a] = y[a] + x[b, a]


_FUNCTIONS = {
    "rows": (rows, (2, _N), 1),
    "rows of a call": (rows_of_a_call, (3, _N), 1),
    "columns": (columns, (_N, 5), 0),
    "two axes": (two_axes, (100, 3, 4000), (0, 2)),
    "short lines": (short_lines, (10000, 3, 4), (0, 2)),
    "added up": (added_up, (5000, 2), 0),
    "two sums": (two_sums, (5000, 2), 0),
}


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_long_sums_end_where_they_should(tmp_path, name):
    function, shape, axes = _FUNCTIONS[name]
    x, want = _equal_terms(shape, axes)
    results = [np.zeros(want.shape, "float16") for _ in range(len(function.params) - 1)]
    target = make_target("llvm")
    module = tvm.IRModule({"sums": schedule_loops(function, target, "sums")})
    cpu_pipeline.register()
    library = tmp_path / "sums.so"
    compile_library(module, target, library, cpu_pipeline.CPU_PIPELINE)
    tvm_ffi.load_module(str(library))["sums"](x, *results)
    for number, result in enumerate(results, 1):
        np.testing.assert_allclose(result, want * number, rtol=0.02)


def test_a_lane_that_sums_alone_has_sums_of_sums():
    x, want = _equal_terms((5000, 2), 0)
    given = {"x": x, "y": np.zeros(2, "float16"), "z": np.zeros(2, "float16")}
    target = make_target("rocm:gfx942")
    for run in simulate_function(schedule_loops(two_sums, target, "sums"), target, given):
        run.check()
    np.testing.assert_allclose(given["y"], want, rtol=0.02)
    np.testing.assert_allclose(given["z"], 2 * want, rtol=0.02)


def _equal_terms(shape: tuple[int, ...], axes: Any) -> tuple[Any, Any]:
    """Terms of 1/32, and their sums in float64."""
    x = np.full(shape, 1 / 32, "float16")
    return x, x.sum(axes, dtype="float64")


@pytest.mark.parametrize("count", [1, 128, 129, 8192, 8193, 1 << 20, None])
def test_no_run_is_much_longer_than_64(count):
    lengths = run_lengths(count)
    assert lengths == sorted(lengths, reverse=True)
    steps = [*lengths, 1]
    for longer, shorter in itertools.pairwise(steps):
        assert longer == 64 * shorter
    if count is not None:
        assert -(-count // steps[0]) <= 128
