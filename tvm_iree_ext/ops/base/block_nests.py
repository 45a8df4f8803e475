"""Loop nests of canonical PrimFuncs: blocks over extents, and the range check of an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.tir.tir_expressions import i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx

At: TypeAlias = Mapping[int, Any]
"""A point of an iteration space: the value of each dim."""


class BlockNest(AbstractContextManager["list[ir.Expr]"]):
    """Loops and a block over extents, of which the first ``serial`` run in order."""

    def __init__(
        self,
        name: str,
        parameters: Parameters,
        shape: Sequence[int | str],
        serial: int = 0,
    ) -> None:
        self.name, self.serial = name, serial
        # A loop even where there is no dim: a block without one confuses schedules.
        self.extents = [i64(parameters.extent(extent)) for extent in shape]
        self.loops = I.grid(*(self.extents or [tirx.const(1, "int64")]))
        self.block = I.sblock(name)

    def __enter__(self) -> list[ir.Expr]:
        loops = self.loops.__enter__()
        listed = list(loops) if isinstance(loops, Sequence) else [loops]
        self.block.__enter__()
        at = []
        for number, (extent, loop) in enumerate(zip(self.extents, listed, strict=False)):
            axis: Callable[..., Any] = I.axis.opaque if number < self.serial else I.axis.spatial
            at.append(axis(extent, loop))
        if not at:
            I.axis.spatial(tirx.const(1, "int64"), listed[0])
        return at

    def __exit__(self, *error: Any) -> None:
        self.block.__exit__(*error)
        self.loops.__exit__(*error)


def block_over(
    all_extents: Sequence[ir.Expr],
    name: str,
    dims: Sequence[int],
    reduced: Sequence[int],
    body: Callable[[At], None],
    init: Callable[[At], None] | None = None,
) -> None:
    """Loops and a block over spatial ``dims`` and ``reduced`` ones, each in the order given."""
    # A loop even where there is no dim: a block without one confuses schedules.
    extents = [all_extents[dim] for dim in (*dims, *reduced)] or [tirx.const(1, "int64")]
    with I.grid(*extents) as loops:
        listed = list(loops) if isinstance(loops, Sequence) else [loops]
        with I.sblock(name):
            at: dict[int, Any] = {}
            for dim, loop in zip((*dims, *reduced), listed, strict=False):
                axis = I.axis.reduce if dim in reduced else I.axis.spatial
                at[dim] = axis(all_extents[dim], loop)
            if not at:
                I.axis.spatial(tirx.const(1, "int64"), listed[0])
            if init is not None:
                with I.init():
                    init(at)
            body(at)


def in_range(index: ir.Expr, full: ir.Expr, extent: ir.Expr) -> ir.Expr:
    """Whether ``extent`` elements from ``index`` on lie among ``full``.

    The index itself is tested, too: the simplifier may write the last test as a sum of index and
    extent, and with any int64 for an index that would wrap.
    """
    zero = tirx.const(0, "int64")
    itself = tirx.And(zero <= index, index < full)
    return tirx.And(itself, index <= full - extent)
