"""``tcgen05``: products whose sums lie in tensor memory (sm_100a).

A workgroup allocates columns of tensor memory: 128 lanes of 32 bits each.  One lane multiplies
tiles of shared memory into them, and goes on; ``commit`` has a barrier in shared memory arrive when
all that it multiplied is done.  A subgroup of rank w (of 4) loads and stores lanes 32 w to
32 w + 31, each of its lanes one of these.  A may lie in tensor memory, too: a row of it is a lane,
and a column has as many elements along K as 32 bits have.

Two workgroups of a cluster, a *pair*, may multiply as one (``cta_group::2``): each has half of the
rows of A and of the sums, and half of the columns of B, at the same addresses as the other.  A lane
of the first starts products of both; both allocate and free, by subgroups of the same number.

An address in tensor memory is a number: the lane in its high 16 bits, the column in the low ones.

Scales of blocks lie in tensor memory, too.  For 128 rows and four blocks along K they are a *chunk*
of 512 bytes of shared memory, which a lane copies to four columns: the four scales of row r are a
word, the (r // 32)-th of the 16 bytes r % 32, and so column r // 32 of lane r % 32 and of the lanes
32, 64 and 96 below it.  What a lane copies and multiplies is done in its order.

Sources: PTX ISA, tcgen05; of the bits of descriptors also CUTLASS, ``mma_sm100_desc.hpp``; of pairs
its ``SM100_MMA_F16BF16_2x1SM_SS``, ``Allocator2Sm`` and ``umma_arrive_multicast_2x1SM``; of the
places of scales CUTLASS, ``sm100_blockscaled_layout.hpp``, and ``tmem_sf_frg`` of
``mma_traits_sm100.hpp``; of the copy's descriptor Triton, ``TensorMemoryToLLVM.cpp``, and of the
order its kernel of block scales, which has one place for the scales of all steps.
"""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.shared_operands import SWIZZLE_MODES, SharedOperand
from tvm_iree_ext.targets.mma.mma_kinds import Mma

LANES = 128
"""Of tensor memory."""
COLUMNS = 512
"""Of tensor memory, of a core."""
LANE_SHIFT = 16
"""Where the lane begins in an address."""
_BOTH = 0b11  # workgroups of a pair
_LEAST_COLUMNS = 32  # of an allocation, which is a power of 2
_FORMATS = {"f16": 0, "bf16": 1, "f8e4m3fn": 0, "f8e5m2": 1, "i8": 1}  # of A and B, by the kind
_SUM_FORMATS = {"f16": 0, "f32": 1, "i32": 2}
_ROWS_BIT, _COLUMNS_BIT = 24, 17  # of a descriptor, where units of 16 rows and 8 columns begin
_SCALED_FORMATS = {"f8e4m3fn": 0, "f8e5m2": 1, "f6e2m3fn": 3, "f6e3m2fn": 4, "f4e2m1fn": 5}
_PACKED_FORMAT = 1  # of 4-bit floats, two to a byte
_SCALE_FORMATS = {"ue4m3": 0, "e8m0": 1}
CHUNK_ROWS, CHUNK_BYTES, CHUNK_COLUMNS = 128, 512, 4
"""Of scales that are copied at once."""
WORD_SCALES = 4
"""Scales of a row in a column."""
_CHUNK_STRIDE = 8  # from 8 rows of 16 bytes to the next, in these
_DISABLED = (tirx.const(0, "uint32"),) * 4  # lanes of a workgroup that are not written: none


def allocated_columns(columns: int) -> int:
    """The columns of the least allocation that has so many."""
    return max(_LEAST_COLUMNS, 1 << (columns - 1).bit_length())


def instruction_descriptor(mma: Mma, *, lhs_k_major: bool, rhs_k_major: bool) -> int:
    """The shape and the types of a product, in 32 bits.

    >>> from tvm_iree_ext.targets.mma.mma_table import mma_kind
    >>> mma = mma_kind("NV_TCGEN05_F32_128x256x16_BF16")
    >>> hex(instruction_descriptor(mma, lhs_k_major=True, rhs_k_major=False))
    '0x8410490'
    """
    fields = {
        4: _SUM_FORMATS[mma.c],
        7: _FORMATS[mma.a],
        10: _FORMATS[mma.b],
        15: int(not lhs_k_major),
        16: int(not rhs_k_major),
        _COLUMNS_BIT: mma.n // 8,
        _ROWS_BIT: mma.m // 16,
    }
    return sum(value << first for first, value in fields.items())


def described_tile(descriptor: int) -> tuple[int, int]:
    """Rows and columns of the products of an instruction descriptor.

    >>> described_tile(0x8410490)
    (128, 256)
    """
    return (descriptor >> _ROWS_BIT & 0x1F) * 16, (descriptor >> _COLUMNS_BIT & 0x3F) * 8


