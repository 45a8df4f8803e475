"""Products of ``tcgen05.mma`` by the bits of their descriptors.

Source: PTX ISA, tcgen05: instruction descriptor, matrix descriptor, shapes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.simulator.machine.shared_tiles import DescribedTile
from tvm_iree_ext.targets.mma.mma_kinds import dtype_bits
from tvm_iree_ext.targets.mma.mma_table import mma_table

ROWS = 128
"""Of a product."""
DEPTH_BYTES = 32
"""Of a row of A, or a column of B."""
_FACTORS = {
    "f16": {0: "f16", 1: "bf16"},
    "f8f6f4": {0: "f8e4m3fn", 1: "f8e5m2"},
    "i8": {1: "i8"},
}
_SUMS = {"f16": {1: "f32"}, "f8f6f4": {1: "f32"}, "i8": {2: "i32"}}
_NUMBERS = {"f32": np.float32, "i32": np.int32}
_VERSION = 1
_SWIZZLE_BYTES = {0: 16, 2: 128, 4: 64, 6: 32}  # by the matrix descriptor's code
_CODE_OF_MODE = {0: 0, 1: 6, 2: 4, 3: 2}  # by the argument of the function that encodes it

Known = tuple[np.ndarray, np.ndarray]
"""Numbers, and a flag for each."""


def encode(address: Any, leading: Any, stride: Any, mode: int) -> Any:
    """A matrix descriptor: the address in bytes, the offsets in units of 16."""
    fields = (np.asarray(address) >> 4, leading, stride)
    words = [np.asarray(field).astype(np.uint64) & np.uint64(0x3FFF) for field in fields]
    code = np.uint64(_VERSION << 46 | _CODE_OF_MODE[mode] << 61)
    return words[0] | words[1] << np.uint64(16) | words[2] << np.uint64(32) | code


@dataclass(frozen=True)
class TensorProduct:
    """The shape and the types of a product of 128 rows, or of twice as many by a pair.

    Attributes:
        workgroups: whose tiles are multiplied.
        n: columns.
        a, b, c: types, by the table's names.
        majors: whether K is contiguous in A, and in B.
    """

    workgroups: int
    n: int
    a: str
    b: str
    c: str
    majors: tuple[bool, bool]

    @classmethod
    def of(cls, kind: str, code: int, workgroups: int = 1) -> "TensorProduct | None":
        """What an instruction descriptor says to a kind of instruction; None where nothing."""
        a, b = (_FACTORS[kind].get(code >> first & 7) for first in (7, 10))
        c = _SUMS[kind].get(code >> 4 & 3)
        n, m = (code >> 17 & 63) * 8, (code >> 24 & 31) * 16
        others = code & ~(3 << 4 | 63 << 7 | 3 << 15 | 63 << 17 | 31 << 24)
        if a is None or b is None or c is None or others or m != ROWS * workgroups:
            return None
        if n not in range(16 * workgroups, 257, 16 * workgroups):
            return None
        return cls(workgroups, n, a, b, c, (not code >> 15 & 1, not code >> 16 & 1))

    @property
    def bits(self) -> int:
        """Of an element of A and of B."""
        return dtype_bits(self.a)

    @property
    def k(self) -> int:
        """Elements along K."""
        return DEPTH_BYTES * 8 // self.bits

    @property
    def name(self) -> str:
        """Of the kind in the table; the shape where it has none."""
        rows = ROWS * self.workgroups
        wanted = (rows, self.n, self.a, self.b, self.c)
        for row in mma_table().values():
            if row.kind == "tensor_memory" and (row.m, row.n, row.a, row.b, row.c) == wanted:
                return row.name
        return f"tcgen05.mma {rows}x{self.n}x{self.k}"

    @property
    def operands(self) -> tuple[tuple[int, str, bool], tuple[int, str, bool]]:
        """Of a workgroup: rows, type and major of A; columns, type and major of B."""
        columns = self.n // self.workgroups
        return (ROWS, self.a, self.majors[0]), (columns, self.b, self.majors[1])

    @staticmethod
    def place(descriptor: int) -> DescribedTile | None:
        """Where a matrix descriptor says that a tile lies; None where it says nothing."""
        fields = (descriptor & 0x3FFF, descriptor >> 16 & 0x3FFF, descriptor >> 32 & 0x3FFF)
        width = _SWIZZLE_BYTES.get(descriptor >> 61)
        if width is None or descriptor >> 46 & 7 != _VERSION or descriptor >> 49 & 0xFFF:
            return None
        start, leading, stride = (field << 4 for field in fields)
        return DescribedTile(start, leading, stride, width)

    def result(self, lhs: Known, rhs: Known, old: Known | None) -> Known:
        """The words of tensor memory after it, and which are known.

        Each of lhs and rhs are numbers, and which of them were never written; ``old`` are words,
        and which are known, or None where nothing is added to.
        """
        numbers = lhs[0] @ rhs[0].T
        rows, columns = (np.any(never, axis=1, keepdims=True) for _, never in (lhs, rhs))
        unknown = rows | columns.T
        kind = _NUMBERS[self.c]
        if old is not None:
            numbers = numbers + np.ascontiguousarray(old[0]).view(kind)
            unknown = unknown | ~old[1]
        if self.c == "i32":
            numbers = numbers.astype(np.int64)
        return numbers.astype(kind).view(np.uint32), ~unknown
