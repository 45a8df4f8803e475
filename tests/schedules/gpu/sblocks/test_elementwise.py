from math import prod
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_layout import random_layout
from tvm import s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import LayoutError, ScheduleError
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.layout import NestedLayout
from tvm_iree_ext.schedules.gpu.sblocks.elementwise import (
    elementwise_layout,
    schedule_elementwise_block,
)
from tvm_iree_ext.simulator import device_functions, simulate
from tvm_iree_ext.targets.names import make_target

SM_80, GFX942, GFX1100 = map(make_target, ("cuda:sm_80", "rocm:gfx942", "rocm:gfx1100"))


def copy_of(shape, dtype, name="n"):
    """A copy of a tensor; an extent of None is known when the kernel is launched."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("copy")
        if None in shape:
            n = I.arg(name, tirx.Var(name, "int32"))
            shape = [n if extent is None else extent for extent in shape]
        source, target = (I.arg(name, I.Buffer(shape, dtype)) for name in ("source", "target"))
        with I.grid(*shape) as loops:
            loops = [loops] if isinstance(loops, tirx.Var) else loops
            with I.sblock("copy"):
                at = [I.axis.spatial(e, loop) for e, loop in zip(shape, loops, strict=True)]
                I.buffer_store(target, source[tuple(at)], at)
    return builder.get()


def schedule_elementwise(func, block, target, layout=None, **options):
    schedule = s_tir.Schedule(func)
    schedule_elementwise_block(schedule, block, target, layout, **options)
    return schedule


def simulated(func, target, layout, source, **options):
    schedule = schedule_elementwise(func, "copy", target, layout, **options)
    (kernel,) = device_functions(lower_device(schedule.mod, target))
    result = np.zeros_like(source)
    arrays = {"source_ptr": source, "target_ptr": result, "n": source.shape[-1]}
    simulation = simulate(kernel, [arrays[parameter.name] for parameter in kernel.params])
    return result, simulation.check()


@st.composite
def cases(draw):
    random = Random(draw(st.integers(0, 2**64 - 1)))
    target = random.choice([SM_80, GFX942, GFX1100])
    size = 64 if target is GFX942 else 32
    while True:
        tile = random.choices([1, 2, 3, 4, 6, 8, 16], k=random.choice([1, 2, 3]))
        layout = random_layout(random, tile, gaps=True)
        if size % layout.lane_period == 0 and layout.subgroup_period * size <= 1024:
            break
    subgroups = [layout.subgroup_period]
    if layout.subgroup_period == prod(layout.subgroup_tile):
        subgroups += [h for h in range(1, subgroups[0]) if subgroups[0] % h == 0]
    shape = [max(1, extent * random.choice([1, 2]) - random.choice([0, 0, 1])) for extent in tile]
    options = {"num_subgroups": random.choice(subgroups)}
    return target, layout, shape, options | {"replicas": random.choice(["first", "all"])}


@settings(deadline=None, derandomize=True, max_examples=40)
@given(cases())
def test_a_block_scheduled_by_any_layout_computes_the_identity(case):
    """Gaps, replicas, one to three dims, fewer subgroups than tiles, tails; for both vendors."""
    target, layout, shape, options = case
    source = np.arange(prod(shape), dtype=np.float32).reshape(shape)
    result, _ = simulated(copy_of(shape, "float32"), target, layout, source, **options)
    np.testing.assert_array_equal(result, source)


def test_replicas_may_all_store_vectors():
    pairs = NestedLayout((1, 1), (2, 1), (3, 1), (4, 1), (1, 2), (0, 0), (1, 0))  # eight replicas
    source = np.arange(22 * 6, dtype=np.float32).reshape(22, 6)
    options = {"num_subgroups": 3, "replicas": "all"}
    result, _ = simulated(copy_of((22, 6), "float32"), SM_80, pairs, source, **options)
    np.testing.assert_array_equal(result, source)


@pytest.mark.parametrize("target", [SM_80, GFX942, GFX1100], ids=["sm_80", "gfx942", "gfx1100"])
@pytest.mark.parametrize(
    ("shape", "dtype", "width"),
    [((512, 256), "float16", 16), ((100000,), "int8", 16), ((33, 20), "float32", 16),
     ((5, 7, 9), "float64", 8), ((1,), "float32", 4)],
)  # fmt: skip
def test_derived_layouts_move_runs_of_16_bytes(target, shape, dtype, width):
    source = np.arange(prod(shape)).reshape(shape).astype(dtype)
    result, simulation = simulated(copy_of(shape, dtype), target, None, source)
    np.testing.assert_array_equal(result, source)
    assert {access.access_bytes for access in simulation.accesses} == {width}
    if shape == (512, 256):
        assert simulation.uncoalesced == 0


def test_an_extent_may_be_known_only_later():
    func = copy_of((3, None), "float32")
    for n in (1, 31, 1000):
        source = np.arange(3 * n, dtype=np.float32).reshape(3, n)
        result, _ = simulated(func, SM_80, None, source)
        np.testing.assert_array_equal(result, source)


def test_loads_and_stores_of_16_bytes_are_in_the_assembly():
    shape = (512, 256)
    schedule = schedule_elementwise(copy_of(shape, "float16"), "copy", GFX942)
    assembly = compile_device(schedule.mod, GFX942).assembly
    layout = elementwise_layout(shape, 16, GFX942)
    assert assembly.count("buffer_load_dwordx4") == prod(layout.batch_tile)
    assert assembly.count("global_store_dwordx4") == prod(layout.batch_tile)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ScheduleError, match="at most 1024 lanes"):
        schedule_elementwise(copy_of((64,), "float32"), "copy", SM_80, num_subgroups=33)
    lanes = NestedLayout((1,), (1,), (1,), (64,), (1,), (0,), (1,))
    with pytest.raises(LayoutError, match="subgroup_size is 32"):
        schedule_elementwise(copy_of((64,), "float32"), "copy", SM_80, lanes)
