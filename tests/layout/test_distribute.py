import numpy as np
import pytest

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout import NestedLayout, coordinates, owner_map, to_simd, to_simt

DOCUMENTED = NestedLayout((2, 1), (2, 4), (1, 1), (16, 4), (1, 4), (1, 0), (1, 16))
LARGE = NestedLayout((2, 2), (4, 4), (2, 1), (8, 8), (2, 4), (2, 1), (8, 1))


def test_coordinates_of_the_documented_layout():
    held = coordinates(DOCUMENTED, 4, 64)
    assert held.shape == (4, 64, 2, 16, 2)
    assert held[0, 0, 0, 4].tolist() == [0, 16]
    assert held[0, 1, 1, 0].tolist() == [17, 0]
    assert held[3, 17, 1, 15].tolist() == [49, 55]


def test_packed_and_unpacked_hold_the_same_in_another_order():
    layout = NestedLayout((1, 1), (2, 3), (2, 2), (1, 2), (2, 1), (0, 0), (0, 1))
    packed = coordinates(layout, 1, 2, packed=True)
    unpacked = coordinates(layout, 1, 2)
    assert packed.shape == (1, 2, 2, 3, 2, 2, 2, 1, 2)
    assert unpacked.shape == (1, 2, 8, 6, 2)
    by_dim = packed.transpose(0, 1, 2, 4, 6, 3, 5, 7, 8)
    np.testing.assert_array_equal(by_dim.reshape(unpacked.shape), unpacked)


def test_every_lane_of_a_256x256_layout_owns_what_it_holds():
    """65536 elements over 256 lanes: forward and inverse formula, exhaustively."""
    owner = owner_map(LARGE, 4, 64)
    held = coordinates(LARGE, 4, 64)
    lanes = np.arange(256).reshape(4, 64, 1, 1)
    assert owner.shape == (256, 256, 1)
    assert (owner[held[..., 0], held[..., 1], 0] == lanes).all()
    np.testing.assert_array_equal(np.bincount(owner.reshape(-1)), np.full(256, 256))
    x = np.arange(256 * 256).reshape(256, 256)
    np.testing.assert_array_equal(to_simd(to_simt(x, LARGE, 4, 64), LARGE, 4, 64), x)


def test_the_inverse_formula_agrees_with_the_arrays_at_every_coordinate():
    layout = NestedLayout((2, 2), (2, 1), (1, 2), (2, 4), (1, 2), (2, 1), (1, 2))
    held = coordinates(layout, 4, 8, packed=True)
    for coordinate in np.ndindex(layout.undistributed_shape):
        digits = layout.digits(coordinate)
        subgroup, lane = layout.subgroup_id(digits.subgroup), layout.lane_id(digits.thread)
        local = digits.batch + digits.outer + digits.element
        assert tuple(held[(subgroup, lane, *local)]) == coordinate


def test_fewer_subgroups_hold_their_parts_along_an_axis_of_their_own():
    layout = NestedLayout((4,), (1,), (1,), (2,), (1,), (1,), (1,))
    parts = to_simt(np.arange(8), layout, num_subgroups=2, subgroup_size=2)
    assert parts.shape == (2, 2, 2, 1)
    assert parts[1, 0].tolist() == [[2], [6]]
    np.testing.assert_array_equal(to_simd(parts, layout, 2, 2), np.arange(8))


def test_a_scalar_is_held_by_every_lane():
    scalar = NestedLayout((), (), (), (), (), (), ())
    parts = to_simt(np.array(5), scalar, 2, 4)
    assert parts.shape == (2, 4)
    assert to_simd(parts, scalar, 2, 4) == 5


def test_refuses_an_array_of_another_shape():
    with pytest.raises(
        LayoutError,
        match="to_simt: dimension 1 of the operand has extent 32; the layout expects 64",
    ):
        to_simt(np.zeros((64, 32)), DOCUMENTED, 2, 64)
    with pytest.raises(LayoutError, match=r"to_simd: .*; expected \[2, 64, 2, 16\]"):
        to_simd(np.zeros((2, 64, 32)), DOCUMENTED, 2, 64)


def test_refuses_hardware_that_leaves_elements_without_lane():
    with pytest.raises(LayoutError, match="subgroup_size is 32"):
        to_simt(np.zeros((64, 64)), DOCUMENTED, 2, 32)
