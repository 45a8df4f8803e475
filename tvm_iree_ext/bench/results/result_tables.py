"""What a run found: as JSON for programs, as tables for people."""

import datetime
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.atomic_folder import staging, sync
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Skipped
from tvm_iree_ext.bench.measure.compare import ContenderOutcome, Row
from tvm_iree_ext.bench.measure.kernel_costs import MEMORY_SHAPE, TINY_SHAPE, Costs
from tvm_iree_ext.bench.measure.peaks import Peaks
from tvm_iree_ext.bench.peers.fftw import FFTW, SCIPY
from tvm_iree_ext.bench.peers.iree_peer import IREE
from tvm_iree_ext.bench.peers.jax_peer import JAX
from tvm_iree_ext.bench.peers.onnx_runtime import ORT
from tvm_iree_ext.bench.results.summary import ratio, summaries, summary_lines, threads_text
from tvm_iree_ext.runtime import tvm_runtime
from tvm_iree_ext.runtime.manifest import installed_versions

SCHEMA = 2
_OURS_HEADER = ("case", "threads", "heuristic ms", "tuned ms", "rate", "of limit")
_BUSY = 0.05  # of the processors in others' hands, from where a report warns


@dataclass(frozen=True)
class Machine:
    """Where a run took place."""

    cpu: str
    processors: int
    system: str
    python: str
    versions: dict[str, str]

    @staticmethod
    def here() -> "Machine":
        """This one."""
        versions = dict(installed_versions())
        for library in (NUMPY, TORCH, IREE, ORT, JAX, SCIPY, FFTW):
            try:
                versions[library.package] = library.version()
            except Skipped as skipped:
                versions[library.package] = str(skipped)
        return Machine(
            cpu=_cpu_name(),
            processors=tvm_runtime.available_processors(),
            system=f"{platform.system()} {platform.release()} {platform.machine()}",
            python=platform.python_version(),
            versions=versions,
        )


