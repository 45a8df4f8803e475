import operator
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

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout import NestedLayout, owner_map
from tvm_iree_ext.layout.ownership import first_lanes, first_subgroups
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import (
    distribute,
    known_factor,
    vector_elements,
)


def copy_of(shape, dtype="float32"):
    """The func of a block ``copy`` over ``shape``."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("copy")
        source, target = (I.arg(name, I.Buffer(shape, dtype)) for name in ("source", "target"))
        with I.grid(*shape) as loops:
            loops = [loops] if isinstance(loops, tirx.Var) else loops
            with I.sblock("copy"):
                at = [I.axis.spatial(e, loop) for e, loop in zip(shape, loops, strict=True)]
                I.buffer_store(target, source[tuple(at)], at)
    return builder.get()


OPERATIONS = {
    tirx.Add: operator.add,
    tirx.Mul: operator.mul,
    tirx.FloorDiv: operator.floordiv,
    tirx.FloorMod: operator.mod,
    tirx.LT: operator.lt,
    tirx.And: operator.and_,
}


def number(expression, variables):
    """The value of an index for all values of the loops."""
    if isinstance(expression, tirx.Var):
        return variables[expression]
    if isinstance(expression, tirx.IntImm):
        return int(expression)
    operands = (number(side, variables) for side in (expression.a, expression.b))
    return OPERATIONS[type(expression)](*operands)


def touched(func):
    """Every (thread tag -> id) and the coordinate that the block has there: two arrays."""
    loops, body = [], func.body.block.body
    while isinstance(body, tirx.For):
        loops.append(body)
        body = body.body
    extents = [int(loop.extent) for loop in loops]
    grid = np.indices(extents).reshape(len(loops), -1)
    variables = {loop.loop_var: ids for loop, ids in zip(loops, grid, strict=True)}
    every = np.zeros(grid.shape[1], int)
    at = np.stack([every + number(value, variables) for value in body.iter_values], -1)
    inside = (every + number(body.predicate, variables)).astype(bool)
    tags = {}
    for loop, ids in zip(loops, grid, strict=True):
        if loop.thread_binding is not None:
            tags[loop.thread_binding.thread_tag] = ids[inside]
    return tags, at[inside]


def owners_in(func, layout, subgroup_size):
    """(workgroup, coordinate in its part, lane) of all that is done, in order."""
    tags, at = touched(func)
    lane = tags["threadIdx.y"] * subgroup_size + tags["threadIdx.x"]
    tile = at // np.array(layout.undistributed_shape)
    inside = at % np.array(layout.undistributed_shape)
    return sorted(zip(map(tuple, tile), map(tuple, inside), lane.tolist(), strict=True))


def expected(layout, shape, hardware, replicas):
    """The same from the layout's own ownership."""
    owners = owner_map(layout, *hardware)
    if replicas == "first":
        firsts = first_subgroups(layout, hardware[0]) * hardware[1] + first_lanes(layout)
        np.testing.assert_array_equal(owners[..., 0], firsts)
        owners = owners[..., :1]
    whole = np.array(layout.undistributed_shape)
    return sorted(
        (tuple(np.array(at) // whole), tuple(np.array(at) % whole), owner)
        for at in np.ndindex(*shape)
        for owner in owners[tuple(np.array(at) % whole)].tolist()
    )


@st.composite
def cases(draw):
    random = Random(draw(st.integers(0, 2**64 - 1)))
    tile = random.choices([1, 2, 3, 4, 6, 8, 12], k=random.choice([1, 2, 2, 3]))
    layout = random_layout(random, tile, gaps=True)
    subgroups = [layout.subgroup_period, 2 * layout.subgroup_period]
    if layout.subgroup_period == prod(layout.subgroup_tile):
        subgroups += [h for h in range(1, subgroups[0]) if subgroups[0] % h == 0]
    hardware = random.choice(subgroups), layout.lane_period * random.choice([1, 2])
    shape = [
        max(1, extent * random.choice([1, 1, 2]) + random.choice([0, 0, -1])) for extent in tile
    ]
    return layout, shape, hardware, random.choice(["first", "all"]), random.choice([1, 2, 4])


@settings(deadline=None, derandomize=True, max_examples=60)
@given(cases())
def test_every_lane_of_a_scheduled_block_has_what_the_layout_gives_it(case):
    layout, shape, hardware, replicas, vector = case
    sch = s_tir.Schedule(copy_of(shape))
    block = sch.get_sblock("copy")
    distribute(sch, block, layout, *hardware, replicas=replicas, vector=vector)
    found = owners_in(sch.mod["main"], layout, hardware[1])
    assert found == expected(layout, shape, hardware, replicas)


MFMA_C = NestedLayout((2, 2), (2, 2), (4, 1), (2, 32), (4, 1), (2, 1), (32, 1))


def test_a_matrix_accumulator_becomes_bindings_and_unrolled_registers():
    sch = s_tir.Schedule(copy_of((256, 384)))
    distribute(sch, sch.get_sblock("copy"), MFMA_C, 4, 64)
    text = sch.mod["main"].script()
    for loop in (
        'T.thread_binding(2, thread="blockIdx.y")',
        'T.thread_binding(3, thread="blockIdx.x")',
        'T.thread_binding(4, thread="threadIdx.y")',
        'T.thread_binding(64, thread="threadIdx.x")',
    ):
        assert loop in text
    assert text.count("T.unroll") == 4
    assert "T.where" not in text


def test_an_extent_that_its_run_does_not_divide_has_shorter_accesses():
    rows = NestedLayout((1, 1), (1, 1), (1, 1), (1, 32), (1, 8), (0, 0), (0, 1))
    for extent, lanes in ((1024, 8), (1020, 4), (1001, 1)):
        sch = s_tir.Schedule(copy_of((4, extent), "float16"))
        loops = distribute(sch, sch.get_sblock("copy"), rows, 1, 32, vector=8)
        assert (int(sch.get(loops.vector).extent) if loops.vector else 1) == lanes


def test_four_dimensions_go_to_the_grid_as_one():
    layout = NestedLayout(*[(1,) * 4] * 3, (1, 1, 2, 4), (1,) * 4, (0,) * 4, (0, 0, 4, 1))
    sch = s_tir.Schedule(copy_of((3, 5, 4, 8)))
    distribute(sch, sch.get_sblock("copy"), layout, 1, 8)
    assert 'T.thread_binding(60, thread="blockIdx.x")' in sch.mod["main"].script()


def test_a_scalar_is_one_lanes():
    sch = s_tir.Schedule(copy_of((1,)))
    distribute(sch, sch.get_sblock("copy"), NestedLayout(*[(1,)] * 5, (0,), (0,)), 2, 32)
    tags, _ = touched(sch.mod["main"])
    assert [tags[tag].tolist() for tag in ("threadIdx.y", "threadIdx.x")] == [[0], [0]]


def test_what_does_not_fit_is_refused():
    sch = s_tir.Schedule(copy_of((256, 384)))
    with pytest.raises(LayoutError, match="num_subgroups is 3"):
        distribute(sch, sch.get_sblock("copy"), MFMA_C, 3, 64)
    block = sch.get_sblock("copy")
    with pytest.raises(LayoutError, match="1 loops for a layout of rank 2"):
        distribute(sch, block, MFMA_C, 4, 64, loops=sch.get_loops(block)[:1])


def test_vectors_divide_what_is_known_of_rows():
    n = tirx.Var("n", "int64")
    assert vector_elements(16, 1 << 12, n * 4) == 4
    assert known_factor(n * 6 + 4) == 2
    assert vector_elements(64, 7) == 1