def scaled_descriptor(mma: Mma, *, lhs_k_major: bool, rhs_k_major: bool, first: int) -> int:
    """The shape and the types of a product with scales; ``first`` is its scales' byte in a word.

    >>> from tvm_iree_ext.targets.mma.mma_table import mma_kind
    >>> mma = mma_kind("NV_TCGEN05_SCALE_F32_128x256x64_B32")
    >>> hex(scaled_descriptor(mma, lhs_k_major=True, rhs_k_major=True, first=2))
    '0x48c004a0'
    """
    packed = mma.k * 4 == 256
    formats = [_PACKED_FORMAT if packed else _SCALED_FORMATS[dtype] for dtype in (mma.a, mma.b)]
    fields = {
        4: first,
        7: formats[0],
        10: formats[1],
        15: int(not lhs_k_major),
        16: int(not rhs_k_major),
        _COLUMNS_BIT: mma.n // 8,
        23: _SCALE_FORMATS[mma.operand("lhs_scale").dtype],
        _ROWS_BIT: mma.m // 16,
        29: first,
    }
    return sum(value << bit for bit, value in fields.items())


def encode_descriptor(words: Any, pointer: Any, operand: SharedOperand) -> None:
    """Put into ``words[0]`` what the instruction is to know of a tile that begins at a pointer.

    Adding n moves the tile by 16 n bytes.
    """
    leading, stride = operand.strides
    mode = SWIZZLE_MODES[operand.swizzle_bytes]
    call = T.cuda.tcgen05.encode_matrix_descriptor(words.data, pointer, leading, stride, mode)
    I.evaluate(call)


def encode_chunk_descriptor(words: Any, pointer: Any) -> None:
    """Put into ``words[0]`` what a copy is to know of a chunk of scales at a pointer.

    Adding n moves it by 16 n bytes.
    """
    call = T.cuda.tcgen05.encode_matrix_descriptor(words.data, pointer, 1, _CHUNK_STRIDE, 0)
    I.evaluate(call)


def allocate(pointer: Any, columns: int, workgroups: int = 1) -> None:
    """By a subgroup: wait for free columns, and put the address of the first to a pointer."""
    name = f"tcgen05.alloc.cta_group::{workgroups}.sync.aligned.shared::cta.b32"
    I.evaluate(T.ptx[name](pointer, columns))


def free(address: Any, columns: int, workgroups: int = 1) -> None:
    """By a subgroup: give back columns; a kernel must before it ends."""
    name = f"tcgen05.dealloc.cta_group::{workgroups}.sync.aligned.b32"
    I.evaluate(T.ptx[name](address, columns))


def allocate_no_more(workgroups: int = 1) -> None:
    """By a subgroup: the workgroup allocates no more, and others may."""
    I.evaluate(T.ptx[f"tcgen05.relinquish_alloc_permit.cta_group::{workgroups}.sync.aligned"]())


def multiply(mma: Mma, sums: Any, lhs: Any, rhs: Any, descriptor: int, more: Any) -> None:
    """By a lane: start a product of tiles by descriptors into the columns from an address on.

    ``lhs`` is a descriptor, or an address in tensor memory, of 32 bits.  The product is added to
    what is there if ``more``.  Products of a lane are added in their order.
    """
    kind = tirx.const(descriptor, "uint32")
    I.evaluate(T.ptx[mma.ptx](sums, lhs, rhs, kind, *_DISABLED * mma.workgroups, more))


def copy_scales(address: Any, chunk: Any) -> None:
    """By a lane: start copying a chunk of scales, by its descriptor, to columns from an address on.

    What the lane multiplies next finds them; what it copies next waits for what it multiplied.
    """
    I.evaluate(T.ptx["tcgen05.cp.cta_group::1.32x128b.warpx4"](address, chunk))


def multiply_scaled(
    mma: Mma, sums: Any, lhs: Any, rhs: Any, descriptor: int, scales: tuple[Any, Any], more: Any
) -> None:
    """As :func:`multiply`, with the first columns of the scales of lhs and of rhs."""
    kind = tirx.const(descriptor, "uint32")
    I.evaluate(T.ptx[mma.ptx](sums, lhs, rhs, kind, *scales, more))


def commit(barrier: Any) -> None:
    """By a lane: one arrival when all that it multiplied and copied is done."""
    name = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
    I.evaluate(T.ptx[name](barrier))


def commit_to_pair(barrier: Any) -> None:
    """By a lane of the first of a pair: an arrival at this barrier of each of the two."""
    name = (
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
    )
    I.evaluate(T.ptx[name](barrier, tirx.const(_BOTH, "uint16")))


def load(registers: Sequence[Any], address: Any) -> None:
    """By a subgroup: start loading a run of columns of its lanes, a power of 2 of them."""
    count = len(registers)
    I.evaluate(T.ptx[f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32"](*registers, address))


def store(address: Any, registers: Sequence[Any]) -> None:
    """By a subgroup: start storing to a run of columns of its lanes, a power of 2 of them."""
    name = f"tcgen05.st.sync.aligned.32x32b.x{len(registers)}.b32"
    I.evaluate(T.ptx[name](address, *registers))


def wait_for_stores() -> None:
    """By a subgroup: what it stored is in tensor memory."""
    I.evaluate(T.ptx["tcgen05.wait::st.sync.aligned"]())


def wait_for_loads() -> None:
    """By a subgroup: what it loaded is in registers."""
    I.evaluate(T.ptx["tcgen05.wait::ld.sync.aligned"]())


def fence_before() -> None:
    """Order tensor memory's operations so far before the synchronisation that follows."""
    I.evaluate(T.ptx["tcgen05.fence::before_thread_sync"]())


def fence_after() -> None:
    """Order tensor memory's operations that follow behind the synchronisation before."""
    I.evaluate(T.ptx["tcgen05.fence::after_thread_sync"]())
