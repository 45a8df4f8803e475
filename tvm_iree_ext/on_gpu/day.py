"""A day with a GPU, from an archive: chip, correctness, speed; ends inside its minutes.

    python gpu-day.zip --minutes 9 --out results

The GPU is used by workers alone, never by this process: whatever happens to one, the day goes on.
``results/`` has ``checks.jsonl``, ``peaks.jsonl``, ``speed.jsonl`` and ``programs.jsonl``, a line
for each result at once, ``report.md`` and ``roofline.svg``.  What stands there is not done again:
the same command goes on.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm_iree_ext.on_gpu.archive_file import CHECKS, PEAKS, PROGRAMS, SPEED, ArchiveFile
from tvm_iree_ext.on_gpu.archive_workers import (
    WORKER,
    ArchiveWorker,
    each_case,
    work,
)
from tvm_iree_ext.on_gpu.chip_facts import chip_facts
from tvm_iree_ext.on_gpu.day_report import ROOFLINE, report
from tvm_iree_ext.on_gpu.kernel_check import checked
from tvm_iree_ext.on_gpu.peak_run import probed
from tvm_iree_ext.on_gpu.program_run import timed_program
from tvm_iree_ext.on_gpu.roofline_svg import roofline_svg
from tvm_iree_ext.on_gpu.roofs import roofs_of
from tvm_iree_ext.on_gpu.speed_run import timed

_CHECK_S = 30.0  # for one check
_SPEED_S = 90.0  # for one kernel and its peers
_LEAST_S = 5.0  # a kernel is not begun with less
_FACTS_S = 30.0  # for what is known of the GPU
_SANITIZED = 5  # failures that are run again under the sanitizer
_SANITIZED_S, _LEAST_SANITIZED_S = 60.0, 20.0  # for each; with less left it is not begun
# Calls that a driver refuses are no finding: how many arguments a kernel takes is asked so.
_SANITIZER = (
    "compute-sanitizer", "--tool", "memcheck", "--print-limit", "3", "--report-api-errors", "no",
)  # fmt: skip


_FACTS = "facts"
_STAGES = {CHECKS: checked, PEAKS: probed, SPEED: timed, PROGRAMS: timed_program}
_ROLES = {**_STAGES, _FACTS: chip_facts}


class ResultFile:
    """Results, a line of JSON each, written at once; those of an earlier run are kept."""

    def __init__(self, path: Path) -> None:
        self.rows: list[dict[str, Any]] = []
        text = path.read_text() if path.exists() else ""
        for line in text.splitlines():
            with contextlib.suppress(ValueError):  # the last line of a run that was ended
                self.rows.append(json.loads(line))
        self._file = path.open("a")
        if text and not text.endswith("\n"):
            self._file.write("\n")

    def add(self, row: dict[str, Any]) -> None:
        """Keep a result."""
        self.rows.append(row)
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()


def main(arguments: Sequence[str]) -> int:
    """The command; 1 where something is wrong."""
    archive = ArchiveFile(sys.argv[0])
    if arguments[:1] == [WORKER]:
        work(archive, _ROLES[arguments[1]])
        return 0
    args = _parser().parse_args(arguments)
    end = time.monotonic() + args.minutes * 60
    args.out.mkdir(parents=True, exist_ok=True)
    facts, problem = _facts(archive, args, end)
    print(json.dumps(facts, indent=1), flush=True)
    if problem:
        print(f"gpu-day: nothing is run: {problem}", file=sys.stderr)
        return 1
    checks, peaks, speed, programs = (ResultFile(args.out / f"{stage}.jsonl") for stage in _STAGES)
    try:
        if "checks" in args.stages:
            _check(archive, checks, args, end)
        for stage, results in ((PEAKS, peaks), (SPEED, speed), (PROGRAMS, programs)):
            if stage in args.stages:
                _time(archive, stage, results, args, end)
        if "checks" in args.stages:
            _sanitize(archive, checks, end)
    finally:
        text = report(facts, checks.rows, peaks.rows, speed.rows, programs.rows)
        _replace(args.out / "report.md", text)
        roofs = roofs_of(peaks.rows)
        if roofs.are_known and speed.rows:
            name = str(facts.get("name", args.kind))
            _replace(args.out / ROOFLINE, roofline_svg(name, speed.rows, roofs))
        print(text, flush=True)
    every = (*checks.rows, *peaks.rows, *speed.rows, *programs.rows)
    return 1 if any(row["status"] != "passed" for row in every) else 0


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(text)
    os.replace(temporary, path)


def _facts(
    archive: ArchiveFile, args: argparse.Namespace, end: float
) -> tuple[dict[str, Any], str]:
    """What is known of the GPU, at the second try if need be; and why nothing is, for a message."""
    worker = ArchiveWorker(archive, _FACTS, _FACTS_S, end)
    try:
        for _ in range(2):
            rows, problem = worker.rows(args.kind) or ([], "there is no time left")
            if rows:
                return rows[0], ""
            print(f"gpu-day: {problem}", file=sys.stderr, flush=True)
    finally:
        worker.end()
    return {"kind": args.kind}, problem


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpu-day", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=9.0, help="default: 9")
    parser.add_argument("--out", type=Path, default=Path("gpu-day"), help="default: gpu-day")
    parser.add_argument("--kind", choices=("cuda", "rocm"), default="cuda")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument(
        "--stages", type=lambda text: text.split(","), default=list(_STAGES),
        help="checks, peaks, speed, programs, or several, with a comma between; default: all",
    )  # fmt: skip
    parser.add_argument(
        "--check-seconds", type=float, default=_CHECK_S, metavar="S",
        help=f"for one check (default: {_CHECK_S:.0f})",
    )  # fmt: skip
    parser.add_argument("--only", default="", help="cases whose names contain this")
    return parser


def _check(archive: ArchiveFile, checks: ResultFile, args: argparse.Namespace, end: float) -> None:
    done = {row["case"] for row in checks.rows}
    every = archive.cases(CHECKS)
    folders = [name for name, case in every.items() if name not in done and args.only in case["id"]]
    start = time.monotonic()
    outcomes = each_case(
        archive, CHECKS, folders, jobs=args.jobs, limit_s=args.check_seconds, end=end
    )
    with contextlib.closing(outcomes):
        for folder, rows, problem in outcomes:
            for row in rows or [_broke(every[folder], folder, problem)]:
                checks.add(row)
                if row["status"] != "passed":
                    print(f"{row['status']} {row['id']}: {row['message'][:300]}", flush=True)
    print(f"checks: {time.monotonic() - start:.0f} s", flush=True)


def _broke(case: Mapping[str, Any], folder: str, problem: str) -> dict[str, Any]:
    """The row of a case whose process ended."""
    known = {key: case.get(key, "program") for key in ("id", "op", "target")}
    return {**known, "case": folder, "status": "broke", "message": problem}


def _time(
    archive: ArchiveFile, stage: str, results: ResultFile, args: argparse.Namespace, end: float
) -> None:
    done = {row["case"] for row in results.rows}
    every = archive.cases(stage)
    folders = [
        name
        for name, case in every.items()
        if name not in done and (stage == PEAKS or args.only in case["id"])
    ]
    outcomes = each_case(
        archive, stage, folders, jobs=1, limit_s=_SPEED_S, end=end, least_s=_LEAST_S
    )
    with contextlib.closing(outcomes):
        for folder, rows, problem in outcomes:
            case = every[folder]
            for row in rows:
                results.add({**row, "case": folder})
                print(f"{row['id']:40} {row['config'] or row['who']:24} {row['us']:10.1f} us",
                      row["message"], flush=True)  # fmt: skip
            if problem:
                who = "peers" if rows else ""
                results.add(_broke(case, folder, problem) | {"config": case["config"], "who": who})
                print(f"broke {case['id']} {case['config']} {who}: {problem}", flush=True)


def _sanitize(archive: ArchiveFile, checks: ResultFile, end: float) -> None:
    """Run failures again under the sanitizer, where it is there."""
    failures = [row for row in checks.rows if row["status"] != "passed"]
    for row in failures[:_SANITIZED]:
        left = end - time.monotonic()
        if left < _LEAST_SANITIZED_S or "sanitizer" in row:
            return
        try:
            command = [*_SANITIZER, sys.executable, str(archive.path), WORKER, CHECKS]
            ended = subprocess.run(
                command,
                input=f"{row['case']}\n",
                capture_output=True,
                text=True,
                timeout=min(_SANITIZED_S, left),
            )
        except (OSError, subprocess.TimeoutExpired):
            return
        lines = [line for line in ended.stdout.splitlines() if line.startswith("=====")]
        row["sanitizer"] = "\n".join(lines[:25])
        print(f"{row['id']}\n{row['sanitizer']}", flush=True)
