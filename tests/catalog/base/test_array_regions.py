"""Regions over arrays compute what their expressions say."""

import numpy as np
import pytest
from tvm import tirx

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.catalog.base.array_regions import FUNCTIONS, numpy_region
from tvm_iree_ext.ops.base.regions import TIR_FUNCTIONS, trace
from tvm_iree_ext.verify import kernel_checks

X = np.linspace(-2.0, 2.0, 9)


def evaluated(region, dtype="float64", yields="float64"):
    return numpy_region("op", trace("op", region, [dtype], yields))(X)


def test_text_has_the_same_functions_in_numpy_and_tir():
    assert FUNCTIONS.keys() == TIR_FUNCTIONS.keys()


@pytest.mark.parametrize(
    ("text", "region"),
    [
        ("abs(arg0) + 2 * arg0 - 1", lambda x: tirx.abs(x) + 2 * x - 1),
        ("tanh(arg0 / 3)", lambda x: tirx.tanh(x / 3)),
        ("erf(arg0) * sigmoid(arg0)", lambda x: tirx.erf(x) * tirx.sigmoid(x)),
        ("max(min(arg0, 1), -1)", lambda x: tirx.max(tirx.min(x, 1.0), -1.0)),
        ("exp2(arg0) + exp(arg0)", lambda x: tirx.exp2(x) + tirx.exp(x)),
        (
            "select(arg0 < 0.5, arg0, 2)",
            lambda x: tirx.Select(x < 0.5, x, tirx.const(2.0, "float64")),
        ),
        ("select(arg0 < 0.5, arg0, 2)", lambda x: tirx.if_then_else(tirx.Not(x >= 0.5), x, 2.0)),
        (
            "select((arg0 > -1) & (arg0 <= 1), 1, 0)",
            lambda x: tirx.all(x > -1, x <= 1).astype("float64"),
        ),
        (
            "select((arg0 == 0) | (arg0 > 1), 1, 0)",
            lambda x: tirx.any(x == 0, x > 1).astype("float64"),
        ),
    ],
)
def test_a_callable_computes_what_its_text_does(text, region):
    np.testing.assert_allclose(evaluated(region), evaluated(text), rtol=1e-15)


def test_a_cast_rounds():
    halves = evaluated(lambda x: (x / 3).astype("float16").astype("float64"))
    np.testing.assert_array_equal(halves, (X / 3).astype(np.float16))


def test_what_numpy_has_not_is_named():
    with pytest.raises(OpError, match="op: the reference cannot compute popcount in"):
        evaluated(lambda x: tirx.popcount(x.astype("int64")).astype("float64"))


def test_an_op_with_a_callable_can_be_verified():
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 1, 20, 8), dtype="float32")
    op = ops.attention(q, k, v, region=lambda score: 2 * tirx.tanh(score / 2))
    assert kernel_checks.check_op(op, {"query": q, "key": k, "value": v}).message == ""
