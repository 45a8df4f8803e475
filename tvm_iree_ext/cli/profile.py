"""``tvm-iree-ext profile``: where the time of a program goes."""

import argparse
import sys
from contextlib import nullcontext

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import CallError, ExtError
from tvm_iree_ext.base.text_tables import width_of
from tvm_iree_ext.base.versions import is_runtime_alone
from tvm_iree_ext.cli.parser import count_from
from tvm_iree_ext.cli.run import ARRAYS, arguments_of, find_function


def add_profile(commands: argparse._SubParsersAction) -> None:
    """Add the command ``profile``."""
    parser = commands.add_parser(
        "profile",
        help="show where the time of a program goes, kernel by kernel",
        description="Run an artifact of a program, or a file of MLIR that is built first, and list"
        " its kernels, the longest first: calls, microseconds, share of the call, GFLOP/s and"
        " GB/s, how much of the machine's measured peak that is, and the operations that each"
        " computes, with their lines.",
    )
    parser.add_argument("program", metavar="DIR|FILE.mlir")
    parser.add_argument(
        "--inputs", metavar="FILE.npz", help=f"{ARRAYS}; by default noise, and zeros for integers"
    )
    parser.add_argument("--function", metavar="NAME", help="default: the only one, or main")
    parser.add_argument(
        "--runs",
        type=count_from(1),
        default=10,
        metavar="N",
        help="calls that medians are taken of (default: %(default)s)",
    )
    parser.add_argument(
        "--threads", type=count_from(1), metavar="N", help="default: all that may be used"
    )
    parser.add_argument(
        "--no-peaks", action="store_true", help="do not measure the machine, which takes seconds"
    )
    parser.add_argument(
        "--trace", metavar="FILE.json", help="write one call as a trace for Chrome or Perfetto"
    )
    parser.set_defaults(run=run_profile)


def run_profile(args: argparse.Namespace) -> None:
    """Profile, and print the table."""
    name, function = find_function(args.program, args.function)
    if isinstance(function, ext.Kernel):
        raise CallError(f"{args.program} is the kernel of one op; profile takes a program")
    signature = function.signature
    arguments = arguments_of(name, signature, args.inputs)
    try:
        with nullcontext() if args.threads is None else ext.threads(args.threads):
            profile = function.profile(*arguments, runs=args.runs)
            peaks = None
            if not (args.no_peaks or is_runtime_alone()):  # which cannot measure them
                (peaks,) = ext.bench.measure_peaks((profile.threads,))
    except ValueError as error:  # more threads than there are
        raise ExtError(f"profile: {error}") from error
    print(profile.table(peaks, width_of(sys.stdout)))
    if args.trace is not None:
        profile.write_trace(args.trace)
        print(f"written: {args.trace}")
