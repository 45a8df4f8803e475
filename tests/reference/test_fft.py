"""The references of Fourier transforms against loops over single elements."""

import cmath

import numpy as np
import pytest

from tvm_iree_ext import reference

RNG = np.random.default_rng(5)


def signal(*shape):
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


def dft(row, sign):
    n = len(row)
    return [
        sum(row[j] * cmath.exp(sign * 2j * cmath.pi * j * k / n) for j in range(n))
        for k in range(n)
    ]


def test_a_stage_equals_loops_over_elements():
    x, w = signal(16), signal(4)
    got = reference.fft(x[None], 3, w)[0]
    for p in range(16):
        k, j = p // 8 * 8, p % 4
        u, t = x[k + j], w[j] * x[k + j + 4]
        assert got[p] == pytest.approx(u + t if p % 8 < 4 else u - t, rel=1e-12)


def test_all_stages_of_a_bit_reversed_row_are_its_transform():
    x = signal(2, 8)
    y = x[:, [0, 4, 2, 6, 1, 5, 3, 7]]
    for stage in (1, 2, 3):
        y = reference.fft(y, stage)
    np.testing.assert_allclose(y[1], dft(x[1], -1), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_transforms_equal_the_sum(n):
    x = signal(n)
    forward = reference.fft_transform(x, "forward", 0, n, "backward")
    np.testing.assert_allclose(forward, dft(x, -1), atol=1e-12)
    inverse = reference.fft_transform(x, "inverse", 0, n, "backward")
    np.testing.assert_allclose(inverse, np.array(dft(x, 1)) / n, atol=1e-12)
    half = reference.fft_transform(x.real, "real_to_complex", 0, n, "backward")
    np.testing.assert_allclose(half, dft(x.real, -1)[: n // 2 + 1], atol=1e-12)
    back = reference.fft_transform(half, "complex_to_real", 0, n, "backward")
    np.testing.assert_allclose(back, x.real, atol=1e-12)


def test_norms_split_the_scale():
    x = signal(6)
    for norm in ("backward", "forward", "ortho"):
        there = reference.fft_transform(x, "forward", 0, 6, norm)
        np.testing.assert_allclose(there, np.fft.fft(x, norm=norm), atol=1e-12)
        back = reference.fft_transform(there, "inverse", 0, 6, norm)
        np.testing.assert_allclose(back, x, atol=1e-12)


def test_the_axis_is_the_one_that_was_named():
    x = signal(3, 4, 5)
    got = reference.fft_transform(x, "forward", 1, 4, "backward")
    np.testing.assert_allclose(got[2, :, 3], dft(x[2, :, 3], -1), atol=1e-12)


def test_imaginary_parts_without_meaning_are_not_read():
    half = signal(4)
    changed = half + 1j * np.array([7, 0, 0, 0])
    for length in (6, 7):
        last = np.array([0, 0, 0, 9j if length == 6 else 0])
        one, two = (
            reference.fft_transform(x, "complex_to_real", 0, length, "backward")
            for x in (half, changed + last)
        )
        np.testing.assert_array_equal(one, two)
