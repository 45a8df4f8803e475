"""NumPy reference of ``iree_linalg_ext.attention`` and ``online_attention``.

The formula of the dialect, line by line, in float64.  Operands are given with one tuple of
iteration dims each (``maps``), and are read with ``einsum`` over letters for these dims.
"""

import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Maps = Mapping[str, Sequence[int]]


def _letters(dims: Sequence[int]) -> str:
    return "".join(string.ascii_letters[dim] for dim in dims)


def _dims(maps: Maps) -> tuple[list[int], list[int], list[int], list[int]]:
    """Batch, row, column and key dims (the dialect's classification)."""
    q, k, v, o = (set(maps[name]) for name in ("query", "key", "value", "output"))
    batch = (q & v) | (k & o)
    k1 = (q & k) - batch
    k2 = k - batch - k1
    return sorted(batch), sorted(q - batch - k1), sorted(v - batch - k2), sorted(k2)


def _aligned(array: Array, dims: Sequence[int], onto: Sequence[int]) -> Array:
    """``array`` with its axes in the order of ``onto``, and extent 1 where it lacks a dim."""
    order = [dim for dim in onto if dim in dims]
    moved = np.einsum(f"{_letters(dims)}->{_letters(order)}", array)
    return moved.reshape([moved.shape[order.index(d)] if d in order else 1 for d in onto])


def scores(
    operands: Mapping[str, Array],
    maps: Maps,
    scale: float,
    region: Callable[..., Any] | None,
    region_dims: Sequence[int],
    score_domain: str,
    visible: Array | None,
) -> Array:
    """S over (batch, rows, keys): scale, then region, then mask; -inf where nothing is seen.

    ``region`` takes the scores, and their positions along each of ``region_dims``.

    Not seen is where not ``visible``, which broadcasts to the scores, and from a key length on.
    """
    batch, rows, _, keys = _dims(maps)
    to_base_2 = np.log2(np.e) if score_domain == "log2" else 1.0
    q, k = _letters(maps["query"]), _letters(maps["key"])
    onto = [*batch, *rows, *keys]
    present = [dim for dim in onto if dim in {*maps["query"], *maps["key"]}]
    products = np.einsum(
        f"{q},{k}->{_letters(present)}",
        operands["query"].astype(np.float64),
        operands["key"].astype(np.float64),
    )
    score = _aligned(products, present, onto) * (scale * to_base_2)
    if region is not None:
        positions = np.indices(score.shape)
        score = region(score, *(positions[onto.index(dim)] for dim in region_dims))
    if "mask" in operands:
        mask = _aligned_mask(operands["mask"], maps["mask"], onto)
        if mask.dtype.kind in "biu":
            score = score + np.where((mask.astype(np.int64) & 1) == 1, 0.0, -np.inf)
        else:
            score = score + mask.astype(np.float64) * to_base_2
    if visible is not None:
        score = np.where(visible, score, -np.inf)
    if "key_lengths" in operands:
        score = np.where(_counted(operands, maps, onto, score.shape), score, -np.inf)
    return score


def _counted(
    operands: Mapping[str, Array], maps: Maps, onto: Sequence[int], shape: Sequence[int]
) -> Array:
    """Whether a key is before its length, with axes ``onto``, of which ``shape`` has the extents.

    Several key dims are counted through in their order.
    """
    _, _, _, keys = _dims(maps)
    extents = [shape[list(onto).index(dim)] for dim in keys]
    position = np.arange(np.prod(extents)).reshape(extents)
    lengths = _aligned(operands["key_lengths"], maps["key_lengths"], onto)
    return _aligned(position, keys, onto) < lengths


def _aligned_mask(mask: Array, dims: Sequence[int], onto: Sequence[int]) -> Array:
    order = [dim for dim in onto if dim in dims]
    moved = np.transpose(mask, [list(dims).index(dim) for dim in order])
    return moved.reshape([moved.shape[order.index(d)] if d in order else 1 for d in onto])


def _weighted_values(weights: Array, operands: Mapping[str, Array], maps: Maps) -> Array:
    """sum over keys of weights * value, over (batch, rows, columns).

    The weights take value's element type first, as the dialect says.
    """
    batch, rows, columns, keys = _dims(maps)
    value, dims = operands["value"], maps["value"]
    rounded = weights.astype(value.dtype).astype(np.float64)
    value = value.astype(np.float64)
    if "key_lengths" in operands:  # behind a length may stand anything
        dims = [*batch, *keys, *columns]
        value = _aligned(value, maps["value"], dims)
        extents = [*weights.shape[: len(batch)], *weights.shape[-len(keys) :], 1]
        value = np.where(_counted(operands, maps, dims, extents), value, 0.0)
    return np.einsum(
        f"{_letters([*batch, *rows, *keys])},{_letters(dims)}"
        f"->{_letters([*batch, *rows, *columns])}",
        rounded,
        value,
    )


