"""Programs that were timed, as tables: Markdown, cells, and a few lines that sum up."""

import math
from collections.abc import Sequence

from tvm_iree_ext.bench.measure.compare import ContenderOutcome
from tvm_iree_ext.bench.programs.contenders import OUR_NAME, PEERS
from tvm_iree_ext.bench.programs.program_rows import ProgramRow
from tvm_iree_ext.bench.results.result_tables import Machine
from tvm_iree_ext.bench.results.summary import threads_text

_EAGER = "PyTorch"
_COMPILERS: dict[str, str] = {"torch": "torch.compile", "jax": "JAX"}
_BUSY = 0.05  # of the processors in others' hands, from where a table warns
_BEHIND = 0.95  # a peer that is ahead by less may be so by chance


def program_header(rows: Sequence[ProgramRow]) -> list[str]:
    """The columns: ours, each peer's time over ours, the fastest peer, and what ours costs."""
    ahead = ["program", "ms", *_peers(rows), "fastest peer"]
    return [
        *ahead,
        "error",
        "its error",
        "build s",
        "its build s",
        "kernels",
        "memory MiB",
        "its memory",
    ]


def program_cells(row: ProgramRow, peers: Sequence[str]) -> list[str]:
    """A row under the header; *its* is the framework's: PyTorch's memory, torch.compile's build."""
    outcomes = {peer.name: peer for peer in row.peers}
    fastest = row.fastest
    last = f"{row.ratio:.2f}x {fastest.name}" if fastest else ""
    framework = _EAGER if row.framework == "torch" else "JAX"
    return [
        row.program,
        _ms_cell(row.ours),
        *(_peer_cell(outcomes.get(name)) for name in peers),
        last,
        _number_cell(row.errors.get(OUR_NAME), "{:.1e}"),
        _number_cell(row.errors.get(framework), "{:.1e}"),
        _number_cell(row.build_seconds.get(OUR_NAME), "{:.1f}"),
        _number_cell(row.build_seconds.get(_COMPILERS[row.framework]), "{:.1f}"),
        _number_cell(row.kernels, "{}"),
        _mib_cell(row.peak_bytes.get(OUR_NAME)),
        _mib_cell(row.peak_bytes.get(_EAGER)),
    ]


def sorted_rows(rows: Sequence[ProgramRow]) -> list[ProgramRow]:
    """By threads, and by the fastest peer's ratio; those without one at the end."""
    return sorted(rows, key=lambda row: (row.threads, math.isnan(row.ratio), row.ratio))


def program_markdown(
    rows: Sequence[ProgramRow], *, machine: Machine | None = None, other_load: float | None = None
) -> str:
    """A table for each number of threads, with what it says together below."""
    lines = _heading(machine, other_load)
    for threads, some in _by_threads(rows).items():
        lines += [f"### {threads_text(threads)}", ""]
        peers = _peers(some)
        header = program_header(some)
        cells = (header, ["---"] * len(header), *(program_cells(row, peers) for row in some))
        lines += [f"| {' | '.join(_escaped(cell) for cell in one)} |" for one in cells]
        lines.append("")
    for line in program_summary(rows):
        lines += [line, ""]
    return "\n".join(lines)


def program_summary(rows: Sequence[ProgramRow]) -> list[str]:
    """Geometric means, where a peer is ahead, what was not timed, and what peers needed."""
    lines = []
    for threads, some in _by_threads(rows).items():
        head = threads_text(threads)
        beside = [row for row in some if not math.isnan(row.ratio)]
        if beside:
            mean = math.exp(sum(math.log(row.ratio) for row in beside) / len(beside))
            behind = [row for row in beside if row.ratio < _BEHIND]
            lines.append(
                f"{head}: the fastest peer takes {mean:.2f} times as long as ours, the geometric"
                f" mean of {len(beside)} programs; it is ahead by more than 5 % in {len(behind)}."
            )
    lines += _reasons(rows)
    notes = {
        f"{name} runs {row.program} otherwise: {note}."
        for row in rows
        for name, note in row.notes.items()
    }
    return [*lines, *sorted(notes)]


def _reasons(rows: Sequence[ProgramRow]) -> list[str]:
    """Who was not timed, where, and why; each once for all numbers of threads."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for one in row.outcomes:
            if one.status != "timed" and one.reason != "not run":
                names = found.setdefault((one.name, f"{one.status}: {one.reason}"), [])
                if row.program not in names:
                    names.append(row.program)
    return [f"{name}, {', '.join(names)}: {why}." for (name, why), names in sorted(found.items())]


def program_text(row: ProgramRow) -> str:
    """A row on a line of its own."""
    names = [peer.name for peer in row.peers if peer.status != "skipped"]
    cells = program_cells(row, names)
    peers = (f"{name} {cell}" for name, cell in zip(names, cells[2:], strict=False))
    fastest = cells[2 + len(names)]
    said = f": {row.ours.reason}" if row.ours.reason else ""
    parts = [f"{cells[0]}, {threads_text(row.threads)}: {cells[1]}{said}", *peers]
    return "  ".join([*parts, *([f"fastest {fastest}"] if fastest else [])])


def program_complaints(rows: Sequence[ProgramRow]) -> list[str]:
    """Who computed something wrong, where, and what; and what of ours did not run."""
    found = {
        f"{row.program}: {one.name}: {one.reason}": None
        for row in rows
        for one in row.outcomes
        if one.status == "wrong"
    }
    return list(found)


def _heading(machine: Machine | None, other_load: float | None) -> list[str]:
    lines = []
    if machine is not None:
        versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
        lines += [f"{machine.cpu}, {machine.processors} processors, {machine.system}; {versions}"]
    if other_load is not None and other_load > _BUSY:
        lines += [
            f"Other processes took {other_load:.0%} of the processors meanwhile: the figures are"
            " not to be relied on."
        ]
    return [*lines, ""] if lines else []


def _by_threads(rows: Sequence[ProgramRow]) -> dict[int, list[ProgramRow]]:
    found: dict[int, list[ProgramRow]] = {}
    for row in sorted_rows(rows):
        found.setdefault(row.threads, []).append(row)
    return found


def _peers(rows: Sequence[ProgramRow]) -> list[str]:
    """Those of the table, in the order in which they are listed."""
    named = {peer.name for row in rows for peer in row.peers}
    return [name for name in PEERS if name in named]


def _ms_cell(outcome: ContenderOutcome) -> str:
    if outcome.seconds is None:
        return outcome.status
    return f"{outcome.seconds.median * 1e3:.3g}"


def _peer_cell(outcome: ContenderOutcome | None) -> str:
    if outcome is None:
        return ""
    if outcome.speedup is not None:
        return f"{outcome.speedup.median:.2f}"
    if outcome.seconds is not None:
        return f"{outcome.seconds.median * 1e3:.3g} ms"
    return outcome.status


def _number_cell(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _mib_cell(count: int | None) -> str:
    return "" if count is None else f"{count / 2**20:.1f}"


def _escaped(cell: str) -> str:
    return cell.replace("|", r"\|")
