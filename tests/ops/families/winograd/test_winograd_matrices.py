"""The constants of Winograd's transforms, exactly."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from tvm_iree_ext.ops.families.winograd.winograd_matrices import KERNELS, OUTPUT_TILES, matrices
from tvm_iree_ext.reference import winograd

SIZES = [*itertools.product(OUTPUT_TILES, KERNELS)]


@pytest.mark.parametrize(("r", "m"), SIZES)
def test_they_satisfy_the_identity_of_convolution(r, m):
    b, g, a = (matrices(r, m)[kind] for kind in ("input", "filter", "output"))
    assert (len(b), len(g), len(a)) == (r + m - 1, r + m - 1, r)
    for row, x, k in itertools.product(range(r), range(len(b)), range(m)):
        total = sum((a[row][p] * g[p][k] * b[p][x] for p in range(len(b))), Fraction(0))
        assert total == (1 if x == row + k else 0)


@pytest.mark.parametrize(("r", "m"), SIZES)
def test_the_reference_has_the_same(r, m):
    for kind, want in zip(("input", "filter", "output"), winograd._of_kernel(r, m), strict=True):
        ours = np.array([list(map(float, row)) for row in matrices(r, m)[kind]])
        np.testing.assert_allclose(ours, want, 1e-9, 1e-9)
