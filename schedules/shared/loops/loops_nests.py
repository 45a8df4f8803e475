"""Plain loops over blocks, taken apart: what each nest computes, and where it reads and writes.

Imported programs consist of such functions, and TVM's fusion of them: nests one after another that
hand each other elements through buffers of the function's own.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer, detect_linear_equation

from tvm_iree_ext.schedules.emit import Expr, i64, known, product, row_major
from tvm_iree_ext.tir.purity import is_guard

Store: TypeAlias = Any  # a tirx.BufferStore
_LARGEST_INDEX_TREE = 4000
"""Nodes of an index: what is held once elsewhere is written out in it, and grows by powers.

An image resized by scales that a call says, through IREE's front end: cubic 2,175 nodes, linear
6,485, linear with its corners aligned 117,031, which was not built in two minutes.
"""


@dataclass(frozen=True)
class Axis:
    """A loop of a nest."""

    var: ir.Var
    extent: Expr
    is_reduced: bool

    @property
    def count(self) -> "int | Expr":
        """The extent, as a number where it is known."""
        number = known(self.extent)
        return self.extent if number is None else number


@dataclass(frozen=True)
class LoopNest:
    """Loops around stores, each of which runs at every point; ``init`` before the reduced loops.

    A cell is a variable of a point: a buffer of one element, stored once, which stores may use.
    """

    axes: tuple[Axis, ...]
    stores: tuple[Store, ...]
    init: tuple[Store, ...] = ()
    cells: Mapping[ir.Var, Expr] = field(default_factory=dict)

    @property
    def spatial(self) -> list[Axis]:
        """The loops that write different elements."""
        return [axis for axis in self.axes if not axis.is_reduced]

    @property
    def reduced(self) -> list[Axis]:
        """The loops that are reduced over."""
        return [axis for axis in self.axes if axis.is_reduced]

    def values(self) -> list[Expr]:
        """Every expression that is computed."""
        return [*self.cells.values(), *(s.value for s in (*self.stores, *self.init))]


@dataclass(frozen=True)
class FunctionNests:
    """A function as nests, with the buffers that it allocates."""

    nests: tuple[LoopNest, ...]
    buffers: tuple[Any, ...]


@functools.lru_cache(maxsize=1024)  # passes of a program ask for each call of a function
def nests_of(function: tirx.PrimFunc) -> FunctionNests | None:
    """The form of a function, without loops that are never entered; None for other statements."""
    body, buffers = function.body, []
    if isinstance(body, s_tir.SBlockRealize) and not body.block.iter_vars:
        buffers = list(body.block.alloc_buffers)
        body = body.block.body
    typed = [p for p in [*function.params, *buffers] if isinstance(p.ty, tirx.BufferType)]
    if any(len(buffer.ty.strides) or str(buffer.ty.dtype) == "handle" for buffer in typed):
        return None
    statements = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    statements = [one for one in statements if not _is_nothing(one)]
    found = [_nest(statement) for statement in statements]
    nests = [nest for nest in found if nest is not None]
    if len(nests) < len(found):
        return None
    empty = {buffer for buffer in typed if any(known(extent) == 0 for extent in buffer.ty.shape)}
    entered = (_entered(nest, empty) for nest in nests)
    kept = (buffer for buffer in buffers if buffer not in empty)
    return FunctionNests(tuple(nest for nest in entered if nest is not None), tuple(kept))


def _is_nothing(statement: Any) -> bool:
    return isinstance(statement, tirx.Evaluate) and isinstance(statement.value, tirx.IntImm)


def _entered(nest: LoopNest, empty: set[ir.Var]) -> LoopNest | None:
    """The nest with what runs of it: a reduction of no terms is its init.

    What reads a buffer without elements is of no value to anybody.
    """
    if any(axis.count == 0 for axis in nest.spatial):
        return None
    if any(axis.count == 0 for axis in nest.reduced):
        return LoopNest(tuple(nest.spatial), nest.init)
    if not empty:
        return nest

    def guarded(call: ir.Call) -> Expr:
        return call.args[2] if is_guard(call) and empty & {*loads_of(call.args[1])} else call

    def load(node: ir.TensorLoad) -> Expr:
        return tirx.const(0, str(node.ty.dtype)) if node.source in empty else node

    def without(node: Any) -> Any:
        chosen = tvm_ffi.structural_map(node, (ir.Call, guarded))
        return tvm_ffi.structural_map(chosen, (ir.TensorLoad, load))

    return dataclasses.replace(
        nest,
        stores=tuple(map(without, nest.stores)),
        init=tuple(map(without, nest.init)),
        cells={cell: without(value) for cell, value in nest.cells.items()},
    )


def _nest(statement: Any) -> LoopNest | None:
    loops: dict[ir.Var, Expr] = {}
    while isinstance(statement, tirx.For):
        if statement.kind != tirx.ForKind.SERIAL or known(statement.min) != 0:
            return None
        loops[statement.loop_var] = statement.extent
        statement = statement.body
    if not isinstance(statement, s_tir.SBlockRealize):
        return None
    block = statement.block
    if known(statement.predicate) != 1 or block.match_buffers:
        return None
    kinds = {tirx.IterVar.DataPar: False, tirx.IterVar.CommReduce: True}
    reduced: dict[ir.Var, bool] = {}
    values: dict[ir.Var, Expr] = {}
    for iterator, value in zip(block.iter_vars, statement.iter_values, strict=True):
        if iterator.iter_type not in kinds:
            return None
        values[iterator.var] = value
        if isinstance(value, ir.Var) and value in loops:
            reduced[value] = kinds[iterator.iter_type]
        elif known(value) is None:
            return None
    if len(reduced) < sum(known(extent) != 1 for extent in loops.values()):
        return None
    for var, extent in loops.items():
        if known(extent) == 1:
            reduced.pop(var, None)
            values = {v: substitute(e, {var: i64(0)}) for v, e in values.items()}
    body = _stores(block.body, values)
    init = _stores(block.init, values) if block.init is not None else ()
    if body is None or init is None:
        return None
    cells = {store.buffer: store.value for store in body if store.buffer in block.alloc_buffers}
    stores = tuple(store for store in body if store.buffer not in cells)
    if len(stores) + len(block.alloc_buffers) != len(body) or len(cells) < len(body) - len(stores):
        return None
    if _largest_index(cells, stores) > _LARGEST_INDEX_TREE:
        return None
    axes = tuple(Axis(v, loops[v], r) for v, r in reduced.items())
    if init and not any(axis.is_reduced for axis in axes):
        first = {store.buffer: store.value for store in init}
        stores = tuple(_started(store, first) for store in stores)
        cells = {cell: _started(value, first) for cell, value in cells.items()}
        init = ()
    return LoopNest(axes, stores, init, cells)


def _largest_index(cells: Mapping[ir.Var, Expr], stores: Sequence[Store]) -> int:
    """Nodes of the largest index by which something is loaded, all cells in it written out."""
    if not cells:
        return 0
    largest, written = 0, dict[ir.Var, int]()

    def size(value: Any) -> int:
        nodes: list[Any] = []
        tvm_ffi.structural_walk(value, (ir.Expr, nodes.append))
        return len(nodes) + sum(written.get(cell, 0) for cell in loads_of(value))

    def look(load: ir.TensorLoad) -> None:
        nonlocal largest
        largest = max([largest, *(size(index) for index in load.indices)])

    for cell, value in cells.items():
        tvm_ffi.structural_walk(value, (ir.TensorLoad, look))
        written[cell] = size(value)
    for store in stores:
        tvm_ffi.structural_walk(store.value, (ir.TensorLoad, look))
    return largest


def _started(node: Any, first: Mapping[ir.Var, Expr]) -> Any:
    """The only step of a reduction, which adds to ``first``."""

    def replace(load: ir.TensorLoad) -> Expr:
        return first.get(load.source, load)

    return tvm_ffi.structural_map(node, (ir.TensorLoad, replace))


def _stores(body: Any, values: Mapping[ir.Var, Expr]) -> tuple[Store, ...] | None:
    """The stores of a body, all of which are computed before any is done.

    So what is bound to a name before them may stand in its place.
    """
    values = dict(values)
    stores: list[Store] = []
    for statement in list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]:
        if isinstance(statement, tirx.Bind) and not stores:
            values[statement.var] = substitute(statement.value, values)
        elif isinstance(statement, tirx.BufferStore):
            stores.append(substitute(statement, values))
        else:
            return None
    return tuple(stores)


def substitute(node: Any, values: Mapping[ir.Var, Any]) -> Any:
    """The expression or statement with some variables replaced."""
    return tvm_ffi.structural_map(node, (ir.Var, lambda var: values.get(var, var)))


def linear_index(buffer: Any, indices: Sequence[Expr]) -> Expr:
    """The row-major position of an element."""
    strides = row_major([known(e) if known(e) is not None else e for e in buffer.ty.shape])
    position: Expr = tirx.const(0, "int64")
    for index, stride in zip(indices, strides, strict=True):
        wide = index if str(index.ty.dtype) == "int64" else tirx.Cast("int64", index)
        position = position + (wide if known(stride) == 1 else wide * stride)
    return position


def step(position: Expr, axis: Axis, all_axes: Sequence[Axis]) -> "int | Expr | None":
    """How far a position moves with an axis; None where that differs from place to place."""
    found = detect_linear_equation(position, [axis.var])
    if len(found) != 2:
        return None
    coefficient = Analyzer().simplify(found[0])
    number = known(coefficient)
    if number is not None:
        return number
    return None if uses(coefficient, [a.var for a in all_axes]) else coefficient


def uses(node: Any, variables: Sequence[ir.Var]) -> bool:
    """Whether any of the variables occurs."""
    wanted, found = set(variables), []

    def look(var: ir.Var) -> None:
        if var in wanted:
            found.append(var)

    tvm_ffi.structural_walk(node, (ir.Var, look))
    return bool(found)


def loads_of(node: Any) -> list[ir.Var]:
    """What an expression loads from, each time."""
    found: list[ir.Var] = []
    tvm_ffi.structural_walk(node, (ir.TensorLoad, lambda load: found.append(load.source)))
    return found


def points(axes: Sequence[Axis]) -> "int | Expr":
    """How many points some loops have."""
    return product([axis.count for axis in axes])
