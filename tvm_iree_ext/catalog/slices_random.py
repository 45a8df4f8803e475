"""Random scatter and gather ops and operands: shapes, readings, masks, any indices."""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.catalog.base.random_arrays import pick, small_numbers
from tvm_iree_ext.catalog.base.random_regions import region_form, sometimes_empty, weighted
from tvm_iree_ext.ops.base.operands import INDEX_DTYPES
from tvm_iree_ext.ops.base.regions import RegionLike
from tvm_iree_ext.ops.families.slices.gather import Gather
from tvm_iree_ext.ops.families.slices.scatter import Scatter

Generator = np.random.Generator

# Regions with one rounding, or whose first operations are exact: the same in any float arithmetic.
EXACT_REGIONS = (
    "arg0",
    "arg1",
    "arg0 + arg1",
    "arg0 - arg1",
    "arg0 * arg1",
    "min(arg0, arg1)",
    "max(arg0, arg1)",
    "2 * arg0 + arg1",
    "select(arg0 > arg1, arg0, arg1)",
)
_COMPLEX_REGIONS = ("arg0", "arg0 + arg1", "arg0 - arg1", "arg0 * arg1", "conj(arg0) + arg1")
_BITS = ("and", "or", "xor", "arg0")
_FLOAT_REGIONS = (*EXACT_REGIONS, "add", "min", "0.75 * arg0 + 0.25 * arg1", "arg0 / (2 + arg1)")
_DTYPES = (*dtypes.ELEMENTS, "float32", "float32")
_LAST = (1, 1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 65, 130)
_BATCH = (1, 2, 3, 5, 16, 17, 40, 97)


@dataclass(frozen=True)
class _Shapes:
    """Extents as numbers, and as the op gets them: some are symbols."""

    full: tuple[int, ...]
    batch: tuple[int, ...]
    window: tuple[int, ...]
    depth: int
    depth_dim: bool
    symbols: dict[str, str]

    def of(self, name: str, shape: tuple[int, ...]) -> tuple[Extent, ...]:
        """The extents of an operand, with the symbols that stand there."""
        return tuple(self.symbols.get(f"{name}{i}", extent) for i, extent in enumerate(shape))


def _shapes(rng: Generator, covers: bool) -> _Shapes:
    depth = int(rng.integers(1, 4))
    rank = depth + int(rng.integers(0, 3))
    full = [int(rng.integers(1, 12)) for _ in range(rank)]
    if rng.random() < 0.3:
        full[0] = pick(rng, (37, 64, 200))
    if rank > depth:
        full[-1] = pick(rng, _LAST)
    full = sometimes_empty(rng, full)
    covered = int(rng.integers(0, depth + 1)) if covers and rng.random() < 0.4 else 0
    starts = full[depth - covered : depth]
    window = [int(rng.integers(min(1, extent), extent + 1)) for extent in starts] + full[depth:]
    batch = [pick(rng, _BATCH)] if rng.random() < 0.7 else [int(rng.integers(1, 6)), 4]
    if rng.random() < 0.1:
        batch = []
    batch = sometimes_empty(rng, batch)
    depth_dim = depth > 1 or not batch or rng.random() < 0.5
    symbols: dict[str, str] = {}
    if rng.random() < 0.4:
        for i in range(len(batch)):
            if rng.random() < 0.6:
                symbols[f"batch{i}"] = f"n{i}"
        for i in range(rank):
            if rng.random() < 0.4:
                symbols[f"full{i}"] = f"e{i}"
        for i in range(covered):
            if rng.random() < 0.4:
                symbols[f"window{i}"] = f"w{i}"
    # The extents after the indexed dims are the tensor's.
    for i in range(depth, rank):
        if f"full{i}" in symbols:
            symbols[f"window{covered + i - depth}"] = symbols[f"full{i}"]
    return _Shapes(tuple(full), tuple(batch), tuple(window), depth, depth_dim, symbols)


def _indices(
    rng: Generator, shapes: _Shapes, dimension_map: tuple[int, ...], dtype: str, unique: bool
) -> tuple[np.ndarray, bool]:
    """Indices of any kind, and whether each is of a slice that is there."""
    covered = len(shapes.window) - (len(shapes.full) - shapes.depth)
    extents = (1,) * (shapes.depth - covered) + shapes.window[:covered]
    starts = [full - one + 1 for full, one in zip(shapes.full, extents, strict=False)]
    count = prod(shapes.batch)
    points = np.stack([rng.integers(0, max(1, limit), count) for limit in starts], axis=1)
    if rng.random() < 0.3 and not unique and count:
        points[:] = points[0]  # all on one place
    if rng.random() < 0.5:
        wrong = rng.random(points.shape) < 0.15
        far = pick(rng, (0, 1, 100, 2**31 - 1, 2**63 - 1))
        info = np.iinfo(dtype)
        high = min(far, info.max) if far else starts[0]
        points = np.where(wrong, np.where(rng.random(points.shape) < 0.5, high, -1), points)
        points = np.clip(points, max(info.min, -(2**62)), min(info.max, 2**63 - 1))
    if unique:  # windows that overlap an earlier one are sent out of range
        taken = np.zeros(shapes.full[: shapes.depth], bool)
        for point in points:
            place = tuple(slice(p, int(p) + e) for p, e in zip(point, extents, strict=True))
            inside = all(0 <= p < s for p, s in zip(point, starts, strict=True))
            if inside and taken[place].any():
                point[0] = min(np.iinfo(dtype).max, 2**63 - 1)
            elif inside:
                taken[place] = True
    by_component = points[:, list(dimension_map)]
    depth = (shapes.depth,) if shapes.depth_dim else ()
    is_inside = all(bool(np.all((p >= 0) & (p < s))) for p, s in zip(points.T, starts, strict=True))
    return by_component.reshape(*shapes.batch, *depth).astype(dtype), is_inside