@dataclass
class Report:
    """A run, so far.

    ``other_load`` is the share of all processors that other processes took meanwhile.
    """

    suite: str
    quick: bool
    machine: Machine
    peaks: list[Peaks]
    rows: list[Row] = field(default_factory=list)
    costs: Costs | None = None
    other_load: float | None = None
    complete: bool = False
    date: str = field(
        default_factory=lambda: datetime.datetime.now(datetime.timezone.utc).isoformat(
            "T", "seconds"
        )
    )

    @property
    def wrong(self) -> list[str]:
        """Who computed something wrong, where, and what."""
        found = {
            f"{row.case}: {outcome.name}: {outcome.reason}": None
            for row in self.rows
            for outcome in row.outcomes
            if outcome.status == "wrong"
        }
        return list(found)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; seconds, bytes and flops are not rounded."""
        data = {"schema": SCHEMA, **asdict(self)}
        for row, plain in zip(self.rows, data["rows"], strict=True):
            plain |= {"rate": row.rate, "unit": row.unit, "share_of_limit": row.share_of_limit}
            plain |= {"bar": row.bar, "fastest": row.fastest.name if row.fastest else None}
        data["summary"] = [
            {
                "threads": one.threads,
                "cases": one.cases,
                "geometric_mean": one.geometric_mean if one.cases else None,
                "behind": [row.case for row in one.behind],
                "below": [row.case for row in one.below],
                "untimed": list(one.untimed),
            }
            for one in summaries(self.rows)
        ]
        return data

    def save_json(self, path: Path | str) -> None:
        """Write the JSON, whole or not at all.

        Raises:
            OSError: where the file cannot be written.
        """
        write_whole(path, json.dumps(self.to_json(), indent=1) + "\n")

    def markdown(self) -> str:
        """The tables as Markdown."""
        lines = [*self.heading(), ""]
        for header, body in (self.table(), self.cost_table()):
            if body:
                lines += [_line(header), "|".join(["", *("---" for _ in header), ""])]
                lines += [*map(_line, body), ""]
        for line in self.summary():
            lines += [line, ""]
        return "\n".join(lines)

    def heading(self) -> list[str]:
        """The machine, its peaks, and what to beware of."""
        machine = self.machine
        lines = [
            f"{machine.cpu}, {machine.processors} processors, {machine.system}; Python"
            f" {machine.python}; {', '.join(f'{k} {v}' for k, v in machine.versions.items())}"
        ]
        for peak in self.peaks:
            rates = ", ".join(f"{kind} {rate:.0f} GFLOP/s" for kind, rate in peak.gflops.items())
            lines.append(
                f"{threads_text(peak.threads)}: multiply-adds {rates}; memory reads"
                f" {peak.read_gbps:.1f} GB/s{_cached_text(peak)}"
            )
        if self.quick:
            lines.append("A quick run: fewer cases, measured briefly.")
        if any(peer.status == "skipped" for row in self.rows for peer in row.peers):
            lines.append("What is skipped comes with the extra bench: scripts/setup dev bench.")
        if self.other_load is not None and self.other_load > _BUSY:
            lines.append(
                f"Other processes took {self.other_load:.0%} of the processors meanwhile:"
                " the figures are not to be relied on."
            )
        return lines

    def summary(self) -> list[str]:
        """How far ahead ours are, and where they are not."""
        return summary_lines(summaries(self.rows))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows: our times, rate, share of the limit; each peer's ratio to ours."""
        peers = list(dict.fromkeys(peer.name for row in self.rows for peer in row.peers))
        header = [*_OURS_HEADER, *peers, "fastest peer"]
        return header, [row_cells(row, peers) for row in self.rows]

    def cost_table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows: memory, build, import, call."""
        costs = self.costs
        if costs is None:
            return ["cost", ""], []
        shape = "x".join(map(str, MEMORY_SHAPE))
        body = [
            [
                f"memory of a call at {shape} f32, {threads_text(one.threads)}",
                f"{one.bytes_per_thread / 2**20:.2f} MiB per thread",
            ]
            for one in costs.memory
        ]
        body += [
            ["build, not cached, first in a process", f"{costs.build_fresh_seconds:.2f} s"],
            ["build, not cached, later", f"{costs.build_warm_seconds:.2f} s"],
            [
                "build, cached, first in a process",
                f"{costs.build_cached_fresh_seconds * 1e3:.1f} ms",
            ],
            ["build, cached, later", f"{costs.build_cached_warm_seconds * 1e3:.1f} ms"],
            ["import tvm", f"{costs.import_tvm_seconds:.2f} s"],
            ["import tvm_iree_ext, beyond that", f"{costs.import_package_seconds * 1e3:.1f} ms"],
            ["first use of build and ops", f"{costs.import_builder_seconds * 1e3:.1f} ms"],
        ]
        tiny = "x".join(map(str, TINY_SHAPE))
        ratio = costs.call_out_us / costs.call_bare_us
        body += [
            [f"bare TVM call at {tiny}", f"{costs.call_bare_us:.2f} us"],
            ["kernel call with out=", f"{costs.call_out_us:.2f} us, {ratio:.2f}x"],
            ["kernel call, new result", f"{costs.call_us:.2f} us"],
        ]
        return ["cost", "median"], body


def row_cells(row: Row, peers: Sequence[str]) -> list[str]:
    """A row of the table as text."""
    heuristic, tuned = row.heuristic or row.ours, row.ours if row.heuristic else None
    cells = [row.case, str(row.threads), _ms_cell(heuristic), _ms_cell(tuned) if tuned else ""]
    if row.rate is None or row.share_of_limit is None:
        cells += ["", ""]
    else:
        cells += [f"{row.rate:.4g} {row.unit}", f"{row.share_of_limit:.0%} {row.limited_by}"]
    outcomes = {peer.name: peer for peer in row.peers}
    fastest = row.fastest
    last = f"{ratio(row):.2f}x {fastest.name}" if fastest else ""
    return [*cells, *(_peer_cell(outcomes.get(name)) for name in peers), last]


def row_text(row: Row) -> str:
    """A row on a line of its own, with the names of those that were timed or wrong."""
    names = [peer.name for peer in row.peers]
    cells = row_cells(row, names)
    ours, last = cells[: len(_OURS_HEADER)], cells[-1]
    titled = (
        f"{name} {cell}" for name, cell in zip(names, cells[len(ours) : -1], strict=True) if cell
    )
    return "  ".join(cell for cell in (*ours, *titled, f"fastest {last}" if last else "") if cell)


def _cached_text(peak: Peaks) -> str:
    parts = [f"{rate:.0f} of {size >> 20} MiB" for size, rate in sorted(peak.cached_gbps.items())]
    return f", {', '.join(parts)}" if parts else ""


def _ms_cell(outcome: ContenderOutcome) -> str:
    spread = outcome.seconds
    if spread is None:
        return outcome.status
    low, median, high = (f"{s * 1e3:.3g}" for s in (spread.low, spread.median, spread.high))
    return f"{median} ({low}-{high})"


def _peer_cell(outcome: ContenderOutcome | None) -> str:
    if outcome is None:
        return ""
    if outcome.speedup is not None:
        ratio = outcome.speedup
        return f"{ratio.median:.2f}x ({ratio.low:.2f}-{ratio.high:.2f})"
    if outcome.seconds is not None:
        return f"{outcome.seconds.median * 1e3:.3g} ms"
    return outcome.reason if outcome.status == "skipped" else outcome.status


def write_whole(path: Path | str, text: str) -> None:
    """Write a file that is complete wherever it stands: under another name first, synced, renamed.

    Raises:
        OSError: where that cannot be done; an older file stays as it was.
    """
    path = Path(path).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    with staging(path.parent) as place:
        (place / path.name).write_text(text, "utf-8")
        sync(place)
        os.replace(place / path.name, path)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
