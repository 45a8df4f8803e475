"""The matrix product as blocks over whole tiles, before anything is scheduled.

group                one product of several, or one part of K of a product
lhs_registers, ...   the tiles of lhs and rhs on their way, where they stop in registers
lhs_tile, rhs_tile   what is multiplied, in shared memory or registers; 0 beyond K
product              the accumulator, in registers
result               the accumulator, as far as the result reaches
merged               the sum of the parts of K, where it was split
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tvm import s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.schedules.gpu.products.matmul_shape import (
    SIDES,
    CopiedOperands,
    MatmulOperands,
    MatmulShape,
)
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import MOST_PER_DIM, bind_grid
from tvm_iree_ext.tir.small_floats import halved
from tvm_iree_ext.tir.tir_expressions import convert

Store = Callable[[Any, Any, Any], None]
"""Takes a row, a column and a sum, those of a place counted from its first."""


@dataclass(frozen=True)
class TilePlan:
    """The part of a plan that the blocks need.

    Attributes:
        tile: of a workgroup: rows, columns and depth; operands are padded to multiples of it.
        runs: elements of ``lhs``, ``rhs`` and ``result`` that may be accessed at once: they divide
            the rows.
        scope: of shared memory; ``shared.dyn`` where a kernel has more than 48 KiB on CUDA.
        orders: of the dims of ``lhs`` and ``rhs`` in shared memory.
        registers: the operands whose tiles stop in registers on their way.
        direct: the operands whose tiles are in registers, too.
        splits: parts of K, of which each is a product of its own; a second kernel adds them.
    """

    tile: Ints
    runs: dict[str, int]
    scope: str
    orders: dict[str, Ints]
    registers: frozenset[str] = frozenset()
    direct: frozenset[str] = frozenset()
    splits: int = 1


@dataclass(frozen=True)
class BlockPlace:
    """The part of a product that is multiplied without a break.

    Attributes:
        group: the product, of several.
        spans: rows, columns and depth, in whole tiles, by role.
        first: where it begins, by role.
        covered: rows, columns and depth of all such places, in whole tiles.
        depth: what is multiplied of the depth that is spanned; None for all.
        ends: where rows and columns end, by role, where that is before those of the product.
    """

    group: Any
    spans: Mapping[str, Any]
    first: Mapping[str, Any]
    covered: Mapping[str, Any]
    depth: Any | None = None
    ends: Mapping[str, Any] = field(default_factory=dict)


def some_steps(steps: Any, taken: Any, depth: int) -> Any | None:
    """The depth of a place that takes some of all steps of K; None where it is all of them.

    Of steps whose number is not known before, all are taken: a schedule could not tell that those
    taken are no more.
    """
    return taken * depth if isinstance(steps, int) and steps > 1 else None


def shared_name(side: str) -> str:
    """Name of the tile of ``lhs`` or ``rhs`` that is multiplied."""
    return f"{side}_shared"


Source = Callable[[Sequence[Any]], Any]
"""Takes a place in a whole matrix, in its order in memory."""


class MatmulBlocks:
    """The blocks of a product of which each workgroup has a tile, or a part of K of it.

    ``merges``: whether there is the block ``merged``, a second kernel.
    """

    def __init__(self, operands: MatmulOperands, plan: TilePlan) -> None:
        self.operands, self.plan = operands, plan
        self.shape: MatmulShape = operands.shape
        self.index = operands.index_dtype
        self.merges = plan.splits > 1

    def func(self) -> tirx.PrimFunc:
        """The func of the product, over its operands."""
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            self.operands.declare()
            self.groups, *extents = self.operands.extents()
            self.extents = dict(zip("mnk", extents, strict=True))
            with I.sblock("root"):
                if isinstance(self.operands, CopiedOperands):
                    self.operands.emit_blocks()
                self.emit()
        return builder.get()

    def bind(self, sch: s_tir.Schedule, rows: Any, columns: Any) -> None:
        """The loops over tiles to the grid: those along x where they may be many."""
        if self.shape.groups == 1 and self.plan.splits == 1:
            bind_grid(sch, (rows, columns))
            return
        groups = self.shape.groups
        (group,) = sch.get_loops(sch.get_sblock("group"))
        few = groups is not None and groups * self.plan.splits <= MOST_PER_DIM
        loops, axes = ((rows, columns, group), "yxz") if few else ((group, rows, columns), "xyz")
        for loop, axis in zip(loops, axes, strict=True):
            sch.bind(loop, f"blockIdx.{axis}")

    def whole_tiles(self, role: str) -> Any:
        """The tiles along rows, columns or depth."""
        return -(-self.extents[role] // self.plan.tile["mnk".index(role)])

    def emit(self) -> None:
        """All kernels."""
        splits, tile = self.plan.splits, dict(zip("mnk", self.plan.tile, strict=True))
        spans = {role: self.whole_tiles(role) * tile[role] for role in "mnk"}
        covered = dict(spans)
        if splits > 1:
            spans["k"] = -(-self.extents["k"] // (splits * tile["k"])) * tile["k"]
            covered["k"] = splits * spans["k"]
            shape = [self.groups, splits, self.extents["m"], self.extents["n"]]
            parts = I.sblock_alloc_buffer(self.consts(shape), self.shape.result_dtype)
            IRBuilder.name("parts", parts)
        with self._group() as number:
            group, split = (number, 0) if splits == 1 else (number // splits, number % splits)
            first = {"k": split * spans["k"]} if splits > 1 else {}

            def store(i: Any, j: Any, value: Any) -> None:
                if splits > 1:
                    I.buffer_store(parts, value, [group, split, i, j])
                else:
                    self.operands.store(group, i, j, value)

            self.multiply(BlockPlace(group, spans, first, covered), store)
        if splits > 1:
            self._merged(parts)

    @contextmanager
    def _group(self) -> Any:
        """The block of one product; none where there is one alone."""
        count = self.groups * self.plan.splits
        if isinstance(count, int) and count == 1:
            yield tirx.const(0, self.index)
            return
        with I.serial(self.const(0), self.const(count)) as number, I.sblock("group"):
            yield I.axis.spatial(self.const(count), number)

    def multiply(self, place: BlockPlace, store: Store) -> None:
        """The tiles of a place, their product, and its way to ``store``."""
        shape, plan = self.shape, self.plan
        roles = {"lhs": "mk", "rhs": "kn"}
        tiles: dict[str, Any] = {}
        for side in SIDES:
            order = shape.order(side)
            read = shape.read(side)
            sources = {name: self._source(side, place, name) for name in read}
            if side in plan.registers:
                extents = self.consts(place.spans[roles[side][dim]] for dim in order)
                for name, dtype in read.items():
                    waiting = I.sblock_alloc_buffer(extents, dtype, scope="local")
                    _copy(f"{name}_registers", waiting, sources[name])
                    sources[name] = _reads(waiting)
            source = self._factor(side, place, sources)
            extents = self.consts(place.spans[roles[side][dim]] for dim in plan.orders[side])
            scope = "local" if side in plan.direct else plan.scope
            tiles[side] = I.sblock_alloc_buffer(extents, shape.dtype(side), scope=scope)
            IRBuilder.name(shared_name(side), tiles[side])
            turned = order != plan.orders[side]
            _copy(f"{side}_tile", tiles[side], source, turned=turned)
        dtype = shape.result_dtype
        depth = place.spans["k"] if place.depth is None else place.depth
        rows, columns, depth = self.consts((place.spans["m"], place.spans["n"], depth))
        accumulator = I.sblock_alloc_buffer((rows, columns), dtype, scope="local")
        with I.grid(rows, columns, depth) as loops, I.sblock("product"):
            i, j = I.axis.spatial(rows, loops[0]), I.axis.spatial(columns, loops[1])
            k = I.axis.reduce(depth, loops[2])
            factors = [
                tiles[side][tuple(at[dim] for dim in plan.orders[side])]
                for side, at in (("lhs", (i, k)), ("rhs", (k, j)))
            ]
            # In this order; the depth may be read from memory, too.
            I.reads(*factors)
            I.writes(accumulator[i, j])
            with I.init():
                I.buffer_store(accumulator, tirx.const(0, dtype), [i, j])
            first, second = (_cast(factor, dtype) for factor in factors)
            I.buffer_store(accumulator, accumulator[i, j] + first * second, [i, j])
        self._result(accumulator, place, store)

    def _source(self, side: str, place: BlockPlace, name: str) -> Source:
        """Elements of an operand, or one beside it, by places in a whole matrix; 0 beyond K."""
        kind = self.shape.read(side)[name]

        def element(at: Sequence[Any]) -> Any:
            own, inside = self._own(side, place, at)
            value = self.operands.load(name, place.group, own)
            return _or_zero(inside, value, kind)

        return element

    def _factor(self, side: str, place: BlockPlace, sources: Mapping[str, Source]) -> Source:
        """Factors of an operand, by the places of its elements; 0 beyond K."""
        prologue, kind = self.shape.prologue(side), self.shape.dtype(side)
        if prologue is None:
            return lambda at: _widened(sources[side](at), kind)

        def factor(at: Sequence[Any]) -> Any:
            _, inside = self._own(side, place, at)
            kinds = [str(one.ty.dtype) for one in prologue.region.parameters]
            elements = zip(sources.values(), kinds, strict=True)
            value = prologue.region(*(_widened(source(at), kind) for source, kind in elements))
            return _or_zero(inside, _rounded(value, kind), kind)

        return factor

    def _own(self, side: str, place: BlockPlace, at: Sequence[Any]) -> tuple[dict[str, Any], Any]:
        """Position of a place's element, by role, and whether it is there; None: all are."""
        order, run = self.shape.order(side), self.plan.runs[side]
        roles = "mk" if side == "lhs" else "kn"
        own = {roles[dim]: x for dim, x in zip(order, at, strict=True)}
        own = {role: x + place.first.get(role, 0) for role, x in own.items()}
        across, last = roles.replace("k", ""), roles[order[-1]]
        # Products with rows and columns beyond the result's are not stored: any will do.
        if across in place.ends or not _whole(self.extents[across], place.covered[across]):
            step = run if across == last else 1
            own[across] = _at_most(own[across], self.const(self._there(side, across)), step)
        end = (own["k"], self._there(side, "k"), place.covered["k"])
        inside = _both(
            _inside([end], run if last == "k" else 1), self.operands.inside(side, own, run)
        )
        return own, inside

    def _there(self, side: str, role: str) -> Any:
        """Rows, columns or depth of an operand, with the zeros up to the end of an access."""
        extent, access = self.extents[role], self.shape.access(side)
        last = ("mk" if side == "lhs" else "kn")[self.shape.order(side)[-1]]
        if self.shape.pitch(side) is None or role != last:
            return extent
        return -(-extent // access) * access

    def _result(self, accumulator: Any, place: BlockPlace, store: Store) -> None:
        """Over whole tiles, too, so that what a lane holds never depends on the edge."""
        rows, columns = self.consts(place.spans[role] for role in "mn")
        with I.grid(rows, columns) as loops, I.sblock("result"):
            i, j = I.axis.spatial(rows, loops[0]), I.axis.spatial(columns, loops[1])
            extents = {**self.extents, **place.ends}
            ends = [
                (at + place.first.get(role, 0), extents[role], place.covered[role])
                for at, role in zip((i, j), "mn", strict=True)
            ]
            if place.ends:
                # Not what they are read from, which stands before all loops.
                I.reads(accumulator[i, j])
            inside = _inside(ends, self.plan.runs["result"], hidden=True)
            with ExitStack() as stack:
                if inside is not None:
                    stack.enter_context(I.If(inside))
                    stack.enter_context(I.Then())
                store(i, j, accumulator[i, j])

    def _merged(self, parts: Any) -> None:
        """The sum of the parts of K, in their order."""
        extents = self.consts([self.groups, self.extents["m"], self.extents["n"]])
        with I.grid(*extents) as loops, I.sblock("merged"):
            g, i, j = (I.axis.spatial(e, loop) for e, loop in zip(extents, loops, strict=True))
            total = parts[g, 0, i, j]
            for split in range(1, self.plan.splits):
                total = total + parts[g, split, i, j]
            self.operands.store(g, i, j, total)

    def const(self, extent: Any) -> Any:
        """A number as an index."""
        return tirx.const(extent, self.index) if isinstance(extent, int) else extent

    def consts(self, extents: Any) -> list[Any]:
        """Numbers as indices."""
        return [self.const(extent) for extent in extents]


def _cast(value: Any, dtype: str) -> Any:
    """Cast for TensorIntrins: none where the type is the same."""
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)


