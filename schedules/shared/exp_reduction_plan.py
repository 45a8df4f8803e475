"""The plan of an exp_reduction by its regions and maps: fused dims, sums, products, one pass.

All of it is known from the op alone, before any code is emitted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.ops.base.maps import IndexingMap, fuse_dims
from tvm_iree_ext.ops.base.regions import Region
from tvm_iree_ext.ops.families.exp_reduction.exp_reduction import ExpReduction, read_inputs
from tvm_iree_ext.schedules.shared.fused_dims import Dims, FusedDims


def fused_dims(op: ExpReduction) -> tuple[Dims, ...]:
    """The iteration dims in groups that lie next to each other in every operand.

    A group is one dim to a kernel.  Reduction dims are visited in their order as before.
    """
    reductions = {dim for j in range(len(op.outputs)) for dim in op.reduced(j)}

    def fit(first: Dims, second: Dims) -> bool:
        a, b = first[-1], second[0]
        if (a in reductions) != (b in reductions):
            return False
        between = b < a or any(a < dim < b for dim in reductions)
        return a not in reductions or not between

    return fuse_dims([one.dims for one in op.maps.values()], len(op.extents), fit)


@dataclass(frozen=True)
class Accumulation:
    """An output and the way it is computed; ``columns`` are its dims that the maximum has not.

    ``addend`` is what each point adds, where the output is a sum; ``left * right`` is the same,
    where the first depends on row and key, the second on key and column.
    """

    output: int
    region: Region
    reads: Dims
    columns: Dims
    reduced: Dims
    addend: Region | None
    left: Region | None = None
    right: Region | None = None


@dataclass(frozen=True)
class ReductionPlan(FusedDims):
    """An exp_reduction over fused dims."""

    op: ExpReduction

    @cached_property
    def groups(self) -> tuple[Dims, ...]:
        """The op's dims that are one dim here."""
        return fused_dims(self.op)

    @cached_property
    def maps(self) -> dict[str, IndexingMap]:
        """The indexing maps over fused dims."""
        place = {group[0]: number for number, group in enumerate(self.groups)}
        return {
            name: IndexingMap(
                len(self.groups), tuple((place[dim],) for dim in one.dims if dim in place)
            )
            for name, one in self.op.maps.items()
        }

    def fused(self, dims: Sequence[int]) -> Dims:
        """The fused dims of some of the op's, in the order of the op's."""
        return tuple(number for number, group in enumerate(self.groups) if group[0] in dims)

    @property
    def rows(self) -> Dims:
        """The dims of the maximum."""
        return self.fused(self.op.row_dims)

    @cached_property
    def keys(self) -> Dims:
        """The dims that the maximum is taken over; the last is the one that tiles go along.

        That is the one along which scores lie next to each other, unless an output minds the order.
        """
        keys = self.fused(self.op.key_dims)
        last = self.maps["input0"].dims[-1:]
        if any(one.addend is None for one in self.tiled) or not set(last) <= set(keys):
            return keys
        return (*(dim for dim in keys if dim not in last), *last)

    @property
    def scores_lie_along_keys(self) -> bool:
        """Whether scores that lie next to each other are reduced together."""
        return self.maps["input0"].dims[-1:] == self.keys[-1:] != ()

    @cached_property
    def accumulations(self) -> tuple[Accumulation, ...]:
        """One for each output but the maximum."""
        return tuple(self._accumulation(j) for j in self.op.accumulators())

    @property
    def tiled(self) -> tuple[Accumulation, ...]:
        """Accumulations over the keys of their row: they can follow its tiles."""
        rows, keys = set(self.rows), set(self.fused(self.op.key_dims))
        return tuple(
            one
            for one in self.accumulations
            if set(one.reduced) == keys and rows <= set(self.maps[f"output{one.output}"].dims)
        )

    @cached_property
    def shared(self) -> Dims:
        """The dims of a row that the right side of a product has, too: the batch."""
        dims = {
            dim
            for one in self.tiled
            if one.right is not None
            for i in self.reads(one.right)
            for dim in self.maps[f"input{i}"].dims
        }
        return tuple(dim for dim in self.rows if dim in dims)

    def reads(self, region: Region) -> Dims:
        """The inputs that a part of a region reads; 0 are the weights."""
        return read_inputs(region, len(self.op.inputs))

    def right_in_vectors(self, one: Accumulation, lanes: int) -> int | None:
        """The input that is a product's right side, where it can be read as it lies.

        That is in whole vectors of columns, in the type of the weights.
        """
        if one.right is None or len(one.columns) != 1 or len(self.reads(one.right)) != 1:
            return None
        (source,) = self.reads(one.right)
        count = self.count(one.columns)
        fits = (
            one.right.body.same_as(one.right.parameters[source])
            and self.op.inputs[source].dtype == self.op.compute_dtype
            and self.maps[f"input{source}"].dims[-1:] == one.columns
            and count is not None
            and count % lanes == 0
        )
        return source if fits else None

    @cached_property
    def online(self) -> bool:
        """Whether sums can be taken before the maximum is known, and rescaled when it rises."""
        return all(_follows_the_maximum(self.op, one) for one in self.tiled)

    @property
    def mergeable(self) -> bool:
        """Whether parts of the keys can be reduced apart: every output is a sum, in one pass."""
        return self.online and all(one.addend is not None for one in self.tiled)

    def _accumulation(self, j: int) -> Accumulation:
        op = self.op
        region, count = op.regions[j], len(op.inputs)
        columns = tuple(
            dim for dim in self.fused(op.maps[f"output{j}"].dims) if dim not in self.rows
        )
        addend = _addend(region, count + j)
        left, right = (None, None) if addend is None else self._product(addend, columns)
        return Accumulation(
            j,
            region,
            op.reads(j),
            columns,
            self.fused(op.reduced(j)),
            addend,
            left,
            right,
        )

    def _product(self, addend: Region, columns: Dims) -> tuple[Region | None, Region | None]:
        """The factors of what is added, without and with the columns; None where they mix."""
        sides: tuple[list[ir.Expr], list[ir.Expr]] = [], []
        weighted = False
        for factor in _factors(addend.body):
            reads = self.reads(_part(addend, factor))
            dims = {dim for i in reads for dim in self.maps[f"input{i}"].dims}
            right = bool(dims & set(columns))
            if right and 0 in reads:
                return None, None
            weighted = weighted or 0 in reads
            sides[right].append(factor)
        if not weighted or not sides[1]:
            return None, None
        left, right_side = (_part(addend, _product_of(side)) for side in sides)
        return left, right_side


