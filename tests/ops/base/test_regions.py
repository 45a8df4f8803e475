"""Regions: what TVM need not be asked, and how they travel."""

import pickle

import numpy as np
import pytest
from tvm import tirx

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.ops.base import regions


def test_a_plain_region_has_the_text_that_tvm_prints():
    """Which is part of an op's identity, and is known before TVM is asked."""
    for dtype in (*dtypes.FLOATS, *dtypes.INTEGERS):
        for yields in (dtype, "bool"):
            for text in regions._plain_texts((dtype, dtype), yields):
                traced = regions._trace_one("op", text, (dtype, dtype), yields)
                assert (traced.text, traced.source) == (text, text), dtype
                plain = regions.trace("op", text, (dtype, dtype), yields)
                assert plain.text == text
                assert plain.known_as == traced.known_as is not None


@pytest.mark.parametrize("region", ["add", "2 * arg0 + arg1", lambda a, b: a - b])
def test_a_region_is_pickled_with_its_parameters(region):
    traced = regions.trace("op", region, ("float32", "float32"), "float32")
    again = pickle.loads(pickle.dumps(traced))
    assert (again.text, again.source) == (traced.text, traced.source)
    assert again.known_as == traced.known_as
    assert again.body.a.same_as(again.parameters[0]) or again.body.b.same_as(again.parameters[1])


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("region", "holds"),
    [
        ("arg0 != arg0", lambda a, b: a != a),
        ("arg0 == arg0", lambda a, b: a == a),
        ("arg0 != arg1", lambda a, b: a != b),
        (lambda a, b: tirx.Not(a < b), lambda a, b: ~(a < b)),
        (lambda a, b: tirx.Not(tirx.Or(a < b, a == 0)), lambda a, b: ~((a < b) | (a == 0))),
    ],
)
def test_comparisons_with_nan_and_their_opposites_hold_as_in_numpy(region, holds, dtype):
    """TVM would simplify each of them as if there were no NaN."""
    values = np.array([1, np.nan, 3, np.nan, 0, 2], numpy_dtype(dtype))
    others = np.array([2, 2, np.nan, np.nan, 1, 2], numpy_dtype(dtype))
    op = ops.arg_compare(TensorType((6, 1), dtype), region, dimension=1)
    _, index = ext.build(op)(values[:, None], others, np.full(6, -1, "int32"))
    np.testing.assert_array_equal(index == 0, holds(values, others))


def yielded(region, first, second):
    """What a kernel yields of a region of two complex numbers."""
    line = np.array([first, second], "complex64")
    return ext.build(ops.scan(line, region, dimension=0))(line, np.complex64(0))[0][1]


@pytest.mark.parametrize(
    ("region", "want"),
    [
        ("real(arg0)", 1.0),
        ("select(imag(arg0) < 0.0, abs(arg1), arg1)", 5.0),
        ("arg1 / arg0 + 1 / arg1", (3 + 4j) / (1 - 2j) + 1 / (3 + 4j)),
    ],
)
def test_what_complex_numbers_yield_is_made_complex(region, want):
    np.testing.assert_allclose(yielded(region, 1 - 2j, 3 + 4j), want, rtol=1e-6)


def test_quotients_and_absolute_values_do_not_overflow():
    for region, want in (("arg0 / arg1", 0.6 - 0.2j), ("abs(arg1)", 5e30)):
        np.testing.assert_allclose(yielded(region, 3e30 + 1e30j, 4e30 + 3e30j) / want, 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("region", "dtype", "message"),
    [
        ("exp(arg0)", "complex64", r"exp\(\) takes no complex number; it takes real"),
        ("arg0 // arg1", "complex64", "have no //, %, &, |"),
        ("real(arg0) + (real(arg0) < arg1)", "complex64", "complex number stands for a real one"),
        ("conj(arg0)", "float32", "takes a complex number"),
        ("arg0 / arg1", "int32", r"divides integers; write // .* as in 1.0 \* arg0"),
        ("exp(arg0)", "int32", "yields float32; expected int32"),
        (lambda a, b: tirx.exp(a), "int32", "exp of int32; expected a float"),
    ],
)
def test_what_numbers_have_not_is_said(region, dtype, message):
    with pytest.raises(OpError, match=message):
        ops.scan(ops.TensorType((3,), dtype), region, dimension=0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_take_integers_as_the_floats_beside_them(dtype):
    traced = regions.trace("op", "arg0 + exp(abs(arg1)) + sqrt(2)", (dtype, "int64"), dtype)
    assert f'T.exp(T.Cast("{dtype}", T.Select(' in traced.text


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
def test_false_is_less_than_true(sign):
    x = np.array([1, 1, 0, 0, 1, 0, 1], "?")
    op = ops.scan((7,), f"arg0 {sign} arg1", dtype="bool")
    found, last = ext.build(op)(x, np.array(True))
    first, *rest = x.tolist()
    want, before = [first], first
    for element in rest:
        before = {"<": before < element, "<=": before <= element,
                  ">": before > element, ">=": before >= element}[sign]  # fmt: skip
        want.append(before)
    assert found.tolist() == want
    assert bool(last) == want[-1]


def test_comparisons_of_comparisons_hold_with_nan_as_in_python():
    x = np.array([1, np.nan, 2, np.nan, 0.5], "f4")
    for sign, want in (("<=", [1, 1, 7, 7, 7]), (">=", [1, 1, 1, 1, 7])):
        op = ops.scan((5,), f"select((arg0 < arg1) {sign} (arg1 < arg0), arg0, 7)")
        found, _ = ext.build(op)(x, np.float32(0))
        assert found.tolist() == want
