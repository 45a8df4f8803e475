"""What an emulated kernel does wrong, and where: instruction, workgroup, wave, lane, address.

An emulator makes a :class:`Site` for the instruction that it executes, and hands it to all that may
find something.  A finding is of one kind at one instruction; the first stands for all.

    site = Site("global_load_b32 v1, v[2:3], off", lambda index: Where((0, 0, 0), *index))
    findings.add(BOUNDS, "4 bytes behind allocation 1", site, (0, 3), address=0x40000100)
    findings.check("attention_kernel")  # raises EmulationError where anything was found
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tvm_iree_ext.base.errors import EmulationError

BOUNDS = "out of bounds"
READ_ONLY = "read-only"
MISALIGNED = "misaligned"
UNINITIALISED = "uninitialised"
UNWAITED = "unwaited"
RESOURCE = "resource"
BARRIER = "divergent barrier"
INSTRUCTION = "instruction"

KINDS = {
    BOUNDS: "an address is in no allocation, or outside of the memory that the kernel has",
    READ_ONLY: "memory is written that the host filled, and takes nothing back from",
    MISALIGNED: "an access is not aligned as its instruction asks",
    UNINITIALISED: "shared memory is read that nobody wrote",
    UNWAITED: "what an asynchronous operation has not delivered is used, or its source is changed",
    RESOURCE: "more registers, lanes or memory are used than the code declares or the chip has",
    BARRIER: "some waves end, or wait for ever, while others wait for them",
    INSTRUCTION: "an instruction's rule about its operands is broken",
}
"""Every kind of finding, and what it means."""

_SHOWN = 8  # findings in a message


@dataclass(frozen=True)
class Where:
    """A lane of a launch: its workgroup, its wave (or warp) there, and its number in the wave."""

    workgroup: tuple[int, int, int]
    wave: int
    lane: int

    def __str__(self) -> str:
        return f"workgroup {self.workgroup}, wave {self.wave}, lane {self.lane}"


@dataclass(frozen=True)
class Site:
    """An instruction that is executed for an array of lanes.

    ``where`` says which lane an index of that array is.
    """

    instruction: str
    where: Callable[[tuple[int, ...]], Where]


@dataclass(frozen=True)
class Fault:
    """One kind of fault of one instruction; the first of its kind there stands for all."""

    kind: str
    message: str
    instruction: str
    where: Where
    address: int | None = None
    count: int = 1

    def __str__(self) -> str:
        more = f" ({self.count} times)" if self.count > 1 else ""
        address = "" if self.address is None else f", address {self.address:#x}"
        return f"{self.kind}: {self.message}{more}\n  at {self.instruction}, {self.where}{address}"


class Faults:
    """Collects what is found in a launch; the same kind at the same instruction is counted."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Fault] = {}

    def add(
        self,
        kind: str,
        message: str,
        site: Site,
        index: tuple[int, ...],
        *,
        address: int | None = None,
        count: int = 1,
    ) -> None:
        """One more, or ``count``: at an index of the site's lanes."""
        key = (kind, site.instruction)
        if (first := self._found.get(key)) is not None:
            self._found[key] = replace(first, count=first.count + count)
            return
        where = site.where(index)
        self._found[key] = Fault(kind, message, site.instruction, where, address, count)

    def add_lanes(
        self,
        kind: str,
        message: str,
        site: Site,
        lanes: np.ndarray,
        addresses: np.ndarray | None = None,
    ) -> None:
        """Those lanes of the site for which a mask is true; none where it is nowhere."""
        if not lanes.any():
            return
        first = tuple(int(axis) for axis in np.argwhere(lanes)[0])
        address = None if addresses is None else int(addresses[first])
        count = int(np.count_nonzero(lanes))
        self.add(kind, message, site, first, address=address, count=count)

    def all(self) -> Sequence[Fault]:
        """All, in the order in which they were found."""
        return tuple(self._found.values())

    def check(self, name: str) -> None:
        """Return where nothing was found.

        Raises:
            EmulationError: naming the kernel, and what was found.
        """
        if not self._found:
            return
        found = self.all()
        shown = "\n".join(map(str, found[:_SHOWN]))
        rest = f"\n... and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise EmulationError(f"{name}: {shown}{rest}")
