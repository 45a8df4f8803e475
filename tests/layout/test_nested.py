import numpy as np
import pytest

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout import Digits, NestedLayout

# the layout of IREE's documentation: 64x64 over 2 subgroups of 64 lanes
DOCUMENTED = NestedLayout((2, 1), (2, 4), (1, 1), (16, 4), (1, 4), (1, 0), (1, 16))
GAPPED = NestedLayout((1, 1), (1, 1), (1, 1), (4, 8), (1, 1), (0, 0), (1, 16))


def one_level(tile, strides, level="thread"):
    ones, zeros = (1,) * len(tile), (0,) * len(tile)
    tiles = dict.fromkeys(Digits._fields, ones)
    tiles[level] = tuple(tile)
    return NestedLayout(
        *tiles.values(),
        subgroup_strides=strides if level == "subgroup" else zeros,
        thread_strides=strides if level == "thread" else zeros,
    )


def test_shapes_of_the_documented_layout():
    assert DOCUMENTED.rank == 2
    assert DOCUMENTED.undistributed_shape == (64, 64)
    assert DOCUMENTED.undistributed_packed_shape == (2, 1, 2, 4, 1, 1, 16, 4, 1, 4)
    assert DOCUMENTED.distributed_shape == (2, 4, 1, 1, 1, 4)
    assert DOCUMENTED.distributed_unpacked_shape == (2, 16)


def test_inverse_of_the_documented_layout():
    digits = DOCUMENTED.digits((37, 53))
    assert digits == Digits((1, 0), (0, 3), (0, 0), (5, 1), (0, 1))
    assert DOCUMENTED.subgroup_id(digits.subgroup) == 1
    assert DOCUMENTED.lane_id(digits.thread) == 21
    assert DOCUMENTED.coordinate(digits) == (37, 53)
    assert DOCUMENTED.digits((63, 63)) == Digits((1, 0), (1, 3), (0, 0), (15, 3), (0, 3))


def test_virtual_ids_of_the_documented_layout():
    assert DOCUMENTED.virtual_lane(1) == (1, 0)
    assert DOCUMENTED.virtual_lane(16) == (0, 1)
    assert DOCUMENTED.virtual_subgroup(2) == (0, 0)
    assert DOCUMENTED.virtual_subgroup(3) == (1, 0)


def test_canonical_ids_take_no_modulo():
    assert GAPPED.lane_id((3, 7)) == 115
    assert GAPPED.virtual_lane(115) == (3, 7)
    assert GAPPED.virtual_lane(19) == (3, 1)
    assert GAPPED.lane_period == 128


def test_canonical_subgroups_in_lexicographic_order():
    layout = one_level((4, 2), (1, 4), level="subgroup")
    ids = [layout.subgroup_id(virtual) for virtual in np.ndindex(4, 2)]
    assert ids == [0, 4, 1, 5, 2, 6, 3, 7]


def test_strides_of_undivided_dimensions_mean_nothing():
    one = NestedLayout([2, 1], [1, 1], [1, 1], [1, 4], [1, 1], [1, 9], [7, 1])
    other = NestedLayout((2, 1), (1, 1), (1, 1), (1, 4), (1, 1), (1, 0), (0, 1))
    assert one == other
    assert hash(one) == hash(other)
    assert one.subgroup_strides == (1, 0)


def test_rank_zero_is_legal():
    scalar = NestedLayout((), (), (), (), (), (), ())
    assert scalar.undistributed_shape == ()
    assert scalar.coordinate(scalar.digits(())) == ()
    assert scalar.subgroup_id(()) == scalar.lane_id(()) == 0
    assert scalar.subgroup_period == scalar.lane_period == 1


def test_numpy_integers_become_python_integers():
    layout = one_level(np.array([4]), np.array([1]))
    assert all(type(entry) is int for entry in layout.thread_tile + layout.thread_strides)


