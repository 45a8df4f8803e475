"""One program: built, checked, and timed beside its peers, in the process that this runs in."""

import contextlib
import ctypes
import importlib
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.base.tolerance import EXACT, Tolerance
from tvm_iree_ext.bench.base.bench_case import OURS, TORCH, Call, Library, Skipped
from tvm_iree_ext.bench.measure.compare import ContenderOutcome, TimingEffort
from tvm_iree_ext.bench.measure.footprint import peak_bytes, reset_peak
from tvm_iree_ext.bench.measure.turns import Contender, Spread, speedup, take_turns
from tvm_iree_ext.bench.programs import contenders
from tvm_iree_ext.bench.programs.contenders import PEERS, ProgramSubject, in_short
from tvm_iree_ext.bench.programs.program_case import ProgramCase
from tvm_iree_ext.bench.programs.program_rows import ProgramRow
from tvm_iree_ext.frontends.jax.jax_functions import from_jax
from tvm_iree_ext.frontends.torch.torch_modules import from_torch
from tvm_iree_ext.runtime.program import Program

_FULL = TimingEffort(seconds=2.0, min_rounds=5)
_QUICK = TimingEffort(seconds=0.3, min_rounds=2)
_LONG_SECONDS = 2.0  # a call of a peer that is timed once, and not in turns: far behind anyway


@dataclass(frozen=True)
class ProgramTrial:
    """What is to be done.

    Attributes:
        peers: names of those that are asked for.
        skipped: reasons by the names of contenders that are not to be tried.
        stage: a file that says who is at work, for when this process ends early.
    """

    case: ProgramCase
    threads: tuple[int, ...]
    peers: tuple[str, ...]
    quick: bool = False
    skipped: Mapping[str, str] = field(default_factory=dict)
    stage: Path | None = None

    def enter(self, name: str) -> None:
        """Say who is at work from now on."""
        if self.stage is not None:
            self.stage.write_text(name, "utf-8")


@dataclass
class _Found:
    """What is known of a program for any number of threads."""

    calls: dict[str, tuple[Library, Call]] = field(default_factory=dict)
    settled: dict[str, ContenderOutcome] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    build_seconds: dict[str, float] = field(default_factory=dict)
    program: Program | None = None


def tried(trial: ProgramTrial) -> list[ProgramRow]:
    """A row for each number of threads.  Who computes something wrong is not timed."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        trial.enter("reference")
        case = trial.case
        subject = ProgramSubject(case.framework, case.make(), folder)
        if case.framework == "torch":
            import torch

            stack.enter_context(torch.no_grad())
        found = _Found()
        names = [name for name in trial.peers if case.framework in PEERS[name].frameworks]
        try:
            want = reference(case, subject)
        except Exception as error:  # of any library: a row says what it is
            said = f"the reference: {in_short(error)}"
            for name in (OURS.name, *names):
                found.settled[name] = ContenderOutcome(name, "skipped", said)
            want = []
        with contextlib.suppress(_GivenUp), _giving_up(trial, found, OURS.name):
            _built(subject, found)
        for name in (OURS.name, *names):
            with contextlib.suppress(_GivenUp), _giving_up(trial, found, name):
                _checked(trial, subject, found, name, want)
        return [_row(trial, subject, found, names, threads) for threads in trial.threads]


class _GivenUp(Exception):
    """A contender is out; what became of it is noted."""


@contextlib.contextmanager
def _giving_up(trial: ProgramTrial, found: _Found, name: str) -> Iterator[None]:
    """Note what keeps a contender from going on; one that is out already does not begin."""
    if name in found.settled:
        raise _GivenUp
    trial.enter(name)
    try:
        if name in trial.skipped:
            raise Skipped(trial.skipped[name])
        yield
    except Exception as error:  # of any library: a row says what it is
        found.settled[name] = ContenderOutcome(name, "skipped", in_short(error))
        raise _GivenUp from error


def reference(case: ProgramCase, subject: ProgramSubject) -> list[np.ndarray]:
    """What the program means, by its framework."""
    model = subject.model
    if case.framework == "torch":
        import copy

        import torch

        module, arguments = model.function, model.arguments
        if case.reference == "float64":
            module = copy.deepcopy(module).double()  # type: ignore[attr-defined]
            arguments = tuple(one.double() if one.is_floating_point() else one for one in arguments)
        with torch.no_grad():
            found = module(*arguments)
    else:
        import jax

        jax.config.update("jax_platforms", "cpu")
        arguments = model.arguments
        is_wide = case.reference == "float64"
        if is_wide:
            arguments = jax.tree.map(_widened, arguments)
        with jax.enable_x64(is_wide):
            found = jax.jit(model.function)(*arguments)
            return [_plain(one) for one in contenders.leaves(subject, found)]
    return [_plain(one) for one in contenders.leaves(subject, found)]


def _widened(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _plain(value: Any) -> np.ndarray:
    """A copy on the host, floats of any type as float64."""
    array = contenders.host_array(value)
    is_integer = array.dtype.kind in "biu"
    return array.copy() if is_integer else array.astype(np.float64)


def _built(subject: ProgramSubject, found: _Found) -> None:
    """Build ours, uncached; imports take no part in its time."""
    import tvm  # noqa: F401

    if subject.framework == "torch":
        from iree.turbine import aot  # noqa: F401
    model, place = subject.model, subject.folder / "ours"
    build = from_torch if subject.framework == "torch" else from_jax
    start = time.perf_counter()
    found.program = build(model.function, *model.arguments, folder=place, **model.options)
    found.build_seconds[OURS.name] = time.perf_counter() - start


def _checked(
    trial: ProgramTrial, subject: ProgramSubject, found: _Found, name: str, want: list[np.ndarray]
) -> None:
    """Set a contender up, call it once, and compare; its call is kept where that is right."""
    if name == OURS.name:
        assert found.program is not None
        library, call = OURS, contenders.our_call(found.program, subject)
    else:
        library = PEERS[name].library
        library.version()
        for module in PEERS[name].imports:
            importlib.import_module(module)
        start = time.perf_counter()
        call = PEERS[name].make(subject)
    with library.limit(trial.threads[0]):
        if name in (OURS.name, TORCH.name):
            result, found.peak_bytes[name] = _measured(call)
        else:
            result = call()
            found.build_seconds[name] = time.perf_counter() - start
        got = [_plain(one) for one in _results(subject, name, result)]
    found.errors[name] = _largest_error(got, want)
    if complaint := _complaint(trial.case, got, want):
        found.settled[name] = ContenderOutcome(name, "wrong", complaint)
    else:
        found.calls[name] = library, call


def _results(subject: ProgramSubject, name: str, result: Any) -> list[Any]:
    """The arrays of a contender's result, which is a tree for the framework's own."""
    is_plain = isinstance(result, list) and name != "JAX"
    return list(result) if is_plain else contenders.leaves(subject, result)


def _measured(call: Call) -> tuple[Any, int]:
    """The result of a call, and how much the memory of this process grows at most meanwhile."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # else a call may take what an earlier one gave back
    reset_peak()
    before = peak_bytes()
    result = call()
    return result, peak_bytes() - before


