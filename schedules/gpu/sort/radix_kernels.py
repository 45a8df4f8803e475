"""Sorts by digits of 8 bits, the lowest first: stable, in time proportional to the length.

a line that fits a tile    one kernel: ranked and exchanged in shared memory, digit by digit
longer lines               a kernel for each digit, see :mod:`.radix_passes`
"""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS, OWN_BARRIERS
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import i64, known
from tvm_iree_ext.schedules.gpu.emit.lanes import wide
from tvm_iree_ext.schedules.gpu.emit.launches import wait, workgroups
from tvm_iree_ext.schedules.gpu.sort.radix_keys import DIGIT_BITS
from tvm_iree_ext.schedules.gpu.sort.radix_passes import RadixPasses
from tvm_iree_ext.schedules.gpu.sort.radix_tile import (
    MOST_PLAIN_ITEMS,
    Columns,
    RadixColumns,
    RadixShape,
    RadixTile,
)
from tvm_iree_ext.schedules.gpu.sort.sort_kernels import SortOperands


def radix_kernel(op: Sort, shape: RadixShape, kind: str, sharing: int) -> tirx.PrimFunc:
    """The PrimFunc of ``op``, for a kind of target on which so many workgroups share a task."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        operands = SortOperands(op)
        I.func_attr({OWN_BARRIERS: True, EXACT_BUFFERS: True})
        with I.sblock("root"):
            I.reads([])  # which TVM cannot tell where functions take addresses
            I.writes([])
            operands.declare()
            length = known(operands.length)
            if length is not None and length <= shape.tile:
                _emit_short(operands, shape, kind)
            else:
                RadixPasses(operands, shape, kind, sharing).emit()
    return builder.get()


def _emit_short(operands: SortOperands, shape: RadixShape, kind: str) -> None:
    """One kernel: a line for each workgroup."""
    columns, length = RadixColumns(operands), known(operands.length)
    assert length is not None
    count = tirx.const(length, "int32")
    with workgroups(operands.lines, shape.subgroups, shape.size, kind) as (number, ids):
        overlaid = shape.items > MOST_PLAIN_ITEMS
        tile = RadixTile(columns, shape, ids, overlaid=overlaid)
        line = I.Bind(wide(number))
        loaded = tile.load(i64(0), length, lambda position: columns.load(line, position))
        registers = [[emit.registers(1, kind) for kind in columns.types] for _ in loaded]
        _keep(registers, loaded)
        with I.serial(0, columns.key.digits) as turn:
            elements = [[cell[0] for cell in element] for element in registers]
            ranks = tile.ranks.count(tile.digits(elements, count, turn * DIGIT_BITS))
            own = [tile.ranks.digit(number) for number in range(tile.ranks.each)]
            tile.ranks.start(own, [tile.ranks.guarded(tile.ranks.total(one)) for one in own])
            wait()
            places = tile.ranks.placed(ranks)
            if overlaid:
                wait()  # until all have read the counters
            tile.exchange(elements, places)
            wait()
            _keep(registers, [tile.taken(position) for position in tile.positions])
            if overlaid:
                wait()  # until all have their elements, and counters take their place
        for position, element in zip(tile.positions, registers, strict=True):
            with I.If(position < count), I.Then():
                columns.store(line, wide(position), [cell[0] for cell in element])


def _keep(registers: Sequence[Sequence[Any]], elements: Sequence[Columns]) -> None:
    for cells, element in zip(registers, elements, strict=True):
        for cell, word in zip(cells, element, strict=True):
            I.buffer_store(cell, word, [0])
