"""Functions of plain loops: which of their buffers are memory, and the nests that write it.

Elements of a buffer that only the function sees are computed where they are used, unless that
would repeat what is costly.
"""

from collections.abc import Callable, Sequence
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
)
from tvm_iree_ext.schedules.shared.loops.loops_point import (
    NestMemory,
    Producer,
    producers_of,
    read_often,
)

_LARGEST_TREE = 2000  # loads that an element computed where it is used may take
_LONGEST_CHAIN = 24  # of producers in one another; Python's stack holds some more


def emit_nests(
    function: tirx.PrimFunc,
    form: FunctionNests,
    name: str,
    each: Callable[[LoopNest, NestMemory], None],
) -> tirx.PrimFunc:
    """The function by the symbol ``name``, with what ``each`` emits for each nest of memory."""
    producers = producers_of(form.nests, form.buffers)
    producers = {b: p for b, p in producers.items() if _is_worth(p, b, form.nests)}
    shared = read_often(form.nests)
    producers = _in_links(producers, shared)
    memory = NestMemory(producers=producers, shared=shared)
    for nest in form.nests:
        memory.shared.update(nest.cells)
    with IRBuilder() as builder, I.prim_func(s_tir=True):
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
        for buffer in form.buffers:
            if buffer not in producers:
                shape = list(buffer.ty.shape)
                made = emit.scratch(shape, str(buffer.ty.dtype))
                IRBuilder.name(str(buffer.name), made)
                memory.add(buffer, made)
        for nest in form.nests:
            if not all(store.buffer in producers for store in nest.stores):
                each(nest, memory)
        if not form.nests:
            I.evaluate(tirx.const(0, "int32"))
    return builder.get()


def _declared(parameter: ir.Var) -> Any:
    dtype = str(parameter.ty.dtype)
    return I.buffer(list(parameter.ty.shape), dtype, align=item_bytes(dtype))


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
            has_guard(value) or _has_loads_in_indices(value) for value in producer.nest.values()
        )
        everything = sum(cells.get(s, whole.get(s, 1)) for s in loads_of(producer.store.value))
        size = sum(1 if s in shared else sizes.get(s, 1) for s in held)
        depth = 1 + max((depths.get(one, 0) for one in held), default=0)
        if depth < _LONGEST_CHAIN and (everything if is_repeated else size) < _LARGEST_TREE:
            kept[buffer], depths[buffer] = producer, depth
            sizes[buffer], whole[buffer] = size, everything
    return kept


def _has_loads_in_indices(value: Any) -> bool:
    found: list[ir.Var] = []

    def look(load: ir.TensorLoad) -> None:
        for index in load.indices:
            found.extend(loads_of(index))

    tvm_ffi.structural_walk(value, (ir.TensorLoad, look))
    return bool(found)


def _is_worth(producer: Producer, buffer: ir.Var, nests: Sequence[LoopNest]) -> bool:
    """Whether to compute elements where they are used: not where costly ones are used again."""
    costly: list[ir.Call] = []
    for value in producer.nest.values():
        tvm_ffi.structural_walk(value, (ir.Call, costly.append))
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
