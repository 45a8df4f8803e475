"""Paddings are numbers of the element type."""

import math

import numpy as np
import pytest
from tvm import tirx

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops.base.padding import check_padding, padding_expr, padding_json, padding_number


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(0, "float16"), (-0.5, "bfloat16"), (255, "uint8"), (True, "bool"), ("operand", "int8")],
)
def test_takes_what_the_type_holds(value, dtype):
    assert check_padding("op", "padding", value, dtype) == value
    if value != "operand":
        array = np.array(value, numpy_dtype(dtype))
        assert check_padding("op", "padding", array, dtype) == value


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (256, "uint8", "op: padding is 256; expected a number of type uint8"),
        (0.5, "int32", "op: padding is 0.5; expected a number of type int32"),
        (True, "float32", "op: padding is True; expected a number of type float32"),
        (0, "bool", "op: padding is 0; expected a number of type bool"),
        (np.float64(1), "float32", "op: padding has dtype float64; expected float32"),
        (np.array(1.0), "float32", "op: padding has dtype float64; expected float32"),
        (np.ones(1, "f4"), "float32", "expected a number of type float32"),
    ],
)
def test_refuses_what_it_does_not_hold(value, dtype, message):
    with pytest.raises(OpError, match=message):
        check_padding("op", "padding", value, dtype)


def test_json_has_numbers_that_are_finite():
    assert [padding_json(x) for x in (1.5, math.inf, -math.inf, None)] == [1.5, "inf", "-inf", None]


def test_the_upper_half_of_uint64_is_reinterpreted():
    assert int(padding_number(2**63 - 1, "uint64").value) == 2**63 - 1
    assert str(padding_number(2**63, "uint64").op.name).endswith("reinterpret")


def test_a_number_that_is_passed_comes_in_the_element_type():
    passed = tirx.Var("padding", "float64")
    half = padding_expr("operand", passed, "float16")
    assert (str(half.ty.dtype), str(half.value.ty.dtype)) == ("float16", "float32")
    assert padding_expr("operand", passed, "float64").same_as(passed)
    assert float(padding_expr(2, passed, "float32").value) == 2
