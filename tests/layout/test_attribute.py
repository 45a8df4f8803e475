import re

import pytest

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout import NestedLayout, parse_layout

DOCUMENTED = NestedLayout((2, 1), (2, 4), (1, 1), (16, 4), (1, 4), (1, 0), (1, 16))
PRINTED = (
    "#iree_vector_ext.nested_layout<subgroup_tile = [2, 1], batch_tile = [2, 4],"
    " outer_tile = [1, 1], thread_tile = [16, 4], element_tile = [1, 4],"
    " subgroup_strides = [1, 0], thread_strides = [1, 16]>"
)
REST = (
    "batch_tile = [1], outer_tile = [1], thread_tile = [4], element_tile = [1],"
    " subgroup_strides = [0], thread_strides = [1]>"
)
ROW = NestedLayout((1,), (1,), (1,), (4,), (1,), (0,), (1,))


def test_prints_as_iree_does():
    assert str(DOCUMENTED) == PRINTED
    assert parse_layout(PRINTED) == DOCUMENTED


def test_prints_normalised_strides():
    assert str(parse_layout(PRINTED.replace("strides = [1, 0]", "strides = [1, 7]"))) == PRINTED


def test_rank_zero_prints_empty_lists():
    text = str(NestedLayout((), (), (), (), (), (), ()))
    assert text.startswith("#iree_vector_ext.nested_layout<subgroup_tile = [], batch_tile = [],")
    assert parse_layout(text).rank == 0


@pytest.mark.parametrize(
    "text",
    [
        f"  #iree_vector_ext.nested_layout<subgroup_tile=[1],{REST}\n",
        f"#iree_vector_ext.nested_layout<\nsubgroup_tile // to the end\n = [\t1 ],{REST} // done",
        f"#iree_vector_ext.nested_layout<subgroup_tile = [0x1], {REST}",
        f"#iree_vector_ext<nested_layout <subgroup_tile = [01], {REST} >",
    ],
)
def test_reads_whatever_iree_reads(text):
    assert parse_layout(text) == ROW


def test_a_malformed_layout_can_be_read_and_printed():
    text = f"#iree_vector_ext.nested_layout<subgroup_tile = [- 1], {REST}"
    assert parse_layout(text).subgroup_tile == (-1,)
    assert "subgroup_tile = [-1]" in str(parse_layout(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: expected '#iree_vector_ext.nested_layout<', found the end"),
        ("# iree_vector_ext.nested_layout<", "line 1, column 1: expected '#iree_vector_ext"),
        (PRINTED.replace("layout<", "layout <"), "column 1: expected '#iree_vector_ext"),
        (
            f"#iree_vector_ext.nested_layout<{REST}",
            "column 32: expected 'subgroup_tile', found 'batch_tile'",
        ),
        (
            f"#iree_vector_ext.nested_layout<subgroup_tile = [1]\n {REST}",
            "line 2, column 2: expected ',', found 'batch_tile'",
        ),
        (PRINTED.replace("[2, 1]", "[2 1]"), "column 51: expected ',' or ']', found '1'"),
        (PRINTED.replace("[2, 1]", "[2, 1,]"), "column 54: expected an integer, found ']'"),
        (PRINTED.replace("[2, 1]", "[2.0, 1]"), "expected ',' or ']', found '.0'"),
        (PRINTED.replace("[2, 1]", "[true, 1]"), "expected an integer, found 'true'"),
        (PRINTED.replace("[2, 1]", "[+2, 1]"), "expected an integer, found '+'"),
        (PRINTED.replace("[2, 1]", "2"), "column 48: expected '[', found '2'"),
        (
            PRINTED.replace("[2, 1]", "[9223372036854775808, 1]"),
            "expected an integer of 64 bits, found '9223372036854775808'",
        ),
        (PRINTED[:-1], "expected '>', found the end of the text"),
        (PRINTED[:-1] + ",>", "expected '>', found ','"),
        (PRINTED + " : i32", "expected the end of the attribute, found ':'"),
    ],
)
def test_says_where_the_text_is_wrong(text, message):
    with pytest.raises(LayoutError, match=re.escape(message)):
        parse_layout(text)


def test_lists_of_different_length_are_refused_as_by_the_constructor():
    with pytest.raises(LayoutError, match="must have the same rank as the layout"):
        parse_layout(PRINTED.replace("batch_tile = [2, 4]", "batch_tile = [2]"))
