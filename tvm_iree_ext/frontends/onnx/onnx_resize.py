"""ONNX's Resize as weighted sums along each axis, whose places and weights are known beforehand.

The formulas are those of the operator's specification (Resize-19); coordinates and weights are
float64, as in ``onnx``'s reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.frontends.onnx.onnx_rewriting import (
    Attributes,
    NotRewritten,
    Values,
    Writer,
    given,
    rounded,
)

_MOST_TAPS = 8
"""Of which each is an operand of its own; more, of smoothed images, are a product of matrices."""


@dataclass(frozen=True)
class _Axis:
    """How an axis is resized; ``scale`` is new by old, ``region`` the part that is kept."""

    axis: int
    length: int
    count: int
    scale: float
    region: tuple[float, float] | None

    @property
    def is_same(self) -> bool:
        """Whether nothing changes."""
        is_whole = self.region is None or np.allclose(self.region, (0, 1))
        return self.count == self.length and math.isclose(self.scale, 1.0) and is_whole


def rewrite_resize(node: Any, values: Values, write: Writer) -> None:
    """One axis after the other."""
    import onnx

    said, x = Attributes(node), node.input[0]
    kind, floats = values.kind(x), onnx.TensorProto
    is_float = kind in (floats.FLOAT, floats.DOUBLE, floats.FLOAT16, floats.BFLOAT16)
    is_nearest = said.text("mode", "nearest") == "nearest"
    y = x if is_float or is_nearest else write("Cast", x, to=floats.FLOAT)
    rank = values.rank(x)
    for axis in _axes(node, values):
        if not axis.is_same:
            y = _resized(y, axis, rank, said, write)
    if y == x:
        y = write("Identity", x)
    elif not (is_float or is_nearest):
        y = rounded(y, kind, write)
    write.give(y)


def is_slow(node: Any, values: Values) -> bool:
    """Whether IREE's front end writes what takes minutes to build, and is not needed.

    That is where scales are no constants, and where :func:`rewrite_resize` knows all it needs.
    """
    try:
        for place in (2, 3):
            _numbers(node, place, values)
    except NotRewritten:
        return True
    try:
        _axes(node, values)
    except NotRewritten:
        return False
    return True


def _axes(node: Any, values: Values) -> list[_Axis]:
    """The axes that it names.

    Raises:
        NotRewritten: where an extent, a scale or a size is not known.
    """
    said, x = Attributes(node), node.input[0]
    rank = values.rank(x)
    axes = [axis % rank for axis in said("axes", range(rank))]
    scales = _numbers(node, 2, values)
    sizes = _numbers(node, 3, values)
    lengths = _lengths(x, axes, scales if sizes is None else sizes, values, sizes is None)
    if sizes is not None:
        parts = [size / length for size, length in zip(sizes, lengths, strict=True)]
        policy = said.text("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            part = min(parts) if policy == "not_larger" else max(parts)
            parts = [part] * len(axes)
            counts = [int(part * length + 0.5) for length in lengths]
        else:
            counts = [int(size) for size in sizes]
    elif scales is not None:
        parts = [float(scale) for scale in scales]
        counts = [int(part * length) for part, length in zip(parts, lengths, strict=True)]
    else:
        raise NotRewritten("neither scales nor sizes")
    if len(parts) != len(axes):
        raise NotRewritten("another number of scales")
    regions: list[tuple[float, float] | None] = [None] * len(axes)
    if said.text("coordinate_transformation_mode") == "tf_crop_and_resize":
        ends = _numbers(node, 1, values)
        if ends is None or len(ends) != 2 * len(axes):
            raise NotRewritten("the region is not known")
        regions = [(float(a), float(b)) for a, b in zip(ends, ends[len(axes) :], strict=False)]
    found = zip(axes, lengths, counts, parts, regions, strict=True)
    return [_Axis(*one) for one in found]


def _numbers(node: Any, place: int, values: Values) -> np.ndarray | None:
    """The numbers of an input; None where it is left out or of none."""
    name = given(node, place)
    numbers = values.constant(name).flatten() if name else np.empty(0)
    return numbers if numbers.size else None


def _lengths(
    x: str, axes: Sequence[int], numbers: Any, values: Values, are_scales: bool
) -> list[int]:
    """Extents of axes; of those that stay as they are any, so that a batch may be open."""
    extents = values.extents(x)
    lengths = []
    for place, axis in enumerate(axes):
        length = extents[axis]
        if length is None and are_scales and numbers is not None and numbers[place] == 1:
            length = 1
        if length is None:
            raise NotRewritten(f"the extents of {x} are not known")
        lengths.append(length)
    return lengths


def _resized(x: str, axis: _Axis, rank: int, said: Attributes, write: Writer) -> str:
    """An axis resized: the elements at some places, each times its weights, added up."""
    places, weights, beyond = _taps(axis, said)
    shape = [-1 if place == axis.axis else 1 for place in range(rank)]

    def along(numbers: np.ndarray) -> str:
        weight = write.constant(numbers.reshape(shape))
        return write("CastLike", weight, x)

    if said.text("mode", "nearest") == "nearest":
        chosen = places[np.arange(axis.count), weights.argmax(1)]
        y = write("Gather", x, write.constant(chosen, "i8"), axis=axis.axis)
    elif places.shape[1] > _MOST_TAPS:
        matrix = np.zeros((axis.length, axis.count))
        np.add.at(matrix, (places, np.arange(axis.count)[:, None]), weights)
        turn = [place for place in range(rank) if place != axis.axis] + [axis.axis]
        turned = write("Transpose", x, perm=turn)
        product = write("MatMul", turned, write("CastLike", write.constant(matrix), x))
        y = write("Transpose", product, perm=[turn.index(place) for place in range(rank)])
    else:
        y = ""
        for tap in range(places.shape[1]):
            part = write("Gather", x, write.constant(places[:, tap], "i8"), axis=axis.axis)
            part = write("Mul", part, along(weights[:, tap]))
            y = write("Add", y, part) if y else part
    if beyond.any():
        is_beyond = write.constant(beyond.reshape(shape))
        number = write("CastLike", write.constant(said("extrapolation_value", 0.0), "f4"), x)
        y = write("Where", is_beyond, number, y)
    return y


def _taps(axis: _Axis, said: Attributes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each new place: old places, their weights, and whether it lies beyond the image."""
    at = _coordinates(axis, said.text("coordinate_transformation_mode", "half_pixel"))
    beyond = np.zeros(axis.count, bool)
    if axis.region is not None:
        beyond = (at < 0) | (at > axis.length - 1)
        at = np.where(beyond, 0, at)
    left = np.ceil(at) - 1
    ratio = at - left  # above 0, and 1 at an old place
    first, weights = _weights(ratio, axis.scale, said)
    places = left[:, None].astype(int) + first + np.arange(weights.shape[1])
    if said("exclude_outside", 0):
        weights = np.where((places < 0) | (places >= axis.length), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    return places.clip(0, axis.length - 1), weights, beyond


def _coordinates(axis: _Axis, mode: str) -> np.ndarray:
    """Where new places lie among the old ones."""
    new, width = np.arange(axis.count, dtype=float), axis.scale * axis.length
    if mode == "asymmetric":
        return new / axis.scale
    if mode == "align_corners":
        return new * ((axis.length - 1) / (width - 1) if width != 1 else 0)
    if mode == "tf_crop_and_resize":
        start, end = axis.region or (0.0, 1.0)
        span = (end - start) * (axis.length - 1)
        inside = new * (span / (width - 1)) if width != 1 else np.full_like(new, span / 2)
        return inside + start * (axis.length - 1)
    if mode == "pytorch_half_pixel" and width == 1:
        return np.full_like(new, -0.5)
    offset = axis.length / 2 * (1 - axis.count / width) if mode == "half_pixel_symmetric" else 0.0
    return offset + (new + 0.5) / axis.scale - 0.5


def _weights(ratio: np.ndarray, scale: float, said: Attributes) -> tuple[int, np.ndarray]:
    """Weights by how far a place is from its left neighbour, and where they begin, seen from it."""
    mode, smooth = said.text("mode", "nearest"), min(scale, 1.0) if said("antialias", 0) else 1.0
    if mode == "nearest":
        goes_right = {
            "round_prefer_floor": ratio > 0.5,
            "round_prefer_ceil": ratio >= 0.5,
            "floor": ratio == 1,
            "ceil": ratio > 0,
        }[said.text("nearest_mode", "round_prefer_floor")]
        return 0, np.stack([~goes_right, goes_right], 1).astype(float)
    width = 1 if mode == "linear" else 2
    kernel = _triangle if mode == "linear" else _cubic(said("cubic_coeff_a", -0.75))
    first = math.floor(-width / smooth) + 1
    steps = np.arange(first, 2 - first) if said("antialias", 0) else np.arange(1 - width, width + 1)
    weights = kernel(np.abs(steps - ratio[:, None]) * smooth)
    if said("antialias", 0):
        weights = weights / weights.sum(1, keepdims=True)
    return int(steps[0]), weights


def _triangle(away: np.ndarray) -> np.ndarray:
    return np.clip(1 - away, 0, 1)


def _cubic(a: float) -> Callable[[np.ndarray], np.ndarray]:
    """Keys's cubic convolution: 1 at 0, and 0 at 1 and from 2 on."""

    def kernel(away: np.ndarray) -> np.ndarray:
        near = ((a + 2) * away - (a + 3)) * away * away + 1
        far = ((a * away - 5 * a) * away + 8 * a) * away - 4 * a
        return np.where(away <= 1, near, np.where(away < 2, far, 0.0))

    return kernel
