"""Pictures of one access of a workgroup: bank conflicts by lane, or segments of memory."""

import numpy as np

from tvm_iree_ext.simulator.base.traffic import BANK_BYTES, Hardware, StatementTraffic

_MOST_SEGMENTS = 24


def access_picture(access: StatementTraffic, hardware: Hardware) -> str:
    """An access in text: its costliest execution, by the lanes that are served together.

    Shared memory: a column for each bank, a row for each pass; a cell is the lane whose word it is,
    with ``+`` where several lanes read that word.  Global memory: a row for each segment, with a
    mark for every four bytes that are used.
    """
    if access.space == "shared":
        return _banks(access, hardware)
    return _segments(access, hardware)


def _groups(access: StatementTraffic, size: int) -> list[np.ndarray]:
    """The lanes that take part, by groups of ``size``."""
    starts = range(0, len(access.addresses), size)
    groups = [np.arange(start, min(start + size, len(access.addresses))) for start in starts]
    active = [group[access.addresses[group] >= 0] for group in groups]
    return [group for group in active if group.size]


def bank_passes(
    access: StatementTraffic, hardware: Hardware
) -> tuple[np.ndarray, list[dict[int, str]]]:
    """The lanes that take the most passes over the banks, and for each pass whom a bank serves."""
    width = access.access_bytes
    size = max(1, min(hardware.subgroup_size, BANK_BYTES * hardware.banks // width))
    rows: list[dict[int, str]] = []
    shown = np.empty(0, int)
    for group in _groups(access, size):
        passes = _passes(access, group, hardware.banks)
        if len(passes) > len(rows):
            rows, shown = passes, group
    return shown, rows


def touched_segments(
    access: StatementTraffic, hardware: Hardware
) -> tuple[np.ndarray, dict[int, set[int]], dict[int, str]]:
    """Lanes of a subgroup; for each segment of memory the words that are used, and by which."""
    segment = hardware.segment_bytes
    (group, *_) = _groups(access, hardware.subgroup_size)
    used: dict[int, set[int]] = {}
    lanes_of: dict[int, set[int]] = {}
    for lane in group:
        first = int(access.addresses[lane])
        for byte in range(first, first + access.access_bytes):
            used.setdefault(byte // segment, set()).add(byte % segment // BANK_BYTES)
            lanes_of.setdefault(byte // segment, set()).add(int(lane))
    return group, used, {number: _runs(sorted(lanes)) for number, lanes in lanes_of.items()}


def _banks(access: StatementTraffic, hardware: Hardware) -> str:
    width = access.access_bytes
    shown, rows = bank_passes(access, hardware)
    per_line = 32
    cell = max([2, *(len(text) for row in rows for text in row.values())])
    lines = [f"lanes {shown[0]}..{shown[-1]}, {width} bytes each: {_count(len(rows), 'pass')}"]
    for first in range(0, hardware.banks, per_line):
        banks = range(first, min(first + per_line, hardware.banks))
        lines.append("bank    " + " ".join(f"{bank:>{cell}}" for bank in banks))
        for number, row in enumerate(rows):
            cells = " ".join(f"{row.get(bank, '.'):>{cell}}" for bank in banks)
            lines.append(f"pass {number + 1:<2} {cells}")
    return "\n".join(lines)


def _passes(access: StatementTraffic, group: np.ndarray, banks: int) -> list[dict[int, str]]:
    """For each pass, the lane that each bank serves."""
    owners: dict[int, list[int]] = {}
    for lane in group:
        first = int(access.addresses[lane])
        for byte in range(0, max(access.access_bytes, BANK_BYTES), BANK_BYTES):
            owners.setdefault((first + byte) // BANK_BYTES, []).append(int(lane))
    waiting: dict[int, list[str]] = {}
    for word in sorted(owners):
        lanes = owners[word]
        waiting.setdefault(word % banks, []).append(f"{lanes[0]}{'+' if len(lanes) > 1 else ''}")
    most = max(map(len, waiting.values()))
    return [
        {bank: texts[number] for bank, texts in waiting.items() if number < len(texts)}
        for number in range(most)
    ]


def _segments(access: StatementTraffic, hardware: Hardware) -> str:
    segment = hardware.segment_bytes
    group, used, lanes = touched_segments(access, hardware)
    count = _count(len(used), "segment")
    lines = [f"lanes {group[0]}..{group[-1]}, {access.access_bytes} bytes each: {count}"]
    for number in sorted(used)[:_MOST_SEGMENTS]:
        marks = "".join("#" if at in used[number] else "." for at in range(segment // BANK_BYTES))
        lines.append(f"byte {number * segment:>8}  {marks}  {lanes[number]}")
    if len(used) > _MOST_SEGMENTS:
        lines.append(f"and {len(used) - _MOST_SEGMENTS} more")
    return "\n".join(lines)


def _runs(lanes: list[int]) -> str:
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if lanes == list(range(lanes[0], lanes[-1] + 1)):
        return f"lanes {lanes[0]}..{lanes[-1]}"
    shown = ", ".join(map(str, lanes[:4]))
    return f"lanes {shown}{', ...' if len(lanes) > 4 else ''}"


def _count(number: int, what: str) -> str:
    plural = "es" if what.endswith("s") else "s"
    return f"{number} {what}{'' if number == 1 else plural}"
