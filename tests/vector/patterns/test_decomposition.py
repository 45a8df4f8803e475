import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector.patterns import decompose_slices, lower_slices

V = vector.vector


def one(build, *types):
    with vector.program("one") as b:
        values = [b.argument(f"x{n}", type) for n, type in enumerate(types)]
        b.returns(build(b, *values))
    return b.program


def test_a_row_that_fills_the_minor_dim_is_a_register(same):
    program = one(lambda b, v, d: b.insert_strided_slice(v, d, [1, 0]), V((3,)), V((3, 3)))
    assert same(program, decompose_slices(program)) == {"insert 3->3x3": 1}


def test_part_of_a_row_goes_through_it(same):
    program = one(lambda b, v, d: b.insert_strided_slice(v, d, [1, 1]), V((2,)), V((3, 4)))
    counts = same(program, decompose_slices(program))
    assert counts == {
        "extract 3x4->4": 1,
        "insert_strided_slice 2->4": 1,
        "insert 4->3x4": 1,
    }
    lowered = same(program, lower_slices(decompose_slices(program)))
    assert lowered.of("shuffle 4") == 2


def test_a_box_is_cut_row_by_row(same):
    program = one(lambda b, d: b.extract_strided_slice(d, [1, 2], [2, 2]), V((4, 4)))
    counts = same(program, decompose_slices(program))
    assert counts == {
        "extract 4x4->4": 2,
        "extract_strided_slice 4->2": 2,
        "insert 2->2x2": 2,
    }
    assert same(program, lower_slices(decompose_slices(program))).of("shuffle 2") == 2


@pytest.mark.parametrize(
    ("value", "dest", "offsets"),
    [
        ((2, 2), (3, 4), [1, 2]),
        ((2, 3), (4, 5, 3), [3, 2, 0]),
        ((1, 1, 1), (2, 2, 2), [1, 0, 1]),
        ((4,), (2, 3, 4), [1, 2, 0]),
        ((2, 3, 4), (2, 3, 4), [0, 0, 0]),
        ((3,), (5,), [1]),
        ((1,), (5,), [4]),
    ],
)
def test_boxes_of_any_rank(value, dest, offsets, same):
    program = one(lambda b, v, d: b.insert_strided_slice(v, d, offsets), V(value), V(dest))
    changed = lower_slices(decompose_slices(program))
    same(program, changed)
    assert not changed.find("vector.insert_strided_slice")
    lead = offsets[len(dest) - len(value) :]
    program = one(
        lambda b, d: b.extract_strided_slice(
            d,
            [*offsets[: len(dest) - len(value)], *lead],
            [1] * (len(dest) - len(value)) + list(value),
        ),
        V(dest),
    )
    changed = lower_slices(decompose_slices(program))
    same(program, changed)
    assert not changed.find("vector.extract_strided_slice")


def test_fewer_offsets_than_dims(same):
    program = one(lambda b, d: b.extract_strided_slice(d, [1], [2]), V((4, 3, 2)))
    same(program, lower_slices(decompose_slices(program)))
