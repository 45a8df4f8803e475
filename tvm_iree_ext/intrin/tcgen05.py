"""``tcgen05``: products whose sums lie in tensor memory (sm_100a).

A workgroup allocates columns of tensor memory: 128 lanes of 32 bits each.  One lane multiplies
tiles of shared memory into them, and goes on; ``commit`` has a barrier in shared memory arrive when
all that it multiplied is done.  A subgroup of rank w (of 4) loads lanes 32 w to 32 w + 31, each of
its lanes one of these.

Two workgroups of a cluster, a *pair*, may multiply as one (``cta_group::2``): each has half of the
rows of A and of the sums, and half of the columns of B, at the same addresses as the other.  A lane
of the first starts products of both; both allocate and free, by subgroups of the same number.

An address in tensor memory is a number: the lane in its high 16 bits, the column in the low ones.

Sources: PTX ISA, tcgen05; the bits of descriptors also CUTLASS, ``mma_sm100_desc.hpp``; pairs also
its ``SM100_MMA_F16BF16_2x1SM_SS``, ``Allocator2Sm`` and ``umma_arrive_multicast_2x1SM``.
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
        17: mma.n // 8,
        24: mma.m // 16,
    }
    return sum(value << first for first, value in fields.items())


def encode_descriptor(words: Any, pointer: Any, operand: SharedOperand) -> None:
    """Put into ``words[0]`` what the instruction is to know of a tile that begins at a pointer.

    Adding n moves the tile by 16 n bytes.
    """
    leading, stride = operand.strides
    mode = SWIZZLE_MODES[operand.swizzle_bytes]
    call = T.cuda.tcgen05.encode_matrix_descriptor(words.data, pointer, leading, stride, mode)
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

    It is added to what is there if ``more``.  Products of a lane are added in their order.
    """
    kind = tirx.const(descriptor, "uint32")
    I.evaluate(T.ptx[mma.ptx](sums, lhs, rhs, kind, *_DISABLED * mma.workgroups, more))


def commit(barrier: Any) -> None:
    """By a lane: one arrival when all products that it started are done."""
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


def wait_for_loads() -> None:
    """By a subgroup: what it loaded is in registers."""
    I.evaluate(T.ptx["tcgen05.wait::ld.sync.aligned"]())


def fence_before() -> None:
    """Order tensor memory's operations so far before the synchronisation that follows."""
    I.evaluate(T.ptx["tcgen05.fence::before_thread_sync"]())


def fence_after() -> None:
    """Order tensor memory's operations that follow behind the synchronisation before."""
    I.evaluate(T.ptx["tcgen05.fence::after_thread_sync"]())