def _complaint(case: ProgramCase, got: list[np.ndarray], want: list[np.ndarray]) -> str:
    if len(got) != len(want):
        return f"{len(got)} results, expected {len(want)}"
    for number, (here, there) in enumerate(zip(got, want, strict=True)):
        tolerance = EXACT
        if there.dtype.kind == "f":
            largest = float(np.abs(there[np.isfinite(there)]).max(initial=0.0))
            tolerance = Tolerance(case.absolute * largest, case.relative)
        if wrong := first_difference(f"result {number}", here, there, tolerance):
            return wrong
    return ""


def _largest_error(got: list[np.ndarray], want: list[np.ndarray]) -> float:
    """Of all floats, in parts of the largest number of their array."""
    worst = 0.0
    for here, there in zip(got, want, strict=False):
        if there.dtype.kind == "f" and here.shape == there.shape and there.size:
            with np.errstate(invalid="ignore"):
                off = float(np.nan_to_num(np.abs(here - there), posinf=0.0).max())
            largest = float(np.abs(there[np.isfinite(there)]).max(initial=0.0))
            worst = max(worst, off / largest if largest else off)
    return worst


def _row(
    trial: ProgramTrial, subject: ProgramSubject, found: _Found, names: list[str], threads: int
) -> ProgramRow:
    trial.enter("timing")
    outcomes = found.settled | _timed(trial, found, threads)
    program = found.program
    return ProgramRow(
        program=trial.case.name,
        framework=trial.case.framework,
        threads=threads,
        ours=outcomes[OURS.name],
        peers=[outcomes[name] for name in names],
        errors={name: error for name, error in found.errors.items() if math.isfinite(error)},
        reference=trial.case.reference,
        notes=dict(subject.notes),
        build_seconds=found.build_seconds,
        kernels=None if program is None else program.resources["kernels"],
        weight_bytes=None if program is None else _weight_bytes(program),
        peak_bytes=found.peak_bytes,
    )


def _weight_bytes(program: Program) -> int:
    parameters = program.manifest.parameters
    return sum(math.prod(one.shape) * dtypes.numpy_dtype(one.dtype).itemsize for one in parameters)


def _timed(trial: ProgramTrial, found: _Found, threads: int) -> dict[str, ContenderOutcome]:
    """Times of those that were right, in turns; of a peer that takes seconds, those of a call."""
    outcomes: dict[str, ContenderOutcome] = {}
    taking_part: dict[str, Contender] = {}
    once: dict[str, float] = {}
    for name, (library, call) in found.calls.items():
        trial.enter(name)
        try:
            with library.limit(threads):
                call()  # what a library sets up for a number of threads takes no part
                start = time.perf_counter()
                call()
                seconds = time.perf_counter() - start
        except Exception as error:
            outcomes[name] = ContenderOutcome(name, "skipped", in_short(error))
            continue
        if seconds > _LONG_SECONDS and name != OURS.name:
            once[name] = seconds
        else:
            taking_part[name] = Contender(call, partial(library.limit, threads))
    trial.enter("timing")
    effort = _QUICK if trial.quick else _FULL
    times: dict[str, list[list[float]]] = {}
    if taking_part:
        times = take_turns(taking_part, seconds=effort.seconds, min_rounds=effort.min_rounds)
    ours = times.get(OURS.name)
    for name, rounds in [*times.items(), *((name, [[taken]]) for name, taken in once.items())]:
        samples = [sample for one in rounds for sample in one]
        beside = rounds if name not in once else [rounds[0]] * len(ours or [])
        outcomes[name] = ContenderOutcome(
            name,
            "timed",
            seconds=Spread.of(samples),
            calls=len(samples),
            speedup=speedup(ours, beside) if ours and name != OURS.name else None,
        )
    return outcomes
