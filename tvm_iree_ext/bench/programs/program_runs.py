"""All programs, each in a process of its own: a crash or a hang costs one cell of the table."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.bench.programs.contenders import OUR_NAME, PEERS
from tvm_iree_ext.bench.programs.program_case import ProgramCase
from tvm_iree_ext.bench.programs.program_rows import (
    ProgramRow,
    ProgramSetting,
    logged_line,
    logged_rows,
    skipped_row,
)
from tvm_iree_ext.bench.programs.program_trial import ProgramTrial, tried
from tvm_iree_ext.processes import limits, workers
from tvm_iree_ext.runtime import tvm_runtime

PROGRAM_LIMIT_S = 600.0
"""For a program with all its peers: the largest takes a fifth of it on two free processors."""


def run_programs(
    cases: Sequence[ProgramCase],
    *,
    threads: Sequence[int] = (1,),
    peers: Sequence[str] = tuple(PEERS),
    quick: bool = False,
    limit_s: float = PROGRAM_LIMIT_S,
    log: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[ProgramRow]:
    """Build, check and time programs; a row for each and each number of threads.

    Args:
        cases: which.
        threads: numbers of threads, each from 1 to the processors of this process.
        peers: names of those in :data:`PEERS` that take part.
        quick: briefly: for a look, not for a table.
        limit_s: what a program may take; whoever is at work then is left out of a second try.
        log: a file of JSON lines; what stands in it is not run again, and the rest is added.
        progress: told what is done now.

    Raises:
        ValueError: for a peer that there is not, and for a number of threads out of range.
        ExtError: where the log is no such file.
    """
    for name in peers:
        if name not in PEERS:
            raise ValueError(f"no peer {name!r}; there are {', '.join(PEERS)}")
    most = tvm_runtime.available_processors()
    for count in threads:
        if not 1 <= count <= most:
            raise ValueError(
                f"the number of threads is {count}; this process may use 1 to {most} processors"
            )
    setting = ProgramSetting(tuple(peers), quick)
    before = {} if log is None else logged_rows(log, setting)
    for number, case in enumerate(cases, 1):
        left = tuple(count for count in threads if (case.name, count) not in before)
        rows = {count: before[case.name, count] for count in threads if count not in left}
        if left:
            progress(f"{number}/{len(cases)} {case.name}")
            for row in _rows(ProgramTrial(case, left, tuple(peers), quick), limit_s):
                rows[row.threads] = row
                if log is not None:
                    log.parent.mkdir(parents=True, exist_ok=True)
                    with log.open("a", encoding="utf-8") as lines:
                        lines.write(logged_line(setting, row) + "\n")
        yield from (rows[count] for count in threads)


def _rows(trial: ProgramTrial, limit_s: float) -> list[ProgramRow]:
    """The rows of a program; who ends the process is left out of the next try."""
    case = trial.case
    if case.left_out:
        return _not_run(trial, f"not run: {case.left_out}")
    with scratch() as folder:
        trial = replace(trial, stage=folder / "stage")
        worker = workers.Worker(limit_s, str(folder))
        try:
            for _ in range(len(trial.peers) + 2):  # each contender may fail, and the rest
                try:
                    return worker.call(_tried_quietly, trial)
                except workers.WorkerDied as error:
                    who = _at_work(trial)
                    if who not in (OUR_NAME, *trial.peers) or who in trial.skipped:
                        return _not_run(trial, f"{who or 'start'}: {error}")
                    trial = replace(trial, skipped={**trial.skipped, who: str(error)})
            return _not_run(trial, "each try ended its process")
        finally:
            worker.end()


def _at_work(trial: ProgramTrial) -> str:
    assert trial.stage is not None
    try:
        return trial.stage.read_text("utf-8")
    except OSError:
        return ""


def _not_run(trial: ProgramTrial, reason: str) -> list[ProgramRow]:
    case = trial.case
    names = [name for name in trial.peers if case.framework in PEERS[name].frameworks]
    return [skipped_row(case.name, case.framework, count, reason, names) for count in trial.threads]


def _tried_quietly(trial: ProgramTrial) -> list[ProgramRow]:
    """What exporters and compilers say is not for the screen: the rows say what matters."""
    limits.no_core_file()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, nowhere)
        for stream in (1, 2):
            before = os.dup(stream)
            os.dup2(nowhere, stream)
            stack.callback(os.close, before)
            stack.callback(os.dup2, before, stream)
        return tried(trial)
