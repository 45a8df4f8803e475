"""Operators that IREE's front end takes some cases of, beside eager PyTorch."""

import torch.nn.functional as F
from torch_agreement import agrees, torch

NAN, INF = float("nan"), float("inf")
ODD = torch.tensor([INF, -INF, NAN, 0.0, -0.0, 1, -1, 2.5, -2.5, 7, -7.5, 1e10, -1e30])


def test_divisions_with_a_rest_are_those_of_pytorch():
    def divided(a, b, n):
        return (
            *(torch.floor_divide(a, b), torch.fmod(a, b), torch.floor_divide(a, 2.0)),
            *(torch.fmod(a, -2.5), 7.5 % b, torch.fmod(n, 3), n // -2),
        )

    n = torch.tensor([7, -7, 0, 2**40 + 1, -(2**62) - 1])
    agrees(divided, *torch.meshgrid(ODD, ODD, indexing="ij"), n, tolerance=1e-6)


def test_sums_of_bools_are_their_or():
    def added(x, source, index):
        places = torch.stack([index, index])
        return (
            *(x.index_add(1, index, source), x.scatter_add(1, places, source)),
            *(x.index_put((index,), source[0], accumulate=True), x.put(index, source[0], True)),
            *(x.scatter_reduce(1, places, source, way) for way in ("sum", "prod", "amin")),
        )

    x = torch.tensor([[True, False, False], [False, False, True]])
    source = torch.tensor([[True, True, False], [False, True, True]])
    agrees(added, x, source, torch.tensor([1, 1, 0]), tolerance=0)


def test_powers_of_whole_numbers_and_running_products():
    def powers(a, b):
        return torch.pow(a, b), torch.pow(-3, b), a.cumprod(0), a.double().cumprod(0)

    a = torch.tensor([3, -2, 0, 1, -1, -1, 7, 2, 0])
    agrees(powers, a, torch.tensor([5, 63, 0, -4, -3, -2, 40, -1, 3]), tolerance=0)


def test_pools_of_one_image_and_windows_of_unequal_extents():
    def pooled(image, line, samples):
        return (
            *(F.avg_pool2d(image, 2), F.max_pool2d(image, 3, 2), F.avg_pool1d(line, 2)),
            *F.adaptive_max_pool2d(image, (3, 2), return_indices=True),
            *F.fractional_max_pool2d(
                image, (2, 3), (3, 3), return_indices=True, _random_samples=samples
            ),
        )

    torch.manual_seed(0)
    agrees(pooled, torch.randn(2, 7, 8), torch.randn(2, 6), torch.rand(1, 2, 2))


def test_what_has_no_axes_or_no_elements():
    def computed(number, none, x):
        return (
            *(F.softmax(number, 0), F.log_softmax(number, -1), number.nonzero()),
            *(F.unfold(none, 2), torch.nonzero_static(x, size=5, fill_value=-7)),
            torch.nonzero_static(x, size=2),
        )

    x = torch.tensor([[0.0, 2, 0], [1, 0, -1]])
    agrees(computed, torch.tensor(3.0), torch.zeros(0, 1, 5, 5), x, tolerance=0)


def test_incomplete_gamma_functions():
    a = torch.tensor([0.0, 0.1, 1, 3.3, 50], dtype=torch.float32)
    x = torch.tensor([0.0, 1e-3, 0.7, 4, 49, 60, INF, -1])
    agrees(torch.special.gammaincc, *torch.meshgrid(a, x, indexing="ij"), tolerance=2e-6)
