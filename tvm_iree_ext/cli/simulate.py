"""``tvm-iree-ext simulate``: run a GPU kernel without a GPU, and see what it does wrong."""

import argparse
import json

import tvm_iree_ext as ext


def _workgroup(text: str) -> tuple[int, int, int]:
    try:
        x, y, z = [*map(int, text.split(",")), 0, 0][:3]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not X, X,Y or X,Y,Z") from None
    return x, y, z


def _size(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name or not number.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER, as in n=100")
    return name, int(number)


def add_simulate(commands: argparse._SubParsersAction) -> None:
    """Add the command ``simulate``."""
    parser = commands.add_parser(
        "simulate",
        help="run a GPU kernel on the CPU; find races, bank conflicts and the like",
        description="Lower a kernel as it is compiled, run it on random operands with all lanes in"
        " lockstep, and print what it does wrong and what its memory accesses cost.  Exit status 1"
        " where something is found.",
    )
    parser.add_argument(
        "kernel",
        help="FILE.py:NAME, a TensorIR function with thread bindings; or mma:KIND, the smallest"
        " kernel of a matrix instruction, such as mma:MFMA_F32_16x16x16_F16",
    )
    parser.add_argument("sizes", nargs="*", type=_size, metavar="NAME=N", help="scalar arguments")
    parser.add_argument("--target", metavar="T", help="such as cuda:sm_80 or rocm:gfx942")
    parser.add_argument(
        "--workgroup",
        action="append",
        type=_workgroup,
        metavar="X,Y,Z",
        help="run this one (again for more); default: all",
    )
    parser.add_argument(
        "--picture",
        action="append",
        type=int,
        metavar="N",
        help="draw the accesses of statement N; default: those that cost more than they need",
    )
    parser.add_argument("--no-picture", action="store_true", help="draw none")
    parser.add_argument("--seed", type=int, default=0, help="of the operands (default: 0)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run_simulate)


def run_simulate(args: argparse.Namespace) -> int:
    """Print the report; 1 where something was found."""
    done = ext.simulated.simulate_kernel(
        args.kernel,
        args.target,
        sizes=dict(args.sizes),
        workgroups=args.workgroup,
        seed=args.seed,
    ).simulation
    if args.json:
        print(json.dumps(ext.simt.report_data(done)))
    else:
        print(ext.simt.report_text(done, pictures=() if args.no_picture else args.picture))
    return 1 if done.findings else 0
