"""Complex arithmetic of JAX at the ends of the range, beside NumPy."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.frontends.stablehlo.stablehlo_complex import complex_operations

jax = pytest.importorskip("jax")
pytest.importorskip("iree.compiler")


def numbers(shape):
    rng = np.random.default_rng(1)
    sizes = np.exp2(rng.uniform(-140, 127, shape)) * np.exp(1j * rng.uniform(-3, 3, shape))
    return sizes.astype(np.complex64)


def assert_close(got, want):
    """To 4 ULP of the norm; what a quotient loses below the least normal number is not counted."""
    info = np.finfo(np.float32)
    bound = 4 * float(info.eps) * np.maximum(np.abs(want), float(info.tiny))
    assert (np.abs(got.astype(want.dtype) - want) <= bound).all()


@pytest.mark.parametrize("shape", [(64,), (3, 5)])
def test_quotients_and_absolute_values_neither_overflow_nor_vanish(shape):
    z = numbers(shape)
    size, inverse = ext.from_jax(lambda a: (abs(a), 1 / a), z)(z)
    assert_close(np.asarray(size), np.abs(z.astype(np.complex128)))
    want = 1 / z.astype(np.complex128)
    fits = np.abs(want) < np.finfo(np.float32).max / 2
    assert_close(np.asarray(inverse)[fits], want[fits])


def test_an_exponential_is_finite_where_its_parts_are():
    z = np.array([89 + 1.5707j, -3 + 2j, 0j, 3 + 0j], np.complex64)
    got = np.asarray(ext.from_jax(jax.numpy.exp, z)(z))
    assert_close(got[1:], np.exp(z.astype(np.complex128))[1:])
    want = np.exp(np.complex128(z[0])).real
    assert abs(float(got[0].real) - want) <= 4e-7 * abs(want)


def test_an_angle_of_complex_numbers_is_that_of_xla():
    rng = np.random.default_rng(2)
    y, x = (rng.uniform(-2, 2, (2, 5)) + 1j * rng.uniform(-2, 2, (2, 5)) for _ in range(2))
    y, x = y.astype("complex64"), x.astype("complex64")
    want = jax.jit(jax.lax.atan2)(y, x)
    np.testing.assert_allclose(ext.from_jax(jax.lax.atan2, y, x)(y, x), want, 2e-5, 2e-6)


def test_extents_of_a_call_are_those_of_the_first_operand():
    text = "%0 = stablehlo.divide %a, %b : tensor<?x4xcomplex<f64>>"
    taken = complex_operations(text)
    assert "tensor.dim %a, %axis0_0" in taken
    assert "tensor.empty(%size0_0)" in taken


def test_numbers_without_axes_stay_as_they_are():
    text = "%0 = stablehlo.divide %a, %b : tensor<complex<f32>>"
    assert complex_operations(text) == text
