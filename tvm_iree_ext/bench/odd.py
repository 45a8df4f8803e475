"""Listed cases beside the same work at odd sizes: was anything made for the listed ones alone?

Work is counted in floating-point operations where those limit the case, else in bytes.  Where its
arrays happen to lie, in caches and across lines, changes what a kernel takes by up to a third: each
pair is timed at several places.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_iree_ext.bench.base.bench_case import Call, Case, Values
from tvm_iree_ext.bench.cases.listed import Pair
from tvm_iree_ext.bench.measure.compare import FULL, QUICK, TimingEffort, call_of, limiting
from tvm_iree_ext.bench.measure.peaks import Peaks
from tvm_iree_ext.bench.measure.turns import Contender, Spread, speedup, take_turns
from tvm_iree_ext.building import kernel_build
from tvm_iree_ext.runtime import tvm_runtime
from tvm_iree_ext.runtime.kernel import Kernel

BAR = 1.25
_PLACES = 5
ODD_HEADER = ("case", "threads", "ms", "odd sizes", "ms there", "time of its work", "")


@dataclass(frozen=True)
class Odd:
    """A pair with one number of threads.

    Attributes:
        sizes: the twin's operands and results.
        listed_seconds, odd_seconds: of a call.
        relative: what the twin takes for its work, over what the listed case takes for as much.
        wrong: what is wrong with a result; it is not timed then.
    """

    case: str
    threads: int
    sizes: str
    listed_seconds: Spread | None = None
    odd_seconds: Spread | None = None
    relative: Spread | None = None
    wrong: str = ""

    @property
    def is_within(self) -> bool:
        """Whether the twin is right, and takes at most :data:`BAR` times as long for its work."""
        return self.relative is not None and self.relative.median <= BAR


Kernels = dict[str, tuple[Kernel, Values]]


def measure_odd(pair: Pair, peaks: Sequence[Peaks], *, quick: bool = False) -> list[Odd]:
    """Time a listed case and its twin in turns, for each number of threads that has peaks."""
    effort = QUICK if quick else FULL
    case, twin = pair
    shapes = ("x".join(map(str, one.shape)) or "1" for one in twin.op.signature.operands)
    sizes = " ".join(shapes)
    kernels: Kernels = {}
    for one in pair:
        kernel, values = kernels[one.name] = kernel_build.build(one.op), one.operands()
        if complaint := one.check(values)(call_of(kernel, values)()):
            return [
                Odd(case.name, peak.threads, sizes, wrong=f"{one.name}: {complaint}")
                for peak in peaks
            ]
    return [_timed(case, twin, sizes, kernels, peak, effort) for peak in peaks]


def _timed(
    case: Case, twin: Case, sizes: str, kernels: Kernels, peak: Peaks, effort: TimingEffort
) -> Odd:
    times: dict[str, list[list[float]]] = {name: [] for name in kernels}
    # What has been called stays: else its memory would be handed out again.
    called: list[dict[str, Call]] = []
    for place in range(_PLACES):
        order = list(kernels) if place % 2 else list(kernels)[::-1]
        called.append({name: _call_elsewhere(*kernels[name]) for name in order})
        contenders = {
            name: Contender(call, lambda: tvm_runtime.threads(peak.threads))
            for name, call in called[-1].items()
        }
        rounds = -(-effort.min_rounds // _PLACES)
        found = take_turns(contenders, seconds=effort.seconds / _PLACES, min_rounds=rounds)
        for name, turns in found.items():
            times[name] += turns
    here, there = times[case.name], times[twin.name]
    by_flops = limiting(case, peak)[0] == "compute"
    work = twin.flops / case.flops if by_flops else twin.bytes / case.bytes
    ratio = speedup(here, there)
    return Odd(
        case=case.name,
        threads=peak.threads,
        sizes=sizes,
        listed_seconds=_spread(here),
        odd_seconds=_spread(there),
        relative=Spread(ratio.median / work, ratio.low / work, ratio.high / work),
    )


def _call_elsewhere(kernel: Kernel, values: Values) -> Call:
    """A call with operands and results that are nowhere else."""
    return call_of(kernel, {name: value.copy() for name, value in values.items()})


def _spread(rounds: Sequence[Sequence[float]]) -> Spread:
    return Spread.of([sample for one in rounds for sample in one])


def odd_row(found: Odd) -> tuple[str, ...]:
    """The cells of a table's row, under :data:`ODD_HEADER`."""
    head = (found.case, str(found.threads))
    if found.listed_seconds is None or found.odd_seconds is None or found.relative is None:
        return (*head, "", found.sizes, "", "", f"wrong: {found.wrong}")
    here, there = (f"{s.median * 1e3:.3g}" for s in (found.listed_seconds, found.odd_seconds))
    relative = found.relative
    cell = f"{relative.median:.2f}x ({relative.low:.2f}-{relative.high:.2f})"
    return (*head, here, found.sizes, there, cell, "" if found.is_within else f"above {BAR}x")


def odd_markdown(found: Sequence[Odd]) -> str:
    """The table."""
    lines = [ODD_HEADER, ("---",) * len(ODD_HEADER), *map(odd_row, found)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
