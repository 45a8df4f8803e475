"""Random attention ops and operands: both ways of making them, all attributes, hard shapes."""

from typing import Any

import ml_dtypes
import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.catalog.attention_pages_random import forget_pages, random_pool, random_table
from tvm_iree_ext.catalog.base.random_arrays import pick
from tvm_iree_ext.catalog.base.random_regions import sometimes_empty
from tvm_iree_ext.ops.base.maps import map_text
from tvm_iree_ext.ops.base.regions import TIR_FUNCTIONS, RegionLike
from tvm_iree_ext.ops.families.attention.attention import Attention

Generator = np.random.Generator

# 1, primes, and one below and above the tiles that schedules like.
_LONGEST = 600  # now and then, for the seams between tiles
_LENGTHS = (1, 2, 3, 5, 7, 13, 15, 16, 17, 31, 33, 63, 64, 65, 97, 127, 129, 200)
_WIDTHS = (1, 3, 7, 8, 16, 17, 32, 40, 64, 65)
_DTYPES = ("float32", "float32", "float16", "bfloat16", "float64")
_MASKS = ("bool", "bool", *dtypes.FLOATS, *dtypes.INTEGERS)
# Each function of a region's text, with a slope that keeps errors of scores small.
_TEXTS = (
    "arg0",
    "2 * tanh(arg0)",
    "arg0 * sigmoid(arg0)",
    "max(arg0, -1.5)",
    "min(abs(arg0), 2)",
    "erf(arg0)",
    "exp(min(arg0, 1))",
    "exp2(min(arg0, 1))",
    "log(abs(arg0) + 1)",
    "arg0 * rsqrt(arg0 * arg0 + 1)",
    "sqrt(arg0 * arg0 + 1)",
    "select(arg0 < 0.5, arg0 / 4, arg0 - 0.375)",
)


def _soft_cap(score: Any) -> Any:
    return 1.5 * TIR_FUNCTIONS["tanh"](score / 1.5)


def _leaky(score: Any) -> Any:
    return TIR_FUNCTIONS["select"](score > 0, score, score * 0.25)


# Of numbers of a call, with their types; slopes stay small.
_NUMBERED = (
    ("cap * tanh(arg0 / cap)", {"cap": ("float32", "float16")}),
    ("arg0 + bias", {"bias": ("float32", "bfloat16")}),
    ("select(keep, arg0, arg0 * 0.25)", {"keep": ("bool",)}),
    ("arg0 - 0.0625 * step", {"step": ("int32", "int8", "uint64")}),
)
_NUMBERS = {"cap": 1.5, "bias": -0.375, "keep": False, "step": 3}

_REGIONS = (*[None] * len(_TEXTS), *_TEXTS, _soft_cap, _leaky)


def random_case(rng: Generator, *, online: bool) -> tuple[Attention, dict[str, Any]]:
    """An op and operands that fit it; some extents of the op are symbols."""
    op = (_by_layout if rng.random() < 0.5 else _by_maps)(rng, online)
    sizes = {name: _size(rng, name) for name in op.signature.symbols}
    operands: dict[str, Any] = {}
    for operand in op.signature.arguments:
        shape = tuple(sizes[e] if isinstance(e, str) else e for e in operand.shape)
        if operand.role == "scalar":
            known = _NUMBERS.get(operand.name)
            operands[operand.name] = float(rng.uniform(0.05, 1.0)) if known is None else known
        elif operand.name == "mask":
            operands["mask"] = _mask(rng, shape, operand.dtype)
        elif operand.name == "key_lengths":
            operands["key_lengths"] = _key_lengths(rng, op, shape, sizes)
        elif operand.name == "block_table":
            operands["block_table"] = random_table(rng, op, shape, operands)
        elif operand.name == "max_init":
            value = rng.standard_normal(shape)
            lowest = float(ml_dtypes.finfo(dtypes.numpy_dtype(operand.dtype)).min)
            fresh = -np.inf if rng.random() < 0.5 else lowest
            chosen = np.where(rng.random(shape) < 0.5, value, fresh)
            if rng.random() < 0.1 and chosen.size:
                chosen.flat[rng.integers(chosen.size)] = np.nan
            operands["max_init"] = chosen.astype(dtypes.numpy_dtype(operand.dtype))
        elif operand.name == "sum_init":
            # A row that never saw a key has an empty state.  Max may have another order of axes.
            order = [op.maps["max"].axes.index(axis) for axis in op.maps["sum"].axes]
            seen = operands["max_init"].astype(np.float64).transpose(order) > -6e4
            total = np.where(seen, rng.uniform(0.5, 2.0, shape), 0.0)
            operands["sum_init"] = total.astype(dtypes.numpy_dtype(operand.dtype))
        else:
            value = rng.standard_normal(shape)
            operands[operand.name] = value.astype(dtypes.numpy_dtype(operand.dtype))
    if "mask" not in operands and rng.random() < 0.15:
        _spoil(rng, op, operands)
    if op.paged:
        forget_pages(op, operands)
    elif "key_lengths" in operands:
        _forget(op, operands)
    return op, operands


