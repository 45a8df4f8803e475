import pytest

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout import (
    NestedLayout,
    apply,
    broadcast,
    owner_map,
    permute,
    project,
    recombine,
    replication,
    reshape,
)

DOCUMENTED = NestedLayout((2, 1), (2, 4), (1, 1), (16, 4), (1, 4), (1, 0), (1, 16))


def threads(tile, strides, element=None):
    ones, zeros = (1,) * len(tile), (0,) * len(tile)
    return NestedLayout(ones, ones, ones, tile, element or ones, zeros, strides)


def test_permute_reorders_every_list():
    assert permute(DOCUMENTED, [1, 0]) == NestedLayout(
        (1, 2), (4, 2), (1, 1), (4, 16), (4, 1), (0, 1), (16, 1)
    )


def test_permute_refuses_what_is_no_permutation():
    for permutation in ([0], [0, 0], [1, 2], [0, -1]):
        with pytest.raises(LayoutError, match="is not a permutation of the 2 dimensions"):
            permute(DOCUMENTED, permutation)


def test_project_keeps_the_other_dimensions():
    assert project(DOCUMENTED, [True, False]) == NestedLayout(
        (1,), (4,), (1,), (4,), (4,), (0,), (16,)
    )


def test_project_replicates_over_the_dropped_lanes():
    rows = project(DOCUMENTED, [False, True])
    assert replication(rows, 2, 64) == (1, 4)
    assert project(DOCUMENTED, [True, True]).rank == 0


def test_project_refuses_another_number_of_bools():
    with pytest.raises(LayoutError, match="dropped has 1 entries; the layout has rank 2"):
        project(DOCUMENTED, [True])


def test_apply_gives_extent_one_for_other_expressions():
    assert apply(DOCUMENTED, (1, None, 0)) == NestedLayout(
        (1, 1, 2), (4, 1, 2), (1, 1, 1), (4, 1, 16), (4, 1, 1), (0, 0, 1), (16, 0, 1)
    )


def test_apply_refuses_a_dimension_that_is_not_there():
    with pytest.raises(LayoutError, match="result d2 is outside the layout of rank 2"):
        apply(DOCUMENTED, (0, 2))


def test_broadcast_repeats_in_each_lane():
    repeated = broadcast(DOCUMENTED, (3,))
    assert repeated.undistributed_shape == (3, 64, 64)
    owner = owner_map(repeated, 2, 64)
    assert (owner == owner_map(DOCUMENTED, 2, 64)).all()
    assert project(repeated, [True, False, False]) == DOCUMENTED
    with pytest.raises(LayoutError, match=r"extents are \[2, 0\]; they start at 1"):
        broadcast(DOCUMENTED, (2, 0))


# A[m, k], B[k, n] and C[m, n] of a 128x128x64 product on 2x2 subgroups, MFMA_F32_32x32x8_F16
A = NestedLayout((2, 1), (2, 8), (1, 1), (32, 2), (1, 4), (2, 0), (1, 32))
B = NestedLayout((1, 2), (8, 2), (1, 1), (2, 32), (4, 1), (0, 1), (32, 1))


def test_recombine_takes_each_dimension_from_the_operand_that_has_it():
    result = recombine([A, B], [(0, 2), (2, 1)], (0, 1))
    assert result == NestedLayout((2, 2), (2, 2), (1, 1), (32, 32), (1, 1), (2, 1), (1, 1))


def test_recombine_is_none_where_operands_disagree_or_none_has_the_dimension():
    other_k = permute(
        NestedLayout((1, 2), (4, 2), (1, 1), (2, 32), (8, 1), (0, 1), (32, 1)), [1, 0]
    )
    assert recombine([A, other_k], [(0, 2), (1, 2)], (0, 2)) is None
    assert recombine([A, other_k], [(0, 2), (1, 2)], (0, 1)) is not None
    assert recombine([A], [(0, 2)], (0, 1)) is None


def test_recombine_refuses_maps_that_do_not_fit():
    with pytest.raises(LayoutError, match="map of layout 1 has 1 results; the layout has rank 2"):
        recombine([A, B], [(0, 2), (2,)], (0, 1))
    with pytest.raises(LayoutError, match="2 layouts and 1 maps"):
        recombine([A, B], [(0, 2)], (0, 1))


SQUARE = NestedLayout((1, 1), (4, 4), (1, 1), (16, 4), (1, 4), (0, 0), (1, 16))
EXPANDED = NestedLayout(
    (1, 1, 1, 1), (4, 1, 4, 1), (1, 1, 1, 1), (4, 4, 4, 1), (1, 1, 1, 4), (0,) * 4, (4, 1, 16, 0)
)


def test_reshape_expands_and_collapses():
    assert reshape(SQUARE, (16, 4, 16, 4)) == EXPANDED
    assert reshape(EXPANDED, (64, 64)) == SQUARE


def test_reshape_merges_threads_only_where_strides_continue():
    assert reshape(threads((4, 4), (4, 1)), (16,)) == threads((16,), (1,))
    assert reshape(threads((4, 4), (1, 4)), (16,)) is None


def test_reshape_is_none_where_elements_would_change_lanes():
    assert reshape(threads((4, 4), (4, 1), element=(4, 1)), (64,)) is None


def test_reshape_is_none_where_a_tile_would_be_cut_unevenly():
    assert reshape(threads((6,), (1,)), (3, 2)) == threads((3, 2), (2, 1))
    assert reshape(threads((2, 3), (3, 1)), (3, 2)) is None


def test_reshape_adds_and_drops_dimensions_of_extent_one():
    assert reshape(SQUARE, (1, 64, 1, 64, 1)).undistributed_shape == (1, 64, 1, 64, 1)
    scalar = reshape(threads((1, 1), (0, 0)), ())
    assert scalar.rank == 0
    assert reshape(scalar, (1,)) == threads((1,), (0,))


def test_reshape_refuses_another_number_of_elements():
    with pytest.raises(LayoutError, match=r"\[64, 64\] has 4096 elements; \[64, 32\] cannot hold"):
        reshape(SQUARE, (64, 32))
    with pytest.raises(LayoutError, match="cannot hold"):
        reshape(SQUARE, (-64, -64))


def test_reshape_refuses_a_malformed_layout():
    with pytest.raises(LayoutError, match="overlapping strides"):
        reshape(threads((4, 4), (2, 1)), (16,))
