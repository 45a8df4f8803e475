"""``tvm-iree-ext gpu-sweep``: registers, spills and scratch of ops' kernels, chip by chip."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import tvm_iree_ext as ext
from tvm_iree_ext.cli.parser import count_from


def add_gpu_sweep(commands: argparse._SubParsersAction) -> None:
    """Add the command ``gpu-sweep``."""
    parser = commands.add_parser(
        "gpu-sweep",
        help="compile representative ops for every GPU: registers, spills, scratch",
        description="Compile ops for GPUs, without one, and print what the compilers report of each"
        " kernel. By default contractions and attention that stand for many; with --suite those of"
        " a suite of 'bench', with --random ops of any kind, and with --examples those of a file."
        " Exit status 1 where a kernel spills, has scratch memory, is advised about by a compiler,"
        " or is not made.",
    )
    parser.add_argument(
        "--case", action="append", default=[], metavar="TEXT",
        help="cases whose names contain this; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--suite", action="append", default=[], metavar="NAME",
        help="the cases of this suite of 'bench' instead, such as sort; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="T",
        help="such as rocm:gfx942; repeatable (default: ten chips)",
    )
    parser.add_argument("--examples", metavar="FILE", help="the ops of this JSON file instead")
    parser.add_argument(
        "--random", type=count_from(1), metavar="N", help="N random ops of each --op instead"
    )
    parser.add_argument(
        "--op", metavar="NAME", action="append", help="of --random and --examples; repeatable"
    )
    parser.add_argument(
        "--seed", type=count_from(0), default=0, metavar="S", help="of random ops (default: 0)"
    )
    parser.add_argument(
        "--jobs", type=count_from(0), default=1, metavar="N",
        help="processes that compile; 0: this one (default: 1)",
    )  # fmt: skip
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--summary", action="store_true", help="print a table of Markdown: per chip")
    what.add_argument(
        "--table", action="store_true",
        help="print a table of Markdown: registers, shared memory, occupancy per case and chip",
    )  # fmt: skip
    what.add_argument("--json", action="store_true", help="print a line of JSON for each kernel")
    parser.set_defaults(run=run_gpu_sweep)


def run_gpu_sweep(args: argparse.Namespace) -> int:
    """Print a line for each kernel, and the counts; 1 where something was found."""
    swept = ext.inspection.resource_sweep
    rows = []
    for row in swept.sweep(_cases(args), args.target, jobs=args.jobs):
        rows.append(row)
        if args.json:
            print(json.dumps(asdict(row)), flush=True)
        elif not (args.summary or args.table):
            print(row, flush=True)
    if args.summary or args.table:
        print(swept.table_markdown(rows) if args.table else swept.summary_markdown(rows))
    elif not args.json:
        print(swept.counts(rows))
    return int(any(row.spilt or row.advised or row.failed for row in rows))


def _cases(args: argparse.Namespace) -> Sequence[Any]:
    cases: list[Any] = []
    if args.examples is not None:
        cases += ext.verify.example_cases(args.examples, args.op)
    if args.random is not None:
        cases += ext.verify.random_cases(args.op, args.random, args.seed)
    if args.case or args.suite or not cases:
        cases += ext.inspection.resource_sweep.named(args.case, args.suite)
    return cases
