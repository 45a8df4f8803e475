"""Registers and ids of a lane, as a kernel that is being emitted sees them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import DataType, sym, tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules.gpu.emit.lane_tables import lane_table


@dataclass(frozen=True)
class WorkgroupIds:
    """The ids of a lane, how many there are, and the kind of target that it is for."""

    subgroup: Any
    lane: Any
    num_subgroups: int
    subgroup_size: int
    kind: str = "cuda"

    @property
    def hardware(self) -> tuple[int, int]:
        """Subgroups, and lanes of each."""
        return self.num_subgroups, self.subgroup_size


class Ids:
    """Tables over the lanes of a workgroup, each in a register from where it is first wanted.

    In a register, not bound to a name: TVM's simplifier puts the value of a name wherever the name
    stands, and tables are long.
    """

    def __init__(self, workgroup: WorkgroupIds) -> None:
        self._workgroup = workgroup
        self._kept: dict[bytes, Any] = {}

    def table(self, values: np.ndarray) -> Any:
        """``values[subgroup, lane]``."""
        values = np.ascontiguousarray(values, np.int32)
        key = values.tobytes()
        if key not in self._kept:
            made = lane_table(values, self._workgroup.subgroup, self._workgroup.lane)
            simple = isinstance(made, tirx.IntImm | tirx.Var)
            self._kept[key] = made if simple else in_register(made)
        return self._kept[key]

    def condition(self, chosen: np.ndarray) -> Any | None:
        """``chosen[subgroup, lane]``; None where all are chosen."""
        return None if chosen.all() else self.table(chosen) != 0


def in_register(value: Any) -> Any:
    """A scalar in a register of its own: computed here, and nowhere else."""
    own = LaneRegisters(I.alloc_buffer((1,), str(value.ty.dtype), scope="local"))
    own.store(value, 0)
    return own.load(0)


@dataclass(frozen=True)
class LaneRegisters:
    """Registers of a lane: ``place(register)`` is the index of one in a ``local`` buffer."""

    buffer: Any
    place: Callable[[int], list[Any]] = lambda register: [register]
    _analyzer: Any = field(default_factory=sym.Analyzer, repr=False, compare=False)

    @property
    def dtype(self) -> str:
        """Element type."""
        return str(self.buffer.dtype)

    def load(self, start: int, count: int = 1) -> Any:
        """Registers from ``start`` on, as a vector; they lie side by side."""
        return self.buffer[tuple(self._at(start, count))]

    def store(self, value: Any, start: int, count: int = 1) -> None:
        """The same, written."""
        I.buffer_store(self.buffer, value, self._at(start, count))

    def load_word(self, start: int, count: int) -> Any:
        """Registers as the bits of one unsigned integer."""
        value = self.load(start, count)
        if self.dtype == "bool":
            return tirx.Cast("uint8", value)
        return tirx.reinterpret(f"uint{DataType(self.dtype).bits * count}", value)

    def store_word(self, word: Any, start: int, count: int) -> None:
        """The same, written."""
        if self.dtype == "bool":
            return self.store(tirx.Cast("bool", word), start)
        vector = self.dtype if count == 1 else f"{self.dtype}x{count}"
        return self.store(tirx.reinterpret(vector, word), start, count)

    def run(self, registers: int, most: int) -> int:
        """The largest power of two up to ``most`` so many of ``registers`` lie side by side.

        Booleans move alone: CUDA has no vectors of them.
        """
        run, most = 1, 1 if self.dtype == "bool" else most
        while run * 2 <= most and registers % (run * 2) == 0:
            if not all(self._neighbours(at, run) for at in range(0, registers, run * 2)):
                break
            run *= 2
        return run

    def _neighbours(self, start: int, distance: int) -> bool:
        *outer, first = self.place(start)
        *others, second = self.place(start + distance)
        wanted = [*zip(outer, others, strict=True), (first + distance, second)]
        return all(self._analyzer.can_prove_equal(one, two) for one, two in wanted)

    def _at(self, start: int, count: int) -> list[Any]:
        *outer, first = self.place(start)
        return [*outer, tirx.Ramp(first, tirx.const(1, "int32"), count) if count > 1 else first]
