"""``tvm-iree-ext gpu-table``: the time of our GPU code's hot loops by a model."""

import argparse
import json

import tvm_iree_ext as ext


def add_gpu_table(commands: argparse._SubParsersAction) -> None:
    """Add the command ``gpu-table``."""
    parser = commands.add_parser(
        "gpu-table",
        help="model the time of hot loops of GPU products and attention, chip by chip",
        description="Compile products and attention for GPUs, without one, and print what a model"
        " of the chips' cores says of their hot loops: the share of the matrix units' time beside"
        " what is asked for, why they idle, subgroups, bytes a cycle, the last round of workgroups,"
        " and bytes by the order of tiles.  Exit status 1 where a cell spills, or is below its bar"
        " and not named as such.",
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
        "--counts",
        action="store_true",
        help="print instruction counts and widths of a pass instead, beside IREE's",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--markdown", action="store_true", help="print a table of Markdown")
    what.add_argument(
        "--summary", action="store_true",
        help="print a short table of Markdown: shares of the matrix units' time; with --counts,"
        " instructions for each matrix instruction (attention: FLOP for each instruction), ours for"
        " each order of B, and IREE's",
    )  # fmt: skip
    what.add_argument("--json", action="store_true", help="print a line of JSON for each row")
    parser.set_defaults(run=run_gpu_table)


def run_gpu_table(args: argparse.Namespace) -> int:
    """Print the table; 1 where a cell is below its bar."""
    inspection, rows = ext.inspection, []
    for row in inspection.hot_loops.gpu_table(
        args.case, args.target, args.order, timed=not args.counts
    ):
        rows.append(row)
        if args.json:
            print(json.dumps(inspection.hot_loops.row_data(row)), flush=True)
    counts, times = inspection.hot_loop_counts, inspection.hot_loop_times
    if args.summary:
        print(counts.counts_markdown(rows) if args.counts else times.shares_markdown(rows))
    elif not args.json:
        text = counts.counts_text if args.counts else times.times_text
        print(text(rows, markdown=args.markdown))
        if reasons := times.reasons_text(rows):
            print(f"\nbelow, for a reason:\n{reasons}")
    return int(any(row.verdict == inspection.hot_loops.BELOW for row in rows))
