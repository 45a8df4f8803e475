"""PyTorch's images sampled where a grid says, and made smaller, beside eager PyTorch."""

import torch.nn.functional as F
from torch_agreement import agrees, torch


def test_images_are_sampled_where_pytorch_samples_them():
    def sampled(x, grid):
        return (
            F.interpolate(x, size=(5, 3), mode="nearest-exact"),
            F.grid_sample(x, grid, "nearest", padding_mode="border", align_corners=True),
            F.grid_sample(x, grid, padding_mode="reflection", align_corners=False),
            F.grid_sample(x, grid, align_corners=False),
            F.grid_sample(x, grid, "bicubic", padding_mode="reflection", align_corners=True),
            F.grid_sample(x, grid, "bicubic", align_corners=False),
        )

    torch.manual_seed(0)
    agrees(sampled, torch.randn(1, 2, 4, 4), torch.rand(1, 3, 3, 2) * 3 - 1.5)


def test_volumes_are_sampled_where_pytorch_samples_them():
    def sampled(x, grid):
        return (
            F.grid_sample(x, grid, "nearest", padding_mode="border", align_corners=False),
            F.grid_sample(x, grid, padding_mode="reflection", align_corners=True),
            F.grid_sample(x, grid, align_corners=False),
        )

    torch.manual_seed(0)
    agrees(sampled, torch.randn(2, 2, 4, 5, 3), torch.rand(2, 3, 1, 2, 3) * 3 - 1.5)


def test_images_are_made_smaller_with_all_of_their_pixels():
    def resized(x):
        return (
            F.interpolate(x, size=(5, 11), mode="bilinear", antialias=True),
            F.interpolate(x, scale_factor=(0.4, 1.5), mode="bicubic", antialias=True),
            F.interpolate(x, size=(1, 4), mode="bicubic", align_corners=True, antialias=True),
        )

    torch.manual_seed(0)
    agrees(resized, torch.randn(2, 3, 12, 9))
