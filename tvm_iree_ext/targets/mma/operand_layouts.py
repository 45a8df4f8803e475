"""Layouts of vectors that are operands of a matrix instruction, and what a layout is such a one of.

An operand's layout has the instruction's outer, thread and element tiles and thread strides along
two of the vector's dimensions, in any order, and none along the others; how many subgroups and
batches there are is free.  This is what ``iree_vector_ext.to_layout`` says with ``mma_kind``.
"""

import re
from collections.abc import Sequence
from itertools import permutations

from tvm_iree_ext.base.errors import LayoutError, TargetError
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.layout.transform import permute
from tvm_iree_ext.targets.mma.contraction_layouts import ceil_div
from tvm_iree_ext.targets.mma.mma_kinds import Mma
from tvm_iree_ext.targets.mma.mma_table import mma_kind

_NAMES = ("lhs", "rhs", "acc")
_ATTRIBUTE = re.compile(
    r"#iree_gpu\.(?:virtual_)?mma_layout<\s*(\w+)\s*(?:,\s*col_major\s*=\s*(?:true|false)\s*)?>"
)


def named_mma(attribute: object) -> Mma | None:
    """The instruction that an ``mma_kind`` names, by its name or as IREE's attribute.

    None for an attribute that is no name of an instruction: it may be any.

    Raises:
        TargetError: for a name that no instruction has.

    >>> named_mma("#iree_gpu.mma_layout<MFMA_F32_16x16x16_F16, col_major = true>").name
    'MFMA_F32_16x16x16_F16'
    """
    if not isinstance(attribute, str):
        return None
    if not attribute.startswith("#"):
        return mma_kind(attribute)
    found = _ATTRIBUTE.fullmatch(attribute)
    return mma_kind(found[1]) if found else None


def operand_layout(
    kind: Mma | str, operand: str, shape: Sequence[int], *, column_major: bool = False
) -> NestedLayout:
    """The layout by which one subgroup holds ``shape`` as an operand of an instruction.

    Args:
        kind: the instruction, or its name.
        operand: ``lhs`` of ``[m, k]``, ``rhs`` of ``[k, n]``, or ``acc`` of ``[m, n]``.
        shape: of the vector; where it is no multiple of the instruction's, the layout is larger.
        column_major: of ``acc``, the layout where A and B are exchanged in the call.

    Raises:
        TargetError: for an unknown name, and an operand without a documented layout.
        LayoutError: for a shape of another rank, and an accumulator that cannot be exchanged.

    >>> operand_layout("MFMA_F32_16x16x16_F16", "lhs", (32, 16)).batch_tile
    (2, 1)
    """
    mma = kind if isinstance(kind, Mma) else mma_kind(kind)
    if operand not in _NAMES:
        raise TargetError(
            f"{mma.name}: operand is {operand!r}; expected one of {', '.join(_NAMES)}"
        )
    layout = mma.operand(operand).layout()
    if column_major and (operand != "acc" or not mma.column_major):
        raise LayoutError(f"{mma.name}: {operand} is not held by columns")
    if column_major:
        layout = permute(layout, (1, 0))
    if not isinstance(shape, Sequence) or not all(type(e) is int and e > 0 for e in shape):
        raise LayoutError(f"{mma.name}: the shape is {shape!r}; expected extents from 1")
    if len(shape) != layout.rank:
        raise LayoutError(
            f"{mma.name}: the shape {list(shape)} has rank {len(shape)}; {operand} has rank"
            f" {layout.rank}"
        )
    native = layout.undistributed_shape
    batch = tuple(ceil_div(extent, own) for extent, own in zip(shape, native, strict=True))
    return NestedLayout(
        layout.subgroup_tile, batch, layout.outer_tile, layout.thread_tile, layout.element_tile,
        layout.subgroup_strides, layout.thread_strides,
    )  # fmt: skip


def operands_held(mma: Mma, layout: NestedLayout) -> tuple[str, ...]:
    """The operands of an instruction that a layout is one of, of any dims in any order.

    >>> mma = mma_kind("MFMA_F32_16x16x32_F16")
    >>> operands_held(mma, operand_layout(mma, "lhs", (32, 32)))
    ('lhs', 'rhs')
    """
    every = mma.operands()
    return tuple(
        name
        for name in _NAMES
        if name in every and _holds(_dims(every[name].layout()), _dims(layout))
    )


def why_not_held(mma: Mma, layout: NestedLayout) -> str | None:
    """None where a layout is one of an operand of an instruction, or what it should be."""
    if operands_held(mma, layout):
        return None
    wanted = [
        f"{name} has outer_tile {list(own.outer_tile)}, thread_tile {list(own.thread_tile)},"
        f" element_tile {list(own.element_tile)}, thread_strides {list(own.thread_strides)}"
        for name, operand in mma.operands().items()
        if name in _NAMES
        for own in (operand.layout(),)
    ]
    return f"{layout} is of no operand of {mma.name}: {'; '.join(wanted)}"


def _dims(layout: NestedLayout) -> list[Ints]:
    """Outer, thread and element tile and thread stride of each dimension."""
    lists = (layout.outer_tile, layout.thread_tile, layout.element_tile, layout.thread_strides)
    return list(zip(*lists, strict=True))


def _holds(native: list[Ints], dims: list[Ints]) -> bool:
    """Whether some of ``dims`` are those of the instruction, and the others hold one element."""
    return any(
        [dims[at] for at in chosen] == native
        and all(one == (1, 1, 1, 0) for at, one in enumerate(dims) if at not in chosen)
        for chosen in permutations(range(len(dims)), len(native))
    )
