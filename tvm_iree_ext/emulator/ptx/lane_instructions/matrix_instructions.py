"""Products of small matrices by a warp, and the loads that bring their fragments.

Source: PTX ISA 9.0, *Warp Level Matrix Multiply-Accumulate Instructions: mma, ldmatrix, stmatrix,
movmatrix*.  Sums of floats are taken in float64 and rounded once; the order on the machine is left
open.
"""

import re
from collections.abc import Sequence

import numpy as np

from tvm_iree_ext.emulator.ptx.lane_instructions.matrix_layouts import (
    accumulator,
    gathered,
    left,
    right,
    scattered,
)
from tvm_iree_ext.emulator.ptx.lane_instructions.memory_instructions import at, space_of
from tvm_iree_ext.emulator.ptx.machine.execution import Execution
from tvm_iree_ext.emulator.ptx.machine.lanes import WARP
from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value
from tvm_iree_ext.emulator.ptx.reading.syntax import PtxInstruction
from tvm_iree_ext.emulator.ptx.values.operations import (
    PtxOperation,
    instruction,
    items,
    on_lanes,
    place,
)
from tvm_iree_ext.emulator.ptx.values.small_floats import from_bfloat16, from_float8

_BITS = {
    "f64": 64, "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4,
    "u4": 4, "b1": 1,
}  # fmt: skip
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


def numbers(words: np.ndarray, kind: str) -> np.ndarray:
    """The elements in lanes' registers [warps, 32, registers], as numbers of float64 or int64.

    Of tf32 the low 13 bits are not looked at.
    """
    if kind == "f64":
        return words.view(np.float64)
    if kind == "tf32":
        kept = (words & np.uint32(0xFFFFE000)).view(np.float32)
        return kept.astype(np.float64)
    if kind in ("s4", "u4"):
        shifts = np.arange(0, 32, 4, dtype=np.uint32)
        nibbles = ((words[..., None] >> shifts) & np.uint32(15)).astype(np.int64)
        nibbles = np.where(nibbles > 7, nibbles - 16, nibbles) if kind == "s4" else nibbles
        return nibbles.reshape(*words.shape[:-1], -1)
    return element_values(words.view(f"u{_BITS[kind] // 8}"), kind)


def element_values(raw: np.ndarray, kind: str) -> np.ndarray:
    """Elements of 8 and 16 bits, as numbers."""
    if kind == "f16":
        return raw.view(np.float16).astype(np.float64)
    if kind == "bf16":
        return from_bfloat16(raw).astype(np.float64)
    if kind in ("e4m3", "e5m2"):
        return from_float8(raw, kind).astype(np.float64)
    return (raw.view(np.int8) if kind == "s8" else raw).astype(np.int64)


def stacked(values: Sequence[Value], lanes: Execution, kind: type) -> np.ndarray:
    """Registers as [warps, 32, registers]."""
    whole: np.ndarray = np.empty((*lanes.shape, len(values)), kind)
    for number, value in enumerate(values):
        whole[..., number] = value
    return whole


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a x b, of matrices of float64 or of integers."""
    if a.dtype.kind == "f":
        return np.matmul(a, b)
    # Sums of products of 8 bits are exact in float64, whose product is the faster.
    return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)


def accumulated(total: np.ndarray, kind: str, *, saturates: bool = False) -> np.ndarray:
    """What an accumulator holds: rounded, wrapped around, or held at the limits."""
    if kind == "s32":
        if saturates:
            limits = np.iinfo(np.int32)
            total = np.clip(total, limits.min, limits.max)
        return total.astype(np.int32)
    return total.astype({"f32": np.float32, "f16": np.float16, "f64": np.float64}[kind])


@instruction("mma")
def _mma(one: PtxInstruction) -> PtxOperation:
    """*mma.sync*: D = A x B + C."""
    if one.has("sp") or any(name.startswith("sp::") for name in one.modifiers):
        raise ValueError("a sparse mma")
    if any(name.startswith(("kind", "block_scale", "xor", "and")) for name in one.modifiers):
        raise ValueError("an mma with scales, or of bits")
    shape = next(filter(None, map(_SHAPE.fullmatch, one.modifiers)))
    m, n, k = map(int, shape.groups())
    kinds = [name for name in one.modifiers if name in _BITS or name in ("f32", "s32")]
    d_kind, a_kind, b_kind, c_kind = kinds
    if (m, k, a_kind) == (8, 4, "f16") or _BITS[a_kind] != _BITS[b_kind]:
        raise ValueError("an mma of this shape")
    target, *sources = (items(operand) for operand in one.operands)
    a_count, b_count = len(sources[0]), len(sources[1])
    each = max(1, 32 // _BITS[a_kind])
    places = left(m, k, each), right(n, k, each), accumulator(m, n)
    word: type = np.uint64 if a_kind == "f64" else np.uint32
    raw = "b64" if a_kind == "f64" else "b32"

    def function(lanes: Execution, *values: Value) -> tuple[np.ndarray, ...] | np.ndarray:
        a = numbers(stacked(values[:a_count], lanes, word), a_kind)
        b = numbers(stacked(values[a_count : a_count + b_count], lanes, word), b_kind)
        held = values[a_count + b_count :]
        c = from_registers(held, lanes, c_kind)
        total = product(gathered(a, places[0]), gathered(b, places[1]))
        total = total + gathered(c, places[2])
        result = accumulated(total, d_kind, saturates=one.has("satfinite"))
        registers = as_registers(scattered(result, places[2]), d_kind)
        return registers if len(registers) > 1 else registers[0]

    held_kind = {"f16": "b32"}
    takes = [(operand, raw) for group in sources[:2] for operand in group]
    takes += [(operand, held_kind.get(c_kind, c_kind)) for operand in sources[2]]
    gives = [(operand, held_kind.get(d_kind, d_kind)) for operand in target]
    return on_lanes(function, takes, gives, whole_warp=True)


def from_registers(values: Sequence[Value], lanes: Execution, kind: str) -> np.ndarray:
    """An accumulator's elements [warps, 32, elements], as numbers of float64 or int64."""
    if kind == "f16":
        words = stacked(values, lanes, np.uint32)
        return words.view(np.float16).astype(np.float64)
    if kind == "s32":
        return stacked(values, lanes, np.int32).astype(np.int64)
    number: type = np.float64 if kind == "f64" else np.float32
    return stacked(values, lanes, number).astype(np.float64)


