"""TensorIntrins of a kind of matrix instruction: load, fill, multiply, store.

All four are generated from the kind's row by :mod:`.intrin_descriptions`, and move each lane's
registers in the widest accesses that its run allows.  Elements of 4 bits lie two to a byte, the
even one low: their buffers are of int8, with half of K.  A scaled kind's K is two dims, the blocks
and the elements of a block.
"""

import functools
from collections.abc import Callable, Sequence

from tvm import s_tir

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.intrin import nvidia
from tvm_iree_ext.intrin.intrin_descriptions import (
    WIDEST_BYTES,
    Functions,
    MmaTile,
    fill_functions,
    load_functions,
    multiply_functions,
    store_functions,
)
from tvm_iree_ext.targets.mma.mma_kinds import Kind, Mma
from tvm_iree_ext.targets.mma.mma_table import mma_kind
from tvm_iree_ext.targets.mma.scaled_kinds import formats_of

_WITHOUT_FRAGMENTS: dict[Kind, str] = {
    "warpgroup": "its B is in shared memory; see intrin.wgmma",
    "tensor_memory": "its sums are in tensor memory; see intrin.tcgen05",
    "scaled_tensor_memory": "its sums and scales are in tensor memory; see intrin.tcgen05",
    "opaque": "which lane holds which element is not documented",
}


def intrins_obstacle(mma: Mma) -> str | None:
    """Why a kind has no TensorIntrins of fragments, or None."""
    if reason := _WITHOUT_FRAGMENTS.get(mma.kind):
        return reason
    if mma.kind == "scaled" and formats_of(mma.name):
        return "elements of some formats lie across bytes; products with scales pack them"
    if mma.lhs_scale is not None and mma.lhs_scale.lane_replication > 1:
        return "scales of several instructions share registers; products with scales put them there"
    return None


class MmaIntrins(MmaTile):
    """The names of a kind's TensorIntrins; each is registered when it is first asked for."""

    def __post_init__(self) -> None:
        if obstacle := intrins_obstacle(self.mma):
            raise TargetError(f"{self.mma.name}: has no TensorIntrins of fragments: {obstacle}")
        super().__post_init__()

    @property
    def _prefix(self) -> str:
        return f"tvm_iree_ext.{self.mma.name}" + (".column_major" if self.column_major else "")

    def load(
        self,
        side: str,
        scope: str = "shared",
        *,
        order: Sequence[int] | None = None,
        ldmatrix: bool = False,
        widest_bytes: int = WIDEST_BYTES,
    ) -> str:
        """From memory into a fragment.

        Args:
            side: ``lhs`` or ``rhs``, or ``lhs_scale`` or ``rhs_scale`` of a scaled kind.
            scope: of the memory.
            order: the operand's dims as they lie in memory, the contiguous one last; by default
                in their order.
            ldmatrix: by that instruction, from shared memory.
            widest_bytes: of one access; rows must be aligned to what the accesses have.

        Raises:
            TargetError: where the layout does not allow ``ldmatrix``.
        """
        rank = len(self.operand(side).dims)
        order = tuple(order if order is not None else range(rank))
        if ldmatrix and (
            self.mma.vendor != "nvidia"
            or not scope.startswith("shared")
            or nvidia.ldmatrix_form(self.operand(side), order) is None
        ):
            raise TargetError(
                f"{self.mma.name}: ldmatrix cannot load {side} from {scope} with its dims in the"
                f" order {list(order)}"
            )
        how = "ldmatrix" if ldmatrix else f"{widest_bytes}B"
        name = f"{self._prefix}.load_{side}.{scope}.{''.join(map(str, order))}.{how}"
        return registered(
            name, lambda: load_functions(self, side, scope, order, ldmatrix, widest_bytes)
        )

    def fill(self) -> str:
        """The accumulator's fragment set to zero."""
        return registered(f"{self._prefix}.fill", lambda: fill_functions(self))

    def multiply(self) -> str:
        """``acc += lhs * rhs``, in fragments; a scaled kind's scales follow ``lhs`` and ``rhs``."""
        return registered(f"{self._prefix}.mma", lambda: multiply_functions(self))

    def store(self, scope: str = "global", *, widest_bytes: int = WIDEST_BYTES) -> str:
        """The accumulator's fragment into row-major memory of its own type."""
        name = f"{self._prefix}.store.{scope}.{widest_bytes}B"
        return registered(name, lambda: store_functions(self, scope, widest_bytes))


def registered(name: str, make: Callable[[], Functions]) -> str:
    """The name of a TensorIntrin, registered now if it was not."""
    if s_tir.TensorIntrin.get(name, allow_missing=True) is None:
        s_tir.TensorIntrin.register(name, *make())
    return name


@functools.cache
def mma_intrins(name: str, *, column_major: bool = False) -> MmaIntrins:
    """The TensorIntrins of a kind.

    Raises:
        TargetError: for a kind that is unknown, or has no registers to tensorize on.
    """
    return MmaIntrins(mma_kind(name), column_major)
