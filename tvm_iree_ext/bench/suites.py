"""The suites: which cases are compared, and one run of them."""

from collections.abc import Callable, Iterator, Sequence

from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.bench.base.bench_case import Case
from tvm_iree_ext.bench.cases.arg_compare import arg_compare_cases
from tvm_iree_ext.bench.cases.attention import attention_cases
from tvm_iree_ext.bench.cases.contraction import contraction_cases
from tvm_iree_ext.bench.cases.conv_2d import conv_2d_cases
from tvm_iree_ext.bench.cases.custom_op import custom_op_cases
from tvm_iree_ext.bench.cases.distribution import distribution_cases
from tvm_iree_ext.bench.cases.exp_reduction import exp_reduction_cases
from tvm_iree_ext.bench.cases.fft import fft_cases
from tvm_iree_ext.bench.cases.grouped_matmul import grouped_matmul_cases
from tvm_iree_ext.bench.cases.im2col import im2col_cases
from tvm_iree_ext.bench.cases.listed import listed_cases, listed_pairs
from tvm_iree_ext.bench.cases.mapped import mapped_cases
from tvm_iree_ext.bench.cases.pack import pack_cases
from tvm_iree_ext.bench.cases.scan import scan_cases
from tvm_iree_ext.bench.cases.slices import slices_cases
from tvm_iree_ext.bench.cases.sort import sort_cases
from tvm_iree_ext.bench.cases.topk import topk_cases
from tvm_iree_ext.bench.cases.transfer import transfer_cases
from tvm_iree_ext.bench.cases.vector_programs import vector_cases
from tvm_iree_ext.bench.cases.winograd import winograd_cases
from tvm_iree_ext.bench.measure.compare import FULL, QUICK, OtherLoad, Row, compare
from tvm_iree_ext.bench.measure.kernel_costs import measure_costs
from tvm_iree_ext.bench.measure.peaks import measure_peaks
from tvm_iree_ext.bench.odd import Odd, measure_odd
from tvm_iree_ext.bench.results.result_tables import Machine, Report
from tvm_iree_ext.runtime import tvm_runtime

SUITES: dict[str, Callable[[], tuple[Case, ...]]] = {
    "attention": attention_cases,
    "custom_op": custom_op_cases,
    "exp_reduction": exp_reduction_cases,
    "fft": fft_cases,
    "pack": pack_cases,
    "slices": slices_cases,
    "scan": scan_cases,
    "mapped": mapped_cases,
    "sort": sort_cases,
    "topk": topk_cases,
    "im2col": im2col_cases,
    "arg_compare": arg_compare_cases,
    "winograd": winograd_cases,
    "conv_2d": conv_2d_cases,
    "contraction": contraction_cases,
    "grouped_matmul": grouped_matmul_cases,
    "transfer": transfer_cases,
    "distribution": distribution_cases,
    "vector": vector_cases,
}

PEERS = "peers"
"""The suite of the listed cases, which are in the others under names of their own."""

OTHER_SUITES = (PEERS, "all", "growth", "models", "programs")
"""Suites beside those of some ops' cases: three are not of cases alone."""

_LARGE_FLOPS = 5e9  # left out of a quick run: a second and more for each call of some peers


def select_cases(suite: str, containing: str = "", *, quick: bool = False) -> list[Case]:
    """The cases of a suite, of ``"all"``, or the listed ones of ``"peers"``, by name.

    Args:
        suite: which.
        containing: parts of names with ``|`` between; cases that have any of them are chosen.
        quick: leaves out large ones.

    Raises:
        ValueError: for a suite that there is not, and where no case is left.
    """
    if suite == "all":
        cases = tuple(case for make in SUITES.values() for case in make())
    elif suite == PEERS:
        cases = listed_cases()
    elif suite in SUITES:
        cases = SUITES[suite]()
    else:
        hint = did_you_mean(suite, (*SUITES, *OTHER_SUITES))
        raise ValueError(
            f"no suite {suite!r}; there are {', '.join(SUITES)}, peers, all and growth{hint}"
        )
    named = [case for case in cases if any(part in case.name for part in containing.split("|"))]
    chosen = [case for case in named if not quick or case.flops < _LARGE_FLOPS]
    if not chosen:
        names = ", ".join(case.name for case in named or cases)
        raise ValueError(
            f"a quick run leaves out all of {names}"
            if named
            else f"no case has {containing!r} in its name; there are {names}"
        )
    return chosen


def run(
    cases: Sequence[Case],
    *,
    suite: str = "",
    threads: Sequence[int] = (1,),
    quick: bool = False,
    costs: bool = True,
    progress: Callable[[str], None] = lambda _: None,
    finished: Callable[[Report, Sequence[Row]], None] = lambda _report, _rows: None,
) -> Report:
    """Measure the machine, then each case beside its peers, then what kernels cost otherwise.

    Args:
        suite: the name that the report gives.
        threads: numbers of threads, each from 1 to the processors of this process.
        quick: fewer and shorter measurements: for a look, not for a table.
        costs: whether to measure memory, build, import and call, too.
        progress: told what is done now.
        finished: given the report so far, and its new rows, after each case.

    Raises:
        ValueError: for a number of threads out of range.
    """
    _check_threads(threads)
    load = OtherLoad()
    progress("the machine's peaks")
    report = Report(suite=suite, quick=quick, machine=Machine.here(), peaks=measure_peaks(threads))
    for number, case in enumerate(cases, 1):

        def told(text: str, where: str = f"{number}/{len(cases)} {case.name}") -> None:
            progress(f"{where}: {text}")

        rows = compare(case, report.peaks, QUICK if quick else FULL, told)
        report.rows.extend(rows)
        report.other_load = load.share()
        finished(report, rows)
    if costs:
        report.costs = measure_costs(threads, repeats=1 if quick else 5, progress=progress)
        report.other_load = load.share()
    report.complete = True
    finished(report, [])
    return report


def run_odd(
    containing: str = "",
    *,
    threads: Sequence[int] = (1,),
    quick: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[list[Odd]]:
    """Time listed cases beside their twins of odd sizes, without peers; a list for each case.

    Raises:
        ValueError: for a number of threads out of range, and where no case is left.
    """
    _check_threads(threads)
    chosen = {case.name for case in select_cases(PEERS, containing, quick=quick)}
    progress("the machine's peaks")
    peaks = measure_peaks(threads)
    for pair in listed_pairs():
        if pair[0].name in chosen:
            progress(f"{pair[0].name} and odd sizes")
            yield measure_odd(pair, peaks, quick=quick)


def _check_threads(threads: Sequence[int]) -> None:
    for count in threads:
        if not 1 <= count <= tvm_runtime.available_processors():
            raise ValueError(
                f"the number of threads is {count};"
                f" this process may use 1 to {tvm_runtime.available_processors()} processors"
            )
