"""The cases of Fourier transforms: whole ones, and single butterfly stages.

``fft_64x1024`` is the forward transform of 64 rows of 1024 complex float32, ``rfft`` the one of
real rows, ``_axis0`` along columns; ``fft_stage10_64x1024`` is stage 10 on such rows.  The
peers take and return interleaved complex numbers, as their transforms do, and are not charged
for taking them apart.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext import ops, registry
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.bench.base.checks import normal_operands, within_tolerance
from tvm_iree_ext.bench.peers.fftw import FFTW, SCIPY, fftw_call, scipy_call
from tvm_iree_ext.bench.peers.jax_peer import JAX, jax_call
from tvm_iree_ext.ops.families.fft.fft import Fft
from tvm_iree_ext.ops.families.fft.fft_transform import FftTransform, Kind


def fft_cases() -> tuple[Case, ...]:
    """All of them: powers of two, other lengths, real rows, columns, stages."""
    rows = ((64, 1024), (1024, 256), (16, 65536), (64, 1000), (64, 1021), (4096, 64))
    whole = [transform_case(shape, "forward", -1) for shape in rows]
    whole.append(transform_case((64, 1024), "real_to_complex", -1))
    whole.append(transform_case((1024, 256), "forward", 0))
    return (*whole, *(stage_case(64, 1024, stage) for stage in (1, 5, 10)))


def transform_case(shape: tuple[int, int], kind: Kind, axis: int) -> Case:
    """One whole transform."""
    op = ops.fft_transform(shape, kind=kind, axis=axis)
    name = "rfft" if kind == "real_to_complex" else "fft"

    return Case(
        name=f"{name}_{shape[0]}x{shape[1]}" + ("_axis0" if axis == 0 else ""),
        op=op,
        operands=normal_operands({operand.name: shape for operand in op.signature.arguments}),
        check=lambda values: _check_transform(op, values),
        peers=(
            Peer(NUMPY, lambda values: _numpy_transform(op, values)),
            Peer(TORCH, lambda values: _torch_transform(op, values)),
            Peer(SCIPY, lambda values: scipy_call(_interleaved(values), axis)),
            Peer(FFTW, lambda values: fftw_call(_interleaved(values), axis)),
            Peer(JAX, lambda values: _jax_transform(op, values)),
        ),
    )


def _check_transform(op: FftTransform, values: Values) -> Check:
    """Against NumPy's in float64, to which the reference's matrix product would be slow."""
    wide = {name: value.astype(np.float64) for name, value in values.items()}
    signal = wide["real"] + 1j * wide.get("imag", 0.0)
    transform = np.fft.fft if op.kind == "forward" else np.fft.rfft
    expected = transform(signal if op.kind == "forward" else signal.real, axis=op.axis)
    want = {"result_real": expected.real, "result_imag": expected.imag}
    check = within_tolerance(op, values, want)
    return lambda result: check(result if isinstance(result, tuple) else (result.real, result.imag))


def _interleaved(values: Values) -> np.ndarray:
    if "imag" not in values:
        return values["real"]
    return (values["real"] + 1j * values["imag"]).astype(np.complex64)


def _numpy_transform(op: FftTransform, values: Values) -> Call:
    """``numpy.fft``."""
    signal = _interleaved(values)
    transform = np.fft.fft if op.kind == "forward" else np.fft.rfft
    return lambda: transform(signal, axis=op.axis)


def _torch_transform(op: FftTransform, values: Values) -> Call:
    """``torch.fft``."""
    import torch

    signal = torch.from_numpy(_interleaved(values))
    transform: Callable[..., Any] = torch.fft.fft if op.kind == "forward" else torch.fft.rfft

    def call() -> Any:
        with torch.inference_mode():
            return transform(signal, dim=op.axis).resolve_conj().numpy()

    return call


def _jax_transform(op: FftTransform, values: Values) -> Call:
    """``jax.numpy.fft``."""

    def transform(signal: Any) -> Any:
        import jax.numpy as jnp

        return (jnp.fft.fft if op.kind == "forward" else jnp.fft.rfft)(signal, axis=op.axis)

    return jax_call(transform, {"signal": _interleaved(values)})


def stage_case(rows: int, length: int, stage: int) -> Case:
    """One butterfly stage, with coefficients."""
    half = 2 ** (stage - 1)
    op = ops.fft((rows, length), (rows, length), (half,), (half,), stage=stage)

    def operands() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        w = np.exp(-1j * np.pi * np.arange(half) / half)
        signal = (rng.standard_normal((rows, length), np.float32) for _ in "ri")
        real, imag = signal
        parts = {"real_coeff": w.real, "imag_coeff": w.imag, "real_init": real, "imag_init": imag}
        return {name: np.ascontiguousarray(a, np.float32) for name, a in parts.items()}

    return Case(
        name=f"fft_stage{stage}_{rows}x{length}",
        op=op,
        operands=operands,
        check=lambda values: _check_stage(op, values),
        peers=(Peer(NUMPY, _numpy_stage), Peer(TORCH, _torch_stage)),
    )


def _check_stage(op: Fft, values: Values) -> Check:
    return within_tolerance(op, values, registry.find(op.name).reference(op, values))


def _numpy_stage(values: Values) -> Call:
    """The formula on views of blocks; results in memory that stays."""
    real, imag = (values[f"{part}_init"] for part in ("real", "imag"))
    w_real, w_imag = values["real_coeff"], values["imag_coeff"]
    blocks = (*real.shape[:-1], -1, 2, len(w_real))
    results = np.empty_like(real), np.empty_like(imag)
    (u_real, a_real), (u_imag, a_imag), (low_real, high_real), (low_imag, high_imag) = (
        (x.reshape(blocks)[..., 0, :], x.reshape(blocks)[..., 1, :]) for x in (real, imag, *results)
    )

    def call() -> tuple[np.ndarray, np.ndarray]:
        t_real = w_real * a_real - w_imag * a_imag
        t_imag = w_real * a_imag + w_imag * a_real
        np.add(u_real, t_real, out=low_real)
        np.subtract(u_real, t_real, out=high_real)
        np.add(u_imag, t_imag, out=low_imag)
        np.subtract(u_imag, t_imag, out=high_imag)
        return results

    return call


def _torch_stage(values: Values) -> Call:
    """The same in PyTorch."""
    import torch

    tensors = {name: torch.from_numpy(value) for name, value in values.items()}
    real, imag = tensors["real_init"], tensors["imag_init"]
    w_real, w_imag = tensors["real_coeff"], tensors["imag_coeff"]
    blocks = (*real.shape[:-1], -1, 2, len(w_real))
    results = torch.empty_like(real), torch.empty_like(imag)
    (u_real, a_real), (u_imag, a_imag), (low_real, high_real), (low_imag, high_imag) = (
        x.view(blocks).unbind(-2) for x in (real, imag, *results)
    )

    def call() -> tuple[np.ndarray, np.ndarray]:
        with torch.inference_mode():
            t_real = w_real * a_real - w_imag * a_imag
            t_imag = w_real * a_imag + w_imag * a_real
            torch.add(u_real, t_real, out=low_real)
            torch.sub(u_real, t_real, out=high_real)
            torch.add(u_imag, t_imag, out=low_imag)
            torch.sub(u_imag, t_imag, out=high_imag)
        return results[0].numpy(), results[1].numpy()

    return call
