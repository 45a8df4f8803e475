"""The value of an expression of a nest at a point, with the producers that it reads computed there.

A producer is a nest whose elements are computed where they are used, instead of in memory.  One
that is used in several places is held in a register tile, because TIR's expressions are trees:
without that a chain of functions that each use the last one twice would double with each of them.
What a condition guards is bound inside of its branch: it must not be computed elsewhere.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.codegen.vector_functions import is_vector_function
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, i64
from tvm_iree_ext.schedules.shared.loops.loops_guards import Bounds
from tvm_iree_ext.schedules.shared.loops.loops_nests import (
    Axis,
    LoopNest,
    Store,
    linear_index,
    loads_of,
    substitute,
    uses,
)
from tvm_iree_ext.tir.pure_operators import is_pure_operator
from tvm_iree_ext.tir.purity import is_guard

# Calls that are compiled for vectors; others, of the C library for one, are not.  Of 16-bit floats
# these are fewer.
_HALF = (
    "tirx.exp tirx.exp2 tirx.exp10 tirx.sigmoid tirx.tanh tirx.sqrt tirx.rsqrt tirx.floor prim.ceil"
    " tirx.round tirx.nearbyint tirx.trunc tirx.fabs tirx.isnan tirx.log prim.log2 tirx.log10"
    " tirx.sin tirx.cos tirx.tan tirx.sinh tirx.cosh tirx.pow tirx.reinterpret"
)
_WHOLE = (
    "tirx.log1p tirx.asin tirx.acos tirx.atan tirx.asinh tirx.acosh tirx.atanh tirx.erf"
    " tirx.copysign tirx.atan2 tirx.ldexp tirx.nextafter tirx.hypot tirx.popcount prim.clz"
)
_OF_HALF = {ir.Op.get(name) for name in _HALF.split()}
_OF_VECTORS = _OF_HALF | {ir.Op.get(name) for name in _WHOLE.split()}


def _has_vectors(call: ir.Call) -> bool:
    if is_pure_operator(call):
        return True
    is_half = any("float16" in str(getattr(one.ty, "dtype", "")) for one in (call, *call.args))
    return call.op in (_OF_HALF if is_half else _OF_VECTORS) or is_vector_function(call)


@dataclass(frozen=True)
class Producer:
    """The store that gives a buffer its elements, and its nest."""

    nest: LoopNest
    store: Store


@dataclass
class NestMemory:
    """The buffers of the function being emitted, as flat ones."""

    given: dict[ir.Var, Any] = field(default_factory=dict)
    flat: dict[ir.Var, Any] = field(default_factory=dict)
    producers: dict[ir.Var, Producer] = field(default_factory=dict)
    shared: set[ir.Var] = field(default_factory=set)  # what is read in more than one place

    def add(self, old: ir.Var, new: Any) -> None:
        """``new`` holds what ``old`` does."""
        dtype = str(new.ty.dtype)
        count = emit.product([e if (k := emit.known(e)) is None else k for e in new.ty.shape])
        stored = "int8" if dtype == "bool" else dtype
        align = item_bytes(dtype)
        self.given[old] = new
        self.flat[old] = I.decl_buffer([i64(count)], stored, data=new.data, align=align)
        IRBuilder.name(str(old.name), self.flat[old])

    def load(self, buffer: ir.Var, position: Expr) -> Expr:
        """The element of a buffer."""
        value = self.flat[buffer][position]
        return tirx.Cast("bool", value) if str(buffer.ty.dtype) == "bool" else value

    def store(self, buffer: ir.Var, position: Expr, value: Expr) -> None:
        """Write an element of a buffer."""
        if str(buffer.ty.dtype) == "bool":
            value = tirx.Cast("int8", value)
        I.buffer_store(self.flat[buffer], value, [position])


@dataclass(frozen=True)
class NestAccess:
    """A place that is read, as a position in a buffer; ``guarded`` if only under a condition."""

    buffer: ir.Var
    position: Expr
    guarded: bool


class Cells:
    """Register tiles for what is held: first counted, then made outside of the loops."""

    def __init__(self) -> None:
        self.dtypes: list[str] = []
        self._tiles: list[Any] = []
        self._next = 0

    def make(self, lanes: int) -> None:
        """Make the tiles, in front of the loops that use them."""
        self._tiles = [emit.registers(lanes, dtype) for dtype in self.dtypes]

    def take(self, dtype: str) -> Any:
        """The next tile; None while they are counted."""
        if not self._tiles:
            self.dtypes.append(dtype)
            return None
        tile = self._tiles[self._next]
        self._next += 1
        return tile

    def rewind(self) -> None:
        """Begin another point, whose values take the places of the last one's."""
        self._next = 0