def test_refuses_fields_of_different_rank():
    with pytest.raises(LayoutError, match="must have the same rank as the layout; got") as error:
        NestedLayout((2, 1), (2,), (1, 1), (16, 4), (1, 4), (1, 0), (1, 16))
    assert "subgroup_tile 2, batch_tile 1, outer_tile 2" in str(error.value)


@pytest.mark.parametrize("entry", [1.5, "2", None])
def test_refuses_entries_that_are_no_integers(entry):
    with pytest.raises(LayoutError, match=r"thread_tile is .*; expected a sequence of integers"):
        one_level((entry,), (1,))


@pytest.mark.parametrize("tile", [0, -2])
def test_a_tile_below_one_is_built_but_not_used(tile):
    layout = one_level((4, tile), (1, 4))
    with pytest.raises(
        LayoutError, match=f"thread_tile of dimension 1 is {tile}; tiles start at 1"
    ):
        layout.verify()
    with pytest.raises(LayoutError, match="tiles start at 1"):
        layout.digits((0, 0))


@pytest.mark.parametrize("stride", [0, -1])
def test_a_stride_below_one_under_a_larger_tile_leaves_elements_without_owner(stride):
    layout = one_level((2, 4), (1, stride), level="subgroup")
    with pytest.raises(
        LayoutError,
        match=rf"subgroup_strides of dimension 1 is {stride} where subgroup_tile is 4;"
        " all but the first of its 4 parts would have no owner",
    ):
        layout.verify()


@pytest.mark.parametrize(
    ("strides", "words"),
    [
        ((2, 1), "dimension 1 spans 4 ids, so the stride of dimension 0 must be a multiple of 4"),
        ((1, 2), "dimension 0 spans 4 ids, so the stride of dimension 1 must be a multiple of 4"),
        ((1, 1), "the stride of dimension 1 must be a multiple of 4; it is 1"),
        ((1, 6), "the stride of dimension 1 must be a multiple of 4; it is 6"),
    ],
)
def test_overlapping_strides_are_named(strides, words):
    with pytest.raises(LayoutError, match=f"overlapping strides.*{words}"):
        one_level((4, 4), strides).virtual_lane(0)


def test_gaps_between_strides_are_legal():
    GAPPED.verify()
    one_level((4, 2, 1), (8, 2, 5)).verify()


def test_a_vectors_extents_must_be_the_layouts():
    DOCUMENTED.check_shape((64, 64))
    with pytest.raises(LayoutError, match=r"to_layout: the operand has rank 1; .* has rank 2"):
        DOCUMENTED.check_shape((64,))
    with pytest.raises(
        LayoutError,
        match="to_layout: dimension 1 of the operand has extent 32; the layout expects 64",
    ):
        DOCUMENTED.check_shape((64, 32))


def test_a_tensor_may_be_smaller_or_of_unknown_extent():
    DOCUMENTED.check_shape((60, 1), exact=False)
    DOCUMENTED.check_shape(("rows", None))
    with pytest.raises(LayoutError, match="the operand has rank 3"):
        DOCUMENTED.check_shape((60, 1, 1), exact=False)


def test_refuses_an_index_of_another_rank_or_outside():
    with pytest.raises(LayoutError, match=r"coordinate \(1,\) has 1 entries; .* rank 2"):
        DOCUMENTED.digits((1,))
    with pytest.raises(LayoutError, match=r"coordinate \(64, 0\) is outside \(64, 64\)"):
        DOCUMENTED.digits((64, 0))
    with pytest.raises(LayoutError, match=r"thread \(16, 0\) is outside \(16, 4\)"):
        DOCUMENTED.lane_id((16, 0))
    with pytest.raises(LayoutError, match=r"outer \(1, 0\) is outside \(1, 1\)"):
        DOCUMENTED.coordinate(Digits((0, 0), (0, 0), (1, 0), (0, 0), (0, 0)))
