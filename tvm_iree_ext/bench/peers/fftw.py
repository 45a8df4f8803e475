"""SciPy's and FFTW's Fourier transforms as peers, of interleaved complex numbers."""

from typing import Any

import numpy as np

from tvm_iree_ext.bench.base.bench_case import Call, Library
from tvm_iree_ext.bench.peers.thread_setup import Opening


def _scipy_workers(count: int) -> Any:
    import scipy.fft

    return scipy.fft.set_workers(count)


opening = Opening()
SCIPY = Library("SciPy", "scipy", _scipy_workers)
FFTW = Library("FFTW", "pyfftw", opening.limit)


def scipy_call(signal: np.ndarray, axis: int) -> Call:
    """``scipy.fft``: ``fft`` of complex numbers, ``rfft`` of real ones."""
    import scipy.fft

    transform = scipy.fft.fft if np.iscomplexobj(signal) else scipy.fft.rfft
    return lambda: transform(signal, axis=axis)


def fftw_call(signal: np.ndarray, axis: int) -> Call:
    """A plan of FFTW's that was measured, into memory that stays."""
    return opening.call(lambda threads: _planned(signal, axis, threads))


def _planned(signal: np.ndarray, axis: int, threads: int) -> Call:
    import pyfftw

    shape = list(signal.shape)
    if not np.iscomplexobj(signal):
        shape[axis] = shape[axis] // 2 + 1
    source = pyfftw.empty_aligned(signal.shape, signal.dtype)
    result = pyfftw.empty_aligned(shape, "complex64")
    # Planning writes to both.
    plan = pyfftw.FFTW(source, result, axes=(axis,), threads=threads, flags=("FFTW_MEASURE",))
    source[:] = signal

    def call() -> np.ndarray:
        plan.execute()
        return result

    return call