@dataclass
class _Scope:
    """Values that are computed once: in front of all, or within a branch of a condition."""

    values: dict[tvm_ffi.StructuralKey, Expr] = field(default_factory=dict)
    bound: list[tuple[ir.Var, Expr]] = field(default_factory=list)  # in a branch, by variables


@dataclass
class _Notes:
    """What the points of one value read and use, and hold."""

    accesses: list[NestAccess] = field(default_factory=list)
    named: list[Expr] = field(default_factory=list)  # what is used as a number
    conditions: list[Expr] = field(default_factory=list)
    has_scalar_calls: bool = False
    indices: int = 0  # how many indices what is computed stands in
    scopes: list[_Scope] = field(default_factory=lambda: [_Scope()])


class NestPoint:
    """Computes values where the axes of a nest have certain values.

    ``accumulated`` stands for the elements that a reduction adds to.  A point without ``cells``
    computes nothing: it notes what is read.  What is decided and held is decided by expressions of
    the nest's axes, whatever their values are: so each point takes the same tiles and reads the
    same places, in one order.  ``within`` are bounds of the axes, which decide conditions.
    """

    def __init__(
        self,
        memory: NestMemory,
        at: Mapping[ir.Var, Expr],
        nest: LoopNest,
        cells: Cells,
        lane: Expr | None = None,
        accumulated: Mapping[ir.Var, Expr] | None = None,
        gathered: Mapping[int, Any] | None = None,
        within: Bounds | None = None,
    ) -> None:
        self._memory, self._at, self._nest = memory, dict(at), nest
        self._cells, self._lane, self._within = cells, lane, within
        self._accumulated = dict(accumulated or {})
        # Tiles of what was read for all lanes before, by the order of accesses.
        self._gathered: Mapping[int, Any] = gathered or {}
        self._axes: Mapping[ir.Var, Expr] = {}  # a producer's, as expressions of the nest's
        self._depth = 0  # of the scope that the whole nest is computed in
        self._notes = _Notes()

    @property
    def accesses(self) -> list[NestAccess]:
        """What was read, in order."""
        return self._notes.accesses

    @property
    def named(self) -> list[Expr]:
        """What was used as a number."""
        return self._notes.named

    @property
    def conditions(self) -> list[Expr]:
        """By what was chosen, as expressions of the nest's axes, but for what they load."""
        return self._notes.conditions

    def is_one_by_one(self, axis: Axis) -> bool:
        """Whether neighbours along an axis are no vector: by a call, or as a condition differs."""
        return self._notes.has_scalar_calls or any(
            loads_of(one) or uses(one, [axis.var]) for one in self.conditions
        )

    def value(self, expression: Expr) -> Expr:
        """The expression's value here."""
        return tvm_ffi.structural_mutate(
            expression,
            [(ir.Call, self._call), (ir.TensorLoad, self._load), (ir.Var, self._variable)],
        )

    def place(self, store: Store) -> Expr:
        """The position at which an element is stored here."""
        self._notes.indices += 1
        indices = [self.value(index) for index in store.indices]
        self._notes.indices -= 1
        return self._placed(linear_index(store.buffer, indices))

    def _placed(self, expression: Expr) -> Expr:
        """An expression of the nest's axes, here; one in an index is placed with the index."""
        return expression if self._notes.indices else substitute(expression, self._at)

    def _variable(self, var: ir.Var, _mutator: Any) -> Expr:
        value = self._axes.get(var, var)
        if not self._notes.indices:
            self.named.append(value)
        return self._placed(value)

    def _call(self, call: ir.Call, mutator: Any) -> Expr:
        if not is_guard(call):
            if not _has_vectors(call):
                self._notes.has_scalar_calls = True
            return mutator.default_mutate(call)
        condition, *branches = call.args
        about = substitute(condition, self._axes)
        decided = self._within.decide(about) if self._within is not None else None
        if decided is not None:
            return mutator.mutate(branches[0 if decided else 1])
        self.conditions.append(about)
        condition = mutator.mutate(condition)
        return tirx.if_then_else(condition, *(self._branch(one, mutator) for one in branches))

    def _branch(self, expression: Expr, mutator: Any) -> Expr:
        """What is chosen by a condition, which guards all that is computed for it alone."""
        notes = self._notes
        notes.scopes.append(_Scope())
        value = mutator.mutate(expression)
        for var, bound in reversed(notes.scopes.pop().bound):  # which may be another list by now
            value = tirx.Let(var, bound, value)
        return value

    def _load(self, load: ir.TensorLoad, mutator: Any) -> Expr:
        buffer, notes = load.source, self._notes
        if buffer in self._accumulated:
            return self._accumulated[buffer]
        if buffer in self._nest.cells:
            key = [buffer, *(self._axes.get(axis.var, axis.var) for axis in self._nest.axes)]
            return self._hold(key, self, self._nest.cells[buffer], self._depth)
        notes.indices += 1
        indices = [mutator.mutate(index) for index in load.indices]
        notes.indices -= 1
        producer = self._memory.producers.get(buffer)
        if producer is not None:
            inner = copy(self)
            inner._axes, inner._nest = _where(producer, indices), producer.nest
            inner._accumulated, inner._depth = {}, len(notes.scopes) - 1
            return self._hold([buffer, *indices], inner, producer.store.value, inner._depth)
        position = self._placed(linear_index(buffer, indices))
        tile = self._gathered.get(len(self.accesses))
        place = substitute(position, self._at)
        self.accesses.append(NestAccess(buffer, place, len(notes.scopes) > 1))
        if tile is None:
            return self._memory.load(buffer, position)
        value = tile[self._lane]  # of registers, which hold a bool as its memory does
        return emit.cast(value, "bool") if str(buffer.ty.dtype) == "bool" else value

    def _hold(self, key: list[Any], point: "NestPoint", expression: Expr, depth: int) -> Expr:
        """A value, computed once in the scope of a depth if several places read it."""
        notes = self._notes
        if notes.indices or key[0] not in self._memory.shared:
            return point.value(expression)
        name = tvm_ffi.StructuralKey(key)
        for scope in notes.scopes:
            if name in scope.values:
                return scope.values[name]
        notes.scopes, deeper = notes.scopes[: depth + 1], notes.scopes[depth + 1 :]
        value = point.value(expression)
        if depth == 0:
            value = self._in_tile(value)
        else:
            var = tirx.Var("held", str(value.ty.dtype))
            notes.scopes[depth].bound.append((var, value))
            value = var
        notes.scopes[depth].values[name] = value
        notes.scopes += deeper
        return value

    def _in_tile(self, value: Expr) -> Expr:
        dtype = str(value.ty.dtype)
        tile = self._cells.take("int8" if dtype == "bool" else dtype)
        if tile is None:
            return tirx.Var("held", dtype)
        place = i64(0) if self._lane is None else self._lane
        I.buffer_store(tile, emit.cast(value, str(tile.ty.dtype)), [place])
        return emit.cast(tile[place], dtype)


