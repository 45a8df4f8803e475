"""Unsigned integers of the whole range, and operators that are not taken of int8, as in PyTorch."""

import numpy as np
import pytest
from torch_agreement import Several, torch

import tvm_iree_ext as ext

F = torch.nn.functional
KINDS = [torch.uint8, torch.uint16, torch.uint32]
SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def drawn(kind, *shape, seed=0):
    info = np.iinfo(str(kind).removeprefix("torch."))
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(info.min, info.max, shape, info.dtype, endpoint=True))


def agrees(function, *arguments):
    """Have a program give each result of a function, of its type."""
    program = ext.from_torch(Several(function), *arguments, strict_export=False)
    for place, (came, want) in enumerate(
        zip(program(*arguments), function(*arguments), strict=True)
    ):
        assert came.dtype == want.dtype, place
        torch.testing.assert_close(came, want, msg=lambda said, place=place: f"{place}: {said}")


def test_an_image_of_bytes_becomes_floats():
    agrees(
        lambda x: (x / 255, x * 0.5, x - 127.5, x.float() / 255, x + 1), drawn(torch.uint8, 2, 9)
    )


@pytest.mark.costly
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_sums_and_orders(kind):
    agrees(
        lambda x: (x.sum(), x.sum(1), x.prod(1), x.cumsum(1), *x.sort(1), x.msort(), x.any(1)),
        drawn(kind, 3, 5),
    )


@pytest.mark.costly
def test_arithmetic_of_bytes():
    """A number is of the tensor's type before: -3 is 253."""

    def function(x, y):
        return (
            *(x + y, x - y, x * y, x / y, x // y, x % y, torch.fmod(x, y), x // 3, x % -3),
            *(x.abs(), x**3, torch.where(x > 100, x, y * 2), x.clamp(20, 200), x << 1, x >> 1),
            *(torch.maximum(x, y), torch.gcd(x, y), x.float().reciprocal(), x @ y.T),
            *(
                torch.atan2(x, y),
                x.max(),
                x.min(),
                F.max_pool2d(x[None], 2),
                x.kthvalue(2)[0],
                *x.topk(2),
            ),
            x.scatter_reduce(1, torch.zeros(3, 1, dtype=torch.int64), y[:, :1], "amax"),
        )

    x, y = drawn(torch.uint8, 3, 4), drawn(torch.uint8, 3, 4, seed=1)
    agrees(function, x, y.clamp(min=1))


def test_of_bytes_with_sign():
    agrees(lambda x: (x.max(), x.min(), x // 3, x % 3, x**2, x @ x), drawn(torch.int8, 4, 4))


@pytest.mark.costly
@pytest.mark.parametrize("kind", SIGNED, ids=str)
def test_conversions_wrap(kind):
    words = torch.tensor([1, 0, -5, -(2**30) - 1, 7]).to(SIGNED[kind]).view(kind)

    def function(x):
        halved = (x.double() / 2).to(kind)
        return x.float(), x.double(), x.int(), x.long(), x.bool(), x.to(torch.uint8), halved

    agrees(function, words)
    agrees(lambda x: (x.to(kind), x.bool().to(kind)), torch.tensor([1, 0, -5, 2**40 + 3]))


@pytest.mark.parametrize("kind", [torch.uint8, torch.int32, torch.int64], ids=str)
def test_counts_and_kinds_of_numbers(kind):
    x = torch.tensor([3, 1, 3, 0, 7]).to(kind)
    agrees(lambda x: (torch.bincount(x), torch.unique(x)), x)
