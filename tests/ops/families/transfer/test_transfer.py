"""What the transfers accept, what they refuse and in which words, and what they say."""

import numpy as np
import pytest

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.ops.vector_ext import transfer_gather, transfer_scatter

ROWS = ("(d0, d1)[s0] -> (s0, d1)", "(d0, d1)[s0] -> (d0)")


def gather(base=(6, 4), indices=((3,),), result=(3, 4), maps=ROWS, **keywords):
    return transfer_gather(base, *indices, result=result, indexing_maps=maps, **keywords)


def scatter(vector=(3, 4), base=(6, 4), indices=((3,),), maps=ROWS, **keywords):
    return transfer_scatter(vector, base, *indices, indexing_maps=maps, **keywords)


def test_operands_are_those_of_the_dialect():
    mask = (*ROWS, "(d0, d1)[s0] -> (d1)")
    op = gather(("n", 4), maps=mask, mask=(4,), offsets=("operand", 0), padding="operand")
    assert [str(o) for o in op.signature.operands] == [
        "base: float32[n, 4]",
        "offset0: int64[]",
        "index0: int64[3]",
        "mask: bool[4]",
        "padding: float32[]",
        "result: float32[3, 4]",
    ]
    assert op.signature.symbols == ("n",)


def test_a_scatter_takes_the_vector_first_and_gives_the_base():
    op = scatter(base=("?", 4), dtype="i8")
    assert [str(o) for o in op.signature.operands] == [
        "vector: int8[3, 4]",
        "base: int8[base0, 4]",
        "index0: int64[3]",
        "result: int8[base0, 4]",
    ]


def test_a_scalar_index_is_passed_by_value():
    op = gather(indices=((),), result=(4,), maps=("(d0)[s0] -> (s0, d0)", "(d0)[s0] -> ()"))
    operand = op.signature.arguments[1]
    assert (operand.role, operand.shape, operand.dtype) == ("scalar", (), "int64")


def test_maps_are_read_in_mlirs_spelling():
    op = gather(maps=("affine_map<(i, j)[s] -> (s, j)>", "(i, j)[s] -> (i)"))
    assert op.attributes["indexing_maps"] == list(ROWS)


def test_describes_itself():
    one, two = gather().describe(), gather().describe()
    assert one == two
    assert one["attributes"] == {
        "indexing_maps": list(ROWS),
        "out_of_range": "skip",
        "offsets": [0, 0],
        "padding": 0,
    }
    for other in (gather(padding=1), gather((7, 4)), gather((7, 4), offsets=(1, 0))):
        assert other.describe() != one
    assert gather(padding=float("nan")).attributes["padding"] == "nan"
    assert "padding" not in scatter().attributes


def test_bytes_count_what_is_moved():
    assert gather().bytes() == 2 * 48 + 8 * 3
    assert scatter().bytes() == 2 * 48 + 8 * 3 + 2 * 96
    assert scatter(base=("n", 4)).bytes({"n": 10}) == 2 * 48 + 8 * 3 + 2 * 160


