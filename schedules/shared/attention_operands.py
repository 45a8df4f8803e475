"""Operands of attention while a kernel is emitted: scaling, mask, band, promotion."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.codegen.vector_math import COARSE, NEGATIVE_EXP2
from tvm_iree_ext.ops.base.parameters import passed_dtype
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import (
    At,
    Expr,
    Index,
    IterationSpace,
    OperandView,
    i64,
    known,
    serial,
)
from tvm_iree_ext.schedules.shared.attention_pages import PagedView

_LOG2E = math.log2(math.e)


def dynamic_columns(op: Attention) -> str | None:
    """Name the extent of k1 or n that is dynamic; None where both are numbers."""
    for role in ("k1", "n"):
        for dim in op.dims[role]:
            if isinstance(op.extents[dim], str):
                return f"{role} extent {op.extents[dim]} is dynamic; it must be a number"
    return None


@dataclass(frozen=True)
class ScoreScaling:
    """The place where log2(e) enters, so that every exponential is an exp2.

    ``query`` multiplies the query once, ``mask`` a float mask, ``exponent`` the difference to
    the maximum.  With neither region nor float mask the scores can be in base 2 from the start;
    ``result`` times these are the op's own.
    """

    query: float
    mask: float
    exponent: float
    result: float = 1.0

    @staticmethod
    def of(op: Attention) -> "ScoreScaling":
        """The factors for an op."""
        if op.score_domain == "log2":
            return ScoreScaling(_LOG2E, _LOG2E, 1.0)
        float_mask = "mask" in op.types and op.types["mask"].dtype.startswith(("float", "bfloat"))
        if op.region is None and not float_mask and not op.online:
            return ScoreScaling(_LOG2E, 1.0, 1.0, result=1.0 / _LOG2E)
        return ScoreScaling(1.0, 1.0, _LOG2E)


@dataclass(frozen=True)
class AttentionOperands:
    """The PrimFunc's parameters while it is built, and what they contribute to a score."""

    op: Attention
    space: IterationSpace
    views: Mapping[str, OperandView]
    scale: Expr
    scaling: ScoreScaling

    @staticmethod
    def declare(
        op: Attention, align: int | None = None, *, coarse: bool = False
    ) -> "AttentionOperands":
        """Name the PrimFunc under construction and add the parameters of ``op`` to it.

        ``align`` is of the buffers in bytes; by default any array of their elements will do.
        ``coarse`` weights may be exact to 13 bits only, enough where they are rounded to 8 and
        their sum is no result.
        """
        coarse = coarse and "log_sum_exp" not in op.types
        attributes = {"global_symbol": op.entry, "tirx.noalias": True}
        if op.region is None:
            # Every weight is of a score less the maximum.
            attributes[NEGATIVE_EXP2] = COARSE if coarse else True
        I.func_name(op.entry)
        I.func_attr(attributes)
        symbols = {name: tirx.Var(name, "int64") for name in op.signature.symbols}
        space = IterationSpace.of(op.extents, symbols)
        views: dict[str, OperandView] = {}
        scale: Expr = tirx.const(op.scale or 0.0, op.compute_dtype)
        for operand in op.signature.operands:
            if operand.role == "scalar":
                var = I.arg(operand.name, tirx.Var(operand.name, passed_dtype(operand.dtype)))
                if operand.name == "scale":
                    scale = emit.cast(var, op.compute_dtype)
                continue
            shape = [i64(symbols[e] if isinstance(e, str) else e) for e in operand.shape]
            # Item-size alignment: any NumPy array will do, at no cost in vector moves of a CPU.
            buffer = I.buffer(shape, operand.dtype, align=align or item_bytes(operand.dtype))
            buffer = I.arg(operand.name, buffer)
            views[operand.name] = OperandView(
                buffer, op.maps[operand.name.removesuffix("_init")], space
            )
        if op.paged:
            for name in ("key", "value"):
                view = views[name]
                views[name] = PagedView(view.buffer, view.map, space, views["block_table"])
        return AttentionOperands(op, space, views, scale, ScoreScaling.of(op))

    def const(self, value: float, lanes: int = 1) -> Expr:
        """A number of the compute type."""
        return emit.splat(tirx.const(value, self.op.compute_dtype), lanes)

    @property
    def lowest(self) -> float:
        """The most negative finite number of the compute type."""
        return float(tirx.min_value(self.op.compute_dtype).value)

    @property
    def query_factor(self) -> Expr:
        """Factor of the query, by which products are scaled scores."""
        return self.scale * self.const(self.scaling.query)

    def weight(self, difference: Expr) -> Expr:
        """exp(difference) for a score less the maximum: never positive."""
        if self.scaling.exponent != 1.0:
            difference = difference * self.const(self.scaling.exponent)
        return I.Bind(tirx.exp2(difference))

    def columns(self, name: str) -> tuple[int, ...]:
        """The dims along a row of query, key, value or output."""
        return self.op.dims["k1" if name in ("query", "key") else "n"]

    def key_at(self, key: Index) -> At:
        """The key dims at a flat key position."""
        return self.space.spread(key, self.op.dims["k2"])

    def mask_value(self, loaded: Expr) -> Expr:
        """Addend of a score: an element, or vector of elements, of the mask."""
        came, _, text = str(loaded.ty.dtype).partition("x")
        lanes = int(text or 1)
        if came.startswith(("float", "bfloat")):
            value = emit.cast(loaded, self.op.compute_dtype)
            factor = self.scaling.mask
            return value if factor == 1.0 else value * self.const(factor, lanes)
        bit = loaded & emit.splat(tirx.const(1, came), lanes)
        keep = bit != emit.splat(tirx.const(0, came), lanes)
        return tirx.Select(keep, self.const(0.0, lanes), self.const(-math.inf, lanes))

    def key_count(self, outer: At) -> Index:
        """The keys of a batch point: their extent, or its length, which ends there at most."""
        extent = self.space.count(self.op.dims["k2"])
        if "key_lengths" not in self.views:
            return extent
        given = self.views["key_lengths"].load(outer, "int64")
        return I.Bind(tirx.max(tirx.min(given, i64(extent)), i64(0)))

    def in_tasks(self, dims: Sequence[int]) -> tuple[int, ...]:
        """Dims in the order in which tasks on a CPU count through them.

        Those with lengths change fastest, so that any run of tasks has some of all lengths.
        """
        lengths = self.op.maps.get("key_lengths")
        return tuple(sorted(dims, key=lambda dim: lengths is not None and dim in lengths.dims))

    def in_band(self, score: Expr, row: Index, key: Expr, keys: Index) -> Expr:
        """The score, or -inf where the row at this position does not see the key, of so many."""
        band = self.op.band
        if band is None:
            return score
        position = i64(row) + self.band_offset(keys)
        bounds = []
        if band.right is not None:
            bounds.append(key <= position + band.right)
        if band.left is not None:
            bounds.append(key >= position - band.left)
        inside = bounds[0] if len(bounds) == 1 else tirx.And(*bounds)
        return tirx.Select(inside, score, self.const(-math.inf))

    def band_offset(self, keys: Index) -> Expr:
        """The key position of row 0, of so many keys."""
        if self.op.band is None or not self.op.band.align_end:
            return i64(0)
        rows = self.space.extents[self.op.dims["m"][-1]]
        return i64(keys) - i64(rows)

    def band_range(self, first_row: Index, last_row: Index, keys: Index) -> tuple[Index, Index]:
        """The keys ``begin .. end - 1``, of so many, that some row of a range may see."""
        band = self.op.band
        begin: Index = 0
        end = keys
        if band is not None and band.right is not None:
            bound = i64(last_row) + self.band_offset(keys) + (band.right + 1)
            end = I.Bind(i64(emit.smaller(end, emit.larger(bound, 0))))
        if band is not None and band.left is not None:
            bound = i64(first_row) + self.band_offset(keys) - band.left
            begin = I.Bind(i64(emit.larger(bound, 0)))
        return begin, end

    def promote(
        self,
        name: str,
        target: Any,
        width: Index,
        outer: At,
        first_key: Expr,
        keys: Index,
        lanes: int,
    ) -> None:
        """Copy a tile of key or value to ``target[key, column]``, in the compute type.

        Columns past the operand's, up to ``width``, are zero.
        """
        view, dims = self.views[name], self.columns(name)
        dtype = self.op.compute_dtype
        count = self.space.count(dims)
        blocks = emit.divide(view.along(dims), lanes)[0]
        number = known(blocks)
        few = number is not None and number <= 32
        with serial(keys) as key:
            at = {**outer, **self.key_at(first_key + key)}
            with (I.unroll if few else I.serial)(i64(0), blocks) as block:
                here = {**at, **self.space.spread(block * lanes, dims)}
                value = view.load(here, dtype, lanes)
                I.buffer_store(target, value, [key, emit.run(block * lanes, lanes)])
            with serial(count, blocks * lanes) as column:
                here = {**at, **self.space.spread(column, dims)}
                I.buffer_store(target, view.load(here, dtype), [key, column])
            with serial(width, count) as column:
                I.buffer_store(target, self.const(0.0), [key, column])

    def start(self, row: At) -> tuple[Expr, Expr]:
        """The maximum that online attention starts a row from, and the factor of its state.

        Where it is -inf the kernel starts from the lowest number, as -inf minus -inf would be NaN
        in a tile of masked keys; the state then counts nothing.
        """
        given = self.views["max_init"].load(row, self.op.compute_dtype)
        lowest = self.const(self.lowest)
        empty = given == self.const(-math.inf)
        return (
            tirx.Select(given < lowest, lowest, given),
            tirx.Select(empty, self.const(0.0), self.const(1.0)),
        )

    def settle(self, row: At, maximum: Expr, total: Expr) -> Expr:
        """Write ``max`` and ``sum`` of online attention; the factor of the row's output.

        The dialect's NaN, for a row that starts at -inf and sees only -inf, is made here.
        """
        started = self.views["max_init"].load(row, self.op.compute_dtype)
        uncounted = tirx.Or(total == self.const(0.0), tirx.isnan(total))
        nothing = tirx.And(maximum == self.const(self.lowest), uncounted)
        empty = tirx.And(started == self.const(-math.inf), nothing)
        self.views["max"].store(row, tirx.Select(empty, self.const(-math.inf), maximum))
        # From NaN the row's state is NaN, also where a band leaves it no key to show it.
        lost = tirx.Or(empty, tirx.isnan(maximum))
        self.views["sum"].store(row, tirx.Select(lost, self.const(math.nan), total))
        return tirx.Select(lost, self.const(math.nan), self.const(1.0))

    def settle_log_sum_exp(self, row: At, maximum: Expr, total: Expr) -> None:
        """Write ``log_sum_exp``, from a row's maximum, as the op's own score, and its sum."""
        logarithm = tirx.log(total)
        if self.op.score_domain == "log2":
            logarithm = logarithm * self.const(_LOG2E)
        self.views["log_sum_exp"].store(row, maximum + logarithm)

    def newest(self, maximum: Expr, added: Expr) -> Expr:
        """The maximum after a tile whose weights sum to ``added``: NaN where a score is.

        Comparisons pass over a score of NaN, and the weights do not.  An infinite maximum makes
        weights NaN by itself.
        """
        unseen = tirx.And(tirx.isnan(added), maximum < self.const(math.inf))
        return tirx.Select(unseen, added, maximum)
