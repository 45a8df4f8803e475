"""``tvm-iree-ext simulate``: run a GPU kernel without a GPU, and see what it does wrong."""

import argparse
import json
from pathlib import Path

import tvm_iree_ext as ext


def _workgroup(text: str) -> tuple[int, int, int]:
    try:
        x, y, z = [*map(int, text.split(",")), 0, 0][:3]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not X, X,Y or X,Y,Z") from None
    return x, y, z


def _picture(text: str) -> int | Path:
    if text.endswith(".svg"):
        return Path(text)
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor a FILE.svg") from None


def size(text: str) -> tuple[str, int]:
    """The argparse type of ``NAME=NUMBER``."""
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
        help="FILE.py:NAME, a TensorIR function with thread bindings, of one or several kernels; or"
        " mma:KIND, the smallest kernel of a matrix instruction, such as mma:MFMA_F32_16x16x16_F16",
    )
    parser.add_argument(
        "sizes",
        nargs="*",
        type=size,
        metavar="NAME=N",
        help="numbers that the function takes, and extents that it leaves open",
    )
    parser.add_argument(
        "--target",
        metavar="T",
        help="such as cuda:sm_80 or rocm:gfx942 (default: of mma:KIND, a chip that has it)",
    )
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
        type=_picture,
        metavar="N|FILE.svg",
        help="draw the accesses of statement N; default: those that cost more than they need."
        " FILE.svg: also draw findings, traffic and these accesses into a file",
    )
    parser.add_argument("--no-picture", action="store_true", help="draw none")
    parser.add_argument("--seed", type=int, default=0, help="of the operands (default: 0)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run_simulate)


def run_simulate(args: argparse.Namespace) -> int:
    """Print the report of each launch; 1 where something was found."""
    launches = ext.simulator.simulate_kernel(
        args.kernel,
        args.target,
        sizes=dict(args.sizes),
        workgroups=args.workgroup,
        seed=args.seed,
    ).simulations
    asked = args.picture or ()
    numbers = [one for one in asked if isinstance(one, int)]
    for file in (one for one in asked if isinstance(one, Path)):
        file.write_text(ext.simulator.simulation_svg(launches), "utf-8")
    if args.json:
        data = [ext.simulator.report_data(done) for done in launches]
        print(json.dumps(data[0] if len(data) == 1 else data))
    else:
        pictures = () if args.no_picture else numbers or None
        texts = [ext.simulator.report_text(done, pictures=pictures) for done in launches]
        print("\n\n".join(texts))
    return 1 if any(done.findings for done in launches) else 0
