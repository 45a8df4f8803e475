"""Fourier transforms of JAX and of StableHLO, beside NumPy's."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.frontends import import_lowered
from tvm_iree_ext.frontends.stablehlo.stablehlo_transforms import declared_transforms

pytest.importorskip("iree.compiler")


def numbers(*shape):
    rng = np.random.default_rng(0)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def near(came, want, dtype):
    """To as many roundings as a transform of a hundred numbers may have."""
    assert came.dtype == dtype
    assert came.shape == want.shape
    error = np.abs(came - want).max(initial=0) / np.abs(want).max(initial=1e-30)
    assert error < 32 * np.finfo(dtype).eps


@pytest.mark.parametrize(
    "dtype", [pytest.param("complex64", marks=pytest.mark.costly), "complex128"]
)
def test_every_form_of_jax(dtype):
    """Of extents that are odd, prime and 1, along several axes, of halves and whole lines."""
    jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'tvm-iree-ext[jax]'")
    z, part = numbers(3, 1, 6).astype(dtype), np.finfo(dtype).dtype
    line = numbers(2, 37).real.astype(part)

    def forms(fft, z, line):
        return [
            *(fft.fft(z), fft.ifft(z, axis=0), fft.fftn(z, norm="ortho"), fft.ifft2(z)),
            *(fft.irfft(z), fft.irfft(z, n=7), fft.irfft(z, n=1), fft.irfftn(z), fft.hfft(z)),
            *(fft.rfft(line), fft.rfft2(line), fft.rfft(line, n=1), fft.ihfft(line)),
        ]

    with jax.enable_x64(dtype == "complex128"):
        program = ext.from_jax(lambda z, line: forms(jax.numpy.fft, z, line), z, line)
    wants = forms(np.fft, z.astype("complex128"), line.astype("float64"))
    for came, want in zip(program(z, line), wants, strict=True):
        near(came, want, dtype if want.dtype.kind == "c" else part)


def test_texts_of_any_batch_new_and_old():
    imported = import_lowered(
        """
        func.func @main(%z: tensor<?x3x7xcomplex<f32>>, %x: tensor<?x6xf64>)
            -> (tensor<?x3x7xcomplex<f32>>, tensor<?x3x12xf32>, tensor<?x4xcomplex<f64>>) {
          %0 = stablehlo.fft %z, type = IFFT, length = [3, 7]
            : (tensor<?x3x7xcomplex<f32>>) -> tensor<?x3x7xcomplex<f32>>
          %1 = "mhlo.fft"(%z)
            {fft_type = #mhlo<fft_type IRFFT>, fft_length = dense<12> : tensor<1xi64>}
            : (tensor<?x3x7xcomplex<f32>>) -> tensor<?x3x12xf32>
          %2 = "stablehlo.fft"(%x)
            <{fft_length = array<i64: 6>, fft_type = #stablehlo<fft_type RFFT>}>
            : (tensor<?x6xf64>) -> tensor<?x4xcomplex<f64>>
          return %0, %1, %2
            : tensor<?x3x7xcomplex<f32>>, tensor<?x3x12xf32>, tensor<?x4xcomplex<f64>>
        }
        """,
        "stablehlo",
    )
    program = ext.build_program(imported)
    for batch in (2, 5):
        z, x = numbers(batch, 3, 7).astype("complex64"), numbers(batch + 1, 6).real
        inverse, real, half = program(z, x)
        near(inverse, np.fft.ifft2(z), "complex64")
        near(real, np.fft.irfft(z, 12), "float32")
        near(half, np.fft.rfft(x), "complex128")


def test_no_points_have_no_transform():
    text = "func.func @f(%z: tensor<5x0xcomplex<f32>>) -> tensor<5x0xcomplex<f32>> {\n"
    text += "%0 = stablehlo.fft %z, type = FFT, length = [0]"
    text += " : (tensor<5x0xcomplex<f32>>) -> tensor<5x0xcomplex<f32>>\n"
    text += "return %0 : tensor<5x0xcomplex<f32>>\n}"
    with pytest.raises(MlirError, match="real axis 1 has extent 0; there is no transform of no p"):
        import_lowered(text, "stablehlo")


def test_functions_are_declared_once_inside_the_module():
    kind = "tensor<4xcomplex<f32>>"
    lines = [
        "module @m attributes {mhlo.num_replicas = 1 : i32} {",
        f"  %1 = stablehlo.fft %0, type =  FFT, length = [4] : ({kind}) -> {kind} loc(#loc4)",
        f"  %2 = stablehlo.fft %1, type =  FFT, length = [4] : ({kind}) -> {kind} loc(#loc4)",
        "}",
    ]
    assert declared_transforms("\n".join(lines)).splitlines() == [
        lines[0],
        "func.func private @tvm_iree_ext.fft_transform.forward.axis0.length4.0"
        f"({kind}) -> {kind} attributes {{nosideeffects}}",
        *(
            f"  %{n} = func.call @tvm_iree_ext.fft_transform.forward.axis0.length4.0(%{n - 1})"
            f" : ({kind}) -> {kind} loc(#loc4)"
            for n in (1, 2)
        ),
        lines[3],
    ]
