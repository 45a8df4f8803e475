"""The lanes of a workgroup as an emitted kernel sees them: tables over ids, runs, conditions."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules.gpu.emit.lane_tables import lane_table
from tvm_iree_ext.tir.tir_expressions import i64


@contextmanager
def where(condition: Any) -> Iterator[None]:
    """Guard of what follows by a condition; none, where it is None."""
    with ExitStack() as stack:
        if condition is not None:
            stack.enter_context(I.If(condition))
            stack.enter_context(I.Then())
        yield


@contextmanager
def vectorized(count: int) -> Iterator[Any]:
    """A vectorized loop, and its index; of one turn there is no loop, and the index is 0."""
    if count == 1:
        yield 0
        return
    with I.vectorized(count) as at:
        yield at


class WorkgroupLanes:
    """The lanes of a workgroup while a kernel is emitted: tables as expressions of their ids."""

    def __init__(self, subgroup: Any, lane: Any, subgroups: int, size: int, kind: str) -> None:
        self.subgroup, self.lane = subgroup, lane
        self.subgroups, self.size, self.kind = subgroups, size, kind
        self._bound: dict[bytes, Any] = {}

    @property
    def scope(self) -> str:
        """Storage scope of shared memory."""
        return "shared.dyn" if self.kind == "cuda" else "shared"

    def table(self, values: np.ndarray) -> Any:
        """``values[lane]`` or ``values[subgroup, lane]``, bound when it is first asked for.

        All tables of a loop must be asked for before it: what is bound inside is unknown after.
        """
        values = np.asarray(values)
        if values.ndim == 1:
            values = np.broadcast_to(values, (self.subgroups, self.size))
        first = int(values.flat[0])
        shape = np.ascontiguousarray(values - first).tobytes()
        if not np.any(values - first):
            return tirx.const(first, "int32")
        if shape not in self._bound:
            self._bound[shape] = I.Bind(lane_table(values - first, self.subgroup, self.lane))
        return self._bound[shape] + first if first else self._bound[shape]

    def barrier(self) -> None:
        """All lanes of the workgroup wait for each other."""
        I.evaluate(T.tvm_storage_sync(self.scope))


def vector(start: Any, count: int) -> Any:
    """The indices of a run."""
    return tirx.Ramp(start, tirx.const(1, "int32"), count) if count > 1 else start


def wide(value: Any) -> Any:
    """An index of 64 bits."""
    if isinstance(value, int) or str(value.ty.dtype) == "int64":
        return i64(value)
    return tirx.Cast("int64", value)
