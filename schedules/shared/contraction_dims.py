"""A contraction's dims, fused where all operands allow it, and by role."""

from dataclasses import dataclass
from functools import cached_property

from tvm_iree_ext.ops.base.maps import IndexingMap, fuse_dims
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.schedules.shared.fused_dims import Dims, FusedDims


@dataclass(frozen=True)
class ContractionDims(FusedDims):
    """The fused dims of a contraction, and those of each role."""

    op: Contraction

    @cached_property
    def groups(self) -> tuple[Dims, ...]:
        """The op's dims that are one dim here."""
        return fuse_dims([one.dims for one in self.op.maps.values()], len(self.op.extents))

    @cached_property
    def maps(self) -> dict[str, IndexingMap]:
        """The indexing maps over fused dims, but for those of extent 1."""
        groups = enumerate(self.groups)
        place = {group[0]: number for number, group in groups if self.count((number,)) != 1}
        return {
            name: IndexingMap(
                len(self.groups), tuple((place[dim],) for dim in one.dims if dim in place) or ((),)
            )
            for name, one in self.op.maps.items()
        }

    def fused(self, *operands: str) -> Dims:
        """The fused dims that just these of lhs, rhs and result have, but for those of extent 1."""
        dims = self.op.dims(*operands)
        found = (number for number, group in enumerate(self.groups) if group[0] in dims)
        return tuple(dim for dim in found if self.count((dim,)) != 1)
