"""What became of a program with a number of threads, and a log of it as JSON lines."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.bench.measure.compare import ContenderOutcome
from tvm_iree_ext.bench.measure.turns import Spread


@dataclass(frozen=True)
class ProgramRow:
    """One program with one number of threads.

    Attributes:
        ours: what became of the program that is built here.
        peers: those that were asked for and run programs of its framework.
        errors: how far each contender's numbers are off, at most, in parts of the largest number
            of their array; beside the reference.
        reference: what that is: ``float64``, or the framework in the program's own types.
        notes: what a contender needed to run, by its name.
        build_seconds: from the function to the first result, by name, not cached and without
            imports of Python modules; of ours without the first call.
        kernels: how many kernels ours has.
        weight_bytes: of our constants.
        peak_bytes: what the first call adds to the memory of the process, ours and PyTorch's.
    """

    program: str
    framework: str
    threads: int
    ours: ContenderOutcome
    peers: list[ContenderOutcome] = field(default_factory=list)
    errors: dict[str, float] = field(default_factory=dict)
    reference: str = "float64"
    notes: dict[str, str] = field(default_factory=dict)
    build_seconds: dict[str, float] = field(default_factory=dict)
    kernels: int | None = None
    weight_bytes: int | None = None
    peak_bytes: dict[str, int] = field(default_factory=dict)

    @property
    def fastest(self) -> ContenderOutcome | None:
        """The peer that comes nearest to us, or is ahead; None where none was timed beside us."""
        timed = {peer.name: peer for peer in self.peers if peer.speedup is not None}
        return min(timed.values(), key=_ratio_of, default=None)

    @property
    def ratio(self) -> float:
        """How many times as long the fastest peer takes; NaN where there is none."""
        return math.nan if (fastest := self.fastest) is None else _ratio_of(fastest)

    @property
    def outcomes(self) -> list[ContenderOutcome]:
        """Ours, and the peers'."""
        return [self.ours, *self.peers]


def _ratio_of(peer: ContenderOutcome) -> float:
    return peer.speedup.median if peer.speedup is not None else math.nan


@dataclass(frozen=True)
class ProgramSetting:
    """With what programs are timed: a row of another setting does not stand for this one."""

    peers: tuple[str, ...]
    quick: bool


def logged_line(setting: ProgramSetting, row: ProgramRow) -> str:
    """A line of a log."""
    return json.dumps({"setting": asdict(setting), "row": asdict(row)})


def logged_rows(log: Path, setting: ProgramSetting) -> dict[tuple[str, int], ProgramRow]:
    """The rows of this setting in a log, by program and number of threads; none without a file.

    Raises:
        ExtError: for a file that is no such log.
    """
    if not log.exists():
        return {}
    found = {}
    try:
        for line in log.read_text("utf-8").splitlines():
            data = json.loads(line)
            if data["setting"] == json.loads(json.dumps(asdict(setting))):
                row = _row(data["row"])
                found[row.program, row.threads] = row
    except (ValueError, KeyError, TypeError) as error:
        raise ExtError(f"{log} is no log of programs that were timed: {error}") from None
    return found


def _row(data: dict[str, Any]) -> ProgramRow:
    peers = [_outcome(one) for one in data.pop("peers")]
    return ProgramRow(ours=_outcome(data.pop("ours")), peers=peers, **data)


def _outcome(data: dict[str, Any]) -> ContenderOutcome:
    spreads = {
        name: None if data[name] is None else Spread(**data.pop(name))
        for name in ("seconds", "speedup")
    }
    return ContenderOutcome(**{**data, **spreads})


def skipped_row(
    program: str, framework: str, threads: int, reason: str, peers: Sequence[str] = ()
) -> ProgramRow:
    """The row of a program that was not run."""
    return ProgramRow(
        program,
        framework,
        threads,
        ContenderOutcome("tvm_iree_ext", "skipped", reason),
        [ContenderOutcome(name, "skipped", "not run") for name in peers],
    )
