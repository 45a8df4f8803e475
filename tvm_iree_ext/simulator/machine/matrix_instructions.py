"""Matrix instructions by their documented lane maps.

An instruction is what its row of the MMA table says: the registers of all lanes of a subgroup are
gathered into A, B and C, C + A B is computed in 64 bits and rounded to C's type, and the result
goes back to the lanes.  The lane maps are read from the row's numbers, literally, and share nothing
with the code that makes fragments from them.
"""

import functools
from dataclasses import dataclass
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

from tvm_iree_ext.simulator.base.findings import DISAGREEMENT, some
from tvm_iree_ext.simulator.base.lane_values import (
    Value,
    apply,
    element_type,
    over_lanes,
    parts,
    poisoned,
)
from tvm_iree_ext.simulator.base.workgroup_state import WorkgroupState
from tvm_iree_ext.targets.mma.mma_kinds import Mma, MmaOperand, dtype_bits, tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_table
from tvm_iree_ext.targets.mma.scaled_kinds import FIRST_BIT


@dataclass(frozen=True)
class LaneMap:
    """Places of an operand's elements: flat, row-major over its extents.

    ``place[lane, element]`` is what a lane's register element holds, ``holder`` a place in
    ``[lanes * elements]`` where each matrix element is found.
    """

    extents: tuple[int, ...]
    place: np.ndarray
    holder: np.ndarray


def lane_map(operand: MmaOperand, lanes: int) -> LaneMap:
    """The documented map of an operand over the lanes of all subgroups that share it.

    The schema of the table, literally: in dimension d, with the digits o and e of the element,
    ``((s * outer + o) * thread + v) * element + e`` where ``v = lane // tstride % thread``.
    """
    size = lanes // int(np.prod(operand.subgroup))
    ranges = {f"o{dim}": range(extent) for dim, extent in enumerate(operand.outer)}
    ranges |= {f"e{dim}": range(extent) for dim, extent in enumerate(operand.element)}
    extents = operand.extents
    held = []
    for lane in range(lanes):
        mine = []
        for digits in product(*(ranges[name] for name in operand.reg_order)):
            digit = dict(zip(operand.reg_order, digits, strict=True))
            flat = 0
            for dim, extent in enumerate(extents):
                stride, group = operand.tstrides[dim], operand.sstrides[dim]
                v = lane % size // stride % operand.thread[dim] if stride else 0
                s = lane // size // group % operand.subgroup[dim] if group else 0
                at = (s * operand.outer[dim] + digit[f"o{dim}"]) * operand.thread[dim] + v
                flat = flat * extent + at * operand.element[dim] + digit[f"e{dim}"]
            mine.append(flat)
        shares = operand.element_split_lanes
        part = len(mine) // shares
        held.append(mine[lane % shares * part : (lane % shares + 1) * part])
    place = np.array(held)
    holder = np.full(int(np.prod(extents)), -1)
    holder[place.ravel()[::-1]] = np.arange(place.size)[::-1]
    return LaneMap(extents, place, holder)


@functools.cache
def kind_map(name: str, side: str) -> LaneMap:
    """The map of an operand of a kind."""
    mma = mma_kind(name)
    return lane_map(getattr(mma, side), mma.subgroup_size * mma.num_subgroups)


def kinds_of_ptx(instruction: str) -> list[Mma]:
    """The kinds that a PTX instruction is."""
    return [mma for mma in mma_table().values() if mma.ptx == instruction]


def kinds_of_llvm(name: str) -> list[Mma]:
    """The native kinds that an LLVM intrinsic may be, on one chip or another."""
    return [
        mma
        for mma in mma_table().values()
        if mma.kind in ("native", "scaled")
        and mma.llvm is not None
        and (mma.llvm == name or mma.llvm.startswith(f"{name}.v"))  # of operand types
    ]


# Bits of registers and elements.

_SMALL = ("i4", "f4e2m1fn", "f6e2m3fn", "f6e3m2fn")  # below a byte


