"""``tvm-iree-ext emulate``: execute a GPU kernel's machine code without a GPU."""

import argparse
import json

import tvm_iree_ext as ext
from tvm_iree_ext.cli.simulate import size


def add_emulate(commands: argparse._SubParsersAction) -> None:
    """Add the command ``emulate``."""
    parser = commands.add_parser(
        "emulate",
        help="execute a GPU kernel's machine code on the CPU; find what it does wrong",
        description="Launch an artifact for a GPU by its own launch plan on random arrays, or"
        " compile a kernel and launch that; execute its code objects or its PTX instruction by"
        " instruction, and print what was executed and what it does wrong.  Exit status 1 where"
        " something is found.",
    )
    parser.add_argument(
        "kernel",
        help="the folder of an artifact; or FILE.py:NAME or mma:KIND, as simulate takes them",
    )
    parser.add_argument(
        "sizes",
        nargs="*",
        type=size,
        metavar="NAME=N",
        help="numbers that the kernel takes, and extents that it leaves open",
    )
    parser.add_argument(
        "--target",
        metavar="T",
        help="such as cuda:sm_80 or rocm:gfx942 (default: the artifact's; of mma:KIND, a chip that"
        " has it)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of arrays and noise (default: 0)")
    parser.add_argument(
        "--order",
        type=int,
        default=0,
        help="which waves of a workgroup run first between barriers: 0 even, 1 odd ones, others by"
        " chance (default: 0)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run_emulate)


def run_emulate(args: argparse.Namespace) -> int:
    """Print what was executed, and what was found; 1 where something was."""
    done = ext.emulator.emulate_kernel(
        args.kernel, args.target, sizes=dict(args.sizes), seed=args.seed, order=args.order
    )
    print(json.dumps(done.to_json()) if args.json else done)
    return 1 if done.findings else 0
