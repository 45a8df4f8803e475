"""``tvm-iree-ext bench``: kernels timed beside their peers."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.base.text_tables import table_lines, width_of
from tvm_iree_ext.base.versions import WHOLE, is_runtime_alone
from tvm_iree_ext.cli.bench_artifact import add_artifact_options, bench_artifact, is_artifact
from tvm_iree_ext.cli.bench_programs import (
    MODELS_SUITE,
    PROGRAMS_SUITE,
    add_programs_options,
    bench_programs,
)

if TYPE_CHECKING:
    from rich.console import Console


def numbers(text: str) -> list[int]:
    """``1,2`` as a list; how many threads there can be is checked where it is known."""
    try:
        return list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 1,2") from None


def add_bench(commands: argparse._SubParsersAction) -> None:
    """Add the command ``bench``."""
    parser = commands.add_parser(
        "bench",
        help="time kernels beside NumPy, PyTorch, IREE, ONNX Runtime and JAX; or an artifact",
        description="Time kernels in turns with their peers, on a machine whose peaks are measured"
        " first. A peer's column says how many times as long it takes. Or time the calls of an"
        " artifact, alone.",
    )
    parser.add_argument(
        "suite",
        metavar="SUITE|DIR",
        help="which cases, such as attention, or all; peers: the listed cases of every op; growth"
        " times every op at sizes that double; programs: whole ones of PyTorch and JAX; models:"
        " those of packages; an unknown name lists what there is",
    )
    parser.add_argument(
        "--threads", type=numbers, metavar="N,...", help="default: 1, and all processors up to 2"
    )
    parser.add_argument(
        "--cases",
        default="",
        metavar="TEXT",
        help="those with this in their name, or with one of several texts with | between",
    )
    parser.add_argument("--quick", action="store_true", help="small cases, measured briefly")
    parser.add_argument(
        "--costs",
        action=argparse.BooleanOptionalAction,
        help="also measure memory, build, import and call (default: unless --cases or --quick)",
    )
    parser.add_argument(
        "--odd",
        action="store_true",
        help="with peers: time each case beside the same work at odd sizes, and no peer;"
        " status 1 where one takes 1.25 times as long for its work",
    )
    parser.add_argument(
        "--roofline", metavar="FILE", help="draw rates under the machine's peaks: PNG, SVG or PDF"
    )
    parser.add_argument("--json", metavar="FILE", help="write all figures, after each case")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables, after each case")
    add_programs_options(parser)
    add_artifact_options(parser)
    parser.set_defaults(run=run_bench)


def run_bench(args: argparse.Namespace) -> int:
    """Measure and print; 1 where a kernel or a peer computes something wrong."""
    threads = args.threads or [1, 2][: ext.available_processors()]
    if is_artifact(args.suite):
        return bench_artifact(args, threads)
    if is_runtime_alone():
        raise ExtError(f"bench: {args.suite} is no artifact's folder; suites come with {WHOLE}")
    from rich.console import Console  # takes longer to import than 'bench --help' to be made

    console = Console(width=width_of(sys.stdout))
    if args.suite in (PROGRAMS_SUITE, MODELS_SUITE):
        return bench_programs(args, console, threads, _shown(console, lambda text: None))
    if args.operands:
        raise ExtError(
            f"bench: names are for the suites programs and models, not {args.suite}; try --cases"
        )
    if args.suite == "growth":
        return _growth(console, args, threads)
    if args.odd:
        return _odd(console, args, threads)
    costs = args.costs if args.costs is not None else not (args.cases or args.quick)

    def finished(report: Any, rows: Sequence[Any]) -> None:
        if args.json is not None:
            report.save_json(args.json)
        if args.markdown is not None:
            ext.bench.write_whole(args.markdown, report.markdown())
        for row in rows:
            console.print(ext.bench.row_text(row), highlight=False, soft_wrap=True)

    try:
        if args.roofline is not None:
            ext.bench.check_picture(args.roofline)
        cases = ext.bench.select_cases(args.suite, args.cases, quick=args.quick)
        with console.status("start") as status:
            report = ext.bench.run(
                cases,
                suite=args.suite,
                threads=threads,
                quick=args.quick,
                costs=costs,
                progress=_shown(console, status.update),
                finished=finished,
            )
        if args.roofline is not None:
            ext.bench.save_roofline(report, args.roofline)
    except ValueError as error:
        raise ExtError(f"bench: {error}") from error
    for header, body in (report.table(), report.cost_table()):
        if body:
            _print_table(console, header, body)
    for line in (*report.summary(), *report.heading()):
        console.print(line, highlight=False, soft_wrap=True)
    for place in (args.json, args.markdown, args.roofline):
        if place is not None:
            console.print(f"written: {Path(place)}", highlight=False, soft_wrap=True)
    for complaint in report.wrong:
        console.print(f"wrong: {complaint}", highlight=False, soft_wrap=True)
    return 1 if report.wrong else 0


def _odd(console: "Console", args: argparse.Namespace, threads: Sequence[int]) -> int:
    """The table of :mod:`tvm_iree_ext.bench.odd`, and its file; 1 where a case is above the bar."""
    if args.suite != ext.bench.PEERS:
        raise ExtError(f"bench: --odd is for the suite peers, not {args.suite}")
    if args.json is not None or args.roofline is not None:
        raise ExtError("bench: --odd writes a table alone, by --markdown")
    found: list[Any] = []
    try:
        for pair in ext.bench.run_odd(
            args.cases,
            threads=threads,
            quick=args.quick,
            progress=_shown(console, lambda text: None),
        ):
            found += pair
            for one in pair:
                console.print("  ".join(ext.bench.odd_row(one)), highlight=False, soft_wrap=True)
            if args.markdown is not None:
                ext.bench.write_whole(args.markdown, ext.bench.odd_markdown(found))
    except ValueError as error:
        raise ExtError(f"bench: {error}") from error
    _print_table(console, ext.bench.ODD_HEADER, [ext.bench.odd_row(one) for one in found])
    return 0 if all(one.is_within for one in found) else 1


def _growth(console: "Console", args: argparse.Namespace, threads: Sequence[int]) -> int:
    """The table of :mod:`tvm_iree_ext.bench.measure.growth`, and its file."""
    names = [name for name in ext.bench.SUBJECTS if args.cases in name]
    found = []
    shown = _shown(console, lambda text: None)
    for count in threads:
        for name in names:
            shown(f"{name}, {count} threads")
            found.append(ext.bench.measure_growth(name, threads=count))
    rows = [ext.bench.growth_row(one) for one in found]
    _print_table(console, ext.bench.GROWTH_HEADER, rows)
    if args.markdown is not None:
        ext.bench.write_whole(args.markdown, ext.bench.growth_markdown(found))
    return 0


def _shown(console: "Console", update: Callable[[str], None]) -> Callable[[str], None]:
    """Beside the spinner of a terminal; elsewhere as lines."""
    if console.is_terminal:
        return update
    return lambda text: console.print(text, highlight=False, soft_wrap=True)


def _print_table(console: "Console", header: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    for line in table_lines(header, body, console.width):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
