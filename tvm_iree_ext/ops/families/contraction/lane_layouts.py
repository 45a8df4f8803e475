"""Which lane holds which element of a contraction's operands, where somebody says so.

``iree_vector_ext.to_layout`` says it in IR: of lhs, of rhs, and of the sums.  Values do not depend
on it; a rule for GPUs multiplies by the instruction of these layouts, or refuses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.layout import NestedLayout
from tvm_iree_ext.layout.transform import apply
from tvm_iree_ext.ops.base.layouts import LayoutLike, as_layout, as_mma_kind
from tvm_iree_ext.ops.base.maps import IndexingMap

OPERANDS = {"lhs": "lhs", "rhs": "rhs", "acc": "result"}
"""The operand of a contraction that has the dims of each layout: the sums have the result's."""


@dataclass(frozen=True, eq=False)
class LaneLayouts:
    """Layouts of ``lhs``, ``rhs`` and ``acc``, as far as they are given, and their instruction.

    Each is over the dims of its operand in ascending order, however these lie in memory.  Its shape
    is a workgroup's tile.  ``mma_kind`` names the instruction, or is None where the layouts do.
    """

    given: Mapping[str, NestedLayout]
    mma_kind: Any

    def along(self, name: str, maps: Mapping[str, IndexingMap]) -> NestedLayout | None:
        """The layout of an operand along its axes; None where none is given."""
        layout = self.given.get(name)
        if layout is None:
            return None
        own = maps[OPERANDS[name]]
        dims = sorted(own.dims)
        return apply(layout, [dims.index(axis[0]) if axis else None for axis in own.axes])

    @property
    def attributes(self) -> dict[str, Any]:
        """The layouts' texts, and the instruction."""
        texts = {name: str(layout) for name, layout in self.given.items()}
        return {"layouts": texts, "mma_kind": self.mma_kind}


def lane_layouts(
    op: str,
    layouts: Mapping[str, LayoutLike],
    mma_kind: Any,
    maps: Mapping[str, IndexingMap],
) -> LaneLayouts:
    """Layouts that are given along the axes of operands, checked.

    Raises:
        OpError: for a name, a rank or a tile that does not fit.
    """
    if not isinstance(layouts, Mapping):
        expected = ", ".join(OPERANDS)
        raise OpError(f"{op}: layouts is {layouts!r}; expected layouts by the names {expected}")
    found: dict[str, NestedLayout] = {}
    tiles: dict[int, tuple[int, str]] = {}
    for name, given in layouts.items():
        if name not in OPERANDS:
            expected = ", ".join(OPERANDS)
            raise OpError(f"{op}: layouts has {name!r}; expected some of {expected}")
        layout, axes = as_layout(op, given), maps[OPERANDS[name]].axes
        if layout.rank != len(axes):
            raise OpError(
                f"{op}: the layout of {name} has rank {layout.rank}; expected {len(axes)}"
                f" as {OPERANDS[name]} has"
            )
        for axis, tile in zip(axes, layout.undistributed_shape, strict=True):
            if not axis:
                if tile != 1:
                    raise OpError(
                        f"{op}: the layout of {name} has a tile of {tile} along an axis without a"
                        " dim; expected 1"
                    )
                continue
            known, of = tiles.setdefault(axis[0], (tile, name))
            if known != tile:
                raise OpError(
                    f"{op}: the layout of {name} has a tile of {tile} along d{axis[0]};"
                    f" expected {known} as that of {of} has"
                )
        places = {axis[0]: place for place, axis in enumerate(axes) if axis}
        found[name] = apply(layout, [places[dim] for dim in sorted(places)])
    if len(found) < 2:
        raise OpError(
            f"{op}: layouts has {', '.join(found) or 'none'}; expected two or all of"
            f" {', '.join(OPERANDS)}"
        )
    return LaneLayouts(found, as_mma_kind(op, mma_kind))