def _widened(value: Any, dtype: str) -> Any:
    """In a type that holds the number."""
    came = str(value.ty.dtype)
    if came == dtype:
        return value
    if came.startswith("float8"):
        return _widened(halved(value), dtype)
    if dtype != "bfloat16":
        return convert(value, dtype)
    # The upper half of a float32, by hand: TVM's conversion is lost where words are stored.
    bits = tirx.reinterpret("uint32", convert(value, "float32"))
    word = tirx.Cast("uint16", bits >> tirx.const(16, "uint32"))
    return tirx.reinterpret("bfloat16", word)


def _rounded(value: Any, dtype: str) -> Any:
    """In a type that may not hold the number."""
    if dtype != "bfloat16":
        return convert(value, dtype)
    # To the nearest, ties to even; by hand, as above.  Every NaN is the quiet one: rounded, it
    # could become an infinity, or reach the sign.
    bits = tirx.reinterpret("uint32", convert(value, "float32"))
    sign, half, shift = (tirx.const(n, "uint32") for n in (0x80000000, 0x7FFF, 16))
    infinity, quiet = (tirx.const(n, "uint32") for n in (0x7F800000, 0x7FC00000))
    size = bits & tirx.const(0x7FFFFFFF, "uint32")
    size = tirx.Select(size > infinity, quiet, size)
    odd = (size >> shift) & tirx.const(1, "uint32")
    word = ((size + (odd + half)) | (bits & sign)) >> shift
    return tirx.reinterpret("bfloat16", tirx.Cast("uint16", word))


