"""What to_layout, to_simt and to_simd accept, refuse and say."""

import pytest

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.layout import Movement, NestedLayout
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.ops.vector_ext import to_layout, to_simd, to_simt

ROWS = NestedLayout((1, 1), (1, 1), (1, 1), (4, 1), (1, 4), (0, 0), (1, 0))
COLUMNS = NestedLayout((1, 1), (1, 1), (1, 1), (1, 4), (4, 1), (0, 0), (0, 1))
ACROSS = NestedLayout((4, 1), (1, 1), (1, 1), (1, 4), (1, 1), (1, 0), (0, 1))
PAIRS = NestedLayout((4,), (2,), (1,), (2,), (2,), (1,), (1,))
HARDWARE = {"num_subgroups": 4, "subgroup_size": 2}


def test_a_layout_is_an_object_its_text_or_its_lists():
    texts = {
        to_layout((4, 4), given).attributes["layout"]
        for given in (ROWS, str(ROWS), {name: getattr(ROWS, name) for name in vars(ROWS)})
    }
    assert texts == {str(ROWS)}


def test_to_layout_carries_its_attributes():
    op = to_layout((4, 4), ROWS, shared_memory_conversion=True, mma_kind="MFMA_F32_16x16x16_F16")
    assert op.attributes == {
        "layout": str(ROWS),
        "shared_memory_conversion": True,
        "mma_kind": "MFMA_F32_16x16x16_F16",
    }
    assert str(op) == "iree_vector_ext.to_layout(input: float32[4, 4]) -> (result: float32[4, 4])"


def test_a_tensor_may_be_smaller_or_larger_or_dynamic():
    for shape in ((3, 2), (9, 9), ("n", "?")):
        assert to_layout(shape, ROWS).signature.arguments[0].shape[0] == shape[0]
    assert to_layout(("n", 4), ROWS, operand_kind="buffer").type.shape == ("n", 4)


def test_says_what_a_change_of_layouts_takes():
    op = to_layout((4, 4), COLUMNS)
    assert op.conversion_from(ROWS, 1, 4).movement is Movement.SHUFFLE
    assert op.conversion_from(str(COLUMNS), 1, 4).movement is Movement.FREE
    assert not op.goes_through_shared_memory(ROWS, 1, 4)
    forced = to_layout((4, 4), COLUMNS, shared_memory_conversion=True)
    assert forced.goes_through_shared_memory(ROWS, 1, 4)
    assert op.goes_through_shared_memory(ACROSS, 4, 4)


def test_parts_have_one_of_two_forms():
    assert to_simt((32,), PAIRS, **HARDWARE).parts_shape == (4, 2, 4)
    assert to_simt((32,), PAIRS, **HARDWARE, packed=True).parts_shape == (4, 2, 2, 1, 2)
    assert not to_simd((4, 2, 4), PAIRS, **HARDWARE).packed
    assert to_simd((4, 2, 2, 1, 2), PAIRS, **HARDWARE).packed


def test_fewer_subgroups_hold_several_parts():
    op = to_simt((32,), PAIRS, num_subgroups=2, subgroup_size=2)
    assert (op.parts, op.parts_shape) == (2, (2, 2, 2, 4))


def test_a_whole_of_rank_0_is_on_every_lane():
    scalar = NestedLayout((), (), (), (), (), (), ())
    assert to_simt((), scalar, num_subgroups=2, subgroup_size=3).parts_shape == (2, 3)
    assert to_simd((2, 3), scalar, num_subgroups=2, subgroup_size=3).extents == ()


