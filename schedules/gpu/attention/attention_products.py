"""The products that attention is made of: instructions, or multiply-adds of a subgroup's tile.

Both are rows of one kind (:class:`.Mma`), which says which lane holds which
element: whatever multiplies, the rest of the kernel follows from the layouts.
"""

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np
from tvm import tirx

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.errors import ScheduleError, TargetError
from tvm_iree_ext.intrin.intrin_descriptions import MmaTile, multiply
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.targets.gpu import GpuChip
from tvm_iree_ext.targets.mma.mma_kinds import Mma, MmaOperand, dtype_bits, tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_table

_ACCESS_BYTES = 16
_MULTIPLY_ADD = "FMA"
_TABLE_NAMES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}


class Feed(Enum):
    """The way of the weights to the second product."""

    REGISTERS = "registers"
    SHUFFLE = "shuffle"
    SHARED = "shared"


def is_multiply_add(mma: Mma) -> bool:
    """Whether the kind is no instruction of the chip's."""
    return mma.name.startswith(_MULTIPLY_ADD)


def multiply_add_kind(dtype: str, subgroup_size: int, *, rhs_rows: bool = False) -> Mma:
    """A subgroup's product by multiply-adds: 8 lanes along M, the others along N.

    Args:
        dtype: of all three operands.
        subgroup_size: of lanes.
        rhs_rows: whether a lane's run of B is along N; else along K.

    >>> multiply_add_kind("float32", 32).acc.coordinates(32)[5, :5].tolist()
    [[4, 4], [4, 5], [4, 6], [4, 7], [5, 4]]
    """
    down, across = 8, subgroup_size // 8
    run = max(2, _ACCESS_BYTES // item_bytes(dtype))
    name = _TABLE_NAMES[dtype]
    k_fastest, n_fastest = ("o0", "o1", "e1", "e0"), ("o0", "o1", "e0", "e1")

    def operand(dims: tuple[str, str], lanes: Ints, strides: Ints, order: Any) -> MmaOperand:
        return MmaOperand(
            dims, name, (1, 1), lanes, strides, (run, run), (1, 1), (0, 0), order, run * run, 1,
            subgroup_size // (lanes[0] * lanes[1]), run * run * item_bytes(dtype) // 4, "",
        )  # fmt: skip

    return Mma(
        name=f"{_MULTIPLY_ADD}_{name.upper()}", vendor="", kind="native", source="", arch=(),
        m=down * run, n=across * run, k=run, blocks=1, a=name, b=name, c=name,
        subgroup_size=subgroup_size, num_subgroups=1,
        lhs=operand(("M", "K"), (down, 1), (across, 0), n_fastest),
        rhs=operand(("K", "N"), (1, across), (0, 1), n_fastest if rhs_rows else k_fastest),
        acc=operand(("M", "N"), (down, across), (across, 1), n_fastest),
        lhs_scale=None, rhs_scale=None, llvm=None, isa=(), ptx=None, operand_ir_types="",
        column_major=False, k_order_free=True, composed_of=None, format_codes=None,
        hw_lane_k_map=None, sparse_index=None, scale_block=None, notes=(),
    )  # fmt: skip


def widened(mma: Mma) -> Mma:
    """As many calls of an instruction as let a lane read 16 bytes along K at once.

    A sum over K has no order, so that a lane's runs for several calls may lie side by side.
    """
    lhs, rhs = mma.operand("lhs"), mma.operand("rhs")
    count = _ACCESS_BYTES * 8 // (lhs.element[1] * dtype_bits(mma.a))
    if mma.vendor != "amd" or mma.kind != "native" or count <= 1 or lhs.outer[1] != 1:
        return mma

    def wide(operand: MmaOperand) -> MmaOperand:
        k = operand.dims.index("K")
        element = tuple(e * count if dim == k else e for dim, e in enumerate(operand.element))
        return replace(
            operand, element=element, elements_per_lane=operand.elements_per_lane * count,
            registers=operand.registers * count,
        )  # fmt: skip

    return replace(
        mma, kind="virtual", k=mma.k * count, lhs=wide(lhs), rhs=wide(rhs),
        composed_of={"base": mma.name, "count": count},
    )  # fmt: skip


def product_kinds(
    chip: GpuChip, subgroup_size: int, op: Attention, name: str
) -> tuple[Mma, Mma, bool]:
    """The kinds of both products, and whether their operands are exchanged.

    Args:
        chip: that multiplies.
        subgroup_size: its lanes.
        op: whose operands are multiplied.
        name: of the first product's kind, one of :func:`first_kinds`.

    Raises:
        ScheduleError: for a kind that the op's types do not go with.
    """
    first, second = product_dtypes(op)
    if name.startswith(_MULTIPLY_ADD):
        return (
            multiply_add_kind(op.compute_dtype, subgroup_size),
            multiply_add_kind(op.compute_dtype, subgroup_size, rhs_rows=True),
            False,
        )
    try:
        one = mma_kind(name)
    except TargetError as error:
        raise ScheduleError(f"gpu.attention: {error}") from error
    other = _twin(one, second)
    if not one.on(chip.name) or one.a != one.b or tvm_dtype(one.a) != first or other is None:
        raise ScheduleError(
            f"gpu.attention: {name} on {chip.name} does not multiply {first}, and then {second}"
        )
    return widened(one), widened(other), one.column_major and other.column_major


def product_dtypes(op: Attention) -> tuple[str, str]:
    """What the two products multiply: the operands' own types, or that of the scores.

    Both or neither are instructions on 16 bits, which spread rows alike.
    """
    query, key, value = (op.types[name].dtype for name in ("query", "key", "value"))
    narrow = ("float16", "bfloat16")
    if query == key and query in narrow and value in narrow and op.compute_dtype == "float32":
        return query, value
    return op.compute_dtype, op.compute_dtype


def first_kinds(chip: GpuChip, subgroup_size: int, op: Attention, rows: int | None) -> list[Mma]:
    """The kinds for the first product, the best first: multiply-adds where there is no other.

    Of instructions those with the most work, but none that is mostly empty for so few rows.
    """
    first, second = product_dtypes(op)
    found = [
        mma
        for mma in mma_table().values()
        if mma.on(chip.name) and mma.subgroup_size == subgroup_size and mma.kind == "native"
        if mma.blocks == 1 and mma.num_subgroups == 1 and mma.lhs and mma.rhs and mma.acc
        if mma.a == mma.b == _TABLE_NAMES[first] and tvm_dtype(mma.c) == op.compute_dtype
        if _twin(mma, second) is not None
    ]
    if not found:
        return [multiply_add_kind(op.compute_dtype, subgroup_size)]
    small = rows is not None and rows <= 16
    return sorted(found, key=lambda mma: (small and mma.m > 16, -mma.flops, -mma.k))


def _twin(mma: Mma, dtype: str) -> Mma | None:
    """The kind of the same shape for another type of operands."""
    wanted = _TABLE_NAMES[dtype]
    if tvm_dtype(mma.a) == dtype:
        return mma
    shape = (mma.vendor, mma.kind, mma.m, mma.n, mma.k, mma.c, mma.subgroup_size)
    for other in mma_table().values():
        same = (other.vendor, other.kind, other.m, other.n, other.k, other.c, other.subgroup_size)
        if same == shape and other.a == other.b == wanted and set(other.arch) & set(mma.arch):
            return other
    return None


Load = Callable[[int, int], Any]
Store = Callable[[int, int, Any], None]


def emit_product(mma: Mma, column_major: bool, lhs: Load, rhs: Load, acc: Load, out: Store) -> None:
    """Emit ``acc += lhs * rhs`` on a lane's registers, ``load(start, count)`` and so on."""
    if not is_multiply_add(mma):
        sides = {"lhs": (lhs, out), "rhs": (rhs, out), "acc": (acc, out)}
        multiply(MmaTile(mma, column_major), sides, None)
        return
    run = mma.k
    order = mma.operand("rhs").reg_order
    along_k = order.index("e0") > order.index("e1")
    columns = []
    for k in range(run):  # a row of B, whose elements may lie apart in registers
        if along_k:
            parts = [rhs(column * run + k, 1) for column in range(run)]
            columns.append(tirx.Shuffle(parts, list(range(run))))
        else:
            columns.append(rhs(k * run, run))
    for row in range(run):
        total = acc(row * run, run)
        for k in range(run):
            total = total + tirx.Broadcast(lhs(row * run + k, 1), run) * columns[k]
        out(row * run, run, total)


def acc_coordinates(mma: Mma, column_major: bool) -> np.ndarray:
    """Row and column of what a lane holds of the accumulator: ``[lanes, registers, 2]``."""
    found = mma.operand("acc").coordinates(mma.subgroup_size)
    return found[..., ::-1] if column_major else found
