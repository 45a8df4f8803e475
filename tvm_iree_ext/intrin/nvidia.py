"""Calls of NVIDIA's ``mma.sync`` and ``ldmatrix``, as PTX.

PTX packs elements of less than 32 bits into 32-bit registers, whatever their type.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.fragments import packed
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.targets.mma.mma_kinds import Mma, MmaOperand, dtype_bits, tvm_dtype

Load = Callable[[int, int], Any]
"""``load(start, count)``: registers of a fragment, as a vector."""
Store = Callable[[int, int, Any], None]
"""``store(start, count, value)``."""


def words(operand: MmaOperand, load: Load) -> list[Any]:
    """A lane's elements as PTX takes them: floats of 32 and 64 bits, else unsigned words."""
    operand = packed(operand)
    bits = dtype_bits(operand.dtype)
    count = operand.elements_per_lane
    if operand.dtype in ("f32", "f64"):
        return [load(at, 1) for at in range(count)]
    each = 32 // bits
    return [tirx.reinterpret("uint32", load(at, each)) for at in range(0, count, each)]


def mma_sync(mma: Mma, a: Load, b: Load, c: Load, store: Store) -> None:
    """Emit the instruction; ``store`` takes an accumulator that is not floats of its own."""
    call = T.ptx[mma.ptx]
    inputs = [*words(mma.operand("lhs"), a), *words(mma.operand("rhs"), b)]
    held = words(mma.operand("acc"), c)
    if mma.c in ("f32", "f64"):
        I.evaluate(call(*held, *inputs, *held))
        return
    acc = I.alloc_buffer((len(held),), "uint32", scope="local")
    for at, word in enumerate(held):
        I.buffer_store(acc, word, [at])
    registers = [acc[at] for at in range(len(held))]
    I.evaluate(call(*registers, *inputs, *registers))
    each = mma.operand("acc").elements_per_lane // len(held)
    dtype = tvm_dtype(mma.c) + (f"x{each}" if each > 1 else "")
    for at, register in enumerate(registers):
        store(each * at, each, tirx.reinterpret(dtype, register))


def ldmatrix_form(operand: MmaOperand, order: Sequence[int]) -> bool | None:
    """Whether ``ldmatrix`` loads an operand from shared memory, and if so, transposing it.

    An 8x8 matrix has rows of 16 bytes; lane l receives the 4 bytes at row ``l div 4``, column word
    ``l mod 4``, or, transposed, two elements of a column.

    Args:
        operand: of the instruction.
        order: the operand's dims in the order of memory, the contiguous one last.

    Returns:
        False for the plain load, True for the transposing one (16-bit elements), else None.
    """
    bits = dtype_bits(operand.dtype)
    if len(operand.dims) != 2 or operand.registers not in (1, 2, 4) or bits > 32:
        return None
    row = next((dim for dim in (0, 1) if operand.thread[dim] == 8), None)
    if row is None:
        return None
    column = 1 - row
    fits = (
        operand.tstrides[row] == 4
        and operand.element[row] == 1
        and operand.thread[column] == 4
        and operand.tstrides[column] == 1
        and operand.element[column] * bits == 32
        and operand.reg_order[-1] in (f"e{column}", f"e{row}")
    )
    if not fits:
        return None
    if order[-1] == column:
        return False
    return True if bits == 16 else None


def matrices(operand: MmaOperand) -> list[Ints]:
    """The first element of each 8x8 matrix, one for each 32-bit register, in register order."""
    extent = [operand.thread[dim] * operand.element[dim] for dim in (0, 1)]
    order = [int(digit[1]) for digit in operand.reg_order if digit[0] == "o"]
    firsts = []
    for register in range(operand.registers):
        rest, at = register, [0, 0]
        for dim in reversed(order):
            rest, digit = divmod(rest, operand.outer[dim])
            at[dim] = digit * extent[dim]
        firsts.append(tuple(at))
    return firsts


def ldmatrix(
    operand: MmaOperand,
    transposed: bool,
    lane: Any,
    pointer: Callable[[Sequence[Any]], Any],
    store: Store,
) -> None:
    """Emit one ``ldmatrix`` for an operand.

    Args:
        operand: one that :func:`ldmatrix_form` accepts.
        transposed: what it answered.
        lane: the lane's id.
        pointer: the address of an element of shared memory, by its index in the operand's dims.
        store: takes the registers.
    """
    row = next(dim for dim in (0, 1) if operand.thread[dim] == 8)
    column = 1 - row
    count = operand.registers
    firsts = matrices(operand)
    # Lane 8i + r supplies the address of line r of matrix i; other lanes repeat them.
    line = row if not transposed else column
    at: list[Any] = [0, 0]
    for dim in (0, 1):
        starts = [first[dim] for first in firsts]
        at[dim] = _choose(lane, starts) + (lane % 8 if dim == line else 0)
    words_ = I.alloc_buffer((count,), "uint32", scope="local")
    form = ".trans" if transposed else ""
    call = T.ptx[f"ldmatrix.sync.aligned.m8n8.x{count}{form}.shared.b16"]
    I.evaluate(call(*[words_[register] for register in range(count)], pointer(at)))
    each = 32 // dtype_bits(operand.dtype)
    dtype = tvm_dtype(operand.dtype) + (f"x{each}" if each > 1 else "")
    for register in range(count):
        store(register * each, each, tirx.reinterpret(dtype, words_[register]))


def _choose(lane: Any, starts: Sequence[int]) -> Any:
    """``starts[lane div 8]``, repeated: as the sum of what the bits of ``lane div 8`` add."""
    found: Any = 0
    for bit in range(2):
        if len(starts) > 1 << bit and (step := starts[1 << bit] - starts[0]):
            found = found + lane // (8 << bit) % 2 * step
    return found