REFUSED = {
    "rank": (
        lambda: to_layout((4,), ROWS),
        r"to_layout: the operand has rank 1; the layout has rank 2",
    ),
    "extent of a vector": (
        lambda: to_layout((4, 3), ROWS, operand_kind="vector"),
        "dimension 1 of the operand has extent 3; the layout expects 4",
    ),
    "extent of a buffer": (
        lambda: to_layout((8, 4), ROWS, operand_kind="buffer"),
        "dimension 0 of the operand has extent 8; the layout expects 4",
    ),
    "dynamic vector": (
        lambda: to_layout(("n", 4), ROWS, operand_kind="vector"),
        "input axis 0 has extent 'n'; a vector's extents are numbers",
    ),
    "kind": (
        lambda: to_layout((4, 4), ROWS, operand_kind="scalar"),
        "operand_kind is 'scalar'; expected one of tensor, vector, buffer",
    ),
    "shared_memory_conversion": (
        lambda: to_layout((4, 4), ROWS, shared_memory_conversion=1),
        "shared_memory_conversion is 1; expected True or False",
    ),
    "mma_kind": (
        lambda: to_layout((4, 4), ROWS, mma_kind=object()),
        "mma_kind is .*; expected a text, or plain JSON values",
    ),
    "no layout": (
        lambda: to_layout((4, 4), 3),
        "layout is 3; expected a NestedLayout, its text or its lists",
    ),
    "text of a layout": (
        lambda: to_layout((4, 4), "#iree_vector_ext.nested<>"),
        "to_layout: layout: nested_layout: line 1",
    ),
    "lists of a layout": (
        lambda: to_simt((4, 4), {"batch_tile": [1]}, num_subgroups=1, subgroup_size=4),
        "to_simt: layout: .*missing",
    ),
    "ranks of a layout": (
        lambda: to_layout((4,), {**vars(PAIRS), "batch_tile": (1, 1)}),
        "all fields must have the same rank as the layout",
    ),
    "element types": (
        lambda: to_simt((32,), PAIRS, **HARDWARE, result=TensorType((4, 2, 4), "f16")),
        "to_simt: result has dtype float16; expected float32 as input has",
    ),
    "element types back": (
        lambda: to_simd((4, 2, 4), PAIRS, **HARDWARE, result=TensorType((32,), "f16")),
        "to_simd: result has dtype float16; expected float32 as input has",
    ),
    "neither form": (
        lambda: to_simd((4, 2, 8), PAIRS, **HARDWARE),
        r"input has shape \[4, 2, 8\]; expected \[4, 2, 4\], or packed \[4, 2, 2, 1, 2\]",
    ),
    "result of to_simt": (
        lambda: to_simt((32,), PAIRS, **HARDWARE, result=(4, 2, 8)),
        r"result has shape \[4, 2, 8\]; expected \[4, 2, 4\]",
    ),
    "larger than the layout": (
        lambda: to_simt((33,), PAIRS, **HARDWARE),
        "dimension 0 of input has extent 33; the layout holds 32",
    ),
    "rank of a whole": (
        lambda: to_simt((4, 8), PAIRS, **HARDWARE),
        r"input \[4, 8\] has rank 2; the layout has rank 1",
    ),
    "dynamic whole": (
        lambda: to_simt(("n",), PAIRS, **HARDWARE),
        "input axis 0 has extent 'n'; a vector's extents are numbers",
    ),
    "subgroups": (
        lambda: to_simt((32,), PAIRS, num_subgroups=3, subgroup_size=2),
        "to_simt: nested_layout: num_subgroups is 3; .* takes a multiple of 4 or a divisor of 4",
    ),
    "lanes": (
        lambda: to_simt((32,), PAIRS, num_subgroups=4, subgroup_size=3),
        "subgroup_size is 3; .* takes a multiple of 2",
    ),
    "no number": (
        lambda: to_simt((32,), PAIRS, num_subgroups="4", subgroup_size=2),
        "num_subgroups is '4'; expected a number",
    ),
    "overlapping strides": (
        lambda: to_simt(
            (4, 4),
            NestedLayout((1, 1), (1, 1), (1, 1), (4, 4), (1, 1), (0, 0), (2, 1)),
            num_subgroups=1,
            subgroup_size=8,
        ),
        "to_simt: nested_layout: overlapping strides",
    ),
    "padding": (
        lambda: to_simt((32,), PAIRS, **HARDWARE, dtype="i8", padding=300),
        "padding is 300; expected a number of type int8",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refuses(case):
    make, message = case
    with pytest.raises(OpError, match=message):
        make()
