"""The value of an expression of a nest at a point, with the producers that it reads computed there.

A producer is a nest whose elements are computed where they are used, instead of in memory.  One
that is used in several places is held in a register tile, because TIR's expressions are trees:
without that a chain of functions that each use the last one twice would double with each of them.
Under a condition nothing is held: what it guards must not be computed elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, i64
from tvm_iree_ext.schedules.loops_form import Nest, Store, linear_index

_GUARD = "tirx.if_then_else"

# Calls that are compiled for vectors; others, of the C library for one, are not.  Of 16-bit floats
# these are fewer.
_HALF = (
    "exp exp2 exp10 sigmoid tanh sqrt rsqrt floor ceil round nearbyint trunc fabs isnan log log2"
    " log10 sin cos tan pow reinterpret"
)
_WHOLE = (
    "log1p asin acos atan asinh acosh atanh erf copysign atan2 ldexp nextafter hypot popcount clz"
    " shift_left shift_right bitwise_and bitwise_or bitwise_xor bitwise_not"
)
_OF_HALF = {f"tirx.{name}" for name in _HALF.split()}
_OF_VECTORS = _OF_HALF | {f"tirx.{name}" for name in _WHOLE.split()}


def _has_vectors(call: ir.Call) -> bool:
    is_half = any("float16" in str(getattr(one.ty, "dtype", "")) for one in (call, *call.args))
    return getattr(call.op, "name", "") in (_OF_HALF if is_half else _OF_VECTORS)


@dataclass(frozen=True)
class Producer:
    """The store that gives a buffer its elements, and its nest."""

    nest: Nest
    store: Store


@dataclass
class Memory:
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
        align = emit.item_bytes(dtype)
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
class Access:
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


class Point:
    """Computes values where the axes of a nest have certain values.

    ``accumulated`` stands for the elements that a reduction adds to.  A point without ``cells``
    computes nothing: it notes what is read.
    """

    def __init__(
        self,
        memory: Memory,
        at: Mapping[ir.Var, Expr],
        nest: Nest,
        cells: Cells,
        lane: Expr | None = None,
        accumulated: Mapping[ir.Var, Expr] | None = None,
        parent: "Point | None" = None,
        gathered: Mapping[int, Any] | None = None,
    ) -> None:
        self._memory, self._at, self._nest = memory, dict(at), nest
        self._cells, self._lane = cells, lane
        self._accumulated = dict(accumulated or {})
        # Tiles of what was read for all lanes before, by the order of accesses.
        self._gathered: Mapping[int, Any] = parent._gathered if parent else gathered or {}
        self.accesses: list[Access] = parent.accesses if parent else []
        self.named: list[Expr] = parent.named if parent else []  # what is used as a number
        self._indices: int = parent._indices if parent else 0
        self._held: dict[Any, Any] = parent._held if parent else {}
        self._guards: int = parent._guards if parent else 0
        self._seen: list[bool] = parent._seen if parent else [False]

    @property
    def is_scalar(self) -> bool:
        """Whether something was under a condition, or a call that vectors have not."""
        return self._seen[0]

    def value(self, expression: Expr) -> Expr:
        """The expression's value here."""
        return tvm_ffi.structural_mutate(
            expression,
            [(ir.Call, self._call), (ir.TensorLoad, self._load), (ir.Var, self._variable)],
        )

    def _variable(self, var: ir.Var, _mutator: Any) -> Expr:
        value = self._at.get(var, var)
        if not self._indices:
            self.named.append(value)
        return value

    def _call(self, call: ir.Call, mutator: Any) -> Expr:
        if getattr(call.op, "name", "") != _GUARD:
            if not _has_vectors(call):
                self._seen[0] = True
            return mutator.default_mutate(call)
        self._seen[0] = True
        condition = mutator.mutate(call.args[0])
        self._guards += 1
        branches = [mutator.mutate(branch) for branch in call.args[1:]]
        self._guards -= 1
        return tirx.if_then_else(condition, *branches)

    def _load(self, load: ir.TensorLoad, mutator: Any) -> Expr:
        buffer = load.source
        if buffer in self._accumulated:
            return self._accumulated[buffer]
        if buffer in self._nest.cells:
            key = ("cell", buffer, id(self))
            return self._hold(key, buffer, self, self._nest.cells[buffer])
        self._indices += 1
        indices = [mutator.mutate(index) for index in load.indices]
        self._indices -= 1
        producer = self._memory.producers.get(buffer)
        if producer is not None:
            at = _where(producer, indices)
            inner = Point(
                self._memory, at, producer.nest, self._cells, self._lane, None, parent=self
            )
            inner._guards, inner._indices = self._guards, self._indices
            key = (buffer, *(str(index) for index in indices))
            return self._hold(key, buffer, inner, producer.store.value)
        position = linear_index(buffer, indices)
        tile = self._gathered.get(len(self.accesses))
        self.accesses.append(Access(buffer, position, self._guards > 0))
        return self._memory.load(buffer, position) if tile is None else tile[self._lane]

    def _hold(self, key: Any, buffer: ir.Var, point: "Point", expression: Expr) -> Expr:
        if self._guards or self._indices or buffer not in self._memory.shared:
            return point.value(expression)
        if key not in self._held:
            value = point.value(expression)
            dtype = str(value.ty.dtype)
            tile = self._cells.take("int8" if dtype == "bool" else dtype)
            if tile is None:
                value = tirx.Var("held", dtype)
            else:
                place = i64(0) if self._lane is None else self._lane
                I.buffer_store(tile, emit.cast(value, str(tile.ty.dtype)), [place])
                value = emit.cast(tile[place], dtype)
            self._held[key] = value, point  # the point: so that its id is not another's
        return self._held[key][0]


def _where(producer: Producer, indices: Sequence[Expr]) -> dict[ir.Var, Expr]:
    """The values of the producer's axes at which it stores an element."""
    at: dict[ir.Var, Expr] = {}
    for place, index in zip(producer.store.indices, indices, strict=True):
        if isinstance(place, ir.Var):
            at[place] = index
    return at


def producers_of(nests: Sequence[Nest], buffers: Sequence[Any]) -> dict[ir.Var, Producer]:
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


def read_often(nests: Sequence[Nest]) -> set[ir.Var]:
    """The buffers that are read in more than one place."""
    once: set[ir.Var] = set()
    often: set[ir.Var] = set()

    def look(load: ir.TensorLoad) -> None:
        (often if load.source in once else once).add(load.source)

    for nest in nests:
        for value in nest.values():
            tvm_ffi.structural_walk(value, (ir.TensorLoad, look))
    return often
