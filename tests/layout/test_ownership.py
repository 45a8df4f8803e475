import numpy as np
import pytest

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout import NestedLayout, owner_map, owners, replication
from tvm_iree_ext.layout.ownership import id_digits, lane_parts, subgroup_parts

DOCUMENTED = NestedLayout((2, 1), (2, 4), (1, 1), (16, 4), (1, 4), (1, 0), (1, 16))
SUBGROUPS_4X2 = NestedLayout((4, 2), (1, 1), (1, 1), (1, 1), (1, 1), (1, 4), (0, 0))
GAPPED = NestedLayout((1, 1), (1, 1), (1, 1), (4, 8), (1, 1), (0, 0), (1, 16))


def test_rows_of_threads_repeat_along_the_outer_tile():
    rows = NestedLayout((1, 1), (1, 1), (2, 1), (2, 5), (1, 1), (0, 0), (5, 1))
    half = [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert owner_map(rows, 1, 10)[..., 0].tolist() == half + half


def test_every_element_has_one_owner_among_two_subgroups_and_two_among_four():
    assert replication(DOCUMENTED, 2, 64) == (1, 1)
    assert replication(DOCUMENTED, 4, 64) == (2, 1)
    assert owner_map(DOCUMENTED, 2, 64).shape == (64, 64, 1)
    assert owner_map(DOCUMENTED, 4, 64)[37, 53].tolist() == [1 * 64 + 21, 3 * 64 + 21]
    assert owners(DOCUMENTED, (37, 53), 4, 64) == [(1, 21), (3, 21)]


def test_lanes_replicate_when_there_are_more_than_thread_tiles():
    assert replication(DOCUMENTED, 2, 128) == (1, 2)
    assert owners(DOCUMENTED, (0, 0), 2, 128) == [(0, 0), (0, 64)]


def test_lanes_in_the_gaps_of_strides_replicate():
    assert replication(GAPPED, 1, 128) == (1, 4)
    assert owners(GAPPED, (3, 7), 1, 128) == [(0, 115), (0, 119), (0, 123), (0, 127)]


def test_fewer_subgroups_than_tiles_own_several_in_lexicographic_order():
    owner = owner_map(SUBGROUPS_4X2, 4, 1)[..., 0]
    assert owner.reshape(-1).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert subgroup_parts(SUBGROUPS_4X2, 4)[2].tolist() == [[2, 0], [2, 1]]
    assert owners(SUBGROUPS_4X2, (2, 1), 4, 1) == [(2, 0)]


def test_one_subgroup_owns_everything():
    assert not owner_map(SUBGROUPS_4X2, 1, 1).any()
    assert subgroup_parts(SUBGROUPS_4X2, 1)[0].tolist() == [list(v) for v in np.ndindex(4, 2)]


@pytest.mark.parametrize("num_subgroups", [0, 3, 5, 12])
def test_refuses_subgroups_that_are_neither_divisor_nor_multiple(num_subgroups):
    with pytest.raises(
        LayoutError,
        match=f"num_subgroups is {num_subgroups}; .* takes a multiple of 8 or a divisor of 8",
    ):
        owner_map(SUBGROUPS_4X2, num_subgroups, 1)


def test_refuses_fewer_subgroups_than_tiles_with_gaps_between_strides():
    gaps = NestedLayout((4,), (1,), (1,), (1,), (1,), (2,), (0,))
    with pytest.raises(LayoutError, match=r"num_subgroups is 4; .* takes a multiple of 8$"):
        owner_map(gaps, 4, 1)


@pytest.mark.parametrize("subgroup_size", [0, 32, 96])
def test_refuses_lanes_that_do_not_hold_everything(subgroup_size):
    with pytest.raises(
        LayoutError, match=rf"subgroup_size is {subgroup_size}; thread_tile .* a multiple of 64"
    ):
        owners(DOCUMENTED, (0, 0), 2, subgroup_size)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("layout", [DOCUMENTED, SUBGROUPS_4X2, GAPPED])
def test_digits_of_ids_are_virtual_ids(layout, count):
    count *= layout.lane_period
    digits = id_digits(layout.thread_tile, layout.thread_strides, count)
    ids = np.indices([extent for extent, _ in digits]).reshape(len(digits), count)
    virtual = np.zeros((count, layout.rank), int)
    for (_, dim), digit in zip(digits, ids, strict=True):
        if dim is not None:
            virtual[:, dim] = digit
    np.testing.assert_array_equal(virtual, lane_parts(layout, count))
