"""The report of a day, in Markdown."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvm_iree_ext.on_gpu.roofs import Roofs, roofs_of

ROOFLINE = "roofline.svg"
"""The picture beside the report."""


def report(
    facts: Mapping[str, Any],
    checks: Sequence[Mapping[str, Any]],
    peaks: Sequence[Mapping[str, Any]],
    speed: Sequence[Mapping[str, Any]],
    programs: Sequence[Mapping[str, Any]],
) -> str:
    """Chip, checks by op, failures, peaks, and times beside peers and under these roofs."""
    title = f"# {facts.get('name', facts['kind'])}"
    roofs = roofs_of(peaks)
    parts = (
        _facts(facts), _checks(checks), _peaks(peaks), _times(speed, roofs), _programs(programs),
    )  # fmt: skip
    return "\n".join([title, "", *(line for part in parts for line in part)]) + "\n"


def _facts(facts: Mapping[str, Any]) -> Iterator[str]:
    yield ", ".join(f"{key} {value}" for key, value in facts.items())
    yield ""


def _checks(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    total = Counter(row["status"] for row in rows)
    yield "## Checks"
    yield ""
    yield ", ".join(f"{count} {status}" for status, count in total.items())
    yield ""
    yield "| op | target | right | all |"
    yield "| --- | --- | --- | --- |"
    every = Counter((row["op"], row["target"]) for row in rows)
    right = Counter((row["op"], row["target"]) for row in rows if row["status"] == "passed")
    for key, count in every.items():
        yield f"| `{key[0]}` | `{key[1]}` | {right[key]} | {count} |"
    yield ""
    for row in rows:
        if row["status"] != "passed":
            yield f"- {row['status']}: {row['id']} ({row['target']}): {row['message'][:400]}"
            if row.get("sanitizer"):
                yield f"\n```\n{row['sanitizer']}\n```"
    yield ""


def _peaks(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    yield "## Peaks"
    yield ""
    yield "Kernels of nothing but products of random numbers, and a copy, bytes read and written."
    yield ""
    yield "| probe | TFLOP/s, TB/s | MHz |"
    yield "| --- | --- | --- |"
    for row in rows:
        if "us" not in row:
            yield f"| {row['id']} | {row['message'][-300:]!r} | |"
            continue
        rate = row.get("operations", row.get("bytes", 0)) / row["us"] / 1e6
        yield f"| {row['id']} | {rate:.4g} | {row['mhz'] or ''} |"
    yield ""
    yield from _unsteady(rows)


def _times(rows: Sequence[Mapping[str, Any]], roofs: Roofs) -> Iterator[str]:
    if not rows:
        return
    yield "## Times"
    yield ""
    if roofs.are_known:
        yield f"![Operations a second under the roofs of the peaks]({ROOFLINE})"
        yield ""
        yield "Of the roof is the least time that the peaks allow, for what is computed and moved."
        yield ""
    yield "| kernel | who | us | TFLOP/s | GB/s | of the roof | beside ours | error |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    ours = {
        row["id"]: row["us"] for row in rows if not row["who"] and not row["config"] and "us" in row
    }
    for row in rows:
        who = row["who"] or f"ours {row['config']}".strip()
        if "us" not in row:
            yield f"| {row['id']} | {who} | {row['message'][-300:]!r} | | | | | |"
            continue
        least = roofs.least_us(row)
        share = f"{least / row['us']:.0%}" if least else ""
        rate = row["operations"] / row["us"] / 1e6
        width = row["bytes"] / row["us"] / 1e3
        ratio = f"{row['us'] / ours[row['id']]:.2f}" if row["id"] in ours else ""
        error = "" if row["error"] is None else f"{row['error']:.1e}"
        error += " wrong" if row["status"] != "passed" or row["message"] else ""
        yield (
            f"| {row['id']} | {who} | {row['us']:.1f} | {rate:.1f} | {width:.0f} | {share} |"
            f" {ratio} | {error} |"
        )
    yield ""
    yield from _unsteady(rows)


def _unsteady(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Which times the clock moved in, whenever they were taken."""
    names = [f"{row['id']} {row['who'] or row['config']}".strip() for row in rows
             if not row.get("steady", True)]  # fmt: skip
    if names:
        yield f"Clock or times moved in each of several tries: {', '.join(names)}."
        yield ""


def _programs(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    yield "## Programs"
    yield ""
    yield "Time of the GPU, launches as one graph; and of a call as it comes, in us."
    yield ""
    yield "| program | ours | PyTorch | its / ours | our call | its call | its / ours | kernels |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    peers = {row["id"]: row for row in rows if row["who"]}
    for row in rows:
        if row["who"]:
            continue
        if "us" not in row or row["message"]:
            yield f"| {row['id']} | {row['message'][-300:]!r} | | | | | | |"
            continue
        cells = [f"{row['us']:.1f}", "", "", f"{row['call_us']:.1f}", "", "", str(row["launches"])]
        if "us" in (peer := peers.get(row["id"], {})):
            for place, key in ((1, "us"), (4, "call_us")):
                cells[place] = f"{peer[key]:.1f}"
                cells[place + 1] = f"{peer[key] / row[key]:.2f}"
        yield f"| {row['id']} | {' | '.join(cells)} |"
    yield ""
    yield from _unsteady(rows)