def _or_zero(inside: Any | None, value: Any, dtype: str) -> Any:
    return value if inside is None else tirx.if_then_else(inside, value, tirx.const(0, dtype))


def _reads(buffer: Any) -> Any:
    return lambda at: buffer[tuple(at)]


def _copy(name: str, target: Any, source: Any, *, turned: bool = False) -> None:
    """``target = source``, of which the dims may be the other way round."""
    with I.grid(*target.shape) as loops, I.sblock(name):
        at = [I.axis.spatial(e, loop) for e, loop in zip(target.shape, loops, strict=True)]
        value = source(list(reversed(at)) if turned else at)
        I.buffer_store(target, value, at)


def _inside(
    limits: Sequence[tuple[Any, Any, Any]], run: int, *, hidden: bool = False
) -> Any | None:
    """Whether indices are below their extents, the same for each run of the last one's.

    Those of which the padded extent is no larger are left out; None where all are.  ``hidden`` are
    conditions of which the simplifier concludes nothing: else it would leave out of an
    accumulator's index what is 0 for all that are inside.
    """
    inside: Any = None
    for dim, (index, extent, padded) in enumerate(limits):
        if _whole(extent, padded):
            continue
        step = run if dim == len(limits) - 1 else 1
        number = index // step if step > 1 else index
        kind = str(number.ty.dtype)
        bound = tirx.const(extent // step, kind) if isinstance(extent, int) else extent // step
        condition = _hidden_less(number, bound) if hidden else number < bound
        inside = _both(inside, condition)
    return inside


def _at_most(index: Any, extent: Any, run: int) -> Any:
    """The index, or where its run is beyond the extent, that of the last one."""
    if run == 1:
        return tirx.min(index, extent - 1)
    return tirx.min(index // run, extent // run - 1) * run + index % run


def _whole(extent: Any, padded: Any) -> bool:
    return isinstance(extent, int) and extent == padded


def _both(first: Any | None, second: Any | None) -> Any | None:
    """Two conditions as one; None always holds."""
    if first is None or second is None:
        return second if first is None else first
    return tirx.And(first, second)


def _hidden_less(number: Any, bound: Any) -> Any:
    narrow = [_cast(each, "int32") for each in (number, bound)]
    first, second = (tirx.Cast("int64", each) for each in narrow)
    return first < second
