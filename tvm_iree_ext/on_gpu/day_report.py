"""The report of a day, in Markdown."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def report(
    facts: Mapping[str, Any],
    checks: Sequence[Mapping[str, Any]],
    speed: Sequence[Mapping[str, Any]],
    programs: Sequence[Mapping[str, Any]],
) -> str:
    """Chip, checks by op, failures, and times beside peers."""
    title = f"# {facts.get('name', facts['kind'])}"
    parts = (_facts(facts), _checks(checks), _times(speed), _programs(programs))
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


def _times(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    yield "## Times"
    yield ""
    yield "| kernel | who | us | TFLOP/s | GB/s | beside ours | error |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    ours = {
        row["id"]: row["us"] for row in rows if not row["who"] and not row["config"] and "us" in row
    }
    for row in rows:
        who = row["who"] or f"ours {row['config']}".strip()
        if "us" not in row:
            yield f"| {row['id']} | {who} | {row['message'][-300:]!r} | | | | |"
            continue
        rate = row["operations"] / row["us"] / 1e6
        width = row["bytes"] / row["us"] / 1e3
        ratio = f"{row['us'] / ours[row['id']]:.2f}" if row["id"] in ours else ""
        error = "" if row["error"] is None else f"{row['error']:.1e}"
        error += " wrong" if row["status"] != "passed" or row["message"] else ""
        yield (
            f"| {row['id']} | {who} | {row['us']:.1f} | {rate:.1f} | {width:.0f} | {ratio} |"
            f" {error} |"
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