REFUSED = {
    "number of maps": (
        lambda: gather(maps=ROWS[:1]),
        "transfer_gather: 1 indexing maps; expected one for each of base, index0",
    ),
    "no map of the mask": (
        lambda: gather(mask=(3,)),
        "2 indexing maps; expected one for each of base, index0, mask",
    ),
    "dims": (
        lambda: gather(maps=(ROWS[0], "(d0)[s0] -> (d0)")),
        "has 1 dims and 1 symbols; expected 2, the rank of result, and 1, the number of index",
    ),
    "symbols": (
        lambda: gather(maps=("(d0, d1)[] -> (d0, d1)", ROWS[1])),
        "has 2 dims and 0 symbols; expected 2",
    ),
    "another constant": (
        lambda: gather(maps=("(d0, d1)[s0] -> (1, d1)", ROWS[1])),
        "'1' is not a plain dim or symbol, nor 0",
    ),
    "arithmetic": (
        lambda: gather(maps=("(d0, d1)[s0] -> (d0 + s0, d1)", ROWS[1])),
        r"'d0 \+ s0' is not a plain dim or symbol, nor 0",
    ),
    "no map at all": (lambda: gather(maps=("rows", ROWS[1])), "expected the form"),
    "a name twice": (
        lambda: gather(maps=("(d0, d0)[s0] -> (s0, d0)", ROWS[1])),
        "a name is declared twice",
    ),
    "symbol in an index map": (
        lambda: gather(maps=(ROWS[0], "(d0, d1)[s0] -> (s0)")),
        "of index0 has the result s0; expected dims",
    ),
    "constant in a mask map": (
        lambda: gather(maps=(*ROWS, "(d0, d1)[s0] -> (0)"), mask=(1,)),
        "of mask has the result 0; expected dims",
    ),
    "index shape": (
        lambda: gather(indices=((4,),)),
        r"index0 has shape \[4\]; expected \[3\], result \[3, 4\] at the dims of",
    ),
    "index order": (
        lambda: gather(indices=((3, 4),), maps=(ROWS[0], "(d0, d1)[s0] -> (d1, d0)")),
        r"index0 has shape \[3, 4\]; expected \[4, 3\]",
    ),
    "scalar with dims": (
        lambda: gather(indices=((),)),
        r"index0 has shape \[\]; expected \[3\]",
    ),
    "mask shape": (
        lambda: gather(maps=(*ROWS, "(d0, d1)[s0] -> (d0)"), mask=(4,)),
        r"mask has shape \[4\]; expected \[3\]",
    ),
    "mask type": (
        lambda: gather(maps=(*ROWS, ROWS[1]), mask=TensorType((3,), "i8")),
        "mask has dtype int8; supported are bool",
    ),
    "index type": (
        lambda: gather(indices=(TensorType((3,), "f32"),)),
        "index0 has dtype float32; supported are int8",
    ),
    "padding type": (
        lambda: gather(dtype="i32", padding=0.5),
        "padding is 0.5; expected a number of type int32",
    ),
    "padding of another type": (
        lambda: gather(padding=np.float16(0)),
        "padding has dtype float16; expected float32",
    ),
    "offset type": (
        lambda: gather(offsets=(0.5, 0)),
        "offset 0 is 0.5; expected a number of type index, or 'operand'",
    ),
    "number of offsets": (
        lambda: gather(offsets=(0,)),
        r"offsets is \(0,\); expected 2, one for each axis of base",
    ),
    "rank of base": (
        lambda: gather((6, 4, 2)),
        r"the indexing map of base has 2 results; expected 3 for base \[6, 4, 2\]",
    ),
    "result type": (
        lambda: gather(result=TensorType((3, 4), "f16")),
        "result has dtype float16; expected float32 as base has",
    ),
    "dynamic result": (
        lambda: gather(result=("n", 4)),
        "result axis 0 has extent 'n'; a vector's extents are numbers",
    ),
    "dynamic index": (
        lambda: gather(indices=(("n",),)),
        "index0 axis 0 has extent 'n'; a vector's extents are numbers",
    ),
    "diagonal": (
        lambda: gather(indices=(), result=(4,), maps=("(d0)[] -> (d0, d0)",)),
        "a dim appears twice; a diagonal needs symbols",
    ),
    "outside": (
        lambda: gather(offsets=(0, 1)),
        "axis 1 of base is accessed from 1 to 4, and has extent 4",
    ),
    "outside by a constant": (
        lambda: gather(indices=(), maps=("(d0, d1)[] -> (0, d1)",), offsets=(6, 0)),
        "axis 0 of base is accessed from 6 to 6, and has extent 6",
    ),
    "before the base": (lambda: gather(offsets=(0, -1)), "axis 1 of base is accessed from -1"),
    "certainly repeated": (
        lambda: scatter(indices=(), maps=("(d0, d1)[] -> (0, d1)",)),
        "transfer_scatter: d0, of extent 3, is in no indexing map: .* must be unique",
    ),
    "vector type": (
        lambda: scatter(TensorType((3, 4), "f64")),
        "vector has dtype float64; expected float32 as base has",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refuses(case):
    make, message = case
    with pytest.raises(OpError, match=message):
        make()


def test_a_mask_may_leave_out_what_lies_outside():
    op = gather(maps=(*ROWS, "(d0, d1)[s0] -> (d1)"), mask=(4,), offsets=(0, 1))
    assert op.offsets == (0, 1)


def test_axes_are_checked_where_a_call_decides_what_lies_in_them():
    assert gather().checked_axes == (0,)
    assert gather(base=("n", "m")).checked_axes == (0, 1)
    assert gather(offsets=(0, "operand")).checked_axes == (0, 1)
    assert gather(out_of_range="unchecked").checked_axes == ()
    flat = ("(d0, d1)[] -> (d0, d1)", "(d0, d1)[] -> (d0)")
    masked = gather(base=(3, 4), indices=(), maps=flat, mask=(3,), offsets=(1, 0))
    assert masked.checked_axes == (0,)


def test_refuses_what_it_does_not_know_of_positions_out_of_range():
    with pytest.raises(OpError, match="out_of_range is 'error'; expected 'skip' or 'unchecked'"):
        gather(out_of_range="error")
