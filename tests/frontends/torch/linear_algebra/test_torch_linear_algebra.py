"""PyTorch's linear algebra, polynomials and Bessel functions through ``from_torch``."""

import mpmath
import pytest
from torch_agreement import Several, agrees, torch

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import MlirError

linalg = torch.linalg


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


SQUARES = random(2, 3, 3)
SQUARES[0] = torch.tensor([[0, 0, 1.0], [0, 2, 5], [4, -3, 1]])  # pivots are other rows'
POSITIVE = SQUARES @ SQUARES.mT + torch.eye(3)
TALL = random(5, 2) @ random(2, 3)  # lacks a rank


def cholesky(x):
    """Of what has no factor only that."""
    factor, missing = linalg.cholesky_ex(x)
    return factor[:2], missing


def singular(x):
    """Vectors have the signs that they happen to have."""
    left, values, right = linalg.svd(x)
    made = (left[:, :3] * values) @ right
    return values, made, left.mT @ left, right @ right.mT


def symmetric(x):
    values, vectors = linalg.eigh(x)
    return values, (vectors * values.unsqueeze(-2)) @ vectors.mT


@pytest.mark.costly
@pytest.mark.parametrize(
    ("function", "arguments"),
    {
        "solve": (linalg.solve, (SQUARES, random(2, 3, 2))),
        "cholesky": (cholesky, (torch.cat((POSITIVE, torch.zeros(1, 3, 3))),)),
        "qr": (lambda x: linalg.qr(x, mode="complete"), (random(3, 2),)),
        "svd": (singular, (TALL,)),
        "lu": (linalg.lu, (SQUARES,)),
        "slogdet": (linalg.slogdet, (SQUARES,)),
        "eigh": (symmetric, (POSITIVE,)),
        "pinv": (lambda x: (linalg.pinv(x), linalg.matrix_rank(x)), (TALL,)),
        "power": (lambda x: linalg.matrix_power(x, -2), (SQUARES.double(),)),
        "exponential": (torch.matrix_exp, (4 * random(3, 3, dtype=torch.float64),)),
        "solved from the right": (
            lambda x, y: linalg.solve_triangular(x, y, upper=True, left=False),
            (POSITIVE, random(2, 3)),
        ),
        "products of reflections": (
            lambda x, y: torch.ormqr(*torch.geqrf(x), y, transpose=True),
            (random(4, 2), random(4, 3)),
        ),
    }.values(),
)
def test_factors_systems_and_spectra(function, arguments):
    agrees(function, *arguments, tolerance=1e-4)


def test_matrices_that_need_not_be_symmetric_have_no_eigenvalues_here():
    with pytest.raises(MlirError, match=r"linalg: eig of a matrix that need not be symmetric"):
        ext.from_torch(Several(linalg.eigvals), random(2, 2), strict_export=False)


def test_polynomials_of_all_degrees_and_ends():
    names = "shifted_chebyshev_polynomial_w", "legendre_polynomial_p"

    def polynomials(x, degree):
        return tuple(getattr(torch.special, name)(x, degree) for name in names)

    x = torch.tensor([-1.5, -1, -0.3, 0, 0.5, 1, 3, float("nan")], dtype=torch.float64)
    degree = torch.tensor([-1.0, 0, 1, 5, 9, 12.7], dtype=torch.float64)
    agrees(polynomials, *torch.meshgrid(x, degree, indexing="ij"), tolerance=1e-5)


def test_bessel_functions_are_right_to_an_ulp_of_float32():
    x = torch.tensor([1e-20, 0.01, 1.9, 2.0, 7.3, 17.9, 18.1, 24.9, 25.1, 80.0])

    def functions(x):
        special = torch.special
        return special.bessel_j1(-x), special.bessel_y0(x), special.modified_bessel_k0(x)

    program = ext.from_torch(Several(functions), x, strict_export=False)
    with mpmath.workdps(40):
        rows = [
            (-mpmath.besselj(1, one), mpmath.bessely(0, one), mpmath.besselk(0, one))
            for one in map(mpmath.mpf, x.tolist())
        ]
    for came, exact in zip(program(x), zip(*rows, strict=True), strict=True):
        want = torch.tensor([float(one) for one in exact], dtype=torch.float64)
        torch.testing.assert_close(came.double(), want, rtol=2**-23, atol=2**-149)
    ends = torch.tensor([0.0, -1, float("inf"), float("nan"), *[1.0] * 6])
    torch.testing.assert_close(program(ends), functions(ends), equal_nan=True)
