"""The constant matrices of the Winograd transforms, by Cook and Toom's construction.

A tile of the output and a kernel are polynomials p and q of r and m coefficients; their product is
known from its values at i - 1 points and its leading coefficient, i = r + m - 1.  G and A^T
evaluate, B^T interpolates (its transpose does, of which the transposed algorithm is a correlation):

    G[j] = (1, a_j, a_j^2, ...) / prod_{k != j} (a_j - a_k)      A^T[p][j] = a_j^p
    B^T[j] = coefficients of prod_{k != j} (x - a_k)

and for the leading coefficient G = (0, ..., 0, 1), A^T = (0, ..., 0, 1), B^T those of
prod_k (x - a_k).  The points are those of Lavin and Gray, "Fast Algorithms for Convolutional Neural
Networks" (2015), and go on likewise; with r = 6 and m = 3 the matrices are the dialect's.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

Kind = Literal["input", "filter", "output"]
Matrix = tuple[tuple[Fraction, ...], ...]

OUTPUT_TILES = (2, 4, 6)
"""The extents r of tiles of the output."""
KERNELS = (3, 5, 7)
"""The extents m of kernels."""

_POINTS = tuple(map(Fraction, ["0", "1", "-1", "2", "-2", "1/2", "-1/2", "4", "-4", "1/4", "-1/4"]))


@functools.cache
def matrices(r: int, m: int) -> dict[Kind, Matrix]:
    """B^T, G and A^T, what a tile is multiplied with from the left."""
    points = _POINTS[: r + m - 2]
    scales = [math.prod((a - b for b in points if b != a), start=Fraction(1)) for a in points]
    # The first point, 0, has a positive scale, and the leading coefficient in F(2, 3) is negative,
    # as everybody has it.
    signs = [-1 if scales[0] < 0 else 1, *[1] * (len(points) - 1)]
    last = -1 if (r, m) == (2, 3) else 1
    powers = [[a**p for p in range(max(r, m))] for a in points]
    left = [_with_roots([b for b in points if b != a]) for a in points]
    interpolates = [
        [*(sign * x for x in row), Fraction(0)] for sign, row in zip(signs, left, strict=True)
    ]
    interpolates.append([last * x for x in _with_roots(points)])
    evaluates = [
        [sign * power[k] / scale for k in range(m)]
        for sign, power, scale in zip(signs, powers, scales, strict=True)
    ]
    evaluates.append([Fraction(k == m - 1) for k in range(m)])
    gathers = [[*(power[p] for power in powers), last * Fraction(p == r - 1)] for p in range(r)]
    found: dict[Kind, list[list[Fraction]]] = {
        "input": interpolates,
        "filter": evaluates,
        "output": gathers,
    }
    return {kind: tuple(map(tuple, rows)) for kind, rows in found.items()}


def _with_roots(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of ``prod (x - root)``, the constant one first."""
    found = [Fraction(1)]
    for root in roots:
        shifted = itertools.chain([Fraction(0)], found)
        scaled = itertools.chain((root * x for x in found), [Fraction(0)])
        found = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return found
