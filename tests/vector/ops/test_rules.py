"""Rules R1 to R12: what is accepted, and what is refused with which message."""

import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector import VectorError


@pytest.fixture
def b():
    with vector.program("rules") as builder:
        yield builder


@pytest.fixture
def rows(b):
    return b.argument("V", vector.vector((4, 8)))


@pytest.fixture
def i(b):
    return b.argument("i", "index")


def refused(code, text):
    """The error of a rule, whose message says this."""
    return pytest.raises(VectorError, match=rf"{text}.*\[{code}\]$")


@pytest.mark.parametrize("shape", [("?", 8), (4, 0), (4, -1), (4, "n"), (True,)])
def test_r1_extents_are_numbers_from_1(shape):
    with refused("E_DYNAMIC_SHAPE", r"extent \d is .*compile-time constants"):
        vector.vector(shape)
    assert str(vector.vector((4, 8))) == "vector<4x8xf32>"
    assert str(vector.vector(())) == "vector<f32>"


def test_r2_an_outer_index_is_a_number(b, rows, i):
    assert str(rows[2].type) == "vector<8xf32>"
    assert str(rows[2, 3].type) == "f32"
    message = r"vector.extract: position\[0\] of vector<4x8xf32> is i.*selects a register.*unroll"
    with refused("E_DYNAMIC_OUTER_INDEX", message):
        rows[i]
    with refused("E_DYNAMIC_OUTER_INDEX", r"vector.insert: position\[0\]"):
        b.insert_at(1.0, rows, [i, 3])


def test_r3_only_the_lane_may_be_known_at_run_time(b, rows, i):
    assert rows[2][i].op.name == "vector.extractelement"
    assert rows[2, i].op.name == "vector.extractelement"
    assert b.insert_at(1.0, rows, [2, i]).type == rows.type
    with refused("E_DYNAMIC_OUTER_INDEX", r"position\[0\] of vector<4x8xf32> is i"):
        rows[i, 3]


def test_a_constant_of_the_program_is_a_number(b, rows):
    assert rows[b.index(2)].op.attributes["position"] == (2,)


def test_r4_static_indices_are_in_range(b, rows):
    assert rows[3, 7].dtype == "float32"
    with refused("E_INDEX_RANGE", r"position\[1\] is 8; expected 0\.\.7 of vector vector<4x8xf32>"):
        rows[3, 8]
    with refused("E_INDEX_RANGE", r"position\[0\] is -1; expected 0\.\.3"):
        rows[-1]
    with refused("E_INDEX_RANGE", r"position is 8; expected 0\.\.7"):
        b.extractelement(rows[0], 8)
    with refused("E_RANK", "has more entries than vector"):
        rows[1, 2, 3]


def test_r5_a_loop_runs_over_memory_not_over_registers(b, rows):
    memory = b.argument("M", vector.buffer((4, 8)))
    with b.loop(0, 4) as loop:
        piece = b.load(memory, [loop.index, 0], (8,))
        b.store(piece + piece, memory, [loop.index, 0])
        with refused("E_LOOP_OVER_REGISTERS", r"position\[0\] of vector<4x8xf32> is i.*spill"):
            rows[loop.index]
        with refused("E_LOOP_OVER_REGISTERS", "is a run-time value"):
            rows[loop.index * 2 + 1]
        assert piece[loop.index].dtype == "float32"


def test_r5_python_does_not_iterate_over_a_value(rows):
    with refused("E_LOOP_OVER_REGISTERS", "cannot be iterated over"):
        list(rows)


def test_r6_a_static_loop_is_unrolled(b, rows, i):
    assert [rows[n].shape for n in b.unrolled(4)] == [(8,)] * 4
    assert list(b.unrolled(4, start=2)) == [2, 3]
    with refused("E_LOOP_OVER_REGISTERS", "unrolled: stop is .*known at run time"):
        b.unrolled(i)


def test_r7_a_detour_through_memory_is_written_out(b, rows, i):
    place = b.alloc((4, 8))
    b.store(rows, place, [0, 0])
    b.returns(b.load(place, [i, 0], (8,)))
    names = [op.name for op in b.program.walk() if op.name != "arith.constant"]
    assert names == ["memref.alloc", "vector.store", "vector.load", "func.return"]


def test_r9_minor_dims_are_flattened_whole(b, rows):
    assert b.cast(rows, (32,)).shape == (32,)
    cube = b.argument("C", vector.vector((4, 4, 16)))
    assert b.cast(cube, (4, 64)).shape == (4, 64)
    for shape in ((4, 32), (64,), (16, 16), ()):
        with refused(
            "E_IRREGULAR_CAST", "does not merge its minor dims; infinite cost: needs mask"
        ):
            b.cast(cube, shape)


def test_r10_slices_have_strides_of_1(b, rows):
    assert b.extract_strided_slice(rows, [1], [2]).shape == (2, 8)
    with refused("E_SLICE_STRIDE", r"strides\[0\] is 2; expected 1"):
        b.extract_strided_slice(rows, [1], [2], [2])


def test_r11_maps_are_projected_permutations(b):
    memory = b.argument("M", vector.tensor(("?", "?")))
    read = b.transfer_read(memory, [0, 0], (4, 8), permutation_map="(d0, d1) -> (d1, 0)")
    for text in ("(d0, d1) -> (d0 * 2, d1)", "(d0, d1) -> (d1, d1)", "(d0, d1) -> (d0 + d1, 1)"):
        with refused("E_MAP", "expected distinct plain dims"):
            b.transfer_read(memory, [0, 0], (4, 8), permutation_map=text)
    with refused("E_BROADCAST_WRITE", r"\(d1, 0\) has a 0; several lanes would write"):
        b.transfer_write(read, memory, [0, 0], permutation_map="(d0, d1) -> (d1, 0)")


def test_r12_elementwise_operands_have_one_shape(b, rows):
    row = rows[0]
    assert (row + row).shape == (8,)
    wide = b.broadcast(row, (1, 8))
    with refused("E_SHAPE_MISMATCH", r"rhs has shape \[1x8\]; expected \[8\] as lhs"):
        row + wide
    other = b.argument("W", vector.vector((4, 4)))
    with refused("E_SHAPE_MISMATCH", r"\[4x4\]; expected \[4x8\] as lhs; dim 1 is 4, expected 8"):
        b.elementwise("subf", rows, other)
