"""Bytes of shared and global memory, and which of them were written.

There is a bit per *unit*, which is the smallest element that any view of the buffer has.
"""

from typing import Any

import numpy as np

from tvm_iree_ext.simulator.base.lane_values import Origin

GLOBAL = "global"


class SimulatedMemory:
    """The bytes of a buffer in shared or global memory.

    Attributes:
        touches: the log since the last barrier, or what takes its place (:mod:`.happens_before`);
            None for what the kernel only reads.
        unfenced: units that were stored since the last fence before asynchronous readers; None
            where there are none of those.
        address: of the first byte, in the address space of its scope.
    """

    def __init__(
        self,
        name: str,
        space: str,
        data: np.ndarray,
        unit: int,
        *,
        written: bool,
        logged: bool,
        address: int = 0,
    ) -> None:
        self.name, self.space, self.data, self.unit, self.address = name, space, data, unit, address
        self.units = len(data) // unit
        self.valid = np.full(self.units, written)
        self.complete = written
        self.touches: Any = [] if logged else None
        self.writer = np.full(self.units, -1, np.int32) if logged and space == GLOBAL else None
        self.reader = np.full(self.units, -1, np.int32) if logged and space == GLOBAL else None
        self.poison: Origin | None = None
        self.unfenced: np.ndarray | None = None
