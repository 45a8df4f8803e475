"""PyTorch's gamma and error functions through ``from_torch``, beside exact values."""

import mpmath
import pytest
from torch_agreement import Several, torch

import tvm_iree_ext as ext

INF = float("inf")
NUMBERS = (0.1, 0.75, 1.46, 2.0, 3.3, 9.5, 25.0, -0.4, -2.45, -7.3, 1e-3)
SHARES = (1e-30, 1e-8, 0.03, 0.3, 0.5, 0.6, 0.97, 0.9999999)


def of_numbers(x):
    special = torch.special
    return (
        *(torch.lgamma(x), torch.digamma(x), torch.polygamma(2, x), torch.erfc(x)),
        *(special.erfcx(x), special.log_ndtr(x)),
        *(torch.i0(x), special.i1e(x), special.spherical_bessel_j0(x)),
        *(torch.erfinv(x), special.ndtri(x)),
    )


@pytest.fixture(scope="module")
def program():
    """Of as many numbers as each test has at most."""
    x = torch.ones(len(NUMBERS))
    built = ext.from_torch(Several(of_numbers), x, strict_export=False)

    def run(numbers):
        count = len(numbers)
        found = built(torch.cat((numbers, x[count:])))
        return [one[:count] for one in found]

    return run


def exact(x):
    """All but the inverses, by mpmath."""
    return (
        *(mpmath.log(abs(mpmath.gamma(x))), mpmath.digamma(x), mpmath.polygamma(2, x)),
        *(mpmath.erfc(x), mpmath.exp(x * x) * mpmath.erfc(x)),
        *(mpmath.log(mpmath.ncdf(x)), mpmath.besseli(0, x)),
        *(mpmath.exp(-abs(x)) * mpmath.besseli(1, x), mpmath.sin(x) / x),
    )


def are_near(came, exactly):
    """Whether each is within an ULP of float32, or infinite where that is out of range."""
    for one, want in zip(came.tolist(), exactly, strict=True):
        if abs(want) > 3.4e38:
            assert abs(one) == INF
        else:
            assert abs(one - want) <= 2**-23 * abs(want) + 2**-149, (one, float(want))


def test_functions_of_float32_are_right_to_an_ulp(program):
    x = torch.tensor(NUMBERS)
    with mpmath.workdps(40):
        columns = zip(*(exact(mpmath.mpf(one)) for one in x.tolist()), strict=True)
        for came, want in zip(program(x)[:-2], columns, strict=True):
            are_near(came, want)


def test_inverses_are_right_to_an_ulp_of_float32(program):
    p = torch.tensor(SHARES)
    inverses, quantiles = program(p)[-2:]
    with mpmath.workdps(40):
        wanted = [mpmath.erfinv(mpmath.mpf(one)) for one in p.tolist()]
        are_near(inverses, wanted)
        wanted = [
            mpmath.findroot(lambda x, one=one: mpmath.log(mpmath.ncdf(x) / one), float(start))
            for one, start in zip(p.tolist(), torch.special.ndtri(p), strict=True)
        ]
        are_near(quantiles[:4], wanted[:4])
        are_near(quantiles[5:], wanted[5:])


def test_poles_and_ends_are_those_of_pytorch(program):
    x = torch.tensor([0.0, -0.0, -1.0, -2.0, INF, float("nan")])
    came, want = program(x), of_numbers(x)
    for place in (0, 1, -2, -1):  # lgamma, digamma and the inverses
        torch.testing.assert_close(came[place], want[place], rtol=1e-5, atol=1e-5, equal_nan=True)


def test_a_number_less_a_tensor_is_exact_where_operators_become_simpler_ones():
    x = torch.tensor([0.3, -2.5], dtype=torch.float64)

    def differences(x):
        return 0.1 - x, 1.1447298858494002 - torch.addcdiv(x, x, x)

    exported = torch.export.export(Several(differences), (x,)).run_decompositions()
    for came, want in zip(ext.from_torch(exported)(x), differences(x), strict=True):
        torch.testing.assert_close(came, want, rtol=1e-15, atol=1e-15)
