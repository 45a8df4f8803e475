"""A simulation in words, and as data."""

from collections.abc import Iterable
from typing import Any

from tvm_iree_ext.simulator.access_picture import access_picture
from tvm_iree_ext.simulator.base.traffic import StatementTraffic
from tvm_iree_ext.simulator.simulated_launch import Simulation


def report_text(done: Simulation, *, pictures: Iterable[int] | None = ()) -> str:
    """Report of a simulation: faults found, counts executed, and memory traffic.

    Args:
        done: the simulation.
        pictures: numbers of statements whose accesses are drawn; None for one of each row of the
            tables that costs more than it need.
    """
    run = f"{done.workgroups} of {done.grid[0] * done.grid[1] * done.grid[2]}"
    lanes = done.block[0] * done.block[1] * done.block[2]
    lines = [f"{done.kernel}: {run} workgroups of {lanes} lanes in {done.seconds:.2f} s"]
    lines.append(_findings_line(done))
    counts = ", ".join(f"{count} {name}" for name, count in done.counts.items())
    lines += [f"executed by subgroups: {counts}"] if counts else []
    drawn = [
        access for access in done.accesses if pictures is not None and access.statement in pictures
    ]
    for space, unit in (("shared", "passes over the banks"), ("global", "segments")):
        table = grouped(access for access in done.accesses if access.space == space)
        if table:
            lines += ["", f"{space} memory: {unit}, and the fewest for that width"]
            lines += [_row(group) for group in table]
        if pictures is None:
            drawn += costliest(done, space)
    for access in drawn:
        lines += ["", access_title(access), access_picture(access, done.hardware)]
    return "\n".join(lines)


def grouped(accesses: Iterable[StatementTraffic]) -> list[list[StatementTraffic]]:
    """Accesses of one kind to one buffer by several statements, such as an unrolled loop's."""
    groups: dict[Any, list[StatementTraffic]] = {}
    for access in accesses:
        key = (access.buffer, access.store, access.access_bytes, access.worst)
        groups.setdefault(key, []).append(access)
    return list(groups.values())


def _findings_line(done: Simulation) -> str:
    if not done.findings:
        return "nothing found"
    return "\n".join([f"{len(done.findings)} found", *map(str, done.findings)])


def access_title(access: StatementTraffic) -> str:
    """What an access does, and where."""
    return f"{'store to' if access.store else 'load from'} {access.buffer} at {access.text}"


def _row(group: list[StatementTraffic]) -> str:
    first, last = group[0], group[-1]
    total, ideal = (sum(getattr(access, name) for access in group) for name in ("total", "ideal"))
    where = f"[{first.statement}]" + (f"..[{last.statement}]" if len(group) > 1 else "")
    what = f"{'store' if first.store else 'load':<5} {first.access_bytes:>2} B {first.buffer:<16}"
    return f"  {where:<12} {what} {total:>8} of {ideal:<8} worst {first.worst}"


def costliest(done: Simulation, space: str) -> list[StatementTraffic]:
    """Of each row of a table that costs more than it need, the access that costs most."""
    table = grouped(access for access in done.accesses if access.space == space)
    found = [max(group, key=lambda access: access.total) for group in table]
    return [access for access in found if access.total > access.ideal]


def report_data(done: Simulation) -> dict[str, Any]:
    """The simulation as plain JSON."""
    return {
        "kernel": done.kernel,
        "grid": list(done.grid),
        "block": list(done.block),
        "workgroups": done.workgroups,
        "seconds": done.seconds,
        "findings": [
            vars(finding) | {"lanes": list(finding.lanes), "workgroup": list(finding.workgroup)}
            for finding in done.findings
        ],
        "counts": done.counts,
        "bank_conflicts": done.bank_conflicts,
        "uncoalesced": done.uncoalesced,
        "accesses": [
            {key: value for key, value in vars(access).items() if key != "addresses"}
            for access in done.accesses
        ],
    }
