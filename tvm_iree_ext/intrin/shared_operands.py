"""Operands that a matrix instruction reads from shared memory, through a descriptor.

They lie in *atoms*: rows of 16 bytes, or of 32, 64 or 128 bytes whose 16-byte columns are swizzled.
A tile ``[rows, columns]`` (contiguous columns) is stored as ``[columns / width, rows, width]``,
where ``width`` elements are a row of an atom.

    K-major      the columns are K: a tile ``[M, K]`` of A, or ``[N, K]`` of B
    MN-major     the columns are M or N (not of all types)

Sources: PTX ISA, matrix layouts of ``wgmma`` and of ``tcgen05``, which are the same; the strides of
the descriptor are those of CUTLASS's canonical layouts.
"""

from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.layout.analysis import Swizzle
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.targets.mma.mma_kinds import IN_TENSOR_MEMORY, Mma, dtype_bits

_UNIT_BYTES = 16  # descriptors count in these
_ROWS = 8  # of an atom
_DEPTH_BITS = 256  # of an instruction's tile along K
SWIZZLE_MODES = {16: 0, 32: 1, 64: 2, 128: 3}
"""By the bytes of a row: ``CUtensorMapSwizzle``, and TVM's argument for descriptors."""


def either_bits(mma: Mma) -> Ints:
    """Bits of the types of which M or N may be contiguous.

    PTX ISA: of ``wgmma`` f16 and bf16; of ``tcgen05.mma`` also those of 8 bits.
    """
    return (16, 8) if mma.kind in IN_TENSOR_MEMORY else (16,)


@dataclass(frozen=True)
class SharedOperand:
    """Shared-memory placement of ``steps`` instructions' tiles of A or B.

    Elements below 8 bits are counted in bytes along K.

    Attributes:
        mma: the kind.
        side: ``lhs`` or ``rhs``.
        steps: instructions along K that one tile serves.
        k_major: whether K is contiguous.
        swizzle_bytes: of a row of an atom: 16 (not swizzled), 32, 64 or 128.
    """

    mma: Mma
    side: str
    steps: int = 1
    k_major: bool = True
    swizzle_bytes: int = 128

    def __post_init__(self) -> None:
        if self.swizzle_bytes not in SWIZZLE_MODES:
            raise TargetError(
                f"{self.mma.name}: swizzle of {self.swizzle_bytes} bytes; there are 16 (none), 32,"
                " 64 and 128"
            )
        if not self.k_major and self.bits not in (either := either_bits(self.mma)):
            raise TargetError(
                f"{self.mma.name}: {self.side} of {self.bits} bits must have K contiguous; only"
                f" types of {' and '.join(map(str, either))} bits may have M or N"
            )
        if self.tile[1] % self.width:
            raise TargetError(
                f"{self.mma.name}: rows of {self.tile[1]} elements of {self.side} are no multiple"
                f" of the {self.width} of a swizzle of {self.swizzle_bytes} bytes"
            )
        if self.k_major and self.swizzle_bytes > _UNIT_BYTES and self.tile[1] > self.width:
            raise TargetError(
                f"{self.mma.name}: K of {self.tile[1]} is more than the {self.width} elements of"
                f" one swizzled row; take at most {self.steps * self.width // self.tile[1]} steps"
            )

    @property
    def dtype(self) -> str:
        """By the table's name."""
        return self.mma.a if self.side == "lhs" else self.mma.b

    @property
    def bits(self) -> int:
        """Bits of an element, or of the byte that it lies in."""
        return max(dtype_bits(self.dtype), 8)

    @property
    def depth(self) -> int:
        """Elements of an instruction's tile along K."""
        return _DEPTH_BITS // self.bits

    @property
    def tile(self) -> Ints:
        """Rows and columns of a workgroup's whole tile; columns are contiguous."""
        depth = self.steps * self.depth
        other = (self.mma.m if self.side == "lhs" else self.mma.n) // self.mma.workgroups
        return (other, depth) if self.k_major else (depth, other)

    @property
    def width(self) -> int:
        """Elements of a row of an atom."""
        return self.swizzle_bytes * 8 // self.bits

    @property
    def shape(self) -> Ints:
        """Shape of the buffer: ``[columns / width, rows, width]``, without a first extent of 1."""
        rows, columns = self.tile
        atoms = (columns // self.width,) if columns > self.width else ()
        return (*atoms, rows, self.width)

    @property
    def swizzle(self) -> Swizzle | None:
        """Swizzle of the buffer's accesses; see :mod:`.swizzle`."""
        if self.swizzle_bytes == _UNIT_BYTES:
            return None
        return Swizzle(self.width, _UNIT_BYTES * 8 // self.bits, 128 // self.swizzle_bytes)

    def place(self, row: Any, column: Any) -> list[Any]:
        """Indices in the buffer of the tile's element at a row and column."""
        if self.tile[1] == self.width:
            return [row, column]
        return [column // self.width, row, column % self.width]

    def index(self, outer: Any, k: Any) -> list[Any]:
        """The place of the element at ``outer`` (M or N) and ``k``."""
        return self.place(outer, k) if self.k_major else self.place(k, outer)

    def first(self, step: int) -> int:
        """The element at which an instruction's tile begins."""
        depth = step * self.depth
        if not self.k_major:
            return depth * self.width
        return depth // self.width * self.tile[0] * self.width + depth % self.width

    @property
    def strides(self) -> Ints:
        """The descriptor's leading and stride offsets, in units of 16 bytes."""
        group = _ROWS * self.swizzle_bytes // _UNIT_BYTES  # from 8 rows to the next
        atom = self.tile[0] * self.swizzle_bytes // _UNIT_BYTES  # from an atom to the next
        if self.k_major:
            return (atom if self.swizzle_bytes == _UNIT_BYTES else 1, group)
        return (group, atom) if self.swizzle_bytes == _UNIT_BYTES else (atom, group)

    @property
    def key(self) -> str:
        """For names."""
        return f"{'k' if self.k_major else 'mn'}{self.swizzle_bytes}"
