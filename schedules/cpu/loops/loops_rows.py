"""Functions that go row by row, on a CPU: all nests for a row, then for the next one.

What a nest leaves for the next is in the first caches, or in registers where a row has one of it.
Rows are shared among the threads.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.base.parallel import outweighs_launch
from tvm_iree_ext.schedules.cpu.loops.loops_axes import ALONE, tasks
from tvm_iree_ext.schedules.cpu.loops.loops_map import cost_of, emit_map
from tvm_iree_ext.schedules.cpu.loops.loops_reduction import emit_reduction
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known
from tvm_iree_ext.schedules.shared.loops.loops_fusion import declare, planned_memory
from tvm_iree_ext.schedules.shared.loops.loops_nests import LoopNest, loads_of, points
from tvm_iree_ext.schedules.shared.loops.loops_point import NestMemory, Producer
from tvm_iree_ext.schedules.shared.loops.loops_rows import RowNests
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features

_LEAST_ELEMENTS = 64  # of a row: several shorter ones are vectors together
_MOST_ELEMENTS = 1 << 18  # of a row, that are near when they are read again
_OPERATIONS = 8  # for an element, about


def has_row_kernel(rows: Index, elements: Index, target: Target) -> bool:
    """Whether reductions over rows are best one after another, row by row."""
    count, length = known(rows), known(elements)
    if length is None:
        return count is None or count >= cpu_features(target).cores
    if not _LEAST_ELEMENTS <= length <= _MOST_ELEMENTS:
        return False
    if count is None or count >= cpu_features(target).cores:
        return True
    return not outweighs_launch("cpu.loops", count * length * _OPERATIONS)


def emit_rows(
    function: tirx.PrimFunc, rows: RowNests, name: str, features: CpuFeatures
) -> tirx.PrimFunc:
    """The function by the symbol ``name``."""
    memory = NestMemory()
    alone = replace(features, cores=ALONE)
    largest = max((nest.axes for nest in rows.form.nests), key=len)
    within = points(largest[len(rows.axes) :])
    cost = sum(cost_of(nest) for nest in rows.form.nests)
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        declare(function, name, memory)
        tasks(
            rows.axes,
            cost,
            within,
            features.cores,
            lambda at: _emit_row(rows, [*at.values()], memory, alone),
        )
    return builder.get()


def _emit_row(
    rows: RowNests, at: Sequence[Expr], memory: NestMemory, features: CpuFeatures
) -> None:
    form = rows.at(at[0] if at else i64(0))
    planned = planned_memory(form)
    kept = _kept(form.nests, planned.producers)
    own = replace(planned, given={**memory.given}, flat={**memory.flat}, producers=kept)
    single = {s.buffer for nest in form.nests if not nest.spatial for s in nest.stores}
    for buffer in form.buffers:
        if buffer in kept:
            continue
        dtype = str(buffer.ty.dtype)
        if buffer in single:
            own.flat[buffer] = emit.registers(1, "int8" if dtype == "bool" else dtype)
        else:
            made = emit.scratch(list(buffer.ty.shape), dtype)
            IRBuilder.name(str(buffer.name), made)
            own.add(buffer, made)
    for nest in form.nests:
        if not all(store.buffer in kept for store in nest.stores):
            (emit_reduction if nest.reduced else emit_map)(nest, own, features)


def _kept(nests: Sequence[LoopNest], producers: dict[ir.Var, Producer]) -> dict[ir.Var, Producer]:
    """The producers but those of one element of a row, and costly ones that several loops use."""
    kept = {buffer: one for buffer, one in producers.items() if one.nest.axes}
    for buffer in [*kept]:
        if _is_costly(kept[buffer]) and len(_loops_using(buffer, nests, kept)) > 1:
            del kept[buffer]
    return kept


def _is_costly(producer: Producer) -> bool:
    found: list[Any] = []
    for value in producer.nest.values():
        tvm_ffi.structural_walk(value, [(ir.Call, found.append), (tirx.Div, found.append)])
    return bool(found)


def _loops_using(
    buffer: ir.Var, nests: Sequence[LoopNest], producers: dict[ir.Var, Producer]
) -> list[LoopNest]:
    """The nests of memory that compute elements of a producer."""
    using = {buffer}
    found = []
    for nest in nests:  # in order: those that read a producer come after it
        if not any(using & {*loads_of(value)} for value in nest.values()):
            continue
        stored = {store.buffer for store in nest.stores}
        if stored <= producers.keys():
            using |= stored
        else:
            found.append(nest)
    return found
