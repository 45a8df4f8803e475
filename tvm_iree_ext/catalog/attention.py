"""Attention and online attention: reference, tolerance, random cases, JSON examples."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.catalog.attention_random import random_case
from tvm_iree_ext.catalog.base.array_regions import numpy_region
from tvm_iree_ext.catalog.base.entry import OpEntry, Run, Tolerance, Values
from tvm_iree_ext.catalog.base.inits import inits_of_nothing
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.attention.attention import Attention


def _extents(op: Attention, operands: Values) -> dict[str, int]:
    """The values of the symbolic extents."""
    found: dict[str, int] = {}
    for operand in op.signature.arguments:
        if operand.role != "scalar":
            pairs = zip(operand.shape, operands[operand.name].shape, strict=True)
            found |= {name: extent for name, extent in pairs if isinstance(name, str)}
    return found


_POOLS = ("key", "value")


def visible(op: Attention, sizes: Sequence[int], operands: Values) -> np.ndarray | None:
    """Mask of the keys each row sees, to be broadcast over batch dims, row dims and key dims."""
    if op.band is None:
        return None
    of_keys = [sizes[dim] for dim in op.dims["k2"]]
    rows, keys = sizes[op.dims["m"][-1]], math.prod(of_keys)
    last: Any = keys
    if "key_lengths" in operands:
        last = _over_batch(op, operands["key_lengths"].clip(0, keys))
    position = np.arange(rows)[:, None] + (last - rows if op.band.align_end else 0)
    key = np.arange(keys)[None, :]
    seen = np.ones(np.broadcast_shapes(position.shape, key.shape), bool)
    if op.band.left is not None:
        seen &= key >= position - op.band.left
    if op.band.right is not None:
        seen &= key <= position + op.band.right
    return seen.reshape(*seen.shape[:-1], *of_keys)


def _over_batch(op: Attention, lengths: np.ndarray) -> np.ndarray:
    """Lengths over batch dims, in their order, with an axis for each row dim and for keys."""
    dims = op.maps["key_lengths"].dims
    ordered = lengths.transpose([dims.index(dim) for dim in op.dims["b"] if dim in dims])
    extents = iter(ordered.shape)
    batch = [next(extents) if dim in dims else 1 for dim in op.dims["b"]]
    return ordered.reshape(batch + [1] * (len(op.dims["m"]) + 1))


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The results by :mod:`tvm_iree_ext.reference`, in float64; of no keys a state as it was."""
    assert isinstance(op, Attention)
    if (found := inits_of_nothing(op, operands)) is not None:
        return found
    extents = _extents(op, operands)
    sizes = [extents[e] if isinstance(e, str) else e for e in op.extents]
    # The reference knows one dim per axis: an axis of several dims is spread out, and one of
    # none (where a mask broadcasts) is dropped.
    maps = {name: one.dims for name, one in op.maps.items()}
    if op.paged:
        pools = {n: reference.of_pages(operands[n], operands["block_table"]) for n in _POOLS}
        operands = {**operands, **pools}
    spread = {
        name: value.reshape([sizes[dim] for dim in maps[name.removesuffix("_init")]])
        for name, value in operands.items()
        if name in maps or name.removesuffix("_init") in maps
    }
    scale = op.scale
    if scale is None:
        scale = float(np.asarray(operands["scale"], op.compute_dtype))
    keywords: dict[str, Any] = {
        "scale": scale,
        "region": None if op.region is None else numpy_region(op.name, op.region, operands),
        "region_dims": () if op.region is None else op.region.dims,
        "score_domain": op.score_domain,
        "visible": visible(op, sizes, operands),
    }
    shapes = op.signature.result_shapes(extents)
    results: tuple[np.ndarray, ...]
    if op.online:
        results = reference.online_attention(spread, maps, **keywords)
    else:
        results = (reference.attention(spread, maps, **keywords),)
        if "log_sum_exp" in maps:
            results += (reference.log_sum_exp(spread, maps, **keywords),)
    names = [operand.name for operand in op.signature.results]
    return {
        name: value.reshape(shape)
        for name, value, shape in zip(names, results, shapes, strict=True)
    }