def attention(
    operands: Mapping[str, Array],
    maps: Maps,
    *,
    scale: float,
    region: Callable[..., Any] | None = None,
    region_dims: Sequence[int] = (),
    score_domain: str = "natural",
    visible: Array | None = None,
) -> Array:
    """softmax over keys of the scores, times value: float64, axes in the order of output's map."""
    batch, rows, columns, keys = _dims(maps)
    score = scores(operands, maps, scale, region, region_dims, score_domain, visible)
    base = 2.0 if score_domain == "log2" else np.e
    axes = tuple(range(score.ndim - len(keys), score.ndim))
    lowest = np.finfo(np.float64).min
    with np.errstate(invalid="ignore", divide="ignore"):
        weights = base ** (score - score.max(axis=axes, keepdims=True, initial=lowest))
        weights = weights / weights.sum(axis=axes, keepdims=True)
    result = _weighted_values(weights, operands, maps)
    return np.einsum(f"{_letters([*batch, *rows, *columns])}->{_letters(maps['output'])}", result)


def log_sum_exp(
    operands: Mapping[str, Array],
    maps: Maps,
    *,
    scale: float,
    region: Callable[..., Any] | None = None,
    region_dims: Sequence[int] = (),
    score_domain: str = "natural",
    visible: Array | None = None,
) -> Array:
    """max + log(sum(exp(S - max))) over keys, in the base of the domain; -inf without a key."""
    batch, rows, _, keys = _dims(maps)
    score = scores(operands, maps, scale, region, region_dims, score_domain, visible)
    base, log = (2.0, np.log2) if score_domain == "log2" else (np.e, np.log)
    axes = tuple(range(score.ndim - len(keys), score.ndim))
    lowest = np.finfo(np.float64).min
    with np.errstate(invalid="ignore", divide="ignore"):
        maximum = score.max(axis=axes, keepdims=True, initial=lowest)
        total = (base ** (score - maximum)).sum(axis=axes)
        result = maximum.reshape(total.shape) + log(total)
    return np.einsum(f"{_letters([*batch, *rows])}->{_letters(maps['log_sum_exp'])}", result)


def of_pages(pool: Array, table: Array) -> Array:
    """The pages of each sequence, ``[sequence, page, ...]``, from a pool ``[page, ...]``.

    A number outside of the pool counts as the nearest page.
    """
    return pool[np.clip(table, 0, len(pool) - 1)]


def online_attention(
    operands: Mapping[str, Array],
    maps: Maps,
    *,
    scale: float,
    region: Callable[..., Any] | None = None,
    region_dims: Sequence[int] = (),
    score_domain: str = "natural",
    visible: Array | None = None,
) -> tuple[Array, Array, Array]:
    """One step from ``output_init, max_init, sum_init``: float64 ``(output, max, sum)``."""
    batch, rows, columns, keys = _dims(maps)
    base = 2.0 if score_domain == "log2" else np.e
    over_rows, over_output = [*batch, *rows], [*batch, *rows, *columns]
    state = {
        name: _aligned(operands[f"{name}_init"].astype(np.float64), maps[name], onto)
        for name, onto in (("output", over_output), ("max", over_rows), ("sum", over_rows))
    }
    score = scores(operands, maps, scale, region, region_dims, score_domain, visible)
    axes = tuple(range(score.ndim - len(keys), score.ndim))
    with np.errstate(invalid="ignore"):
        maximum = np.maximum(state["max"], score.max(axis=axes, initial=-np.inf))
        shrink = base ** (state["max"] - maximum)
        weights = base ** (score - maximum.reshape([*maximum.shape, *([1] * len(keys))]))
        total = shrink * state["sum"] + weights.sum(axis=axes)
        carried = shrink.reshape([*shrink.shape, *([1] * len(columns))]) * state["output"]
        output = carried + _weighted_values(weights, operands, maps)

    def back(array: Array, dims: Sequence[int], name: str) -> Array:
        return np.einsum(f"{_letters(dims)}->{_letters(maps[name])}", array)

    return (
        back(output, over_output, "output"),
        back(maximum, over_rows, "max"),
        back(total, over_rows, "sum"),
    )