def as_registers(elements: np.ndarray, kind: str) -> tuple[np.ndarray, ...]:
    """An accumulator's registers, of [warps, 32, elements]."""
    if kind == "f16":
        elements = np.ascontiguousarray(elements).view(np.uint32)
    return tuple(elements[..., number] for number in range(elements.shape[-1]))


@instruction("ldmatrix")
def _ldmatrix(one: PtxInstruction) -> PtxOperation:
    """*ldmatrix*: matrices of 8 rows of 16 bytes, of which each lane gets 4 bytes.

    Lanes 8 i to 8 i + 7 give the addresses of the rows of matrix i.
    """
    count, transposes = _matrices(one)
    target, source = one.operands
    base, kind, offset = place(source)
    space = space_of(one)

    def function(lanes: Execution, base: Value) -> tuple[np.ndarray, ...] | np.ndarray:
        addresses = at(lanes, base, offset)
        given = np.arange(WARP) < 8 * count
        part = lanes.part(lanes.active & given)
        spaces = lanes.spaces
        rows = spaces.load(space, addresses, np.uint64, 2, part)
        halves = np.ascontiguousarray(np.moveaxis(rows, 0, -1)).view(np.uint16)
        found = []
        for number in range(count):
            matrix = halves[:, 8 * number : 8 * number + 8]
            if transposes:
                matrix = np.swapaxes(matrix, 1, 2)
            pairs = np.ascontiguousarray(matrix).view(np.uint32)  # [warps, 8, 4]
            found.append(pairs.reshape(-1, WARP))
        return tuple(found) if count > 1 else found[0]

    targets = [(operand, "b32") for operand in items(target)]
    return on_lanes(function, [(base, kind)], targets, whole_warp=True)


def _matrices(one: PtxInstruction) -> tuple[int, bool]:
    if not one.has("m8n8") or one.type != "b16":
        raise ValueError("matrices other than of 8 x 8 x 16 bits")
    return int(one.one_of("x1", "x2", "x4")[1]), one.has("trans")


@instruction("stmatrix")
def _stmatrix(one: PtxInstruction) -> PtxOperation:
    """*stmatrix*: the inverse of *ldmatrix*."""
    count, transposes = _matrices(one)
    target, source = one.operands
    base, kind, offset = place(target)
    space = space_of(one)

    def function(lanes: Execution, base: Value, *values: Value) -> None:
        addresses = at(lanes, base, offset)
        rows = np.zeros((*lanes.shape, 8), np.uint16)
        for number, value in enumerate(values):
            pairs = np.ascontiguousarray(lanes.full(value)).reshape(-1, 8, 4)
            matrix = pairs.view(np.uint16)
            if transposes:
                matrix = np.swapaxes(matrix, 1, 2)
            rows[:, 8 * number : 8 * number + 8] = matrix
        given = np.arange(WARP) < 8 * count
        part = lanes.part(lanes.active & given)
        words = np.ascontiguousarray(np.moveaxis(rows.view(np.uint64), -1, 0))
        lanes.spaces.store(space, addresses, words, part)

    sources = [(base, kind), *((operand, "b32") for operand in items(source))]
    return on_lanes(function, sources, whole_warp=True)


@instruction("movmatrix")
def _movmatrix(one: PtxInstruction) -> PtxOperation:
    """*movmatrix*: an 8 x 8 matrix of 16 bits transposed."""
    target, source = one.operands

    def function(lanes: Execution, value: Value) -> np.ndarray:
        pairs = np.ascontiguousarray(lanes.full(value)).reshape(-1, 8, 4)
        matrix = np.swapaxes(pairs.view(np.uint16), 1, 2)
        return np.ascontiguousarray(matrix).view(np.uint32).reshape(-1, WARP)

    return on_lanes(function, [(source, "b32")], [(target, "b32")], whole_warp=True)
