"""Products of ``tcgen05.mma`` with scales, by the bits of their descriptors.

Source: PTX ISA, tcgen05: instruction descriptor of kinds with scales, scale factors, packing of
elements below 8 bits in shared memory.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tvm_iree_ext.simulator.machine.tensor_products import (
    DEPTH_BYTES,
    ROWS,
    Known,
    TensorProduct,
)
from tvm_iree_ext.targets.mma.mma_kinds import dtype_bits, tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_table
from tvm_iree_ext.targets.mma.scaled_kinds import scaled_name

_QUARTER = 32  # rows of scales in a column
_WORD = 4  # bytes of a column
_RUN = 16  # elements below 8 bits, in as many bytes where these are not packed
_BYTES = {0: "f8e4m3fn", 1: "f8e5m2", 3: "f6e2m3fn", 4: "f6e3m2fn", 5: "f4e2m1fn"}
_NIBBLES = {1: "f4e2m1fn"}
_KINDS = {
    ("mxf8f6f4", "1X"): (_BYTES, 32, {1: "e8m0"}),
    ("mxf4", "2X"): (_NIBBLES, 64, {1: "e8m0"}),
    ("mxf4nvf4", "2X"): (_NIBBLES, 64, {1: "e8m0"}),
    ("mxf4nvf4", "4X"): (_NIBBLES, 64, {0: "ue4m3"}),
}
"""Formats by their codes, K, and types of scales by theirs."""


@dataclass(frozen=True)
class ScaledProduct(TensorProduct):
    """The shape and the types of a product of 128 rows by blocks of K with scales.

    Attributes:
        depth: elements along K.
        scales: their type.
        blocks: along K.
        first: the bytes in their words at which the scales of A, and of B, begin.
    """

    depth: int = 0
    scales: str = ""
    blocks: int = 0
    first: tuple[int, int] = (0, 0)

    @classmethod
    def with_scales(cls, kind: str, vector: str, code: int) -> "ScaledProduct | None":
        """What an instruction descriptor says to a kind of instruction; None where nothing."""
        formats, depth, types = _KINDS[kind, vector]
        a, b = (formats.get(code >> bit & 7) for bit in (7, 10))
        scales, blocks = types.get(code >> 23 & 1), int(vector[0])
        first = (code >> 29 & 3, code >> 4 & 3)
        n, m = (code >> 17 & 63) * 8, (code >> 24 & 31) * 16
        others = code & ~(3 << 4 | 63 << 7 | 3 << 15 | 127 << 17 | 31 << 24 | 3 << 29)
        if a is None or b is None or scales is None or others or m != ROWS:
            return None
        majors = (not code >> 15 & 1, not code >> 16 & 1)
        turned = [dtype for dtype, major in zip((a, b), majors, strict=True) if not major]
        if n not in range(16, 257, 16) or any(dtype_bits(dtype) < 8 for dtype in turned):
            return None
        if any(one % blocks for one in first):
            return None
        return cls(1, n, a, b, "f32", majors, depth, scales, blocks, first)

    @property
    def k(self) -> int:
        """Elements along K."""
        return self.depth

    @property
    def name(self) -> str:
        """Of the kind in the table; the shape where it has none."""
        wanted = (ROWS, self.n, self.k, self.k // self.blocks)
        for row in mma_table().values():
            shape = (row.m, row.n, row.k, row.scale_block)
            if row.kind == "scaled_tensor_memory" and shape == wanted:
                return scaled_name(row.name, self.a, self.b)
        return f"tcgen05.mma {ROWS}x{self.n}x{self.k}"

    def elements(self, read: Known, dtype: str) -> Known:
        """The numbers of rows of bytes of shared memory, and which were never written."""
        raw, never = read[0].astype(np.int8).view(np.uint8), read[1]
        bits = dtype_bits(dtype)
        if bits < 8 and self.k == DEPTH_BYTES:  # runs at the begin of as many bytes
            used = slice(0, _RUN * bits // 8)
            raw, never = (
                one.reshape(len(one), -1, _RUN)[..., used].reshape(len(one), -1)
                for one in (raw, never)
            )
        unpacked = np.unpackbits(np.ascontiguousarray(raw), axis=1, bitorder="little")
        words = np.packbits(unpacked.reshape(len(raw), -1, bits), axis=2, bitorder="little")
        numbers = words[..., 0].view(getattr(ml_dtypes, tvm_dtype(dtype))).astype(np.float64)
        return numbers, np.broadcast_to(never.any(axis=1, keepdims=True), numbers.shape)

    def scaled(self, numbers: Known, words: Known, first: int) -> Known:
        """Elements by their scales: of words ``[32 lanes, columns]``, and which were written."""
        rows = len(numbers[0])
        columns = np.ascontiguousarray(words[0].T).view(np.uint8)  # [columns, 32 lanes of 4 bytes]
        raw = columns.reshape(-1, _WORD)[:rows, first : first + self.blocks]
        values = np.ascontiguousarray(raw).view(getattr(ml_dtypes, tvm_dtype(self.scales)))
        scales = values.astype(np.float64)
        if self.scales == "ue4m3":
            scales = np.abs(scales)
        known = words[1].T.reshape(-1, 1)[:rows]
        each = np.repeat(scales, self.k // self.blocks, axis=1)
        return numbers[0] * each, numbers[1] | ~known

    @property
    def scale_columns(self) -> tuple[int, int]:
        """Columns of the scales of A, and of B."""
        return ROWS // _QUARTER, -(-self.n // _QUARTER)
