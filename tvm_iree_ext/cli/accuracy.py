"""``tvm-iree-ext accuracy``: how exact our functions are, beside other libraries'."""

import argparse
import json
import sys
from pathlib import Path

import tvm_iree_ext as ext
from tvm_iree_ext.base.text_tables import table_lines, width_of
from tvm_iree_ext.cli.parser import count_from
from tvm_iree_ext.cli.progress import bar


def add_accuracy(commands: argparse._SubParsersAction) -> None:
    """Add the command ``accuracy``."""
    parser = commands.add_parser(
        "accuracy",
        help="measure functions such as exp in units in the last place, beside other libraries'",
        description="Measure functions of each element against mpmath (float64) or the C library's"
        " float64 (narrower types), beside NumPy, PyTorch and JAX where they are installed: the"
        " largest error in units in the last place, and how many zeros, infinities, NaN and signs"
        " are not as IEEE 754 and C have them. Types of 16 bits are measured with all their"
        " numbers. Exit status 1 where one of ours breaks its promise.",
    )
    parser.add_argument(
        "functions", nargs="*", metavar="FUNCTION", help="such as exp or atan2 (default: all)"
    )
    parser.add_argument(
        "--type", action="append", default=[], metavar="T", help="f32, f64, f16 or bf16;"
        " repeatable (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--target", default="llvm", metavar="T", help="a CPU that runs here (default: this one)"
    )
    parser.add_argument(
        "--samples",
        type=count_from(6),
        default=20_000,
        metavar="N",
        help="of each function, but of 16-bit types (default: 20000)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    parser.add_argument(
        "--svg", type=Path, metavar="DIR", help="draw errors over the range of arguments"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the tables of docs/accuracy.md anew"
    )
    parser.set_defaults(run=run_accuracy)


def run_accuracy(args: argparse.Namespace) -> int:
    """Print the table; 1 where a promise is broken."""
    accuracy = ext.accuracy
    functions = accuracy.named(args.functions)
    types = [accuracy.measured_type(name) for name in args.type] or list(accuracy.TYPES)
    body, data, kept = [], [], True
    with bar("functions", len(functions) * len(types)) as advance:
        for dtype in types:
            for row in accuracy.measure(functions, dtype, args.target, count=args.samples):
                body.append(accuracy.accuracy_report.report_row(row))
                data.append(accuracy.accuracy_report.row_data(row))
                kept = kept and row.keeps_bound
                if args.svg is not None:
                    accuracy.draw_errors(row, args.svg)
                advance()
    header = accuracy.accuracy_report.HEADER
    left = (0, 1, len(header) - 1)
    print("\n".join(table_lines(header, body, width_of(sys.stdout), left=left)))
    if args.json is not None:
        args.json.write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    if args.page is not None:
        page = args.page.read_text("utf-8")
        args.page.write_text(accuracy.accuracy_report.page_with_tables(page, data), "utf-8")
    return int(not kept)
