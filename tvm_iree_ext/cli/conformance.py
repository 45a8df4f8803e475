"""``tvm-iree-ext conformance``: test suites of others through our front doors."""

import argparse
import json
import sys
from pathlib import Path

import tvm_iree_ext as ext
from tvm_iree_ext.base.text_tables import table_lines, width_of
from tvm_iree_ext.cli.parser import count_from
from tvm_iree_ext.cli.progress import bar


def add_conformance(commands: argparse._SubParsersAction) -> None:
    """Add the command ``conformance``."""
    conformance = ext.conformance
    parser = commands.add_parser(
        "conformance",
        help="run test suites of ONNX, PyTorch and JAX through from_onnx, from_torch and from_jax",
        description="Run a test suite of ONNX, PyTorch or JAX through our way in for it, each case"
        " in a process with limits. Printed are what came of them by op and type, in all, and the"
        " reasons of what is not right. Exit status 1 where one is wrong or ended its process.",
    )
    parser.add_argument("suite", choices=tuple(conformance.SUITES), help="whose tests")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="PATTERN",
        help="cases whose names or ops match, such as 'test_conv*' or Conv",
    )  # fmt: skip
    parser.add_argument(
        "--type", action="append", default=[], metavar="T", help="such as float32; repeatable"
    )
    parser.add_argument(
        "--limit", type=count_from(1), metavar="N", help="so many of them, drawn (default: all)"
    )
    parser.add_argument(
        "--seed", type=count_from(0), default=0, metavar="S",
        help="of what is drawn (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=Path, metavar="FILE",
        help="add outcomes to a file of JSON lines; those that stand in it are not tried again",
    )  # fmt: skip
    parser.add_argument(
        "--again", nargs="+", choices=conformance.KINDS, default=[], metavar="KIND",
        help="try these of the file again, such as wrong or refused",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=count_from(1), default=1, metavar="J", help="processes (default: 1)"
    )
    parser.add_argument(
        "--seconds", type=count_from(1), default=120, metavar="S",
        help="limit of one case (default: 120)",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes as a list")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the tables of docs/conformance.md anew"
    )
    parser.set_defaults(run=run_conformance)


def run_conformance(args: argparse.Namespace) -> int:
    """Print the tables; 1 where a case is wrong or has crashed."""
    conformance = ext.conformance
    suite = conformance.suite_named(args.suite, args.seed)
    cases = conformance.chosen(suite.cases(), args.only, args.type, args.limit, args.seed)
    found = []
    with bar("cases", len(cases)) as advance:
        for outcome in conformance.run(
            args.suite,
            cases,
            seed=args.seed,
            jobs=args.jobs,
            limit_s=args.seconds,
            output=args.output,
            again=args.again,
        ):
            found.append(outcome)
            advance()
    report, width = conformance.conformance_report, width_of(sys.stdout)
    for header, rows, left in (
        (report.OP_HEADER, report.op_rows(found), (0, 1)),
        (report.REASON_HEADER, report.reason_rows(found), (1, 2, 3, 4)),
        (report.TYPE_HEADER, report.type_rows(found), (0,)),
    ):
        if rows:
            print("\n".join(table_lines(header, rows, width, left=left)), end="\n\n")
    for note, count in report.noted(found).most_common():
        print(f"{count} right: {note}")
    if args.json is not None:
        data = [json.loads(one.to_json()) for one in found]
        args.json.write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    if args.page is not None:
        page = args.page.read_text("utf-8")
        args.page.write_text(report.page_with_tables(page, args.suite, found), "utf-8")
    return int(any(one.verdict.kind in ("wrong", "crashed") for one in found))
