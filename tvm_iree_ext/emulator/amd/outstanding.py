"""Memory operations that were begun and are not known to be done, and the waits that cover them.

What a load brings is written to its registers when a wait covers it, and not before: code that does
not wait computes with what the registers held, and reading or writing such a register is a finding.
What a store writes is seen by the wave's own later operations, as the hardware keeps a wave's
accesses in order, and by others when a wait covers it: a barrier without one shows old contents.

Counters: ``vm`` loads (and stores on CDNA), ``vs`` stores on RDNA, ``lgkm`` shared memory and
scalar loads; RDNA 4 has ``ds`` and ``km`` for the two.  A counter counts to its most: there a wave
issues no further operation before the oldest is done, and LLVM (``SIInsertWaitcnts``) leaves out
waits that this makes needless.  Sources: "CDNA3 Instruction Set Architecture" and "RDNA3
Instruction Set Architecture", section "Data Dependency Resolution"; LLVM's "User Guide for AMDGPU
Backend", section "Memory Model", and ``getVmcntBitMask`` and the like of its AMDGPU back end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tvm_iree_ext.emulator.amd.chips import ChipFacts
from tvm_iree_ext.emulator.amd.wave_state import FIRST_VECTOR, Array, Waves
from tvm_iree_ext.emulator.findings import UNWAITED


def most_outstanding(counter: str, chip: ChipFacts) -> int:
    """To how many a counter counts."""
    return 15 if counter == "lgkm" and chip.is_cdna else 31 if counter == "km" else 63


@dataclass
class MemoryOperation:
    """A memory operation of some waves.

    ``values`` are what arrives: a row for each of ``registers``, operands' numbers.  ``effect``
    is what a store does, for the waves of a mask.
    """

    counter: str
    waves: Array
    lanes: Array | None
    registers: Sequence[int] = ()
    values: Sequence[Array] = ()
    keeps: Sequence[int] = ()  # bits of each register that stay
    effect: Callable[[Array], None] | None = None
    space: str = ""
    in_order: bool = True
    undone: Array = field(init=False)

    def __post_init__(self) -> None:
        self.undone = self.waves.copy()


class Outstanding:
    """The operations of some waves that nobody has waited for."""

    def __init__(self, waves: Waves) -> None:
        self._waves = waves
        self._operations: list[MemoryOperation] = []
        self.unready: dict[int, int] = {}

    def begin(self, operation: MemoryOperation) -> None:
        """An operation is begun."""
        counter = operation.counter
        most = most_outstanding(counter, self._waves.kernel.chip)
        if sum(one.counter == counter for one in self._operations) >= most:
            self.wait(counter, most - 1)
        self._operations.append(operation)
        for register in operation.registers:
            self.unready[register] = self.unready.get(register, 0) + 1

    def settle(self, space: str) -> None:
        """The active waves see what they have stored in a space."""
        active = self._waves.active
        for one in self._operations:
            if one.effect is not None and one.space == space:
                due = one.undone & active
                if due.any():
                    one.undone &= ~due
                    one.effect(due)

    def land(self) -> None:
        """Time passes: what any wave has stored is there."""
        for one in self._operations:
            if one.effect is not None and one.undone.any():
                due, one.undone = one.undone, np.zeros_like(one.undone)
                one.effect(due)

    def wait(self, counter: str, most: int) -> None:
        """The active waves wait until at most so many operations of a counter are left."""
        waves = self._waves
        newer = np.zeros(waves.count, np.int64)
        loose = np.zeros(waves.count, bool)  # waves with an operation that may come out of order
        if most:
            for one in self._operations:
                if one.counter == counter and not one.in_order:
                    loose |= one.waves
        due: list[tuple[MemoryOperation, Array]] = []
        for one in reversed(self._operations):
            if one.counter != counter:
                continue
            own = one.waves & waves.active
            done = own & (newer >= most) if most else own
            if most:
                done = done & ~loose
                newer += own
            if done.any():
                due.append((one, done))
        for one, done in reversed(due):
            self._deliver(one, done)
        if due:
            self._operations = [one for one in self._operations if one.waves.any()]

    def finish(self) -> None:
        """The active waves end: what they stored is there."""
        active = self._waves.active
        for one in self._operations:
            due = one.undone & active
            if one.effect is not None and due.any():
                one.effect(due)
            one.undone &= ~active
            one.waves = one.waves & ~active
            if not one.waves.any():
                self._forget(one)
        self._operations = [one for one in self._operations if one.waves.any()]

    def _deliver(self, one: MemoryOperation, done: Array) -> None:
        waves = self._waves
        if one.effect is not None:
            due = one.undone & done
            if due.any():
                one.undone &= ~due
                one.effect(due)
        for number, register in enumerate(one.registers):
            values = one.values[number]
            if register < FIRST_VECTOR:
                np.copyto(waves.scalar[register], values, where=done)
                continue
            target = waves.vector[register - FIRST_VECTOR]
            if one.keeps and one.keeps[number]:
                kept = np.uint32(one.keeps[number])
                values = (target & kept) | (values & ~kept)
            if one.lanes is None and done.all():
                target[...] = values
            else:
                lanes = done[:, None] if one.lanes is None else one.lanes & done[:, None]
                np.copyto(target, values, where=lanes)
        one.waves = one.waves & ~done
        if not one.waves.any():
            self._forget(one)

    def _forget(self, one: MemoryOperation) -> None:
        for register in one.registers:
            left = self.unready[register] - 1
            if left:
                self.unready[register] = left
            else:
                del self.unready[register]

    def check(self, registers: frozenset[int]) -> None:
        """A finding where the active waves use registers that a load has not written yet."""
        waves = self._waves
        for one in self._operations:
            used = registers.intersection(one.registers)
            own = one.waves & waves.active
            if not used or not own.any():
                continue
            register = min(used)
            name = f"v{register - FIRST_VECTOR}" if register >= FIRST_VECTOR else f"s{register}"
            message = f"{name} is used before a wait covers what is loaded into it"
            waves.faults.add_lanes(UNWAITED, message, waves.site(), own)
