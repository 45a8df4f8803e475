"""Products by each lane's own multiply-adds, as rows like those of the MMA table.

For types that a chip has no matrix instruction for.  A subgroup's lanes are a grid over rows and
columns; each multiplies its rows of A by its columns of B, a few steps of K at a time, and what
lanes share they read from shared memory at once.  A lane's rows are runs of what is contiguous in
memory, along K or along the rows, so that they are read 16 bytes at a time:

    FMA_F32_32x64x4_KN    A[m, k] and B[k, n] in row-major memory: runs along K of A, along N of B
"""

import functools
import re

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.targets.gpu import chip_names
from tvm_iree_ext.targets.mma.mma_kinds import Mma, MmaOperand, dtype_bits

_NAME = re.compile(r"FMA_(F32|F64)_(\d+)x(\d+)x(\d+)_([KM])([KN])(_W64)?")
_LANES = {32: (4, 8), 64: (8, 8)}
_RUN_BITS = 128
_MOST = 16  # rows, or columns, of a lane
_PACKING = "one element a register"

FMA_TYPES = ("f32", "f64")
"""The types that lanes multiply and add, by the table's names."""


def fma_lanes(subgroup_size: int) -> Ints:
    """The lanes of a subgroup along rows and along columns."""
    return _LANES[subgroup_size]


def fma_name(
    dtype: str, rows: int, columns: int, subgroup_size: int, lhs_along: str, rhs_along: str
) -> str:
    """The name of the kind in which a lane has so many rows and columns.

    Args:
        dtype: one of ``FMA_TYPES``.
        rows, columns: of a lane, powers of two up to 16.
        subgroup_size: 32 or 64.
        lhs_along, rhs_along: what is contiguous in memory: ``K`` or ``M``, ``K`` or ``N``.
    """
    lanes = _LANES[subgroup_size]
    tile = f"{rows * lanes[0]}x{columns * lanes[1]}x{_RUN_BITS // dtype_bits(dtype)}"
    wide = "_W64" if subgroup_size == 64 else ""
    return f"FMA_{dtype.upper()}_{tile}_{lhs_along}{rhs_along}{wide}"


@functools.cache
def fma_kind(name: str) -> Mma:
    """The kind of a name.

    Raises:
        TargetError: for a name that stands for none.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise TargetError(f"mma kind {name!r} is unknown; expected such as FMA_F32_32x64x4_KN")
    dtype, m, n, k, lhs_along, rhs_along, wide = match.groups()
    size = 64 if wide else 32
    lanes, sizes, dtype = _LANES[size], (int(m), int(n)), dtype.lower()
    depth = _RUN_BITS // dtype_bits(dtype)
    held = tuple(extent // count for extent, count in zip(sizes, lanes, strict=True))
    fits = all(
        extent == count * each and each in (1, 2, 4, 8, _MOST)
        for extent, count, each in zip(sizes, lanes, held, strict=True)
    )
    if not fits or int(k) != depth:
        raise TargetError(
            f"mma kind {name!r}: {size} lanes are a grid of {lanes[0]} x {lanes[1]}, each with 1,"
            f" 2, 4, 8 or 16 rows and columns, and {depth} steps of K"
        )
    runs = tuple(
        1 if along == "K" else min(count, depth)
        for along, count in zip((lhs_along, rhs_along), held, strict=True)
    )
    strides = (lanes[1], 1)
    words = dtype_bits(dtype) // 32
    lhs, rhs = (
        _factor(side, dtype, held[side], lanes, strides[side], runs[side], depth) for side in (0, 1)
    )
    acc = MmaOperand(
        dims=("M", "N"),
        dtype=dtype,
        outer=tuple(count // run for count, run in zip(held, runs, strict=True)),
        thread=lanes,
        tstrides=strides,
        element=runs,
        reg_order=("o0", "e0", "o1", "e1"),
        elements_per_lane=held[0] * held[1],
        lane_replication=1,
        registers=held[0] * held[1] * words,
        subgroup=(1, 1),
        sstrides=(0, 0),
        element_split_lanes=1,
        packing=_PACKING,
    )
    return Mma(
        name=name, vendor="", kind="fma", source="derived", arch=tuple(chip_names()),
        m=sizes[0], n=sizes[1], k=depth, blocks=1, a=dtype, b=dtype, c=dtype,
        subgroup_size=size, num_subgroups=1, lhs=lhs, rhs=rhs, acc=acc,
        lhs_scale=None, rhs_scale=None, llvm=None, isa=(), ptx=None, operand_ir_types="",
        column_major=False, k_order_free=True, composed_of=None, format_codes=None,
        hw_lane_k_map=None, sparse_index=None, scale_block=None, notes=(),
    )  # fmt: skip


def _factor(
    side: int, dtype: str, held: int, lanes: Ints, stride: int, run: int, depth: int
) -> MmaOperand:
    """A, of side 0, or B: a lane's rows or columns, and all of K."""
    own = (held // run, lanes[side], stride, run)
    steps = (depth, 1, 0, 1) if run > 1 else (1, 1, 0, depth)
    outer, thread, strides, element = (
        _pair(side, mine, its) for mine, its in zip(own, steps, strict=True)
    )
    k = 1 - side
    # What is contiguous in memory counts fastest; then the other, so that a run is a register's.
    order = (f"o{k}", f"e{k}", f"o{side}", f"e{side}")
    if run == 1:
        order = (f"o{side}", f"e{side}", f"o{k}", f"e{k}")
    return MmaOperand(
        dims=("M", "K") if side == 0 else ("K", "N"),
        dtype=dtype,
        outer=outer,
        thread=thread,
        tstrides=strides,
        element=element,
        reg_order=order,
        elements_per_lane=held * depth,
        lane_replication=lanes[1 - side],
        registers=held * depth * dtype_bits(dtype) // 32,
        subgroup=(1, 1),
        sstrides=(0, 0),
        element_split_lanes=1,
        packing=_PACKING,
    )


def _pair(side: int, mine: int, its: int) -> Ints:
    return (mine, its) if side == 0 else (its, mine)
