"""The cases of Fourier transforms: single butterfly stages.

``fft_stage10_64x1024`` is stage 10 on 64 rows of 1024.
"""

import numpy as np

from tvm_iree_ext import ops, registry
from tvm_iree_ext.bench.case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.comparison import first_difference
from tvm_iree_ext.ops.fft import Fft


def fft_cases() -> tuple[Case, ...]:
    """All of them."""
    return tuple(stage_case(64, 1024, stage) for stage in (1, 5, 10))


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
        compute_dtype="float32",
        peers=(Peer(NUMPY, _numpy_stage), Peer(TORCH, _torch_stage)),
    )


def _check_stage(op: Fft, values: Values) -> Check:
    entry = registry.find(op.name)
    want = entry.reference(op, values)
    limits = entry.tolerance(op, values, want)

    def check(result: tuple[np.ndarray, np.ndarray]) -> str | None:
        for name, got in zip(want, result, strict=True):
            if wrong := first_difference(name, np.asarray(got), want[name], limits[name]):
                return wrong
        return None

    return check


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