def noted(
    nest: LoopNest,
    memory: NestMemory,
    cells: Cells,
    at: Mapping[ir.Var, Expr] | None = None,
    accumulated: Mapping[ir.Var, Expr] | None = None,
    within: Bounds | None = None,
) -> NestPoint:
    """A point that notes what the nest reads, and in ``cells`` what must be held."""
    look = NestPoint(memory, at or {}, nest, cells, accumulated=accumulated, within=within)
    for store in nest.stores:
        look.value(store.value)
    return look


def _where(producer: Producer, indices: Sequence[Expr]) -> dict[ir.Var, Expr]:
    """The values of the producer's axes at which it stores an element."""
    at: dict[ir.Var, Expr] = {}
    for place, index in zip(producer.store.indices, indices, strict=True):
        if isinstance(place, ir.Var):
            at[place] = index
    return at


def producers_of(nests: Sequence[LoopNest], buffers: Sequence[Any]) -> dict[ir.Var, Producer]:
    """The buffers whose elements may be computed where they are used.

    One store gives each element, at the place that the loops name.
    """
    stored: dict[ir.Var, list[Producer]] = {}
    for nest in nests:
        for store in nest.stores:
            stored.setdefault(store.buffer, []).append(Producer(nest, store))
    own, found = set(buffers), {}
    for buffer, makers in stored.items():  # in the order of the nests
        if (
            buffer in own
            and len(makers) == 1
            and not makers[0].nest.reduced
            and _is_plain(makers[0])
        ):
            found[buffer] = makers[0]
    return found


def _is_plain(producer: Producer) -> bool:
    extents = {axis.var: axis.extent for axis in producer.nest.axes}
    for place, extent in zip(producer.store.indices, producer.store.buffer.ty.shape, strict=True):
        if isinstance(place, ir.Var) and place in extents:
            if not tvm_ffi.structural_equal(extents.pop(place), extent):
                return False
        elif emit.known(extent) != 1:
            return False
    return not extents


def read_often(nests: Sequence[LoopNest]) -> set[ir.Var]:
    """The buffers that are read in more than one place."""
    once: set[ir.Var] = set()
    often: set[ir.Var] = set()

    def look(load: ir.TensorLoad) -> None:
        (often if load.source in once else once).add(load.source)

    for nest in nests:
        for value in nest.values():
            tvm_ffi.structural_walk(value, (ir.TensorLoad, look))
    return often
