import numpy as np
import pytest

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout import Movement, NestedLayout, analyse_conversion, to_simt
from tvm_iree_ext.layout.conversion import equal_but_for_batch_and_outer


def threads(tile, strides, element, batch=(1, 1), outer=(1, 1)):
    return NestedLayout((1, 1), batch, outer, tile, element, (0, 0), strides)


ROWS = threads((4, 1), (1, 0), (1, 4))
COLUMNS = threads((1, 4), (0, 1), (4, 1))


def line(subgroup, batch, outer, thread, element):
    return NestedLayout((subgroup,), (batch,), (outer,), (thread,), (element,), (1,), (1,))


def test_batch_and_outer_may_differ_for_free():
    batch, outer = line(1, 2, 1, 4, 2), line(1, 1, 2, 4, 2)
    conversion = analyse_conversion(batch, outer, 1, 4)
    assert conversion.movement is Movement.FREE
    assert conversion.reason == "every lane holds the same elements in the same registers"
    assert to_simt(np.arange(16), batch, 1, 4)[0, 1].tolist() == [2, 3, 10, 11]
    assert to_simt(np.arange(16), outer, 1, 4)[0, 1].tolist() == [2, 3, 10, 11]
    assert equal_but_for_batch_and_outer(batch, outer)
    assert not equal_but_for_batch_and_outer(batch, line(1, 1, 1, 4, 4))
    assert not equal_but_for_batch_and_outer(batch, line(1, 1, 1, 4, 2))


def test_attention_reuses_the_accumulator_as_operand():
    """S = Q K^T is the accumulator, P the left input of P V: same lanes, same registers."""
    accumulator = NestedLayout((4, 1), (1, 8), (2, 1), (8, 4), (1, 2), (1, 0), (4, 1))
    operand = NestedLayout((4, 1), (1, 4), (2, 2), (8, 4), (1, 2), (1, 0), (4, 1))
    assert analyse_conversion(accumulator, operand, 4, 32).movement is Movement.FREE


def test_packed_registers_may_need_a_permutation_inside_the_lane():
    source = threads((1, 4), (0, 1), (1, 1), batch=(1, 2), outer=(2, 1))
    result = threads((1, 4), (0, 1), (1, 1), batch=(2, 2))
    assert analyse_conversion(source, result, 1, 4).movement is Movement.FREE
    conversion = analyse_conversion(source, result, 1, 4, packed=True)
    assert conversion.movement is Movement.IN_LANE
    assert conversion.source_register[0, 0].tolist() == [0, 2, 1, 3]
    assert conversion.reason == (
        "every lane already holds what it needs; each lane only reorders its registers"
    )


def test_a_replica_is_its_own_source():
    everywhere = line(1, 1, 1, 1, 8)
    conversion = analyse_conversion(everywhere, line(1, 1, 1, 4, 2), 1, 4)
    assert conversion.movement is Movement.IN_LANE
    assert conversion.source_register[0].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_transpose_of_a_square_is_an_xor_butterfly():
    conversion = analyse_conversion(ROWS, COLUMNS, 2, 4)
    assert conversion.movement is Movement.SHUFFLE
    assert conversion.xor_masks == (0, 1, 2, 3)
    # step k: lane t takes element (t ^ k, t), which is row t ^ k of its column
    assert conversion.xor_registers[1].tolist() == [[t ^ k for k in range(4)] for t in range(4)]


def test_a_uniform_shift_has_no_butterfly_but_a_table():
    three = line(1, 2, 1, 3, 1)
    conversion = analyse_conversion(three, line(1, 1, 1, 3, 2), 1, 3)
    assert conversion.movement is Movement.SHUFFLE
    assert conversion.xor_masks is None
    assert conversion.xor_registers is None
    assert conversion.source_lane[0].tolist() == [[0, 1], [2, 0], [1, 2]]
    assert conversion.source_register[0].tolist() == [[0, 0], [0, 1], [1, 1]]


def test_the_nearest_replica_is_the_source():
    """Half-wave replicas (RDNA3 operands): with both halves full, one exchange over 16 lanes."""
    accumulator = line(1, 8, 1, 2, 1)  # even rows in one half, odd rows in the other
    halves = NestedLayout((1,), (8,), (1,), (2,), (1,), (0,), (16,))
    operand = line(1, 1, 1, 1, 16)
    conversion = analyse_conversion(halves, operand, 1, 32)
    assert conversion.movement is Movement.SHUFFLE
    assert conversion.xor_masks == (0,) * 8 + (16,) * 8
    assert analyse_conversion(accumulator, operand, 1, 32).xor_masks == (0,) * 8 + (1,) * 8


def test_other_subgroups_are_reached_through_shared_memory():
    conversion = analyse_conversion(line(2, 1, 1, 4, 2), line(1, 2, 1, 4, 2), 2, 4)
    assert conversion.movement is Movement.SHARED
    assert conversion.reason == (
        "lane 0 of subgroup 0 holds (0..1) in the source and (0..1|8..9) in the result;"
        " they can only be exchanged through shared memory"
    )


def test_the_offending_lane_is_the_first_that_lacks_something():
    source = line(2, 1, 1, 4, 4)  # subgroups 0..15 | 16..31
    result = NestedLayout((1,), (1,), (1,), (8,), (4,), (0,), (1,))
    conversion = analyse_conversion(source, result, 2, 8)
    assert conversion.reason.startswith(
        "lane 4 of subgroup 0 holds (0..3) in the source and (16..19) in the result"
    )


def test_fewer_subgroups_than_tiles_keep_their_parts_in_the_lane():
    source = NestedLayout((1, 2), (2, 1), (1, 1), (1, 4), (1, 1), (0, 1), (0, 1))
    result = NestedLayout((1, 1), (2, 2), (1, 1), (1, 4), (1, 1), (0, 0), (0, 1))
    conversion = analyse_conversion(source, result, 1, 4)
    assert conversion.movement is Movement.IN_LANE
    x = np.arange(16).reshape(2, 8)
    got = conversion.perform(to_simt(x, source, 1, 4))
    np.testing.assert_array_equal(got, to_simt(x, result, 1, 4).reshape(1, 4, -1))


def test_scalars_convert_for_free():
    scalar = NestedLayout((), (), (), (), (), (), ())
    assert analyse_conversion(scalar, scalar, 2, 4).movement is Movement.FREE


def test_refuses_layouts_of_different_shapes():
    with pytest.raises(LayoutError, match=r"source has shape \[8\] and the result \[16\]"):
        analyse_conversion(line(1, 1, 1, 4, 2), line(1, 1, 1, 4, 4), 1, 4)
    with pytest.raises(LayoutError, match="subgroup_size is 2"):
        analyse_conversion(ROWS, COLUMNS, 1, 2)
