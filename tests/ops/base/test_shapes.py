"""Extents without a name get names that no extent has."""

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.ops.base.shapes import agree, named, unify


def test_a_name_is_that_of_the_axis():
    assert named((2, "?", "n", "?")) == (2, "d1", "n", "d3")
    assert named(("?",), "source") == ("source0",)


def test_a_name_that_the_user_has_given_is_not_given_again():
    assert named(("d1", "?", "d1_")) == ("d1", "d1__", "d1_")
    assert named(("?",), taken=("d0",)) == ("d0_",)


SHAPE = ("d1", "?", 8, 3)
SAME = {"indexing_maps": ["(i, j) -> (i, j)"] * 2, "iterator_types": ["parallel"] * 2}


@pytest.mark.parametrize(
    "make",
    [
        lambda: ops.sort(SHAPE, dimension=0),
        lambda: ops.topk(SHAPE, dimension=2, k=3),
        lambda: ops.topk(("values_d1", "?"), dimension=1, k=3),
        lambda: ops.scan(SHAPE),
        lambda: ops.arg_compare(SHAPE),
        lambda: ops.pack(SHAPE, inner_dims_pos=[0], inner_tiles=[4], padding_value=0.0),
        lambda: ops.conv_2d(SHAPE, (3, 3, 3, 4)),
        lambda: ops.winograd_input_transform(SHAPE),
        lambda: ops.fft(("d1", "?", 8), ("d1", "?", 8), stage=1),
        lambda: ops.fft_transform(("d1", "?", 8)),
        lambda: ops.custom_op([("d1", "?")], [("d1", "?")], region=lambda a, b: a, **SAME),
        lambda: ops.map_load(("source1", "?"), (4,), lambda i: (i, i, 0.0)),
        lambda: ops.gather(("output0", "?"), ("?",)),
    ],
)
def test_a_nameless_extent_is_not_the_one_that_has_its_name(make):
    first, second, *_ = make().signature.operands[0].shape
    assert isinstance(second, str)
    assert first != second


def test_two_operands_do_not_share_names_by_chance():
    op = ops.map_store(("output0",), ("?",), lambda i: (i, True))
    assert [operand.shape for operand in op.signature.operands][:2] == [("output0",), ("output0_",)]


def test_operands_agree_on_numbers_before_names():
    types = {"a": TensorType(("?", "n"), "int8"), "b": TensorType((4, "?"), "int8")}
    assert agree("op", types) == {"a": (4, "n"), "b": (4, "n")}
    with pytest.raises(OpError, match="op: b axis 0 has extent 5; expected 4 as in a"):
        agree("op", {name: TensorType((4 + (name == "b"),), "int8") for name in "ab"})


def test_an_operand_may_bring_the_number_of_an_extent():
    assert unify("op", "x", TensorType((3, "m"), "int8"), ("n", "?"), "int8", "y's") == (3, "m")
    with pytest.raises(OpError, match=r"op: x has rank 1; expected 2 \(y's, \[n, 2\]\)|has rank 1"):
        unify("op", "x", TensorType((3,), "int8"), ("n", 2), "int8", "y's")