def _part(region: Region, body: ir.Expr) -> Region:
    return Region.of(region.parameters, body)


def _product_of(factors: Sequence[ir.Expr]) -> ir.Expr:
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def _factors(body: ir.Expr) -> list[ir.Expr]:
    if isinstance(body, tirx.Mul):
        return [*_factors(body.a), *_factors(body.b)]
    return [body]


def _terms(body: ir.Expr, positive: bool = True) -> list[tuple[bool, ir.Expr]]:
    """Terms of a sum, each with its sign."""
    if isinstance(body, tirx.Add):
        return [*_terms(body.a, positive), *_terms(body.b, positive)]
    if isinstance(body, tirx.Sub):
        return [*_terms(body.a, positive), *_terms(body.b, not positive)]
    return [(positive, body)]


def _addend(region: Region, own: int) -> Region | None:
    """Addend of the output's element, where that is all that happens to it."""
    accumulator = region.parameters[own]
    terms = _terms(region.body)
    carried = [one for one in terms if _mentions(one[1], accumulator)]
    rest = [one for one in terms if not _mentions(one[1], accumulator)]
    if len(carried) != 1 or not rest:
        return None
    positive, body = carried[0]
    if not positive or not body.same_as(accumulator):
        return None
    total: Any = None
    for plus, term in rest:
        if total is None:
            dtype = str(term.ty.dtype)
            # As a factor, a minus leaves a product one; unsigned integers have none.
            minus = (
                tirx.const(-1, dtype) * term if "float" in dtype else tirx.const(0, dtype) - term
            )
            total = term if plus else minus
        else:
            total = total + term if plus else total - term
    return _part(region, total)


def _mentions(body: ir.Expr, var: tirx.Var) -> bool:
    found = False

    def look(one: tirx.Var) -> None:
        nonlocal found
        found = found or one.same_as(var)

    tvm_ffi.structural_walk(body, (tirx.Var, look))
    return found


def _follows_the_maximum(op: ExpReduction, one: Accumulation) -> bool:
    """Whether scaling weights and accumulator scales what the region yields; NaN for both is NaN.

    So a maximum that is NaN, or stays -inf, need not be known before: the output is NaN then.
    """
    if one.output not in op.exp_reduced_operands:
        return 0 not in one.reads
    parameters = one.region.parameters
    scaled = {parameters[0].name, parameters[len(op.inputs) + one.output].name}
    return _degree(one.region.body, scaled) == Fraction(1) and _keeps_nan(one.region.body, scaled)


def _keeps_nan(body: Any, scaled: set[str]) -> bool:
    """Whether the value is NaN when all scaled variables are."""

    def visit(node: Any) -> bool:
        match node:
            case tirx.Var():
                return node.name in scaled
            case tirx.Add() | tirx.Sub() | tirx.Mul() | tirx.Div():
                return visit(node.a) or visit(node.b)
            case tirx.Select():
                return visit(node.true_value) and visit(node.false_value)
            case tirx.Cast():
                return visit(node.value)
        return False

    return visit(body)


Degree: TypeAlias = Fraction | str | None
"""The power of a factor common to all scaled variables; "any" for zero; None for no such power."""

_COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)


def _same(a: Degree, b: Degree) -> Degree:
    if a == "any" or a == b:
        return b
    return a if b == "any" else None


def _degree(body: Any, scaled: set[str]) -> Degree:
    def visit(node: Any) -> Degree:
        match node:
            case tirx.Var():
                return Fraction(int(node.name in scaled))
            case tirx.FloatImm() | tirx.IntImm():
                return "any" if node.value == 0 else Fraction(0)
            case tirx.Add() | tirx.Sub() | tirx.Max() | tirx.Min():
                return _same(visit(node.a), visit(node.b))
            case tirx.Mul() | tirx.Div():
                a, b = visit(node.a), visit(node.b)
                if isinstance(a, Fraction) and isinstance(b, Fraction):
                    return a + b if isinstance(node, tirx.Mul) else a - b
                return None if a is None or b is None else "any"
            case tirx.And() | tirx.Or():
                return _same(visit(node.a), visit(node.b))
            case tirx.Not():
                return visit(node.a)
            case tirx.Select():
                if visit(node.condition) is None:
                    return None
                return _same(visit(node.true_value), visit(node.false_value))
            case tirx.Cast():
                inner = visit(node.value)
                real = "float" in str(node.ty.dtype)
                return inner if real or inner == Fraction(0) else None
        if isinstance(node, _COMPARISONS):
            return Fraction(0) if _same(visit(node.a), visit(node.b)) is not None else None
        degrees = {visit(argument) for argument in getattr(node, "args", ())}
        plain = degrees <= {Fraction(0), "any"} and isinstance(node, ir.Call)
        return Fraction(0) if plain else None

    return visit(body)
