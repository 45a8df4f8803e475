"""The CPU kernels of a butterfly stage: any stage and length, in one pass over memory."""

import dataclasses

import numpy as np
import pytest
from agreement import check

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import CallError, ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.schedules.cpu.fft.fft_rule import CpuFft
from tvm_iree_ext.targets.names import make_target

RULE = CpuFft()
RNG = np.random.default_rng(11)


def arrays(*shape, dtype="float32", count=2):
    return [RNG.standard_normal(shape).astype(dtype) for _ in range(count)]


# Blocks around the vector of 16, and rows that make the last vector of butterflies half full.
@pytest.mark.costly
@pytest.mark.parametrize("length", [2, 4, 16, 32, 64])
def test_every_stage(length):
    for stage in range(1, length.bit_length()):
        real, imag = arrays(3, length)
        check(ops.fft(real, imag, stage=stage), real, imag)
        w = arrays(2 ** (stage - 1))
        check(ops.fft(real, imag, *w, stage=stage), *w, real, imag)


def test_one_kernel_serves_every_stage_batch_and_length():
    op = ops.fft(("b", "n"), ("b", "n"), ("h",), ("h",), stage="operand")
    kernel = build(op)
    for batch, length in ((1, 2), (3, 8), (5, 32), (2, 4096)):
        for stage in range(1, length.bit_length()):
            w, signal = arrays(2 ** (stage - 1)), arrays(batch, length)
            check(op, stage, *w, *signal, kernel=kernel)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_dtypes(dtype):
    from tvm_iree_ext.base import dtypes

    for stage in (1, 3, 6):
        real, imag = arrays(2, 64, dtype=dtypes.numpy_dtype(dtype))
        got = check(
            ops.fft(ops.TensorType((2, 64), dtype), (2, 64), stage=stage, dtype=dtype), real, imag
        )
        assert got[0].dtype == real.dtype


def test_computed_factors_are_exact_at_quarters_and_right_to_an_ulp():
    for dtype in ("float32", "float64"):
        half = 4096
        real = np.zeros(2 * half, dtype)
        real[half:] = 1.0
        imag = np.zeros_like(real)
        got = build(ops.fft(real, imag, stage=13))(real, imag)
        w = got[0][:half] + 1j * got[1][:half]
        pi = np.arctan(np.longdouble(1)) * 4
        want = np.exp(-1j * pi * np.arange(half) / half)
        assert np.abs(w - want).max() <= 1.2 * np.finfo(dtype).eps
        assert w[0] == 1.0
        assert w[half // 2] == -1j


def test_not_a_number_stays_in_its_butterfly():
    real, imag = arrays(2, 64)
    real[1, 5] = np.nan
    imag[0, 40] = np.inf
    for stage in (2, 6):
        got = build(ops.fft(real, imag, stage=stage))(real, imag)
        half = 2 ** (stage - 1)
        for row, place in ((1, 5), (0, 40)):
            finite = np.isfinite(got[0][row]) & np.isfinite(got[1][row])
            assert set(np.flatnonzero(~finite)) == {place, place ^ half}


def test_tasks_share_a_long_row():
    real, imag = arrays(1, 2**17)
    for stage in (1, 17):
        check(ops.fft(real, imag, stage=stage), real, imag)


@pytest.mark.costly
@pytest.mark.parametrize("target", ["llvm:haswell", "llvm:nehalem"])
def test_narrower_vectors_compute_the_same(target):
    for stage in (1, 2, 3, 5):
        real, imag = arrays(3, 32)
        op = ops.fft(real, imag, stage=stage)
        config = RULE.heuristic(op, make_target(target))
        assert config.vector_lanes in (4, 8)
        check(op, real, imag, kernel=build(op, config=config))


@pytest.mark.parametrize(
    ("stage", "half", "length", "message"),
    [
        (0, 1, 8, "stage is not from 1 to log2"),
        (-5, 1, 8, "stage is not from 1 to log2"),
        (63, 1, 8, "stage is not from 1 to log2"),
        (4, 8, 8, "stage is larger than log2"),
        (3, 2, 8, "the extent of real_coeff and imag_coeff is not 2"),
        (1, 1, 6, "the innermost extent is not a power of two"),
    ],
)
def test_what_does_not_fit_when_called_is_an_error_and_writes_nothing(stage, half, length, message):
    op = ops.fft(("b", "n"), ("b", "n"), ("h",), ("h",), stage="operand")
    w, signal = arrays(half), arrays(1, length)
    out = arrays(1, length)
    before = [one.copy() for one in out]
    with pytest.raises(CallError, match=f"iree_linalg_ext.fft: {message}"):
        build(op)(stage, *w, *signal, out=tuple(out))
    np.testing.assert_array_equal(out, before)


def test_a_constant_stage_is_checked_against_a_length_given_when_called():
    op = ops.fft(("b", "n"), ("b", "n"), stage=4)
    with pytest.raises(CallError, match="stage 4 is larger than the innermost extent"):
        build(op)(*arrays(2, 8))


def test_refuses_lanes_that_make_no_vector():
    op = ops.fft((4, 16), (4, 16), stage=2)
    config = dataclasses.replace(RULE.heuristic(op, make_target("llvm")), vector_lanes=12)
    with pytest.raises(ScheduleError, match="vector_lanes is 12; expected a power of two from 2"):
        build(op, config=config)
