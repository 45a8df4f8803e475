"""The CPU kernels of custom_op: every legal tiling gives the value of a single tile."""

import dataclasses

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.catalog.custom_op import FORMS
from tvm_iree_ext.ops.families.custom_op import custom_op_tiles
from tvm_iree_ext.schedules.cpu.custom_op_rule import CpuCustomOp
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import kernel_checks

RULE = CpuCustomOp()
RNG = np.random.default_rng(17)


def arrays(*shapes, dtype="float32"):
    return [RNG.standard_normal(shape).astype(dtype) for shape in shapes]


def of_form(name, operands, outputs=1):
    form = FORMS[name]
    return ops.custom_op(
        operands[:-outputs],
        operands[-outputs:],
        indexing_maps=form.maps,
        iterator_types=form.iterators,
        region=form.tile,
    )


def config(op, **change):
    return dataclasses.replace(RULE.heuristic(op, make_target("llvm")), **change)


@pytest.mark.costly
@pytest.mark.parametrize("tile", [None, 1, 5, 7, 64])
def test_two_fused_matmuls_for_every_tile_of_the_rows(tile):
    x, y, z, a, b = arrays((13, 6), (6, 70), (70, 40), (13, 70), (13, 40))
    op = of_form("yield a, b", [x, y, z, a, b], 2)
    tiling = {} if tile is None else {"d0": tile}
    kernel = build(op, config=config(op, workgroup_tile=tiling))
    first, second = kernel(x, y, z, a, b)
    np.testing.assert_allclose(first, x @ y + a, atol=1e-5)
    np.testing.assert_allclose(second, (x @ y + a) @ z + b, atol=1e-4)


@pytest.mark.costly
@pytest.mark.parametrize("tile", [1, 2, 7, 20, 33, 100])
def test_reduction_tiles_are_chained_for_every_size(tile):
    x, y, c = arrays((9, 33), (33, 37), (9, 37))
    op = of_form("yield t0@t1 + t2", [x, y, c])
    kernel = build(op, config=config(op, workgroup_tile={"d0": 4}, reduction_tile={"d1": tile}))
    np.testing.assert_allclose(kernel(x, y, c), x @ y + c, atol=1e-5)


@pytest.mark.parametrize("tile", [1, 3, 10, 64])
def test_index_is_where_the_tile_starts(tile):
    zeros = np.zeros(10, "int32")
    op = of_form("yield t with t[j] = index(0) + j", [zeros])
    kernel = build(op, config=config(op, workgroup_tile={"d0": tile}))
    assert kernel(zeros).tolist() == list(range(10))


def test_a_yield_may_read_what_it_replaces():
    """Each reduction tile reverses the columns of what the one before left."""
    x, c = np.ones((2, 3), "int32"), np.arange(8, dtype="int32").reshape(2, 4)

    def reverse(tile, out):
        last = out.extents[1] - 1
        first = tile[0, 0]
        return custom_op_tiles.compute(
            out.extents, lambda i, j: out[i, last - j] * first, out.dtype
        )

    op = ops.custom_op(
        [x],
        [c],
        indexing_maps=["(d0, d1)[s0] -> (d0, d1)", "(d0, d1)[s0] -> (d0, s0)"],
        iterator_types=["parallel", "reduction"],
        region=reverse,
    )
    for tile, flips in ((1, 3), (2, 2), (3, 1)):
        kernel = build(op, config=config(op, reduction_tile={"d1": tile}))
        np.testing.assert_array_equal(kernel(x, c), c[:, ::-1] if flips % 2 else c)


def test_one_kernel_serves_every_extent():
    form = FORMS["yield t0@t1 + t2"]
    op = ops.custom_op(
        [("m", "k"), ("k", "n")],
        [("m", "n")],
        indexing_maps=form.maps,
        iterator_types=form.iterators,
        region=form.tile,
    )
    kernel = build(op)
    for m, k, n in ((1, 1, 1), (65, 257, 33), (130, 3, 64)):
        x, y, c = arrays((m, k), (k, n), (m, n))
        np.testing.assert_allclose(kernel(x, y, c), x @ y + c, atol=1e-4)


@pytest.mark.parametrize("index", [45, 132])
def test_a_tile_in_memory_may_be_smaller_at_the_edge(index):
    (result,) = kernel_checks.check_random(["custom_op"], seed=1, index=index).results
    assert (result.status, result.message) == ("passed", "")


@pytest.mark.parametrize("dtype", ["float64", "int32", "int8"])
def test_dtypes(dtype):
    x, y, c = (np.asarray(RNG.integers(-3, 4, s), dtype) for s in ((7, 9), (9, 40), (7, 40)))
    op = of_form("yield t0@t1 + t2", [x, y, c])
    np.testing.assert_array_equal(build(op)(x, y, c), x @ y + c)


def test_scalars_of_the_operands_type():
    x, y, c = arrays((5, 6), (6, 7), (5, 7))
    op = of_form("yield (t0@t1 + t3) * t2", [x, y, np.float32(0), c])
    np.testing.assert_allclose(build(op)(x, y, 2.5, c), (x @ y + c) * 2.5, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workgroup_tile": {"d1": 4}}, "workgroup_tile splits d1, which the indexing map of an"),
        ({"workgroup_tile": {"d2": 4}}, "workgroup_tile has 'd2'; parallel dims are d0, d1"),
        ({"workgroup_tile": {"d0": 0}}, r"workgroup_tile\['d0'\] is 0; expected a number from 1"),
        ({"reduction_tile": {"d0": 4}}, "reduction_tile has 'd0'; reduction dims are none"),
    ],
)
def test_refuses_tiles_that_are_not_legal(change, message):
    op = of_form("yield a, b", arrays((8, 6), (6, 7), (7, 9), (8, 7), (8, 9)), 2)
    with pytest.raises(ScheduleError, match=f"cpu.custom_op: {message}"):
        build(op, config=config(op, **change))
