"""Which buffers of a function of plain loops stay memory."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import ir, te, tirx

from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.codegen.linker import compile_library
from tvm_iree_ext.schedules.dispatch import schedule_loops
from tvm_iree_ext.targets.names import make_target

LENGTH = 40
SHAPE = (tirx.const(LENGTH, "int64"),)


def chained(levels):
    """Elements of x at places that levels of tables lead to, each by a sum of three."""
    x, table = te.placeholder(SHAPE, "float32"), te.placeholder(SHAPE, "int64")

    def above(index):
        return te.compute(
            SHAPE, lambda v: table[sum(index[(v + k) % LENGTH] for k in range(3)) % LENGTH]
        )

    index = table
    for _ in range(levels):
        index = above(index)
    return te.create_prim_func([x, table, te.compute(SHAPE, lambda v: x[index[v]])])


def padded(levels):
    """Gathers and pads in turns: a pad writes the index that it is read by three times."""
    x, places = te.placeholder(SHAPE, "float32"), te.placeholder(SHAPE, "int64")

    def pad(value):
        return te.compute(
            SHAPE,
            lambda v: te.if_then_else(te.all(v >= 2, v < LENGTH - 2), value[v - 2], 0.0),
        )

    def gather(value):
        return te.compute(SHAPE, lambda v: value[places[(v + places[v]) % LENGTH]])

    value = x
    for _ in range(levels):
        value = gather(pad(value))
    return te.create_prim_func([x, places, value])


def smoothed(levels):
    """Levels of sums of three neighbours, each of the last."""

    def above(value):
        return te.compute(SHAPE, lambda v: sum(value[(v + k) % LENGTH] for k in range(3)))

    x, unused = te.placeholder(SHAPE, "float32"), te.placeholder(SHAPE, "int64")
    value = x
    for _ in range(levels):
        value = above(value)
    return te.create_prim_func([x, unused, value])


def in_numpy(kind, levels, x, places):
    at = np.arange(LENGTH)
    if kind is smoothed:
        for _ in range(levels):
            x = x[at] + x[(at + 1) % LENGTH] + x[(at + 2) % LENGTH]
        return x
    if kind is chained:
        index = places
        for _ in range(levels):
            index = places[sum(index[(at + k) % LENGTH] for k in range(3)) % LENGTH]
        return x[index]
    for _ in range(levels):
        x = np.pad(x, 2)[:LENGTH] * ((at >= 2) & (at < LENGTH - 2))
        x = x[places[(at + places) % LENGTH]]
    return x


@pytest.mark.parametrize("kind", [chained, padded, smoothed])
@pytest.mark.parametrize("levels", [1, 8])
def test_what_would_be_computed_many_times_over_is_memory(tmp_path, kind, levels):
    target = make_target("llvm")
    scheduled = schedule_loops(kind(levels), target, "places")
    loads = []
    tvm_ffi.structural_walk(scheduled.body, (ir.TensorLoad, loads.append))
    assert len(loads) < 200 * levels  # 3 to the power of levels, if all stood in one expression
    cpu_pipeline.register()
    library = tmp_path / "places.so"
    module = tvm.IRModule({"places": scheduled})
    compile_library(module, target, library, cpu_pipeline.CPU_PIPELINE)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(LENGTH, dtype="float32")
    places = rng.integers(0, LENGTH, LENGTH, dtype="int64")
    result = np.empty_like(x)
    tvm_ffi.load_module(str(library))["places"](x, places, result)
    np.testing.assert_array_equal(result, in_numpy(kind, levels, x, places))
