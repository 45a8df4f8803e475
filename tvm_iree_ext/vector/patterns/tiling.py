"""Tiling to the compute hierarchy: workgroups, threads, steps of the reductions.

before:  c = fill 0 [128x64];  c += a * b;  d = c - sub
after:   forall workgroup in 16 x 2 (tile 8x32):  forall thread in 2 x 8 (tile 4x4):
             acc = fill 0 [4x4];  for k in 0..256 step 4: acc += a[4x4] * b[4x4];  d = acc - sub

The last op of each result is tiled, and what it is made of is computed tile by tile where it is
needed.  Where a tile does not divide an extent, the rest is peeled: it has tiles of its own, so
all tiles have static sizes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.insertion import IndexLike
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ops.contract import REDUCTION
from tvm_iree_ext.vector.ops.structured import extent_of, is_structured, nest_of, reach
from tvm_iree_ext.vector.patterns.canonicalization import clean
from tvm_iree_ext.vector.patterns.padding import slice_of_pad
from tvm_iree_ext.vector.programs.builder import Builder
from tvm_iree_ext.vector.programs.vector_program import VectorProgram


@dataclass(frozen=True)
class Tiling:
    """Sizes of tiles.

    Attributes:
        workgroup: of the result's dims, what a workgroup computes; whole multiples of ``thread``.
        thread: of the result's dims, what a thread, or a core at a time, computes.
        reduction: of the reduction dims in the order of the op, the step of a loop; 0 for none.
    """

    workgroup: tuple[int, ...]
    thread: tuple[int, ...]
    reduction: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.workgroup) != len(self.thread):
            raise VectorError(
                "E_ATTR_LENGTH", f"tiling: workgroup {self.workgroup}, thread {self.thread}"
            )
        for dim, (outer, inner) in enumerate(zip(self.workgroup, self.thread, strict=True)):
            if inner < 1 or outer < inner or outer % inner:
                raise VectorError(
                    "E_NO_LEGAL_SHAPE",
                    f"tiling: dim {dim} has workgroup tiles of {outer} and thread tiles of {inner};"
                    " expected a multiple",
                )
        if any(step < 0 for step in self.reduction):
            raise VectorError("E_INDEX_RANGE", f"tiling: reduction {self.reduction}; expected >= 0")


@dataclass(frozen=True)
class _DimPart:
    """Part of a dim: ``workgroups`` x ``threads`` tiles from ``start`` on."""

    start: int
    workgroups: int
    threads: int
    tile: int


def _parts(extent: int, workgroup: int, thread: int) -> list[_DimPart]:
    """The whole workgroups' part of a dim, then that of whole threads, then the rest."""
    found = []
    if full := extent // workgroup:
        found.append(_DimPart(0, full, workgroup // thread, thread))
    start = full * workgroup
    if threads := (extent - start) // thread:
        found.append(_DimPart(start, 1, threads, thread))
    start += threads * thread
    if start < extent:
        found.append(_DimPart(start, 1, 1, extent - start))
    return found


def tile(program: VectorProgram, tiling: Tiling) -> VectorProgram:
    """Tile each result that a structured op makes, with all that it is made of.

    Raises:
        VectorError: E_NO_LEGAL_SHAPE for an extent that is known at run time only.
    """
    changed = program.clone()
    last = changed.body.terminator
    for value in dict.fromkeys(last.operands):
        if value.op is not None and is_structured(value.op):
            value.replace_by(_Tiler(Builder(changed.body, last), tiling).tiled(value))
    clean(changed)
    changed.verify()
    return changed


class _Tiler:
    """Makes the tiles of one result."""

    def __init__(self, b: Builder, tiling: Tiling) -> None:
        self._b = b
        self._tiling = tiling
        self._destination: Value | None = None
        self._shared: Value | None = None
        self._made: dict[Any, Value] = {}

    def tiled(self, value: Value) -> Value:
        """The value, made by workgroups and threads."""
        op, b, tiling = value.op, self._b, self._tiling
        assert op is not None
        if len(tiling.thread) != value.rank:
            raise op.error(
                "E_ATTR_LENGTH",
                f"the tiling is {tiling}; expected {value.rank} sizes as the result",
            )
        extents = [_static(op, dim, extent) for dim, extent in enumerate(value.shape)]
        self._destination = out = _destination(value)
        sizes = zip(extents, tiling.workgroup, tiling.thread, strict=True)
        for parts in product(*(_parts(*one) for one in sizes)):
            wg_names, th_names = ([f"{c}{n}" for n in range(value.rank)] for c in "wt")
            with b.forall(
                *(p.workgroups for p in parts), outs=[out], mapping="workgroup", hints=wg_names
            ) as wg:
                bases = [
                    b.arithmetic("add", b.arithmetic("mul", i, p.threads * p.tile), p.start)
                    for i, p in zip(wg.indices, parts, strict=True)
                ]
                with b.forall(
                    *(p.threads for p in parts), outs=wg.carried, mapping="thread", hints=th_names
                ) as th:
                    offsets = [
                        b.arithmetic("add", base, b.arithmetic("mul", i, p.tile))
                        for base, i, p in zip(bases, th.indices, parts, strict=True)
                    ]
                    self._shared, self._made = th.carried[0], {}
                    made = self._tile(value, offsets, [p.tile for p in parts])
                    th.yield_(b.insert_slice(made, th.carried[0], offsets))
                wg.yield_(th.result)
            out = wg.result
        return out

    def _tile(self, value: Value, offsets: Sequence[IndexLike], sizes: Sequence[int]) -> Value:
        """A box of a value, computed, or cut from what is there."""
        b = self._b
        at = tuple(b.indices(offsets))
        key = value, at, tuple(sizes)
        if key not in self._made:
            self._made[key] = self._compute(value, at, sizes)
        return self._made[key]

    def _compute(self, value: Value, at: Sequence[Value], sizes: Sequence[int]) -> Value:
        b, op = self._b, value.op
        if value is self._destination:
            assert self._shared is not None
            return b.extract_slice(self._shared, at, sizes)
        if op is None or not (is_structured(op) or op.name in ("tensor.empty", "tensor.pad")):
            if tuple(sizes) == value.shape and all(one.constant == 0 for one in at):
                return value
            return b.extract_slice(value, at, sizes)
        if op.name == "tensor.empty":
            return b.empty(sizes, value.dtype)
        if op.name == "tensor.pad":
            return slice_of_pad(b, op, at, sizes)
        return self._tile_of_nest(op, value.number, at, sizes)

    def _tile_of_nest(
        self, op: Operation, number: int, at: Sequence[Value], sizes: Sequence[int]
    ) -> Value:
        nest = nest_of(op)
        outs = len(op.results)
        out_map = nest.maps[len(nest.maps) - outs + number]
        starts: dict[int, IndexLike] = dict(zip(out_map.used, at, strict=True))
        steps: dict[int, int] = dict(zip(out_map.used, sizes, strict=True))
        extents = extent_of(nest, [one.shape for one in op.operands])
        reduced = [dim for dim, it in enumerate(nest.iterators) if it == REDUCTION]
        wanted = self._tiling.reduction if reduced else ()
        if reduced and len(wanted) not in (0, len(reduced)):
            raise op.error(
                "E_ATTR_LENGTH",
                f"the tiling has the reduction steps {list(wanted)}; expected {len(reduced)}",
            )
        for dim in reduced:
            _static(op, dim, extents[dim])
        names = ["k"] if len(reduced) == 1 else [f"k{n}" for n in range(len(reduced))]
        given = zip(wanted or [0] * len(reduced), names, strict=True)
        loops = dict(zip(reduced, given, strict=True))
        accs = [self._operand(op, len(nest.maps) - outs + n, starts, steps) for n in range(outs)]
        return self._reduce(op, loops, extents, starts, steps, accs)[number]

    def _reduce(
        self,
        op: Operation,
        loops: Mapping[int, tuple[int, str]],
        extents: Sequence[int],
        starts: Mapping[int, IndexLike],
        sizes: Mapping[int, int],
        accs: Sequence[Value],
    ) -> list[Value]:
        """Loops over the reduction dims, those of the whole extent left out; inside them the op."""
        b = self._b
        if not loops:
            inputs = len(op.operands) - len(accs)
            ins = [self._operand(op, n, starts, sizes) for n in range(inputs)]
            return _clone(b, op, [*ins, *accs])
        (dim, (step, name)), *others = loops.items()
        extent, rest = extents[dim], dict(others)
        step = step or extent
        count = extent // step
        if count == 1 and extent == step:
            return self._reduce(op, rest, extents, {**starts, dim: 0}, {**sizes, dim: step}, accs)
        if count:
            with b.loop(0, count * step, step, carry=accs, hint=name) as loop:
                outside, self._made = self._made, dict(self._made)
                inner = {**starts, dim: loop.index}
                made = self._reduce(op, rest, extents, inner, {**sizes, dim: step}, loop.carried)
                loop.yield_(*made)
                self._made = outside
            accs = loop.results
        if left := extent - count * step:
            inner = {**starts, dim: count * step}
            accs = self._reduce(op, rest, extents, inner, {**sizes, dim: left}, accs)
        return list(accs)

    def _operand(
        self, op: Operation, number: int, starts: Mapping[int, IndexLike], sizes: Mapping[int, int]
    ) -> Value:
        """The tile of an operand for a tile of the nest; of a scalar, itself."""
        b, nest, value = self._b, nest_of(op), op.operands[number]
        if not value.is_memory:
            return value
        lengths = [sizes.get(dim, 1) for dim in range(len(nest.iterators))]
        at = []
        for one in nest.maps[number].results:
            place: Any = one.constant
            for dim, by in enumerate(one.coefficients):
                if by:
                    place = b.arithmetic("add", b.arithmetic("mul", starts[dim], by), place)
            at.append(place)
        shape = [reach(one, lengths) - one.constant for one in nest.maps[number].results]
        return self._tile(value, at, shape)


def _clone(b: Builder, op: Operation, operands: Sequence[Value]) -> list[Value]:
    """A structured op with the same body on other operands."""
    names = [name.rstrip("*?") for name in op.definition.operands]
    named = {name: op.segment_of(operands, name) for name in names}
    return b.create(op.name, named, op.attributes, [one.clone({}) for one in op.regions]).results


def _destination(value: Value) -> Value:
    """The tensor which the ops that make a value start from: where tiles are written."""
    while value.op is not None and is_structured(value.op):
        value = value.op.operands[len(value.op.operands) - len(value.op.results) + value.number]
    return value


def _static(op: Operation, dim: int, extent: Any) -> int:
    if not isinstance(extent, int):
        raise op.error(
            "E_NO_LEGAL_SHAPE",
            f"d{dim} has the extent {extent}, known at run time only; expected a number to tile",
        )
    return extent
