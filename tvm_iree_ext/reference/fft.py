"""NumPy references of a butterfly stage and the whole discrete Fourier transforms."""

import cmath
from typing import Literal

import numpy as np

Kind = Literal["forward", "inverse", "real_to_complex", "complex_to_real"]


def fft(rows: np.ndarray, stage: int, coefficients: np.ndarray | None = None) -> np.ndarray:
    """Stage ``stage`` on complex ``rows[..., n]``; ``coefficients[2^(stage-1)]`` are complex."""
    n, m = rows.shape[-1], 2**stage
    h = m // 2
    if coefficients is None:
        coefficients = np.array([cmath.exp(-2j * cmath.pi * j / m) for j in range(h)])
    result = rows.astype(np.complex128)
    for k in range(0, n, m):
        for j in range(h):
            t = coefficients[j] * result[..., k + j + h]
            u = result[..., k + j].copy()
            result[..., k + j] = u + t
            result[..., k + j + h] = u - t
    return result


def fft_transform(data: np.ndarray, kind: Kind, axis: int, length: int, norm: str) -> np.ndarray:
    """The transform of ``data`` along ``axis``; ``length`` is that of the transform.

    The sum over j of data[j] * exp(-2 pi i j k / n), as a product with the matrix of these
    numbers, a panel of its rows at a time; its inverse has the other sign and, by ``norm``
    "backward", 1 / n.
    """
    rows = np.moveaxis(data, axis, -1).astype(np.complex128)
    if kind == "complex_to_real":
        # The other half of a real signal's spectrum is the conjugate of this one; so an imaginary
        # part of the first (and, for an even length, the last) has no meaning, and is not read.
        half = rows[..., : length // 2 + 1]
        half = np.concatenate([half[..., :1].real, half[..., 1:]], -1)
        if length % 2 == 0 and length > 1:
            half = np.concatenate([half[..., :-1], half[..., -1:].real], -1)
        mirrored = half[..., 1 : (length + 1) // 2][..., ::-1].conj()
        rows = np.concatenate([half, mirrored], -1)
    inverse = kind in ("inverse", "complex_to_real")
    count = length // 2 + 1 if kind == "real_to_complex" else length
    scale = {"backward": length if inverse else 1, "ortho": length**0.5}
    scale["forward"] = 1 if inverse else length
    result = np.empty((*rows.shape[:-1], count), np.complex128)
    j = np.arange(length)
    for first in range(0, count, 256):
        k = np.arange(first, min(first + 256, count))
        turns = (j[:, None] * k[None, :]) % length / length
        matrix = np.exp((2j if inverse else -2j) * np.pi * turns)
        result[..., k] = rows @ matrix / scale[norm]
    result = np.moveaxis(result, -1, axis)
    return result.real if kind == "complex_to_real" else result
