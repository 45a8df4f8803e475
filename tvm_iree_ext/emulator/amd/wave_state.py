"""The waves that an emulator executes at once: registers, shared memory, where each of them is.

Waves of several workgroups stand in one array: wave ``w`` is of workgroup ``w // waves_per_group``.
Registers are [register, wave, lane] and [register, wave]; those of a pair of 64 bits follow one
another.  An instruction is executed for all waves that are *active*, which are at the same place of
the code; others keep what they have.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.amd.code_object import KernelCode
from tvm_iree_ext.emulator.findings import Faults, Site, Where
from tvm_iree_ext.emulator.memory import GlobalMemory

VCC, EXEC = 106, 126
FIRST_VECTOR = 256  # of the operands' numbers
_SCALARS = 128

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CodeStep:
    """A decoded instruction: what executes it, what it reads and writes, and where the next is.

    Registers are operands' numbers: 0 to 127 scalar, from 256 on vector.  ``control`` says that it
    may change which waves are active, or where they are.
    """

    run: Callable[[Any], None]
    place: int
    next: int
    text: Callable[[], str]
    reads: frozenset[int]
    writes: frozenset[int]
    control: bool = False


class Waves:
    """Waves of some workgroups of a launch."""

    def __init__(
        self,
        kernel: KernelCode,
        memory: GlobalMemory,
        groups: Sequence[tuple[int, int, int]],
        waves_per_group: int,
        lds_bytes: int,
        rng: np.random.Generator,
    ) -> None:
        self.kernel, self.memory, self.groups = kernel, memory, groups
        self.faults: Faults = memory.findings
        self.waves_per_group = waves_per_group
        self.count, self.lanes = len(groups) * waves_per_group, kernel.lanes
        shape = (kernel.vector_registers, self.count, self.lanes)
        self.vector: Array = _noise(rng, shape)
        self.scalar: Array = _noise(rng, (_SCALARS, self.count))
        self.scc: Array = np.zeros(self.count, bool)
        self.pc: Array = np.full(self.count, kernel.start, np.int64)
        self.ended: Array = np.zeros(self.count, bool)
        self.waiting: Array = np.zeros(self.count, bool)
        self.resting: Array = np.zeros(self.count, bool)
        self.active: Array = np.ones(self.count, bool)
        self.all_active = True
        self.step: CodeStep | None = None
        self.group: Array = np.arange(self.count) // waves_per_group
        self.lds_bytes = lds_bytes
        stride = -(-lds_bytes // 16) * 16 + 64  # whole vectors at the end
        self.lds: Array = rng.integers(0, 256, (len(groups), stride), np.uint8)
        self.lds_written: Array = np.zeros((len(groups), lds_bytes), bool)
        self._mask: Array | None = None
        self._mask_known = False
        self._limit: Array | None = None
        self._scratch: Array | None = None
        self._rng = rng

    @property
    def scratch(self) -> Array:
        """Private memory [wave, lane, byte], which begins as noise."""
        if self._scratch is None:
            size = self.kernel.descriptor.scratch_bytes + 64
            shape = (self.count, self.lanes, size)
            self._scratch = self._rng.integers(0, 256, shape, np.uint8)
        return self._scratch

    def activate(self, waves: Array) -> None:
        """Make these waves the active ones."""
        self.active, self.all_active = waves, bool(waves.all())
        self._mask_known = False

    def forget_mask(self) -> None:
        """EXEC has changed."""
        self._mask_known = False

    def mask(self) -> Array | None:
        """The lanes [wave, lane] that execute; None where all do."""
        if not self._mask_known:
            lanes = self.lane_mask(EXEC)
            if not self.all_active:
                lanes = lanes & self.active[:, None]
            self._mask = None if lanes.all() else lanes
            self._mask_known = True
        return self._mask

    def full_mask(self) -> Array:
        """The lanes [wave, lane] that execute."""
        mask = self.mask()
        return np.ones((self.count, self.lanes), bool) if mask is None else mask

    def lane_mask(self, register: int) -> Array:
        """A mask of lanes [wave, lane] that scalar registers hold."""
        words = self.lanes // 32
        packed = np.ascontiguousarray(self.scalar[register : register + words].T)
        return np.unpackbits(packed.view(np.uint8), axis=1, bitorder="little").view(bool)

    def write_lane_mask(self, register: int, lanes: Array) -> None:
        """Write a mask of lanes, 0 for those that do not execute, to scalar registers."""
        shape = (self.count, self.lanes)
        mask = self.mask()
        whole = np.broadcast_to(lanes, shape) if mask is None else lanes & mask
        packed = np.packbits(whole, axis=1, bitorder="little").view(np.uint32)
        for word in range(packed.shape[1]):
            self.write_scalar(register + word, packed[:, word])

    def write_scalar(self, register: int, values: Any) -> None:
        """Write a scalar register of the active waves."""
        if self.all_active:
            self.scalar[register] = values
        else:
            np.copyto(self.scalar[register], values, where=self.active)
        if register - EXEC in (0, 1):
            self.forget_mask()

    def write_scc(self, values: Any) -> None:
        """Write the scalar condition of the active waves."""
        np.copyto(self.scc, values, where=self.active)

    @contextlib.contextmanager
    def writing_only(self, lanes: Array) -> Iterator[None]:
        """Let none but these lanes write vector registers."""
        self._limit = lanes
        yield
        self._limit = None

    def write_vector(self, register: int, values: Any) -> None:
        """Write a vector register of the lanes that execute."""
        mask = self.mask()
        if self._limit is not None:
            mask = self._limit if mask is None else mask & self._limit
        if mask is None:
            self.vector[register] = values
        else:
            np.copyto(self.vector[register], values, where=mask)

    def site(self) -> Site:
        """The instruction that is executed, for a finding; lanes are [wave, lane]."""
        step = self.step
        assert step is not None
        return Site(f"{step.place:#06x} {step.text()}", self._where)

    def _where(self, index: tuple[int, ...]) -> Where:
        wave = index[0]
        lane = index[1] if len(index) > 1 else 0
        group = self.groups[wave // self.waves_per_group]
        return Where(group, wave % self.waves_per_group, lane)


def _noise(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(0, 1 << 32, shape, np.uint32)
