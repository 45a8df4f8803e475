"""PyTorch's images sampled where a grid says."""

from collections.abc import Callable
from typing import Any

import torch

from tvm_iree_ext.base.errors import MlirError

aten = torch.ops.aten


def grid_sampler(x: Any, grid: Any, mode: int, padding: int, align_corners: bool) -> Any:
    """IREE's ignores how it is to be padded and rounds halves up."""
    nearest, cubic = 1, 2
    border, reflection = 1, 2
    if x.dim() != 4 or mode == cubic:
        what = "bicubic" if mode == cubic else f"of rank {x.dim()}"
        raise MlirError(f"grid_sample: {what}; bilinear and nearest of rank 4 are supported")
    if padding == reflection:
        turns = (grid + 1) / 4
        grid, padding = 1 - (4 * (turns - turns.floor()) - 2).abs(), border
    places = []
    for axis, extent in enumerate((x.shape[3], x.shape[2])):
        span = extent - 1 if align_corners else extent
        place = (grid[..., axis] + 1) * (span / 2) - (0 if align_corners else 0.5)
        places.append(place.clamp(0, extent - 1) if padding == border else place)
    if mode == nearest:
        return _pixels(x, *(place.round() for place in places))
    first = [place.floor() for place in places]
    parts = [place - start for place, start in zip(places, first, strict=True)]
    found: Any = 0
    for across, down in ((0, 0), (1, 0), (0, 1), (1, 1)):
        weight = (parts[0] if across else 1 - parts[0]) * (parts[1] if down else 1 - parts[1])
        found = found + _pixels(x, first[0] + across, first[1] + down) * weight.unsqueeze(1)
    return found


def _pixels(x: Any, across: Any, down: Any) -> Any:
    """The pixels of images at whole places; 0 outside."""
    images, channels, height, width = x.shape
    inside = (across >= 0) & (across < width) & (down >= 0) & (down < height)
    place = torch.where(inside, down * width + across, torch.zeros((), dtype=down.dtype)).long()
    taken = place.reshape(images, 1, -1).expand(images, channels, -1)
    pixels = x.reshape(images, channels, -1).gather(2, taken)
    pixels = pixels.reshape(images, channels, *place.shape[1:])
    return torch.where(inside.unsqueeze(1), pixels, torch.zeros((), dtype=x.dtype))


IMAGES: dict[Any, Callable[..., Any]] = {
    aten.grid_sampler.default: grid_sampler,
    aten.grid_sampler_2d.default: grid_sampler,
}
