"""PyTorch's functions of the parts of floats, beside eager PyTorch, bit by bit."""

import pytest
from torch_agreement import Several, agrees, torch

import tvm_iree_ext as ext

F = torch.nn.functional
NAN, INF = float("nan"), float("inf")
ODD = torch.tensor([0, -0.0, 1, -1, INF, -INF, NAN, 1e-40, -1e-45, 3.4e38, -2.5, 0.5, 1e-20])


def pairs(dtype):
    return (one.reshape(-1).to(dtype) for one in torch.meshgrid(ODD, ODD, indexing="ij"))


@pytest.mark.costly
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_signs_fractions_and_the_larger_of_two_are_bit_by_bit_those_of_pytorch(dtype):
    def parts(a, b):
        return (
            *(torch.copysign(a, b), torch.copysign(a, -1.5), torch.signbit(a)),
            *(torch.fmax(a, b), torch.fmin(a, b), *torch.frexp(a)),
        )

    agrees(parts, *pairs(dtype), tolerance=0)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_next_float_and_the_hypotenuse_of_all_kinds_of_numbers(dtype):
    agrees(torch.nextafter, *pairs(dtype), tolerance=0)
    agrees(torch.hypot, *pairs(dtype), tolerance=1e-6)


def test_what_is_compared_with_itself_or_taken_from_itself_may_be_no_number():
    def of_itself(x):
        return (
            *(x == x, x - x, torch.isfinite(x), torch.isclose(x, x)),
            *(torch.isclose(x, x, equal_nan=True), x**0.5, x**-0.5, x**3),
        )

    agrees(of_itself, ODD)


def test_digits_are_not_lost_where_numbers_are_small():
    def small(x, y):
        several = (F.elu(x), F.elu(x, 0.5), F.celu(x, 2.0), F.selu(x))
        return *several, torch.logaddexp2(x, y), torch.logaddexp2(y, x)

    x = torch.tensor([-1e-3, -1e-6, -1e-30, -5, 2, 0, INF, -INF, -INF, NAN, 30])
    y = torch.tensor([-88.0, -20, -7, -5, 2, -60, -INF, -INF, INF, 1, -30])
    results = ext.from_torch(Several(small), x, y)(x, y)
    for result, want in zip(results, small(x.double(), y.double()), strict=True):
        torch.testing.assert_close(
            torch.as_tensor(result), want.float(), rtol=1e-5, atol=0, equal_nan=True
        )
