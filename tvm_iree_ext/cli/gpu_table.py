"""``tvm-iree-ext gpu-table``: what our GPU code does in its hot loops, beside IREE's."""

import argparse
import json

import tvm_iree_ext as ext


def add_gpu_table(commands: argparse._SubParsersAction) -> None:
    """Add the command ``gpu-table``."""
    parser = commands.add_parser(
        "gpu-table",
        help="count the instructions of GPU products and attention, chip by chip, beside IREE's",
        description="Compile products and attention for GPUs, without one, and print what a pass of"
        " the hot loop takes: instructions by kind for each matrix instruction, widths, registers,"
        " spills, how many subgroups are resident, and what bounds the case; beside IREE's"
        " figures.  Exit status 1 where a cell is behind.",
    )
    parser.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="CASE",
        help="such as matmul-f16; repeatable (default: all)",
    )
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="T",
        help="such as rocm:gfx942; repeatable (default: all of the table)",
    )
    parser.add_argument(
        "--order",
        action="append",
        default=[],
        metavar="O",
        help="of B: NxK or KxN; repeatable (default: both)",
    )
    parser.add_argument(
        "--time",
        action="store_true",
        help="of AMD's chips, print what a model of their cores says of the loops, not counts:"
        " the share of the matrix units' time, why they idle, subgroups, bytes a cycle; nothing is"
        " run",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--markdown", action="store_true", help="print a table of Markdown")
    what.add_argument(
        "--summary", action="store_true",
        help="print a short table of Markdown: instructions for each matrix instruction (attention:"
        " FLOP for each instruction), ours for each order of B, and the bar; with --time, shares"
        " of the matrix units' time",
    )  # fmt: skip
    what.add_argument("--json", action="store_true", help="print a line of JSON for each row")
    parser.set_defaults(run=run_gpu_table)


def run_gpu_table(args: argparse.Namespace) -> int:
    """Print the table; 1 where a cell is behind."""
    table, times = ext.inspection.hot_loops, ext.inspection.hot_loop_times
    rows = []
    for row in table.gpu_table(args.case, args.target, args.order, timed=args.time):
        rows.append(row)
        if args.json:
            print(json.dumps(table.row_data(row)), flush=True)
    if args.summary:
        print(times.shares_markdown(rows) if args.time else table.summary_markdown(rows))
    elif not args.json:
        text = times.times_text if args.time else table.table_text
        print(text(rows, markdown=args.markdown))
    return int(any(row.verdict == "behind" for row in rows))
