"""``iree_linalg_ext.attention`` and ``iree_linalg_ext.online_attention``.

With S = scale * query . key, then the region, then the mask, for every batch b, row m, column n:

    attention:         output = sum_k2 softmax_k2(S) * value
    online_attention:  mx' = max(mx, max_k2 S);  c = exp(mx - mx');  P = exp(S - mx')
                       sum' = c * sum + sum_k2 P;  output' = c * output + sum_k2 P * value

Every operand is read through its own indexing map, so batch, head and group dims, transposed
operands and broadcast masks come from the maps alone.  Scores, softmax and accumulation are in
float32, or float64 when an operand is.  Two differences to the dialect: in/out operands are two
(an init and a result), and the score domain is natural unless ``score_domain="log2"`` asks for
the one that IREE computes in, where the region sees scores times log2(e), and ``max`` is in base 2.

Beyond the dialect, a *band* bounds the keys that a row sees by its position: causal attention and
sliding windows.  *Key lengths*, one for each batch point, end the keys: what lies behind is never
looked at.  Keys outside are not computed at all.  Key and value may lie in *pages* of a pool, which
a table gives to sequences: their map says where a key would lie if the table left pages in order.
And attention has a second result on request, the logarithm of the sum that softmax divides by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Default, Extent, Operand, Signature, TensorType
from tvm_iree_ext.ops.base.compute_dtypes import wide_dtype
from tvm_iree_ext.ops.base.maps import IndexingMap, parse_maps
from tvm_iree_ext.ops.base.op import Op, resolve
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor, collapsed
from tvm_iree_ext.ops.base.regions import Region, RegionLike, trace
from tvm_iree_ext.ops.families.attention.attention_arguments import (
    Band,
    Causal,
    Layout,
    Pages,
    Window,
    band_of,
    layout_maps,
    resolve_pools,
)
from tvm_iree_ext.tir.tir_expressions import i64
from tvm_iree_ext.tir.tvm_modules import ir

ScoreDomain = Literal["natural", "log2"]


@dataclass(frozen=True, eq=False)
class Attention(Op):
    """An attention or one step of it; made by :func:`attention` and :func:`online_attention`."""

    name: str
    types: Mapping[str, TensorType]
    maps: Mapping[str, IndexingMap]
    extents: tuple[Extent, ...]
    scale: float | None
    region: Region | None
    score_domain: ScoreDomain
    band: Band | None

    def changed(self, score: ir.Expr, at: Mapping[int, Any]) -> ir.Expr:
        """What the region makes of a scaled score at a point of the iteration dims."""
        if self.region is None:
            return score
        return self.region(score, *(i64(at[dim]) for dim in self.region.dims))

    own_numbers = frozenset(dtypes.FLOATS8)

    @property
    def online(self) -> bool:
        """Whether running state comes in and goes out unnormalised."""
        return self.name.endswith("online_attention")

    @property
    def paged(self) -> bool:
        """Whether key and value are pools of pages."""
        return "block_table" in self.types

    @property
    def compute_dtype(self) -> str:
        """The type of scores, softmax and accumulators."""
        return wide_dtype(self.types.values())

    @cached_property
    def dims(self) -> dict[str, tuple[int, ...]]:
        """The iteration dims by role: ``b``, ``m``, ``n``, ``k1``, ``k2`` (dialect, section 4)."""
        return classify(self.name, self.maps)

    @cached_property
    def signature(self) -> Signature:
        """All operands in the order of a call.

        ``query, key, value, [scale], [mask], [key_lengths], [block_table], [inits], output,
        [max, sum]``, and of attention ``[log_sum_exp]`` after the output.
        """
        least = {name: (1,) for name in ("key", "value") if self.paged}  # a pool has pages
        operands = [
            Operand(n, self.types[n].shape, self.types[n].dtype, least=least.get(n, ()))
            for n in _INPUTS
        ]
        if self.scale is None:
            operands.append(Operand("scale", (), self.compute_dtype, "scalar"))
        for name in _OPTIONAL:
            if name in self.types:
                operands.append(Operand(name, self.types[name].shape, self.types[name].dtype))
        operands += [one.operand for one in self.region_scalars]
        results = [name for name in _RESULTS if name in self.types]
        for role in ("input", "result") if self.online else ("result",):
            for result in results:
                kind = self.types[result]
                if role == "input":
                    fresh: Default = "-inf" if result == "max" else 0
                    operands.append(
                        Operand(f"{result}_init", kind.shape, kind.dtype, default=fresh)
                    )
                    continue
                init = f"{result}_init" if self.online else ""
                over = tuple(self.extents[dim] for dim in self.dims["k2"]) if init else ()
                operands.append(Operand(result, kind.shape, kind.dtype, role, init=init, over=over))
        return Signature(tuple(operands))

    @property
    def attributes(self) -> dict[str, Any]:
        """Maps, scale (None: given at call time), region, score domain and band."""
        return {
            "indexing_maps": {name: str(one) for name, one in self.maps.items()},
            "extents": list(self.extents),
            "scale": self.scale,
            "region": None if self.region is None else self.region.text,
            "score_domain": self.score_domain,
            "band": None if self.band is None else self.band.to_json(),
        }

    def count(self, role: str, extents: Mapping[str, int] | None = None) -> int:
        """How many points the dims of a role span."""
        return math.prod(resolve(self.extents[dim], extents) for dim in self.dims[role])

    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """Two per multiply-add of both products, over the keys that the band leaves.

        Only a call tells key lengths: all keys count here.
        """
        b, m, n, k1, k2 = (self.count(role, extents) for role in ("b", "m", "n", "k1", "k2"))
        pairs = m * k2
        if self.band is not None:
            rows = resolve(self.extents[self.dims["m"][-1]], extents)
            pairs = m // rows * self.band.pairs(rows, k2)
        return 2 * b * pairs * (k1 + n)


_INPUTS = ("query", "key", "value")
_OPTIONAL = ("mask", "key_lengths", "block_table")
_COUNTS = ("int32", "int64")
_RESULTS = ("output", "log_sum_exp", "max", "sum")


def classify(op: str, maps: Mapping[str, IndexingMap]) -> dict[str, tuple[int, ...]]:
    """The iteration dims by role, each in ascending order.

    Raises:
        OpError: when the maps of output, mask, max or sum do not fit the roles.
    """
    q, k, v, o = (set(maps[name].dims) for name in (*_INPUTS, "output"))
    batch = (q & v) | (k & o)
    k1 = (q & k) - batch
    k2 = k - batch - k1
    m = q - batch - k1
    n = v - batch - k2

    def check(name: str, allowed: set[int], exact: bool) -> None:
        used = set(maps[name].dims)
        wrong = used - allowed if not exact else used ^ allowed
        if wrong:
            raise OpError(
                f"{op}: the indexing map of {name} uses {_dims(used)};"
                f" expected {'' if exact else 'a part of '}{_dims(allowed)}"
                f" (batch {_dims(batch)}, m {_dims(m)}, n {_dims(n)}, k1 {_dims(k1)},"
                f" k2 {_dims(k2)})"
            )

    check("output", batch | m | n, exact=True)
    for name in _RESULTS[1:]:
        if name in maps:
            check(name, batch | m, exact=True)
    if "mask" in maps:
        check("mask", batch | m | k2, exact=False)
    if "key_lengths" in maps:
        check("key_lengths", batch, exact=False)
    if not k2:
        raise OpError(f"{op}: no dim of key is left to attend over; key uses {_dims(k)}")
    return {
        "b": tuple(sorted(batch)),
        "m": tuple(sorted(m)),
        "n": tuple(sorted(n)),
        "k1": tuple(sorted(k1)),
        "k2": tuple(sorted(k2)),
    }


def _dims(dims: set[int]) -> str:
    return "{" + ", ".join(f"d{dim}" for dim in sorted(dims)) + "}"


def attention(
    query: OperandLike,
    key: OperandLike,
    value: OperandLike,
    *,
    dtype: str = "float32",
    output_dtype: str | None = None,
    mask: OperandLike | None = None,
    key_lengths: OperandLike | None = None,
    block_table: OperandLike | None = None,
    scale: float | Literal["operand"] | None = None,
    region: RegionLike | None = None,
    score_domain: ScoreDomain = "natural",
    indexing_maps: Sequence[str | IndexingMap] | None = None,
    layout: Layout | None = None,
    pages: Pages | None = None,
    causal: Causal = False,
    window: Window = None,
    log_sum_exp: bool = False,
) -> Attention:
    """``softmax(scale * query . key + mask) . value``.

    Args:
        query, key, value: shapes (of ``dtype``), :class:`TensorType`, or anything with ``shape``
            and ``dtype``.  Extents are numbers, names of extents known at call time, or ``"?"``.
        dtype: element type of operands given as bare shapes: f16, bf16, f32 or f64.
        output_dtype: element type of the result; by default query's.
        mask: added to the scores when of a float type; an integer or bool mask keeps the scores
            where its lowest bit is set.  A bare shape means bool.
        key_lengths: how many keys each batch point has: int32 (which a bare shape means) or int64,
            of shape ``(batch,)`` in a layout.  Keys from that number on are neither seen nor read,
            and ``lower_right`` is the corner that they end at.  A number below 0 counts as 0, one
            beyond the keys as all.
        block_table: which pages of a pool the sequences of the batch have, in their order: int32
            (which a bare shape means) or int64, of shape ``(batch, pages of a sequence)``.  Key and
            value are then ``[pages, heads, keys of a page, columns]``, and the keys of a page are a
            number.  A number outside of the pool counts as the nearest page; behind the length
            it may be anything.
        scale: a number; ``"operand"`` for one passed at call time, after value, in the type of the
            scores; by default 1 / sqrt(extent of k1).
        region: changes each score after scaling and before the mask; a callable over a TIR
            expression, or text over ``arg0``, such as ``"30 * tanh(arg0 / 30)"``.  A text may
            name the score's positions along iteration dims, ``d0``, ``d1`` and so on as in
            ``indexing_maps``, which are int64 (``iree_linalg_ext.index``); a callable takes them
            by :func:`.region`.
        score_domain: ``"log2"`` multiplies scale and float masks by log2(e), so that the region
            sees what it sees in IREE; with no region the result is the same.
        indexing_maps: the dialect's maps, for query, key, value, scale, [mask], [key_lengths],
            output, [log_sum_exp]; that of ``key_lengths`` has batch dims.  Without them ``layout``
            says what the axes are.
        layout: ``"bhsd"`` (batch, heads, sequence, head dim; the default) or ``"bshd"``.  Query
            heads may be a multiple of the key's (grouped query); a mask has the trailing axes of
            (batch, heads, queries, keys), with extent 1 where it broadcasts.
        pages: the layout of a pool: ``"phsd"`` or ``"pshd"``; by default as ``layout`` has it.
        causal: row i sees keys 0..i (``True`` or ``"upper_left"``, as in PyTorch), or, with the
            last row at the last key, ``"lower_right"``, for queries that end a longer sequence.
        window: ``(left, right)``: row i sees keys i - left .. i + right only; None is unbounded,
            and one number means both sides (the left one where causal).  With several row dims,
            the position i of a row is that of the last one.
        log_sum_exp: whether ``max + log(sum(exp(S - max)))`` of each row's scores S is a second
            result, over the batch and row dims: float32, or float64 where an operand is; -inf for
            a row without a key.  Of scores in ``log2`` the logarithm is of base 2, too.

    Returns:
        The op.  A row with no key left, or with all its scores at -inf, is NaN.

    Raises:
        OpError: for a rank, extent, dtype, map, scale, mask, length, table, region or window that
            does not fit.
    """
    return _make(
        "iree_linalg_ext.attention",
        (query, key, value),
        dtype=dtype,
        result_dtypes={"output": output_dtype} | ({"log_sum_exp": None} if log_sum_exp else {}),
        mask=mask,
        key_lengths=key_lengths,
        block_table=block_table,
        scale=scale,
        region=region,
        score_domain=score_domain,
        indexing_maps=indexing_maps,
        layout=layout,
        pages=pages,
        causal=causal,
        window=window,
    )


def online_attention(
    query: OperandLike,
    key: OperandLike,
    value: OperandLike,
    *,
    dtype: str = "float32",
    output_dtype: str | None = None,
    max_dtype: str | None = None,
    sum_dtype: str | None = None,
    mask: OperandLike | None = None,
    key_lengths: OperandLike | None = None,
    block_table: OperandLike | None = None,
    scale: float | Literal["operand"] | None = None,
    region: RegionLike | None = None,
    score_domain: ScoreDomain = "natural",
    indexing_maps: Sequence[str | IndexingMap] | None = None,
    layout: Layout | None = None,
    pages: Pages | None = None,
    causal: Causal = False,
    window: Window = None,
) -> Attention:
    """One step of attention over a part of the keys, from running state to running state.

    Arguments are those of :func:`attention`; ``indexing_maps`` has the maps of max and sum after
    the output's, over the batch and row dims.  The kernel takes ``output_init``, ``max_init`` and
    ``sum_init`` after mask and lengths and returns ``output``, ``max`` and ``sum``; after the last
    part the caller computes ``output / sum``.  A fresh state is 0, -inf (or the lowest float) and
    0; it may be left out.

    ``output_dtype``, ``max_dtype`` and ``sum_dtype`` default to float32, or float64 where an
    operand is.

    Raises:
        OpError: as :func:`attention`.
    """
    return _make(
        "iree_linalg_ext.online_attention",
        (query, key, value),
        dtype=dtype,
        result_dtypes={"output": output_dtype, "max": max_dtype, "sum": sum_dtype},
        mask=mask,
        key_lengths=key_lengths,
        block_table=block_table,
        scale=scale,
        region=region,
        score_domain=score_domain,
        indexing_maps=indexing_maps,
        layout=layout,
        pages=pages,
        causal=causal,
        window=window,
    )


def _make(
    op: str,
    operands: tuple[OperandLike, OperandLike, OperandLike],
    *,
    dtype: str,
    result_dtypes: Mapping[str, str | None],
    mask: OperandLike | None,
    key_lengths: OperandLike | None,
    block_table: OperandLike | None,
    scale: float | str | None,
    region: RegionLike | None,
    score_domain: ScoreDomain,
    indexing_maps: Sequence[str | IndexingMap] | None,
    layout: Layout | None,
    pages: Pages | None,
    causal: Causal,
    window: Window,
) -> Attention:
    results = tuple(result_dtypes)
    types = {
        name: as_tensor(op, name, operand, dtype, (*dtypes.FLOATS, *dtypes.FLOATS8), least=0)
        for name, operand in zip(_INPUTS, operands, strict=True)
    }
    if mask is not None:
        types["mask"] = as_tensor(
            op, "mask", mask, "bool", dtypes.FLOATS + dtypes.INTEGERS, least=0
        )
    for name, given in (("key_lengths", key_lengths), ("block_table", block_table)):
        if given is not None:
            types[name] = as_tensor(op, name, given, "int32", _COUNTS, least=0)
    if score_domain not in ("natural", "log2"):
        raise OpError(f"{op}: score_domain is {score_domain!r}; expected 'natural' or 'log2'")

    if pages is not None and block_table is None:
        raise OpError(f"{op}: pages is {pages!r}, and block_table, which gives them, is missing")

    known: dict[int, Extent] = {}
    if indexing_maps is None:
        maps, known = layout_maps(op, "bhsd" if layout is None else layout, types, results, pages)
    elif layout is not None:
        raise OpError(f"{op}: layout and indexing_maps came both; each says what the axes are")
    else:
        if block_table is not None:
            raise OpError(f"{op}: block_table and indexing_maps came both; pages are of a layout")
        names = (*_INPUTS, "scale", *(name for name in _OPTIONAL if name in types), *results)
        maps = parse_maps(op, indexing_maps, names)
        if maps.pop("scale").axes:
            raise OpError(f"{op}: the indexing map of scale has results; scale is a scalar")
    dims = classify(op, maps)
    types, extents = resolve_pools(op, types, maps, known)

    narrow, wide = types["query"].dtype, wide_dtype(types.values())
    for name, wanted in result_dtypes.items():
        shape = tuple(collapsed(axis, extents) for axis in maps[name].axes)
        fallback = wide if name != "output" or "max" in results else narrow
        dtype = fallback if wanted is None else wanted
        types[name] = as_tensor(op, name, TensorType(shape, dtype), "", dtypes.FLOATS, least=0)

    compute = wide_dtype(types.values())
    return Attention(
        name=op,
        types=types,
        maps=maps,
        extents=extents,
        scale=_scale(op, scale, [extents[dim] for dim in dims["k1"]], compute),
        region=None if region is None else _region(op, region, compute, dims, len(extents)),
        score_domain=score_domain,
        band=band_of(op, causal, window, dims, paged=block_table is not None),
    )


def _region(
    op: str, region: RegionLike, compute: str, dims: Mapping[str, tuple[int, ...]], loops: int
) -> Region | None:
    traced = trace(op, region, [compute], yields=compute, takes_scalars=True, loops=loops)
    of_scores = {*dims["b"], *dims["m"], *dims["k2"]}
    if outside := set(traced.dims) - of_scores:
        raise OpError(
            f"{op}: region takes positions along {_dims(outside)}; scores have"
            f" {_dims(of_scores)} (batch, m and k2)"
        )
    is_identity = traced.body.same_as(traced.parameters[0]) and not traced.scalars
    return None if is_identity else traced


def _scale(op: str, scale: object, k1: Sequence[Extent], compute: str) -> float | None:
    if isinstance(scale, str) and scale == "operand":
        return None
    if scale is None:
        if any(isinstance(extent, str) for extent in k1):
            raise OpError(f"{op}: scale has no default when k1 is dynamic; give it")
        return 1.0 / math.sqrt(max(1, math.prod(resolve(extent, None) for extent in k1)))
    value = scale.item() if isinstance(scale, np.generic) else scale
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise OpError(f"{op}: scale is {scale!r}; expected a finite number, 'operand' or None")
    largest = float(np.finfo(compute).max)
    if not -largest <= value <= largest:
        raise OpError(f"{op}: scale is not finite in {compute}; expected a finite number")
    return float(value)
