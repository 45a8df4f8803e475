"""The lanes that execute an instruction, with all that they reach."""

import numpy as np

from tvm_iree_ext.emulator.ptx.machine.group_state import GroupState
from tvm_iree_ext.emulator.ptx.machine.lanes import WARP, Lanes, Warps
from tvm_iree_ext.emulator.ptx.machine.memory_spaces import MemorySpaces
from tvm_iree_ext.emulator.ptx.machine.pending_products import PendingProducts
from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value


class ExecutingWarps(Warps):
    """Warps that are executed together.

    Attributes:
        state: what they share with the other warps of their workgroups.
        spaces: the memory that they reach.
        products: those of ``wgmma`` that are under way.
        values: their registers, by slots: arrays [warps, 32], or scalars.
    """

    values: list[Value]
    state: GroupState
    spaces: MemorySpaces
    products: PendingProducts

    def park(self, lanes: Lanes, number: int) -> None:
        """Lanes wait for a barrier."""
        raise NotImplementedError


class Execution(Lanes):
    """The lanes that execute an instruction.

    Attributes:
        executing: whose lanes they are.
        values: the registers that the block works on, by slots.
        targets: the slots of the instruction's results.
    """

    def __init__(
        self,
        executing: ExecutingWarps,
        rows: np.ndarray | None,
        mask: np.ndarray | None,
        values: list[Value],
    ) -> None:
        super().__init__(executing, rows, mask)
        self.executing, self.values = executing, values
        self.targets: tuple[int, ...] = ()

    def again(self, rows: np.ndarray) -> "Execution":
        """The same instruction, of other warps."""
        found = Execution(self.executing, rows, None, self.values)
        found.instruction = self.instruction
        return found

    def put(self, slot: int, rows: np.ndarray, value: Value) -> None:
        """Set a register of some warps, as the block that is executed and later ones see it."""
        own = self.executing
        whole = np.array(np.broadcast_to(own.values[slot], (own.size, WARP)))
        whole[rows] = np.asarray(value).view(whole.dtype)
        own.values[slot] = whole
        if self.values is not own.values:
            self.values[slot] = whole if self.rows is None else whole[self.rows]

    @property
    def state(self) -> GroupState:
        """What the warps share with the others of their workgroups."""
        return self.executing.state

    @property
    def spaces(self) -> MemorySpaces:
        """The memory that they reach."""
        return self.executing.spaces

    @property
    def products(self) -> PendingProducts:
        """Products that are under way."""
        return self.executing.products
