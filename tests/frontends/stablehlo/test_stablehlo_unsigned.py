"""Unsigned integers and bools in StableHLO, which IREE takes for signed."""

import numpy as np
import pytest
from optional_packages import needs

import tvm_iree_ext as ext
from tvm_iree_ext import frontends
from tvm_iree_ext.base.errors import MlirError


def test_products_of_unsigned_factors_are_refused_where_iree_takes_them_for_signed(tmp_path):
    jax = needs("jax", "jax")
    x = np.array([[200, 131], [193, 243]], "uint8")

    def product(x, dtype):
        return jax.lax.dot_general(x, x, (((1,), (1,)), ((), ())), preferred_element_type=dtype)

    def convolved(x):
        image = x.reshape(1, 1, 2, 2)
        options = {"preferred_element_type": "int32"}
        return jax.lax.conv_general_dilated(image, image, (1, 1), "VALID", **options)

    for dtype, result in (("int32", "i32"), ("float32", "f32")):
        with pytest.raises(MlirError, match=f"dot_general of ui8 to {result}: IREE takes the fac"):
            ext.from_jax(lambda x, dtype=dtype: product(x, dtype), x)
    with pytest.raises(MlirError, match="convolution of ui8 to i32"):
        ext.from_jax(convolved, x)
    text = jax.jit(lambda x: product(x, "int32")).lower(x).as_text("stablehlo")
    with pytest.raises(MlirError, match="dot_general of ui8 to i32"):
        frontends.import_lowered(text, "stablehlo")
    program = ext.from_jax(lambda x: product(x, "uint8"), x, folder=tmp_path / "p")
    np.testing.assert_array_equal(np.asarray(program(x)).view("uint8"), x @ x.T)


def test_factors_that_jax_widens_before_a_product_keep_their_sign(tmp_path):
    """IREE takes the conversion into the product, and there a bool of 1 for -1."""
    jax = needs("jax", "jax")
    factors = []
    for narrow in ("bool", "uint8", "uint16"):
        largest = 1 if narrow == "bool" else np.iinfo(narrow).max
        factors.append(np.array([[largest, 0, largest], [1, largest, 0]]).astype(narrow))
    weights = [np.array([[1], [2], [-3]]).astype(wide) for wide in ("float32", "int32")]

    def products(factors, weights):
        return [jax.numpy.dot(x.astype(w.dtype), w) for w in weights for x in factors]

    wants = [x.astype(w.dtype) @ w for w in weights for x in factors]
    got = ext.from_jax(products, factors, weights, folder=tmp_path / "p")(*factors, *weights)
    text = jax.jit(products).lower(factors, weights).as_text("stablehlo")
    program = ext.build_program(frontends.import_lowered(text, "stablehlo"), folder=tmp_path / "q")
    words = [x.view(x.dtype.name.removeprefix("u")) for x in factors]  # IREE's text has no unsigned
    for came in (got, program(*words, *weights)):
        for one, want in zip(came, wants, strict=True):
            np.testing.assert_array_equal(np.asarray(one), want)


def test_a_bool_that_is_widened_before_a_product_in_generic_form_keeps_its_sign(tmp_path):
    text = """
module {
  func.func @main(%x: tensor<2xf32>, %y: tensor<1x2xi1>) -> tensor<1xf32> {
    %0 = "stablehlo.convert"(%y) : (tensor<1x2xi1>) -> tensor<1x2xf32>
    %1 = "stablehlo.dot_general"(%x, %0) <{dot_dimension_numbers = #stablehlo.dot<
        lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [1]>}>
        : (tensor<2xf32>, tensor<1x2xf32>) -> tensor<1xf32>
    return %1 : tensor<1xf32>
  }
}
"""
    imported = frontends.import_lowered(text, "stablehlo")
    program = ext.build_program(imported, folder=tmp_path / "p")
    x, y = np.array([1.25, 1.75], "float32"), np.array([[False, True]])
    np.testing.assert_array_equal(program(x, y), [1.75])
