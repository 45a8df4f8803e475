"""The matrix instructions that rules for products choose from."""

from tvm.target import Target

from tvm_iree_ext.targets.gpu import LINE_BYTES, gpu_chip, subgroup_size
from tvm_iree_ext.targets.mma.mma_kinds import ROUNDING, Mma, tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_table

LARGEST_SIDE = 16
"""Of an instruction, along m and n: smaller ones fit more shapes."""

DEPTH_BYTES = LINE_BYTES
"""Of a row along k; also a pass over 32 banks."""


def multiplying_kinds(
    target: Target, largest: int = LARGEST_SIDE
) -> dict[tuple[str, str, str], list[Mma]]:
    """The instructions that a rule may choose, by the types that they multiply, and of sums.

    ``largest``: of their rows and columns.
    """
    chip, size = gpu_chip(target), subgroup_size(target)
    found: dict[tuple[str, str, str], list[Mma]] = {}
    for mma in mma_table().values():
        if not mma.on(chip.name) or mma.subgroup_size != size or mma.blocks > 1:
            continue
        if mma.kind not in ("native", "virtual") or not (mma.lhs and mma.rhs and mma.acc):
            continue
        if mma.a in ROUNDING or mma.a == "i4" or max(mma.m, mma.n) > largest:
            continue
        types = (tvm_dtype(mma.a), tvm_dtype(mma.b), tvm_dtype(mma.c))
        found.setdefault(types, []).append(mma)
    return found
