"""Sparse matrix instructions (``smfmac``): two of every four elements of A's K are given.

A lane's registers of A hold ``K / 2`` elements of its row, pairs for each four elements of K; its
index register says, two bits for each element of a pair, which of the four they are.  B and C are
those of the dense instruction of the same shape.
"""

import functools
import re
from dataclasses import replace
from typing import Any

import numpy as np

from tvm_iree_ext.simulator.base.findings import INSTRUCTION, some
from tvm_iree_ext.simulator.base.lane_values import Value, parts, poisoned
from tvm_iree_ext.simulator.base.workgroup_state import WorkgroupState
from tvm_iree_ext.simulator.machine.matrix_instructions import (
    LaneMap,
    MatrixInstruction,
    lane_map,
    register_bytes,
)
from tvm_iree_ext.targets.mma.mma_kinds import Mma, MmaOperand
from tvm_iree_ext.targets.mma.mma_table import mma_table

_LANES = 64
_ROWS = 4  # of the accumulator that a lane holds in a row


def sparse_kinds(intrinsic: str) -> list[Mma]:
    """The kinds that are calls of an LLVM intrinsic."""
    return [mma for mma in mma_table().values() if mma.sparse_intrinsic == intrinsic]


def _operand(dims: str, dtype: str, thread: int, stride: int, element: int, K: int) -> MmaOperand:
    """One whose dim ``K`` is in ``thread`` runs, and whose other dim is over lanes."""
    other = _LANES // thread
    tiles = [(other, 1, 1), (thread, stride, element)]
    if K == 0:
        tiles.reverse()
    threads, strides, elements = zip(*tiles, strict=True)
    return MmaOperand(
        dims=tuple(dims), dtype=dtype, outer=(1, 1), thread=threads, tstrides=strides,
        element=elements, subgroup=(1, 1), sstrides=(0, 0), reg_order=("o0", "e0", "o1", "e1"),
        elements_per_lane=element, element_split_lanes=1, lane_replication=1, registers=0,
        packing="",
    )  # fmt: skip


class SparseInstruction(MatrixInstruction):
    """One sparse instruction, by its shape and types."""

    def __init__(self, row: Mma) -> None:
        assert row.composed_of is not None
        name = str(row.composed_of["base"])
        shape = re.search(r"_(\d+)x(\d+)x(\d+)_", name)
        assert shape is not None
        m, n, k = map(int, shape.groups())
        groups = _LANES // m
        run = k // groups
        operands: dict[str, Any] = {
            "lhs": _operand("MK", row.a, groups, m, run // 2, K=1),
            "rhs": _operand("KN", row.b, groups, n, run, K=0),
            "acc": _operand("MN", row.c, groups, n, _ROWS, K=0),
        }
        super().__init__(replace(row, name=name, kind="native", m=m, n=n, k=k, **operands))
        self.maps = {side: lane_map(operand, _LANES) for side, operand in operands.items()}

    def map_of(self, side: str) -> LaneMap:
        """The map of an operand."""
        return self.maps[side]

    def sparse(
        self,
        state: WorkgroupState,
        a: list[Value],
        b: list[Value],
        c: list[Value],
        index: list[Value],
        mask: Any,
        statement: int,
    ) -> np.ndarray | Value:
        """The accumulator's elements after the instruction: ``[elements, lanes]``."""
        old = self._numbers(state, "acc", c)
        if not state.whole(mask, statement, self.mma.name):
            return old
        given = self.matrix(state, "lhs", a, mask, statement)
        left = self._spread(state, given, index, mask, statement)
        right = self.matrix(state, "rhs", b, mask, statement)
        result = self.result(state, left, right, self.matrix(state, "acc", c, mask, statement))
        state.counts[self.mma.name] += state.subgroups_of(mask)
        return result if mask is None else state.merged(mask, result, old)

    def _spread(
        self, state: WorkgroupState, given: Value, index: list[Value], mask: Any, statement: int
    ) -> Value:
        """A with zeros where nothing is given: ``[groups, M, K]``."""
        raw, bad, origin = register_bytes(index, state.lanes)
        word = np.ascontiguousarray(raw).view(np.uint32)[:, 0]
        count = self.mma.operand("lhs").elements_per_lane
        at = np.arange(count)
        which = (word[:, None] >> (2 * at).astype(np.uint32)) & 3
        same = (which[:, ::2] >= which[:, 1::2]).any(axis=1) & state.active(mask)
        if same.any() and origin is None:
            state.report(
                INSTRUCTION,
                statement,
                np.flatnonzero(same),
                f"the index of {self.mma.name} names elements of four out of order, or one twice,"
                f" in {some(np.flatnonzero(same))}",
            )
        number, wrong, why = parts(given)
        place = self.map_of("lhs").place  # [lanes, elements] -> flat in [M, K / 2]
        groups, rows, half = number.shape
        target = np.zeros((groups, rows * half), int)
        spelt = np.zeros((groups, rows * half), bool)
        lanes = np.arange(state.lanes)
        where = place[lanes % _LANES] % half // 2 * 4 + which
        target[lanes[:, None] // _LANES, place[lanes % _LANES]] = where
        if bad is not None:
            spelt[lanes[:, None] // _LANES, place[lanes % _LANES]] = bad.any(axis=1)[:, None]
        target, spelt = target.reshape(number.shape), spelt.reshape(number.shape)
        dense = np.zeros((groups, rows, 2 * half))
        np.put_along_axis(dense, target, number, axis=2)
        if origin is None and why is None:
            return dense
        unsure = np.zeros(dense.shape, bool)
        np.put_along_axis(unsure, target, spelt | np.broadcast_to(wrong, number.shape), axis=2)
        return poisoned(dense, unsure, origin or why)


@functools.cache
def sparse_instruction(name: str) -> SparseInstruction:
    """The instruction of a sparse kind."""
    return SparseInstruction(mma_table()[name])
