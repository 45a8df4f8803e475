"""What every row of the MMA table obeys: checked when the table is read.

A row that breaks a law would give a product that is silently wrong.
"""

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from tvm_iree_ext.base.errors import LayoutError, TargetError
from tvm_iree_ext.targets.mma.mma_kinds import (
    FROM_SHARED,
    IN_TENSOR_MEMORY,
    Mma,
    MmaOperand,
    dtype_bits,
)

_DIMS = {"lhs": ("B", "M", "K"), "rhs": ("B", "K", "N"), "acc": ("B", "M", "N")}


def check_laws(row: Mma, table: Mapping[str, Mma]) -> None:
    """Refuse a row that breaks a law.

    Raises:
        TargetError: naming the row, the operand, the law and the numbers.
    """
    for where, broken in (*_of_operands(row), *_of_the_product(row, table)):
        raise TargetError(f"mma_layouts.json: {row.name}: {where}: {broken}")


def _of_operands(row: Mma) -> Iterator[tuple[str, str]]:
    lanes = row.subgroup_size
    extents = {"M": row.m, "N": row.n, "K": row.k, "B": row.blocks}
    for name, operand in row.operands().items():
        rank = len(operand.dims)
        digits = {f"{level}{dim}" for level in "oe" for dim in range(rank)}
        if set(operand.reg_order) != digits or len(operand.reg_order) != len(digits):
            yield name, f"reg_order {operand.reg_order} is no order of {sorted(digits)}"
            continue
        if name in _DIMS:
            came = {dim[0]: operand.extent(dim[0]) for dim in operand.dims}
            want = {dim: extents[dim] for dim in came}
            if came != want:
                yield name, f"extents are {came}; the instruction has {want}"
        yield from _of_lanes(name, operand, lanes)
        held = prod(operand.outer) * prod(operand.element)
        if held != operand.elements_per_lane * operand.element_split_lanes:
            yield name, f"{held} elements in a lane's digits; {operand.elements_per_lane} a lane"
        bits = operand.elements_per_lane * dtype_bits(operand.dtype)
        one_each = "low 16 bits of register e" in operand.packing
        registers = operand.elements_per_lane if one_each else -(-bits // 32)
        if "in byte e" in operand.packing:
            registers = operand.elements_per_lane // 4
        if row.kind == "scaled_tensor_memory" and name.endswith("scale"):  # a column for 32 rows
            registers = extents["N" if "N" in operand.dims else "M"] // 32
        if registers != operand.registers:
            yield name, f"{bits} bits in {operand.registers} registers; expected {registers}"


def _of_lanes(name: str, operand: MmaOperand, lanes: int) -> Iterator[tuple[str, str]]:
    """Every lane has a place, and every element as many lanes as the row says."""
    layout = operand.layout()
    split = operand.element_split_lanes
    tiles = {f"o{dim}": tile for dim, tile in enumerate(operand.outer)}
    tiles |= {f"e{dim}": tile for dim, tile in enumerate(operand.element)}
    slowest = next((tiles[name] for name in operand.reg_order if tiles[name] > 1), 1)
    if slowest % split:
        yield name, f"{split} lanes share {slowest} values of the slowest digit"
    try:
        layout.verify()
    except LayoutError as error:
        yield name, str(error)
        return
    distributed = prod(operand.thread) * split
    if distributed * operand.lane_replication != lanes or lanes % layout.lane_period:
        yield (
            name,
            f"{distributed} lanes with different elements, {operand.lane_replication} of each;"
            f" a subgroup has {lanes}",
        )
        return
    held = operand.coordinates(lanes * prod(operand.subgroup)).reshape(-1, len(operand.dims))
    counts = np.zeros(operand.extents, int)
    np.add.at(counts, tuple(held.T), 1)
    if (counts != operand.lane_replication).any():
        at = tuple(map(int, np.argwhere(counts != operand.lane_replication)[0]))
        yield name, f"element {at} is held {counts[at]} times; {operand.lane_replication} expected"


def _of_the_product(row: Mma, table: Mapping[str, Mma]) -> Iterator[tuple[str, str]]:
    if row.kind == "opaque":
        if row.operands():
            yield "operands", "an opaque kind has no documented layout"
        return
    shared = (row.kind in IN_TENSOR_MEMORY, row.kind in FROM_SHARED)
    if row.acc is None or (row.lhs is None, row.rhs is None) != shared:
        yield "operands", "one is missing"
        return
    for operand, dtype in ((row.lhs, row.a), (row.rhs, row.b), (row.acc, row.c)):
        if operand is not None and operand.dtype != dtype:
            yield "operands", f"dtype {operand.dtype}; the row says {dtype}"
    if row.lhs is not None and row.rhs is not None:
        left, right = _digits(row.lhs, "K"), _digits(row.rhs, "K")
        # Of two formats, each has its own lanes.
        if left != right and dtype_bits(row.a) == dtype_bits(row.b):
            yield "K", f"outer, thread, stride, element are {left} in lhs and {right} in rhs"
        rows, columns = (_digits(row.lhs, "M"), _digits(row.rhs, "N"))
        if row.column_major and (row.m != row.n or rows != columns):
            yield "acc_colmajor_by_operand_swap", f"lhs has {rows}, rhs has {columns}"
    elif row.column_major:
        yield "acc_colmajor_by_operand_swap", "A and B are not the same kind of operand"
    if row.lhs and (physical := row.hw_lane_k_map):
        tiles = (physical["outer"], physical["thread"], physical["element"])
        extents = [prod(tile) for tile in zip(*tiles, strict=True)]
        held = prod(physical["outer"]) * prod(physical["element"])
        if extents != [row.m, row.k] or held != row.lhs.elements_per_lane:
            yield "hw_lane_k_map", f"extents {extents}, {held} elements a lane"
    yield from _of_names(row, table)


def _of_names(row: Mma, table: Mapping[str, Mma]) -> Iterator[tuple[str, str]]:
    """The instructions that the row names are of its shape."""
    if row.kind in ("virtual", "virtual_sparse"):
        composed = row.composed_of or {}
        base = table.get(composed.get("base", ""))
        native = composed.get("native_k", base.k if base else 0)
        if native * composed.get("count", 0) != row.k:
            yield "composed_of", f"{composed.get('count')} calls of K {native}; K is {row.k}"
        return
    if (row.vendor == "nvidia") != (row.ptx is not None):
        yield "intrinsic", f"ptx is {row.ptx!r}"
    if row.vendor == "amd" and not (row.llvm and row.isa):
        yield "intrinsic", "no LLVM intrinsic, or no name in the ISA"
    if row.kind in IN_TENSOR_MEMORY:  # a descriptor has the shape
        yield from _of_tensor_memory(row)
        return
    shape = f"m{row.m}n{row.n}k{row.k}" if row.ptx else f"{row.m}x{row.n}x{row.k}"
    names = (row.ptx,) if row.ptx else (row.llvm, *row.isa)
    for name in names:
        if shape not in str(name):
            yield "intrinsic", f"{name} is not of shape {shape}"


def _of_tensor_memory(row: Mma) -> Iterator[tuple[str, str]]:
    """The shapes of ``tcgen05.mma`` (PTX ISA, its table of shapes).

    Of pairs CUTLASS takes N in steps of 16, TVM's table in steps of 32: rows are those of both.
    """
    scaled = row.kind == "scaled_tensor_memory"
    rows, columns = 128 * row.workgroups, 16 * row.workgroups
    # With scales, a float of fewer than 8 bits may have a byte of its own.
    bits = (8 if scaled and row.k == 32 else dtype_bits(row.a)) * row.k
    if row.m != rows or row.n not in range(columns, 257, columns):
        yield "shape", f"M is {rows}, and N a multiple of {columns} up to 256"
    if bits != 256:
        yield "shape", "K is 32 bytes"
    for name in ("lhs_scale", "rhs_scale") if scaled else ():
        blocks = row.operand(name).extent("K")
        if blocks * (row.scale_block or 0) != row.k or f"scale_vec::{blocks}X" not in str(row.ptx):
            yield name, f"{blocks} blocks of {row.scale_block}; K is {row.k}, and {row.ptx}"


def _digits(operand: MmaOperand, dim: str) -> list[tuple[int, ...]]:
    """Outer, thread, stride and element of ``dim``; a stride under one thread means nothing."""
    columns = (operand.dims, operand.outer, operand.thread, operand.tstrides, operand.element)
    return [
        (outer, thread, stride if thread > 1 else 0, element)
        for name, outer, thread, stride, element in zip(*columns, strict=True)
        if name[0] == dim
    ]
