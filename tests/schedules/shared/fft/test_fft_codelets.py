"""Codelets, computed with numbers in place of registers, beside NumPy."""

from fractions import Fraction

import numpy as np
import pytest

from tvm_iree_ext.schedules.cpu.fft.fft_plan import passes
from tvm_iree_ext.schedules.shared.fft.fft_codelets import (
    CodeletRegisters,
    dft,
    root,
    twiddle_roots,
    twiddled_dft,
)


@pytest.mark.parametrize("count", range(1, 33))
def test_codelets_are_transforms(count):
    if passes(count, 32) is None:
        return

    class Numbers(CodeletRegisters):
        """Registers that hold numbers."""

        def const(self, value):
            return value

        def keep(self, value):
            return value

        def negative(self, x):
            return -x

    points = [complex(x, y) for x, y in np.random.default_rng(13).standard_normal((count, 2))]
    parts_of_points = [(z.real, z.imag) for z in points]
    for phase in (Fraction(0), Fraction(1, 4), Fraction(123, 10000), Fraction(-7, 3)):
        got = dft(Numbers(1, "float64"), parts_of_points, phase)
        twiddled = np.array(points) * np.exp(-2j * np.pi * float(phase % 1) * np.arange(count))
        np.testing.assert_allclose([complex(*z) for z in got], np.fft.fft(twiddled), atol=1e-12)
    w = np.exp(-2j * np.pi * 0.0123)
    if count > 1 and count & (count - 1) == 0:
        roots = [w**p * root(q, m) for p, q, m in twiddle_roots(count)]
        parts = [[(z.real, z.imag) for z in some] for some in (points, roots)]
        got = twiddled_dft(Numbers(1, "float64"), *parts)
        twiddled = np.array(points) * w ** np.arange(count)
        np.testing.assert_allclose([complex(*z) for z in got], np.fft.fft(twiddled), atol=1e-12)


def test_roots_of_unity_are_right_to_an_ulp():
    pi = np.arctan(np.longdouble(1)) * 4
    for order in (1, 2, 3, 8, 97, 1024):
        powers = np.arange(2 * order)
        got = np.array([root(int(power), order) for power in powers])
        assert np.abs(got - np.exp(-2j * pi * powers / order)).max() < 2.2e-16
    assert root(1, 4) == -1j
    assert root(3, 6) == -1