def tolerance(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """From dtypes, lengths of the sums, and the operands' magnitudes.

    A score is a sum of k1 products, of magnitude sqrt(k1) times the largest; its rounding errors,
    a few eps of that, are the relative error of a weight, and a result is a mean of k2 values with
    these weights.  The reference rounds weights to value's type, where a kernel may keep more.
    """
    assert isinstance(op, Attention)
    extents = _extents(op, operands)
    eps = dtypes.eps(op.compute_dtype)
    scale = abs(op.scale if op.scale is not None else float(operands["scale"]))
    largest = {name: _largest_finite(operands[name]) for name in ("query", "key", "value")}
    k1, k2 = op.count("k1", extents), op.count("k2", extents)
    score = scale * largest["query"] * largest["key"] * math.sqrt(k1)
    if "mask" in operands and operands["mask"].dtype.kind not in "biu":
        score += _largest_finite(operands["mask"])
    score_error = 4.0 * eps * (1.0 + score)
    sum_error = 2.0 * score_error + eps * (4.0 + math.sqrt(k2))
    weight_error = sum_error + dtypes.eps(op.types["value"].dtype)

    def of(name: str, absolute: float) -> Tolerance:
        dtype = op.types[name].dtype
        return Tolerance(absolute + dtypes.smallest(dtype), 2.0 * dtypes.eps(dtype))

    if not op.online:
        found = {"output": of("output", weight_error * largest["value"])}
        if "log_sum_exp" in op.maps:
            found["log_sum_exp"] = of("log_sum_exp", score_error + sum_error)
        return found
    total = _largest_finite(want["sum"])
    carried = _largest_finite(operands["output_init"])
    return {
        "output": of("output", weight_error * (total * largest["value"] + carried)),
        "max": of("max", score_error),
        "sum": of("sum", weight_error * total),
    }


def _largest_finite(array: np.ndarray) -> float:
    finite = np.abs(array.astype(np.float64))
    return float(np.max(finite[np.isfinite(finite)], initial=0.0))


def run_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples; a chained one is several calls and a division."""
    attributes = case["attrs"]
    inputs = dict(case["inputs"])
    online = case["op"].endswith("online_attention")
    domain = "natural"
    if attributes.get("use_exp2") or str(attributes.get("score_domain", "")).startswith("log2"):
        domain = "log2"
    keywords: dict[str, Any] = {
        "indexing_maps": attributes["indexing_maps"],
        "scale": attributes["scale"],
        "region": attributes["region"]["yields"],
        "score_domain": domain,
    }
    if "tiles_along_k2" in attributes:
        return _run_chain(inputs, attributes, keywords, run)
    make = ops.online_attention if online else ops.attention
    qkv = (inputs[name] for name in ("query", "key", "value"))
    results = run(make(*qkv, mask=inputs.get("mask"), **keywords), inputs)
    return results if online else {"result": results["output"]}


def _run_chain(
    inputs: dict[str, np.ndarray],
    attributes: Mapping[str, Any],
    keywords: dict[str, Any],
    run: Run,
) -> dict[str, np.ndarray]:
    """Online attention over the parts of K2 in turn, normalised at the end."""
    query, key, value = (inputs[name] for name in ("query", "key", "value"))
    whole = ops.online_attention(query, key, value, **keywords)
    axes = {n: whole.maps[n].dims.index(whole.dims["k2"][0]) for n in ("key", "value")}
    shape = query.shape[:-1]
    state = {
        "output": np.zeros((*shape, value.shape[-1]), "float32"),
        "max": np.full(shape, -np.inf, "float32"),
        "sum": np.zeros(shape, "float32"),
    }
    first = 0
    for count in attributes["tiles_along_k2"]:
        keys = range(first, first + count)
        operands = {
            "query": query,
            "key": np.take(key, keys, axes["key"]),
            "value": np.take(value, keys, axes["value"]),
        }
        op = ops.online_attention(*operands.values(), **keywords)
        state = run(op, {**operands, **{f"{name}_init": a for name, a in state.items()}})
        first += count
    return {"normalised": state["output"] * (1.0 / state["sum"])[..., None]}


ATTENTION = OpEntry(
    name="iree_linalg_ext.attention",
    summary="softmax(scale * query . key + mask) . value, in one pass over the keys",
    make=ops.attention,
    reference=run_reference,
    tolerance=tolerance,
    random_case=lambda rng: random_case(rng, online=False),
    run_example=run_example,
)

ONLINE_ATTENTION = OpEntry(
    name="iree_linalg_ext.online_attention",
    summary="one step of attention over a part of the keys, from running state to running state",
    make=ops.online_attention,
    reference=run_reference,
    tolerance=tolerance,
    random_case=lambda rng: random_case(rng, online=True),
    run_example=run_example,
)
