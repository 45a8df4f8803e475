"""Casts between integers with a sign of their own and those without, and what else is refused."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import MlirError


def cast(came, kind):
    return (
        f"func.func @f(%x: tensor<6x{came}>) -> tensor<6x{kind}> {{\n"
        f" %r = builtin.unrealized_conversion_cast %x : tensor<6x{came}> to tensor<6x{kind}>\n"
        f" return %r : tensor<6x{kind}>\n}}"
    )


def built(text):
    return ext.build_program(ext.mlir.import_program(text))


@pytest.mark.costly
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_the_bits_stay_whatever_the_sign(bits):
    low = -(1 << (bits - 1))
    signed = np.array([0, 1, -1, low, -1 - low, 5], f"int{bits}")
    unsigned = signed.view(f"uint{bits}")
    for came, kind, given, want in [
        (f"i{bits}", f"ui{bits}", signed, unsigned),
        (f"ui{bits}", f"i{bits}", unsigned, signed),
        (f"si{bits}", f"ui{bits}", signed, unsigned),
    ]:
        got = built(cast(came, kind))(given)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_four_bits_are_read_as_what_they_become():
    np.testing.assert_array_equal(
        built(cast("i4", "ui4"))(np.array([0, 1, -1, -8, 7, 5], "int8")), [0, 1, 15, 8, 7, 5]
    )
    np.testing.assert_array_equal(
        built(cast("ui4", "i4"))(np.array([0, 1, 15, 8, 7, 5], "uint8")), [0, 1, -1, -8, 7, 5]
    )


@pytest.mark.parametrize(("came", "kind"), [("f32", "i32"), ("i8", "ui16"), ("i32", "f32")])
def test_what_is_no_other_sign_is_refused(came, kind):
    with pytest.raises(MlirError, match="an integer becomes one of as many bits"):
        ext.mlir.import_program(cast(came, kind))
