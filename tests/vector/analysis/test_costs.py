"""Costs rank legal shapes, and the register limit is kept."""

from math import inf

import pytest

from tvm_iree_ext.targets.vector_units import UNITS
from tvm_iree_ext.vector import VectorError
from tvm_iree_ext.vector.analysis import costs


def test_costs_count_native_operations():
    assert costs.elementwise_cost((2, 3, 8), 4) == 2 * 3 * 2
    assert costs.elementwise_cost((5,), 4) == 2
    assert costs.shuffle_cost((4, 4), 4) == 4
    assert costs.detour_cost(4, 1) == 20
    assert costs.DYNAMIC_EXTRACT == 2


@pytest.mark.parametrize(
    ("came", "made", "cost"),
    [((4, 4, 16), (4, 64), 0), ((4, 6), (4, 6), 0), ((4, 4, 17), (272,), 1), ((4, 17), (64,), inf),
     ((4, 8), (8, 4), inf), ((4, 8), (), inf)],
)  # fmt: skip
def test_casts_that_are_free_cost_one_or_are_not_done(came, made, cost):
    assert costs.cast_cost(came, made, 4) == cost


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("extents", [(8, 32, 4), (6, 64, 256), (5, 7, 3), (1, 1, 1), (128, 64, 1)])
def test_a_tile_divides_and_its_registers_are_there(unit, extents):
    tile = costs.contraction_tile(*extents, "float32", unit)
    native = unit.lanes("float32")
    for whole, part in zip(extents, (tile.rows, tile.columns, tile.depth), strict=True):
        assert whole % part == 0
    vectors = -(-tile.columns // native)
    assert tile.live == tile.rows * vectors + tile.depth * vectors + 1 <= unit.registers


def test_the_choice_is_the_cheapest_then_the_fewest_registers_then_the_smallest():
    unit = UNITS["AVX2"]
    best = costs.contraction_tile(24, 64, 4, "float32", unit)
    every = [t for t in costs.contraction_tiles(24, 64, 4, 8) if t.live <= unit.registers]
    assert best.cost == min(tile.cost for tile in every)
    equal = [tile for tile in every if tile.cost == best.cost]
    assert best.live == min(tile.live for tile in equal)
    assert best.depth == 1  # a deeper tile costs as much and keeps more
    tiles = [
        costs.ContractionTile(4, 4, 1, 9, 1.0),
        costs.ContractionTile(2, 4, 1, 9, 1.0),
        costs.ContractionTile(1, 1, 1, 3, 2.0),
    ]
    assert costs.cheapest(tiles, "x") is tiles[1]


def test_more_registers_give_larger_tiles():
    small, large = (
        costs.contraction_tile(64, 64, 4, "float32", UNITS[name]) for name in ("SSE", "NEON")
    )
    assert small.rows * small.columns < large.rows * large.columns
    assert (small.live, large.live) <= (16, 32)


def test_a_given_list_is_chosen_from():
    given = [(1, 4, 1), (4, 4, 4), (4, 8, 1)]
    tile = costs.contraction_tile(4, 8, 4, "float32", UNITS["SSE"], tiles=given)
    assert (tile.rows, tile.columns, tile.depth) == (4, 8, 1)


def test_no_legal_shape():
    message = r"contract 4x4x4 of f32 on SSE with 16 registers: none of 0.*\[E_NO_LEGAL_SHAPE\]"
    with pytest.raises(VectorError, match=message):
        costs.contraction_tile(4, 4, 4, "float32", UNITS["SSE"], tiles=[(3, 4, 4)])
    with pytest.raises(VectorError, match="none of 0"):
        costs.contraction_tile(64, 64, 1, "float32", UNITS["SSE"], tiles=[(64, 64, 1)])
    never = [costs.ContractionTile(1, 1, 1, 3, inf), costs.ContractionTile(2, 1, 1, 3, inf)]
    with pytest.raises(VectorError, match="cast: none of 2 shapes is legal"):
        costs.cheapest(never, "cast")


def test_no_native_shape():
    with pytest.raises(VectorError, match=r"AVX2 has no arithmetic of bf16.*\[E_NO_NATIVE_SHAPE\]"):
        costs.contraction_tile(4, 4, 4, "bfloat16", UNITS["AVX2"])
    unit = UNITS["SSE"]
    costs.check_native((1, 4), "float32", unit, "addf")
    for shape in ((4, 8), (8,), (2, 4)):
        with pytest.raises(VectorError, match=r"addf: vector<.*registers of 4 lanes on SSE"):
            costs.check_native(shape, "float32", unit, "addf")


@pytest.mark.parametrize(
    ("shape", "dtype", "piece"),
    [((4, 8), "float32", (1, 4)), ((4, 6), "float32", (1, 3)), ((7,), "float32", (1,)),
     ((2, 2, 16), "int8", (1, 1, 16)), ((), "float32", ())],
)  # fmt: skip
def test_values_are_unrolled_to_pieces_that_divide(shape, dtype, piece):
    assert costs.native_piece(shape, dtype, UNITS["SSE"], "addf") == piece
