"""Real signals of even length n as complex ones of length m = n / 2.

With z[j] = x[2j] + i x[2j + 1] and its transform Z, and w = exp(-2 pi i / n), for k = 0 .. m:

    X[k] = (Z[k] + conj(Z[m - k])) / 2 - i w^k (Z[k] - conj(Z[m - k])) / 2          (Z[m] is Z[0])
    Z[k] = (X[k] + conj(X[m - k])) + i conj(w^k) (X[k] - conj(X[m - k]))            (times 2)

The second, from the spectrum of a real signal, has the factor 2 that makes the inverse transform
of length m equal to the one of length n.
"""

from tvm_iree_ext.schedules.shared.fft.fft_codelets import CodeletRegisters, Point


def spectrum_of_real(registers: CodeletRegisters, z: Point, mirrored: Point, w: Point) -> Point:
    """X[k] from Z[k], Z[m - k] and w^k."""
    half = registers.const(0.5)
    even = registers.point(((z[0] + mirrored[0]) * half, (z[1] - mirrored[1]) * half))
    odd = registers.point(((z[1] + mirrored[1]) * half, (mirrored[0] - z[0]) * half))
    return registers.add(even, registers.multiply(odd, w))


def packed_spectrum(registers: CodeletRegisters, x: Point, mirrored: Point, w: Point) -> Point:
    """Z[k] from X[k], X[m - k] and w^k."""
    even = registers.point((x[0] + mirrored[0], x[1] - mirrored[1]))
    odd = registers.point((x[0] - mirrored[0], x[1] + mirrored[1]))
    conjugate = (w[0], registers.keep(registers.const(0.0) - w[1]))
    odd = registers.multiply(odd, conjugate)
    return registers.point((even[0] - odd[1], even[1] + odd[0]))