def _spoil(rng: Generator, op: Attention, operands: dict[str, Any]) -> None:
    """Make one element of query, key or value not a number, or of query or key infinite.

    Not where a row's results may depend on what is hidden from it: see docs/attention.md.
    """
    name = pick(rng, ("query", "key") if op.band else ("query", "key", "value"))
    if not operands[name].size:
        return
    plain = name != "value" and op.region is None
    infinite = plain and rng.random() < 0.5
    array = operands[name]
    array.flat[rng.integers(array.size)] = np.inf if infinite else np.nan


def _key_lengths(
    rng: Generator, op: Attention, shape: tuple[int, ...], sizes: dict[str, int]
) -> np.ndarray:
    """Lengths of any size, now and then none or all, or beyond what there is."""
    keys = op.count("k2", sizes)
    lengths = rng.integers(0, keys + 1, shape)
    odd = rng.choice((0, keys, -3, keys + 5), shape)
    chosen = np.where(rng.random(shape) < 0.7, lengths, odd)
    return chosen.astype(op.types["key_lengths"].dtype)


def _forget(op: Attention, operands: dict[str, Any]) -> None:
    """Make key and value not a number behind the lengths: nobody may look there."""
    lengths, of = operands["key_lengths"], op.maps["key_lengths"].dims
    for name in ("key", "value"):
        array, dims = operands[name], op.maps[name].dims
        if not set(of) <= set(dims) or not array.size:
            continue
        axes = [dims.index(dim) for dim in op.dims["k2"]]
        extents = [array.shape[axis] for axis in axes]
        for point in np.ndindex(lengths.shape):
            behind: list[Any] = [slice(None)] * array.ndim
            for dim, index in zip(of, point, strict=True):
                behind[dims.index(dim)] = index
            for key in range(max(0, int(lengths[point])), int(np.prod(extents))):
                for axis, index in zip(axes, np.unravel_index(key, extents), strict=True):
                    behind[axis] = index
                array[tuple(behind)] = np.nan


def _size(rng: Generator, name: str) -> int:
    """What a symbol may be, by how it is named here."""
    if name.startswith("batch"):
        return int(rng.integers(1, 4))
    if name in ("pages", "blocks"):
        return int(rng.integers(1, 9))
    return pick(rng, _WIDTHS) if name in ("width", "columns") else _length(rng)


def _length(rng: Generator) -> int:
    return int(rng.integers(1, _LONGEST)) if rng.random() < 0.04 else int(pick(rng, _LENGTHS))


