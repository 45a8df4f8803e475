"""Functions of plain loops: which of their buffers are memory, and the nests that write it.

Elements of a buffer that only the function sees are computed where they are used, unless that
would repeat what is costly.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.shared.loops.loops_guards import has_guard
from tvm_iree_ext.schedules.shared.loops.loops_nests import (
    FunctionNests,
    LoopNest,
    loads_of,
    points,
    substitute,
)
from tvm_iree_ext.schedules.shared.loops.loops_point import (
    NestMemory,
    Producer,
    producers_of,
    read_often,
)

_LARGEST_TREE = 2000  # loads that an element computed where it is used may take
_LARGEST_INDEX = 64  # loads of one in an index, where nothing is held: passes take far more of them
# Operations and loads of an element that are repeated rather than kept.  Fitted on an associative
# scan of pairs of floats, 128 x 512 x 16, on a Zen 4: 9.3 ms with 4, 8.5 with 10, 16 with 24, 50
# where all is repeated.
_MOST_REPEATED = 10
_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max, tirx.Select, ir.Call)
_LONGEST_CHAIN = 24  # of producers in one another; Python's stack holds some more


def emit_nests(
    function: tirx.PrimFunc,
    form: FunctionNests,
    name: str,
    each: Callable[[LoopNest, NestMemory], None],
) -> tirx.PrimFunc:
    """The function by the symbol ``name``, with what ``each`` emits for each nest of memory."""
    memory = planned_memory(form)
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        declare(function, name, memory)
        for buffer in form.buffers:
            if buffer not in memory.producers:
                shape = list(buffer.ty.shape)
                made = emit.scratch(shape, str(buffer.ty.dtype))
                IRBuilder.name(str(buffer.name), made)
                memory.add(buffer, made)
        for nest in form.nests:
            if not all(store.buffer in memory.producers for store in nest.stores):
                each(nest, memory)
        if not form.nests:
            I.evaluate(tirx.const(0, "int32"))
    return builder.get()


def planned_memory(form: FunctionNests) -> NestMemory:
    """Memory of a function, with the buffers whose elements are computed where they are used."""
    producers = producers_of(form.nests, form.buffers)
    producers = {b: p for b, p in producers.items() if _is_worth(p, b, form.nests)}
    producers = _repeated_if_cheap(producers, form.nests)
    shared = read_often(form.nests)
    producers = _in_links(_outside_of_indices(producers, form.nests), shared)
    memory = NestMemory(producers=producers, shared=shared)
    for nest in form.nests:
        memory.shared.update(nest.cells)
    return memory


def declare(function: tirx.PrimFunc, name: str, memory: NestMemory) -> None:
    """Begin a function by the symbol ``name`` with the parameters of another, in ``memory``."""
    I.func_name(name)
    I.func_attr({"global_symbol": name, "tirx.noalias": True})
    given = []
    for parameter in function.params:
        if isinstance(parameter.ty, tirx.BufferType):
            given.append((parameter, I.arg(parameter.name, _declared(parameter))))
        else:
            I.arg(parameter.name, parameter)
    for old, new in given:
        memory.add(old, new)


def _declared(parameter: ir.Var) -> Any:
    dtype = str(parameter.ty.dtype)
    return I.buffer(list(parameter.ty.shape), dtype, align=item_bytes(dtype))


def _repeated_if_cheap(
    producers: dict[ir.Var, Producer], nests: Sequence[LoopNest]
) -> dict[ir.Var, Producer]:
    """The producers but those whose elements would be computed again at several places, at a cost.

    Levels of an associative scan read the last one at even places and at odd ones: computed where
    they are used, the first level would be computed as often as there are results of the last.
    """
    read_at: dict[ir.Var, set[Any]] = {}
    for nest in nests:
        numbered = {axis.var: _axis(number) for number, axis in enumerate(nest.axes)}
        for load in (load for value in nest.values() for load in _loads(value)):
            if load.source in producers:
                place = [substitute(index, numbered) for index in load.indices]
                read_at.setdefault(load.source, set()).add(tvm_ffi.StructuralKey(place))
    kept: dict[ir.Var, Producer] = {}
    work: dict[ir.Var, int] = {}  # operations and loads that an element takes
    for buffer, producer in producers.items():  # in the order of the nests
        count = 0
        for value in (producer.store.value, *producer.nest.cells.values()):
            different = {tvm_ffi.StructuralKey(load): load.source for load in _loads(value)}
            count += _operations(value) + sum(work.get(one, 1) for one in different.values())
        if count <= _MOST_REPEATED or len(read_at.get(buffer, ())) < 2:
            kept[buffer], work[buffer] = producer, count
    return kept


@cache
def _axis(number: int) -> ir.Var:
    """A name for the axis of any nest."""
    return tirx.Var(f"axis{number}", "int64")


def _loads(value: Any) -> list[ir.TensorLoad]:
    found: list[ir.TensorLoad] = []
    tvm_ffi.structural_walk(value, (ir.TensorLoad, found.append))
    return found


def _operations(value: Any) -> int:
    found: list[Any] = []
    tvm_ffi.structural_walk(value, [(kind, found.append) for kind in _ARITHMETIC])
    return len(found)


def _outside_of_indices(
    producers: dict[ir.Var, Producer], nests: Sequence[LoopNest]
) -> dict[ir.Var, Producer]:
    """The producers but those by which indices with loads become large: each is written out."""
    kept = dict(producers)
    loads: dict[ir.Var, int] = {}  # of an element, all written out
    copies: dict[ir.Var, int] = {}  # of the index that an element is read by, all written out

    def size(value: Any, leaves: Callable[[Any], list[ir.Var]]) -> int:
        """Of the leaves, such as loads; those in an index count as often as it is written."""
        count = sum(loads.get(leaf, 1) for leaf in leaves(value))

        def repeat(load: ir.TensorLoad) -> None:
            nonlocal count
            again = copies.get(load.source, 1) - 1
            if again:
                inside = (loads.get(leaf, 1) for index in load.indices for leaf in leaves(index))
                count += again * sum(inside)

        tvm_ffi.structural_walk(value, (ir.TensorLoad, repeat))
        return count

    def keep(load: ir.TensorLoad) -> None:
        inside = [leaf for index in load.indices for leaf in loads_of(index)]
        written = copies.get(load.source, 1) * sum(loads.get(leaf, 1) for leaf in inside)
        if written > _LARGEST_INDEX:
            for buffer in {load.source, *inside}:
                kept.pop(buffer, None)
                loads[buffer] = copies[buffer] = 1

    for nest in nests:
        for value in nest.values():
            tvm_ffi.structural_walk(value, (ir.TensorLoad, keep))
        for cell, value in nest.cells.items():
            loads[cell] = size(value, loads_of)
        for store in nest.stores:
            if store.buffer in kept:
                axes = [axis.var for axis in nest.axes]
                variables = [v for v in store.indices if isinstance(v, ir.Var) and v in axes]
                used = (size(store.value, partial(_uses_of, variable=v)) for v in variables)
                loads[store.buffer] = size(store.value, loads_of)
                copies[store.buffer] = max(used, default=1)
    return kept


def _uses_of(value: Any, variable: ir.Var) -> list[ir.Var]:
    found: list[ir.Var] = []

    def look(var: ir.Var) -> None:
        if var.same_as(variable):
            found.append(var)

    tvm_ffi.structural_walk(value, (ir.Var, look))
    return found


def _in_links(producers: dict[ir.Var, Producer], shared: set[ir.Var]) -> dict[ir.Var, Producer]:
    """The producers but those at which chains are cut: each value is computed inside the next.

    What several places read is held, but once for each branch of a condition, and not in an index.
    """
    depths: dict[ir.Var, int] = {}
    sizes: dict[ir.Var, int] = {}  # of what is held at most once, and of all written out
    whole: dict[ir.Var, int] = {}
    kept: dict[ir.Var, Producer] = {}
    for buffer, producer in producers.items():  # in the order of the nests
        cells: dict[ir.Var, int] = {}
        for cell, value in producer.nest.cells.items():
            cells[cell] = sum(cells.get(s, whole.get(s, 1)) for s in loads_of(value))
        held = [s for value in producer.nest.values() for s in loads_of(value) if s not in cells]
        is_repeated = any(
            has_guard(value) or _loads_in_indices(value) for value in producer.nest.values()
        )
        everything = sum(cells.get(s, whole.get(s, 1)) for s in loads_of(producer.store.value))
        size = sum(1 if s in shared else sizes.get(s, 1) for s in held)
        depth = 1 + max((depths.get(one, 0) for one in held), default=0)
        if depth < _LONGEST_CHAIN and (everything if is_repeated else size) < _LARGEST_TREE:
            kept[buffer], depths[buffer] = producer, depth
            sizes[buffer], whole[buffer] = size, everything
    return kept


def _loads_in_indices(value: Any) -> list[ir.Var]:
    found: list[ir.Var] = []

    def look(load: ir.TensorLoad) -> None:
        for index in load.indices:
            found.extend(loads_of(index))

    tvm_ffi.structural_walk(value, (ir.TensorLoad, look))
    return found


def _is_worth(producer: Producer, buffer: ir.Var, nests: Sequence[LoopNest]) -> bool:
    """Whether to compute elements where they are used: not where costly ones are used again.

    Costly are calls, and loads at places that are loaded: these make vectors of no reader.
    """
    costly: list[Any] = []
    for value in producer.nest.values():
        tvm_ffi.structural_walk(value, (ir.Call, costly.append))
        costly += _loads_in_indices(value)
    if not costly:
        return True
    own = points(producer.nest.axes)
    return all(
        _same(points(nest.axes), own)
        for nest in nests
        if nest is not producer.nest and any(_reads(value, buffer) for value in nest.values())
    )


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, int) or isinstance(other, int):
        return isinstance(one, int) and isinstance(other, int) and one == other
    return bool(tvm_ffi.structural_equal(one, other))


def _reads(value: Any, buffer: ir.Var) -> bool:
    found: list[Any] = []

    def look(load: ir.TensorLoad) -> None:
        if load.source.same_as(buffer):
            found.append(load)

    tvm_ffi.structural_walk(value, (ir.TensorLoad, look))
    return bool(found)