def _values(rng: Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    return small_numbers(rng, shape, dtype)


def _mask(rng: Generator, shape: tuple[int, ...]) -> np.ndarray | None:
    kind = pick(rng, (None, None, "bool", "int8"))
    if kind is None:
        return None
    values = rng.integers(-3, 4, shape) if kind == "int8" else rng.random(shape) < 0.7
    return np.asarray(values).astype(kind)


def _arguments(
    rng: Generator, dtype: str, unique: bool, covers: bool = True
) -> tuple[_Shapes, dict[str, Any], dict[str, Any]]:
    """Shapes, operands that scatter and gather share, and keywords that say what they are."""
    shapes = _shapes(rng, covers)
    dimension_map = tuple(int(dim) for dim in rng.permutation(shapes.depth))
    index_dtype = pick(rng, (*INDEX_DTYPES, "int32", "int64"))
    indices, is_inside = _indices(rng, shapes, dimension_map, index_dtype, unique)
    operands = {"indices": indices}
    depth: tuple[Extent, ...] = (shapes.depth,) if shapes.depth_dim else ()
    batch = shapes.of("batch", shapes.batch)
    keywords: dict[str, Any] = {
        "indices": TensorType((*batch, *depth), index_dtype),
        "dimension_map": dimension_map,
    }
    if is_inside and rng.random() < 0.3:  # which a kernel is told to raise for otherwise
        keywords["out_of_range"] = "error"
    mask = _mask(rng, shapes.batch)
    if mask is not None:
        operands["mask"] = mask
        keywords["mask"] = TensorType(batch, str(mask.dtype))
    return shapes, operands, keywords


def random_scatter(rng: Generator) -> tuple[Scatter, dict[str, Any]]:
    """An op and operands that fit it."""
    dtype = pick(rng, _DTYPES)
    unique = bool(rng.random() < 0.5)
    shapes, operands, keywords = _arguments(rng, dtype, unique)
    region, numbers = _region(rng, dtype)
    slices = shapes.of("batch", shapes.batch) + shapes.of("window", shapes.window)
    op = ops.scatter(
        TensorType(slices, dtype),
        keywords.pop("indices"),
        TensorType(shapes.of("full", shapes.full), dtype),
        unique_indices=unique,
        region=region,
        **keywords,
    )
    operands["updates"] = _values(rng, shapes.batch + shapes.window, dtype)
    operands["original"] = _values(rng, shapes.full, dtype)
    operands |= numbers
    return op, {operand.name: operands[operand.name] for operand in op.signature.arguments}


def _region(rng: Generator, dtype: str) -> tuple[RegionLike, dict[str, Any]]:
    """A region in one of its forms, and the numbers of a call that it takes."""
    texts: tuple[str, ...] = _BITS if dtype == "bool" else (*_BITS, *EXACT_REGIONS)
    if dtype in dtypes.FLOATS:
        texts = _FLOAT_REGIONS
    elif dtype in dtypes.FLOATS8:
        texts = EXACT_REGIONS
    elif dtype in dtypes.COMPLEX:
        texts = _COMPLEX_REGIONS
    if dtype != "bool" and rng.random() < 0.1:
        return weighted(rng, "weight * arg0 + arg1", dtype)
    return region_form(rng, pick(rng, texts), pick(rng, texts))


def random_gather(rng: Generator) -> tuple[Gather, dict[str, Any]]:
    """An op and operands that fit it."""
    dtype = pick(rng, _DTYPES)
    has_init = bool(rng.random() < 0.5)
    shapes, operands, keywords = _arguments(rng, dtype, unique=False, covers=has_init)
    if has_init:
        output = shapes.of("batch", shapes.batch) + shapes.of("window", shapes.window)
        keywords["output"] = TensorType(output, dtype)
        operands["output_init"] = _values(rng, shapes.batch + shapes.window, dtype)
    elif not shapes.depth_dim and shapes.batch[-1] == 1:
        # Without an init these indices would be read as having a depth dim.
        operands["indices"] = operands["indices"][..., None]
        kind = keywords["indices"]
        keywords["indices"] = TensorType((*kind.shape, 1), kind.dtype)
    source = TensorType(shapes.of("full", shapes.full), dtype)
    op = ops.gather(source, keywords.pop("indices"), **keywords)
    operands["source"] = _values(rng, shapes.full, dtype)
    return op, {operand.name: operands[operand.name] for operand in op.signature.arguments}
