"""Reads of every second, third or fourth element, as vectors: loads of runs, and shuffles."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr
from tvm_iree_ext.schedules.shared.loops.loops_point import NestAccess, NestMemory

LARGEST_STEP = 4


def is_strided(access: NestAccess, along: object) -> bool:
    """Whether elements that far apart are read so: not what a condition guards, as it is ahead."""
    if access.guarded or str(access.buffer.ty.dtype) in ("bool", "bfloat16"):
        return False
    return isinstance(along, int) and 2 <= along <= LARGEST_STEP


class Strided:
    """The strided accesses of a point: by their order, how far apart lanes are."""

    def __init__(self, accesses: Sequence[NestAccess], along: Sequence[object]) -> None:
        self._steps = {
            number: int(one)  # type: ignore[call-overload]
            for number, (access, one) in enumerate(zip(accesses, along, strict=True))
            if is_strided(access, one)
        }
        self._dtypes = {number: str(accesses[number].buffer.ty.dtype) for number in self._steps}
        self._tiles: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._steps)

    def make(self, lanes: int) -> None:
        """Make the tiles, in front of the loops that use them."""
        self._tiles = {n: emit.registers(lanes, self._dtypes[n]) for n in self._steps}

    def gather(
        self, memory: NestMemory, first: Sequence[NestAccess], lanes: int
    ) -> Mapping[int, Any]:
        """Fill the tiles with what ``lanes`` lanes read, the first of them where ``first`` says."""
        for number, step in self._steps.items():
            access = first[number]
            last = step * (lanes - 1) + 1 - lanes  # the last run ends with the last element
            starts = [min(run * lanes, last) for run in range(step)]
            runs = [
                memory.flat[access.buffer][emit.run(access.position + s, lanes)] for s in starts
            ]
            picked = []
            for lane in range(lanes):
                run = min(step * lane // lanes, step - 1)
                picked.append(run * lanes + step * lane - starts[run])
            self._store(number, tirx.Shuffle(runs, picked), lanes)
        return self._tiles

    def _store(self, number: int, value: Expr, lanes: int) -> None:
        I.buffer_store(self._tiles[number], value, [emit.run(0, lanes)])