def _mask(rng: Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype not in dtypes.FLOATS:
        values = rng.integers(0, 4, shape) if dtype != "bool" else rng.random(shape) < 0.7
        return values.astype(dtypes.numpy_dtype(dtype))
    value = np.where(rng.random(shape) < 0.2, -np.inf, rng.standard_normal(shape))
    return value.astype(dtypes.numpy_dtype(dtype))


def _common(rng: Generator, online: bool) -> dict[str, Any]:
    keywords: dict[str, Any] = {
        "scale": pick(rng, (None, 0.5, -0.3, 1.0, "operand")),
        "region": _numbered(rng) if rng.random() < 0.1 else pick(rng, _REGIONS),
        "score_domain": pick(rng, ("natural", "natural", "log2")),
    }
    if online and rng.random() < 0.4:
        for result in rng.permutation(["output_dtype", "max_dtype", "sum_dtype"])[:2]:
            keywords[str(result)] = pick(rng, _DTYPES)
    elif not online and rng.random() < 0.3:
        keywords["output_dtype"] = pick(rng, _DTYPES)
    if not online and rng.random() < 0.2:
        keywords["log_sum_exp"] = True
    return keywords


def _numbered(rng: Generator) -> RegionLike:
    """A region that takes a number of a call."""
    text, kinds = pick(rng, _NUMBERED)
    return ops.region(text, **{name: pick(rng, types) for name, types in kinds.items()})


def _types(rng: Generator) -> tuple[str, str, str]:
    """Dtypes of query, key, value: mostly one, sometimes three."""
    one = pick(rng, _DTYPES)
    if rng.random() < 0.8:
        return one, one, one
    return pick(rng, _DTYPES), pick(rng, _DTYPES), pick(rng, _DTYPES)


def _some_empty(rng: Generator, sizes: list[int], online: bool) -> list[int]:
    """Batches, rows and keys; of a softmax over no keys there is no result but a running one."""
    if online:
        return sometimes_empty(rng, sizes)
    return [*sometimes_empty(rng, sizes[:2]), *sizes[2:]]


def _by_layout(rng: Generator, online: bool) -> Attention:
    layout = pick(rng, ("bhsd", "bshd"))
    paged = rng.random() < 0.15
    key_heads = int(rng.integers(1, 4))
    heads = key_heads * pick(rng, (1, 1, 2, 3))
    batches = int(rng.integers(1, 4))
    sizes = _some_empty(rng, [batches, _length(rng), _length(rng)], online)
    batch: Extent
    rows: Extent
    keys: Extent
    batch, rows, keys = sizes
    if rng.random() < 0.4:
        batch, rows, keys = (
            symbol if rng.random() < 0.6 else extent
            for symbol, extent in (("batch", batch), ("rows", rows), ("keys", keys))
        )
    width: Extent = pick(rng, _WIDTHS)
    columns: Extent = pick(rng, _WIDTHS)
    if rng.random() < 0.1:
        width, columns = "width" if rng.random() < 0.7 else width, "columns"

    pages: Extent
    table_width: Extent
    key_layout, of_page, pages = layout, keys, 0
    if paged:
        key_layout = pick(rng, ("phsd", "pshd"))
        pages, table_width, of_page = random_pool(rng)
        keys = 1 if isinstance(table_width, str) else table_width * of_page

    def shape(letters: str, head_count: int, length: Extent, last: Extent) -> tuple[Extent, ...]:
        by_letter = {"b": batch, "p": pages, "h": head_count, "s": length, "d": last}
        return tuple(by_letter[letter] for letter in letters)

    keywords = _common(rng, online) | {"layout": layout}
    if paged:
        table = TensorType((batch, table_width), pick(rng, ("int32", "int64")))
        keywords |= {"block_table": table, "pages": key_layout}
    if width == "width" and keywords["scale"] is None:
        keywords["scale"] = 0.2
    if rng.random() < 0.5:
        # A name is a number here, as the query's heads are one.
        full: tuple[Extent, ...] = (batch, heads if rng.random() < 0.8 else "heads", rows, keys)
        full = full[-int(rng.integers(1, 5)) :]
        mask_shape = tuple(1 if rng.random() < 0.3 else extent for extent in full)
        keywords["mask"] = TensorType(mask_shape, pick(rng, _MASKS))
    if rng.random() < (0.8 if paged else 0.2):
        keywords["key_lengths"] = TensorType((batch,), pick(rng, ("int32", "int64")))
    if rng.random() < 0.4:
        keywords["causal"] = pick(rng, (True, "upper_left", "lower_right"))
    if rng.random() < 0.2:
        keywords["window"] = pick(rng, (0, 5, (3, None), (None, 2), (17, 1)))
    q, k, v = _types(rng)
    return _made(
        rng,
        online,
        TensorType(shape(layout, heads, rows, width), q),
        TensorType(shape(key_layout, key_heads, of_page, width), k),
        TensorType(shape(key_layout, key_heads, of_page, columns), v),
        **keywords,
    )


def _by_maps(rng: Generator, online: bool) -> Attention:
    """Several dims of each role, in any order of iteration dims and of operand axes."""
    roles: list[str] = ["b"] * int(rng.integers(0, 3))
    for role in ("m", "n", "k1", "k2"):
        roles += [role] * (2 if rng.random() < 0.15 else 1)
    rng.shuffle(roles)
    extents: list[Extent] = []
    for role in roles:
        several = roles.count(role) > 1 or role == "b"
        if several:
            extents.append(int(rng.integers(1, 6)))
        elif role in ("k1", "n"):
            extents.append(pick(rng, _WIDTHS))
        else:
            extents.append(_length(rng))
    if rng.random() < 0.3:
        for dim, role in enumerate(roles):
            if role in ("b", "m", "k2") and rng.random() < 0.5:
                extents[dim] = f"batch{dim}" if role == "b" else f"length{dim}"

    def operand(*used: str) -> tuple[str, tuple[Extent, ...]]:
        dims = [dim for dim, role in enumerate(roles) if role in used]
        if rng.random() < 0.5:
            rng.shuffle(dims)
        return map_text(len(roles), dims), tuple(extents[dim] for dim in dims)

    inputs = [operand("b", "m", "k1"), operand("b", "k2", "k1"), operand("b", "k2", "n")]
    texts = [*(text for text, _ in inputs), map_text(len(roles), [])]
    keywords = _common(rng, online)
    if rng.random() < 0.5:
        text, _ = operand("b", "m", "k2")
        dims = [int(part) for part in text.split("->")[1].strip(" ()").replace("d", "").split(",")]
        kept = [dim for dim in dims if rng.random() < 0.7] or dims[-1:]
        texts.append(map_text(len(roles), kept))
        mask_shape = tuple(extents[dim] for dim in kept)
        keywords["mask"] = TensorType(mask_shape, pick(rng, _MASKS))
    batch_dims = [dim for dim, role in enumerate(roles) if role == "b" and rng.random() < 0.8]
    if batch_dims and rng.random() < 0.2:
        texts.append(map_text(len(roles), batch_dims))
        keywords["key_lengths"] = TensorType(tuple(extents[d] for d in batch_dims), "int32")
    texts.append(operand("b", "m", "n")[0])
    for _ in range(2 if online else "log_sum_exp" in keywords):
        texts.append(operand("b", "m")[0])
    query, key, value = (
        TensorType(shape, dtype) for (_, shape), dtype in zip(inputs, _types(rng), strict=True)
    )
    return _made(rng, online, query, key, value, indexing_maps=texts, **keywords)


def _made(rng: Generator, online: bool, *operands: TensorType, **keywords: Any) -> Attention:
    """The op; now and then its region takes positions, which need the op's iteration dims."""
    make = ops.online_attention if online else ops.attention
    op = make(*operands, **keywords)
    if rng.random() < 0.1:
        row, key = pick(rng, op.dims["m"] + op.dims["b"]), pick(rng, op.dims["k2"])
        keywords["region"] = f"arg0 - 0.01 * abs(d{row} - d{key})"
        op = make(*operands, **keywords)
    return op
