"""Pools of PyTorch beside eager: where the largest lies among infinities, NaN and integers."""

import pytest
from torch_agreement import agrees, torch

F = torch.nn.functional
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_windows_of_infinities_and_nan_have_a_place(dtype):
    def pooled(x):
        return (
            *F.max_pool2d(x, 2, 2, return_indices=True),
            *F.max_pool2d(x[0], 3, 2, 1, return_indices=True),
        )

    x = torch.randn(1, 2, 6, 6, generator=torch.manual_seed(0)).mul(9).to(dtype)
    if dtype.is_floating_point:
        x[0, 0, :2, :2] = -INF
        x[0, 0, 3, 3] = NAN
        x[0, 1] = -INF
        x[0, 1, 5, 5] = INF
    agrees(pooled, x, tolerance=0)
