"""PyTorch's images sampled where a grid says, and made smaller with all of their pixels."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten
_NEAREST, _CUBIC = 1, 2
_BORDER, _REFLECTION = 1, 2


def grid_sampler(x: Any, grid: Any, mode: int, padding: int, align_corners: bool) -> Any:
    """Images or volumes; IREE's ignores how they are to be padded, and rounds halves up."""
    extents = list(reversed(x.shape[2:]))  # the last axis first, as in the grid
    places = []
    for axis, extent in enumerate(extents):
        span = extent - 1 if align_corners else extent
        places.append((grid[..., axis] + 1) * (span / 2) - (0 if align_corners else 0.5))

    def padded(at: Sequence[Any]) -> list[Any]:
        return [_padded(*one, padding, align_corners) for one in zip(at, extents, strict=True)]

    if mode != _CUBIC:  # else each of the pixels that are read is padded for itself
        places = padded(places)
    if mode == _NEAREST:
        return _pixels(x, [place.round() for place in places])
    first = [place.floor() for place in places]
    parts = [place - start for place, start in zip(places, first, strict=True)]
    steps = range(-1, 3) if mode == _CUBIC else range(2)
    kernel = _cubic_weight if mode == _CUBIC else _linear_weight
    weights = [[kernel((part - step).abs()) for step in steps] for part in parts]
    total: Any = 0
    for corner in itertools.product(range(len(steps)), repeat=len(places)):
        at = [start + steps[step] for start, step in zip(first, corner, strict=True)]
        weight: Any = math.prod(of[step] for of, step in zip(weights, corner, strict=True))
        total = total + _pixels(x, padded(at) if mode == _CUBIC else at) * weight.unsqueeze(1)
    return total


def _padded(place: Any, extent: int, padding: int, align_corners: bool) -> Any:
    """A place along an axis, brought back inside where the padding asks for it."""
    if padding == _REFLECTION:
        low, span = (0.0, extent - 1) if align_corners else (-0.5, extent)
        if span == 0:
            return torch.zeros_like(place)
        away = (place - low).abs()
        turns = (away / span).floor()
        rest = away - turns * span
        is_back = turns - 2 * (turns / 2).floor() != 0
        place = torch.where(is_back, span - rest, rest) + low
    return place if padding == 0 else place.clamp(0, extent - 1)


def _linear_weight(away: Any) -> Any:
    return 1 - away


def _cubic_weight(away: Any) -> Any:
    """Keys' kernel with a = -0.75, which ATen's cubic interpolation has."""
    near = (1.25 * away - 2.25) * away * away + 1
    far = ((-0.75 * away + 3.75) * away - 6) * away + 3
    return torch.where(away <= 1, near, far)


def _pixels(x: Any, at: Sequence[Any]) -> Any:
    """The elements of images at whole places, the last axis first; 0 outside."""
    images, channels, *extents = x.shape
    place: Any = torch.zeros((), dtype=torch.int64)
    inside: Any = None
    for one, extent in zip(reversed(at), extents, strict=True):
        within = (one >= 0) & (one < extent)
        inside = within if inside is None else inside & within
        place = place * extent + torch.where(within, one, torch.zeros((), dtype=one.dtype)).long()
    taken = place.reshape(images, 1, -1).expand(images, channels, -1)
    pixels = x.reshape(images, channels, -1).gather(2, taken)
    pixels = pixels.reshape(images, channels, *place.shape[1:])
    return torch.where(inside.unsqueeze(1), pixels, torch.zeros((), dtype=x.dtype))


def _weights_of(extent: int, size: int, scale: float, reach: int) -> Any:
    """A row of weights for each of ``size`` results over ``extent`` elements, in float64.

    The kernel is as wide as ``reach`` elements, or as many results where these are fewer: as
    ATen's ``_compute_indices_min_size_weights_aa``.
    """
    wide = max(scale, 1.0)
    half = reach / 2 * wide
    places = torch.arange(extent, dtype=torch.float64)
    center = scale * (torch.arange(size, dtype=torch.float64) + 0.5).unsqueeze(1)
    away = (places - center + 0.5).abs() / wide
    if reach == 2:
        weight = (1 - away).clamp(min=0)
    else:  # Keys' kernel with a = -0.5
        near, far = (1.5 * away - 2.5) * away**2 + 1, ((2.5 - 0.5 * away) * away - 4) * away + 2
        weight = torch.where(away < 1, near, torch.where(away < 2, far, 0.0))
    first, last = (center - half + 0.5).floor(), (center + half + 0.5).floor()
    weight = torch.where((places >= first) & (places < last), weight, 0.0)
    return weight / weight.sum(1, keepdim=True)


def _resized(reach: int) -> Callable[..., Any]:
    """Antialiased interpolation of images, as products by the weights of each axis."""

    def resized(x: Any, size: Sequence[int], align_corners: bool, *scales: float | None) -> Any:
        for axis, (extent, wanted, given) in enumerate(
            zip(x.shape[2:], size, scales or (None, None), strict=True), 2
        ):
            if align_corners:
                scale = (extent - 1) / (wanted - 1) if wanted > 1 else 0.0
            else:
                scale = 1 / given if given else extent / wanted
            rows = _weights_of(extent, wanted, scale, reach).to(x.dtype)
            x = torch.movedim(torch.movedim(x, axis, -1) @ rows.T, -1, axis)
        return x

    return resized


IMAGES: dict[Any, Callable[..., Any]] = {
    aten.grid_sampler.default: grid_sampler,
    aten.grid_sampler_2d.default: grid_sampler,
    aten.grid_sampler_3d.default: grid_sampler,
    aten._upsample_bilinear2d_aa.default: _resized(2),
    aten._upsample_bicubic2d_aa.default: _resized(4),
}