def decoded(raw: np.ndarray, operand: MmaOperand) -> np.ndarray:
    """Register bytes ``[lanes, bytes]`` as numbers ``[lanes, elements]``."""
    dtype, count = operand.dtype, operand.elements_per_lane
    if dtype in _SMALL:
        size, slot = dtype_bits(dtype), operand.slot_bits
        first = FIRST_BIT.get(dtype, 0) if slot == 8 else 0
        bits = np.unpackbits(raw, axis=1, count=slot * count, bitorder="little")
        bits = bits.reshape(len(raw), count, slot)[..., first : first + size]
        words = np.packbits(bits, axis=2, bitorder="little")[..., 0]
        if dtype == "i4":
            return (words.astype(np.int8) ^ 8).astype(np.int8) - np.int8(8)
        return words.view(getattr(ml_dtypes, tvm_dtype(dtype))).astype(np.float32)
    element = element_type(tvm_dtype(dtype))
    values = np.ascontiguousarray(raw).view(element)
    if _spread(operand):
        values = values[:, ::2]
    values = values[:, :count]
    return rounded(np.abs(values) if dtype == "ue4m3" else values, dtype)


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Round 32-bit floats as an instruction does that takes fewer bits."""
    if dtype == "tf32":  # the low 13 bits are ignored
        return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if dtype == "xf32":  # rounded to as many bits
        bits = np.ascontiguousarray(values).view(np.uint32)
        nearest = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
        return (nearest & np.uint32(0xFFFFE000)).view(np.float32)
    return values


def _spread(operand: MmaOperand) -> bool:
    """Whether 16-bit elements have a register each, its low half."""
    bits = dtype_bits(operand.dtype)
    return bits == 16 and bits * operand.elements_per_lane < 32 * operand.registers


def register_bytes(values: list[Value], lanes: int) -> tuple[np.ndarray, Any, Any]:
    """Registers, one value each or vectors, as bytes ``[lanes, bytes]``; what is bad; and why."""
    columns, bad, origin = [], [], None
    for value in values:
        number, wrong, why = parts(over_lanes(value, lanes))
        origin = origin or why
        columns.append(np.ascontiguousarray(number.reshape(-1, lanes).T).view(np.uint8))
        wide = np.broadcast_to(wrong, number.shape).reshape(-1, lanes).T
        bad.append(np.repeat(wide, number.dtype.itemsize, axis=1) if why else None)
    raw = columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
    if origin is None:
        return raw, None, None
    spelt = [
        np.zeros(column.shape, bool) if each is None else each
        for column, each in zip(columns, bad, strict=True)
    ]
    return raw, np.concatenate(spelt, axis=1), origin


class MatrixInstruction:
    """One kind of instruction, ready to be executed."""

    def __init__(self, mma: Mma) -> None:
        self.mma = mma
        self.lanes = mma.subgroup_size * mma.num_subgroups
        letters = {"B": "b", "M": "m", "N": "n", "K": "k", "Ks": "s", "Kb": "t"}
        names = [
            "".join(letters[dim] for dim in operand.dims) if operand else ""
            for operand in (mma.lhs, mma.rhs, mma.acc)
        ]
        self.formula = f"z{names[0]},z{names[1]}->z{names[2]}"
        if mma.rhs is None or mma.lhs is None:  # in shared memory
            self.formula = "zmk,zkn->zmn"
        self.plain = self.formula == "zmk,zkn->zmn"

    def map_of(self, side: str) -> LaneMap:
        """The documented map of an operand."""
        return kind_map(self.mma.name, side)

    def execute(
        self,
        state: WorkgroupState,
        a: list[Value],
        b: list[Value],
        c: list[Value],
        scales: tuple[list[Value], list[Value]] | None,
        mask: Any,
        statement: int,
    ) -> np.ndarray | Value:
        """The accumulator's elements after the instruction: ``[elements, lanes]``."""
        mma = self.mma
        old = self._numbers(state, "acc", c)
        if not state.whole(mask, statement, mma.name, mma.num_subgroups):
            return old
        left = self.matrix(state, "lhs", a, mask, statement)
        right = self.matrix(state, "rhs", b, mask, statement)
        if scales is not None:
            left = left * self._scale(state, "lhs", scales[0], mask, statement)
            right = right * self._scale(state, "rhs", scales[1], mask, statement)
        begin = self.matrix(state, "acc", c, mask, statement)
        result = self.result(state, left, right, begin)
        state.counts[mma.name] += state.subgroups_of(mask) // mma.num_subgroups
        return result if mask is None else state.merged(mask, result, old)

    def result(self, state: WorkgroupState, left: Value, right: Value, begin: Value) -> Value:
        """The accumulator's elements ``[elements, lanes]`` of matrices ``[groups, ...]``."""
        acc, where = self._required("acc"), self.map_of("acc")
        number, bad, origin = self._multiplied(left, right, begin)
        kind = element_type(tvm_dtype(acc.dtype))
        if kind.kind == "i":
            number = number.astype(np.int64)
        groups = len(number)
        back = number.reshape(groups, -1)[:, where.place].astype(kind)
        lanes = groups * self.lanes
        result = np.ascontiguousarray(back.reshape(lanes, -1).T[:, : state.lanes])
        if origin is None:
            return result
        wrong = bad.reshape(groups, -1)[:, where.place].reshape(lanes, -1).T[:, : state.lanes]
        return poisoned(result, wrong, origin)

    def _multiplied(self, left: Value, right: Value, begin: Value) -> tuple[Any, Any, Any]:
        (a, bad_a, why_a), (b, bad_b, why_b), (c, bad_c, why_c) = map(parts, (left, right, begin))
        number = c + (a @ b if self.plain else np.einsum(self.formula, a, b))
        origin = why_a or why_b or why_c
        if origin is None:
            return number, False, None
        spelt = [
            np.broadcast_to(bad, value.shape).astype(float)
            for bad, value in ((bad_a, a), (bad_b, b), (bad_c, c))
        ]
        touched = np.einsum(self.formula, spelt[0], np.ones_like(spelt[1]))
        touched = touched + np.einsum(self.formula, np.ones_like(spelt[0]), spelt[1])
        return number, (touched + spelt[2]) > 0, origin

    def _required(self, side: str) -> MmaOperand:
        operand = getattr(self.mma, side)
        if operand is None:
            raise ValueError(f"{self.mma.name} has no registers for {side}")
        return operand

    def _numbers(self, state: WorkgroupState, side: str, values: list[Value]) -> Value:
        """Elements ``[elements, lanes]`` of an operand's registers."""
        operand = self._required(side)
        raw, bad, origin = register_bytes(values, state.lanes)
        numbers = np.ascontiguousarray(decoded(raw, operand).T)
        if origin is None:
            return numbers
        return poisoned(numbers, self._bad_elements(bad, operand).T, origin)

    def _bad_elements(self, bad: np.ndarray, operand: MmaOperand) -> np.ndarray:
        count = operand.elements_per_lane
        if operand.dtype in _SMALL:
            of_bits = np.repeat(bad, 8, axis=1)[:, : operand.slot_bits * count]
            return np.asarray(of_bits.reshape(len(bad), count, -1).any(axis=2))
        size = element_type(tvm_dtype(operand.dtype)).itemsize
        wrong: Any = bad.reshape(len(bad), -1, size).any(axis=2)
        return wrong[:, ::2][:, :count] if _spread(operand) else wrong[:, :count]

    def matrix(
        self, state: WorkgroupState, side: str, values: list[Value], mask: Any, statement: int
    ) -> Value:
        """The operand in registers, ``[groups, *extents]``, as 64-bit floats."""
        operand, where = self._required(side), self.map_of(side)
        numbers, bad, origin = parts(self._numbers(state, side, values))
        groups = -(-state.lanes // self.lanes)
        wide = self._padded(numbers.T.astype(np.float64), groups)
        matrix = wide[:, where.holder]
        if operand.lane_replication > 1:
            self._agree(state, side, matrix, wide, where, mask, statement)
        shape = (groups, *where.extents)
        if origin is None:
            return matrix.reshape(shape)
        wrong = self._padded(np.broadcast_to(bad, numbers.shape).T, groups)
        return poisoned(matrix.reshape(shape), wrong[:, where.holder].reshape(shape), origin)

    def _scale(
        self, state: WorkgroupState, side: str, values: list[Value], mask: Any, statement: int
    ) -> Value:
        """The scales of an operand, one for each block of K, in its dimensions."""
        scale = self.matrix(state, f"{side}_scale", values, mask, statement)
        own = self._required(f"{side}_scale").dims
        missing = [dim not in own for dim in self._required(side).dims]
        axes = tuple(1 + at for at, absent in enumerate(missing) if absent)
        return apply(lambda array: np.expand_dims(array, axes) if np.ndim(array) else array, scale)

    def _padded(self, values: np.ndarray, groups: int) -> np.ndarray:
        """``[groups, lanes of one * elements]``."""
        missing = groups * self.lanes - len(values)
        if missing:
            values = np.concatenate([values, np.zeros((missing, values.shape[1]), values.dtype)])
        return values.reshape(groups, -1)

    def _agree(
        self,
        state: WorkgroupState,
        side: str,
        matrix: np.ndarray,
        wide: np.ndarray,
        where: LaneMap,
        mask: Any,
        statement: int,
    ) -> None:
        """Lanes that hold the same element must have the same value."""
        shape = (len(wide), *where.place.shape)
        again, mine = matrix[:, where.place], wide.reshape(shape)
        wrong = ((again != mine) & ~(np.isnan(again) & np.isnan(mine))).any(axis=2)
        lanes = np.flatnonzero(wrong.ravel()[: state.lanes] & state.active(mask))
        if lanes.size:
            state.report(
                DISAGREEMENT,
                statement,
                lanes,
                f"{some(lanes)} hold other values of the {side} of {self.mma.name} than the lanes"
                " that hold the same elements",
            )


def chosen_scales(
    words: Value, lanes: int, byte: int, thread: int, replicas: int, stride: int
) -> Value:
    """Words whose lowest bytes are the scales that an instruction's selectors choose, in each lane.

    Of lanes that would hold the same scales, so many ``stride`` from each other, it takes those of
    one: PTX ISA, "Block Scaling"; of gfx1250 those of one half.
    """
    lane = np.arange(lanes)
    source = lane + (thread - lane // stride % replicas) * stride

    def chosen(array: np.ndarray) -> np.ndarray:
        return np.asarray(array[source] >> np.uint32(8 * byte))

    number, bad, origin = parts(over_lanes(words, lanes))
    if origin is None:
        return chosen(number)
    return poisoned(chosen(number), np.broadcast_to(bad, number.shape)[source], origin)


@functools.cache
def matrix_instruction(name: str) -> MatrixInstruction:
    """The instruction of a kind."""
    return MatrixInstruction(mma_kind(name))


def ldmatrix(
    state: WorkgroupState,
    view: Any,
    index: Value,
    count: int,
    transposed: bool,
    mask: Any,
    statement: int,
) -> list[Value]:
    """``ldmatrix``: ``count`` 8x8 matrices of 16-bit elements; one 32-bit word of each a lane.

    Lane ``8 i + r`` gives the address of row r of matrix i.  Lane l receives elements ``2 (l % 4)``
    and the next of row ``l // 4``, or, transposed, of that column.
    """
    zero = [np.zeros(state.lanes, np.uint32)] * count
    if not state.whole(mask, statement, "ldmatrix"):
        return zero
    state.counts["ldmatrix"] += state.subgroups_of(mask)
    gives = state.lane % state.subgroup_size < 8 * count
    value = view.load(state, index, gives & state.active(mask), statement, 8)
    number, bad, origin = parts(value)
    number = np.broadcast_to(number, (8, state.lanes))  # of no lane, where all are out of bounds
    lane = state.lane % state.subgroup_size
    first = state.lane - lane
    words = []
    for matrix in range(count):
        if transposed:
            rows = [8 * matrix + 2 * (lane % 4) + half for half in (0, 1)]
            columns = [lane // 4, lane // 4]
        else:
            rows = [8 * matrix + lane // 4] * 2
            columns = [2 * (lane % 4) + half for half in (0, 1)]
        at = [(column, first + row) for row, column in zip(rows, columns, strict=True)]
        halves = np.stack([number[place] for place in at], axis=1)
        word = np.ascontiguousarray(halves).view(np.uint32)[:, 0]
        if origin is not None:
            spelt = np.broadcast_to(bad, number.shape)
            word = poisoned(word, spelt[at[0]] | spelt[at[1]], origin)
        words.append(word)
    return words
