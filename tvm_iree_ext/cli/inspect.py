"""``tvm-iree-ext inspect``: what compilers make of a GPU kernel."""

import argparse
import json

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import OpError, TargetError
from tvm_iree_ext.cli.build import add_op_arguments, read_config
from tvm_iree_ext.cli.operands import make_op


def add_inspect(commands: argparse._SubParsersAction) -> None:
    """Add the command ``inspect``."""
    parser = commands.add_parser(
        "inspect",
        help="compile a GPU kernel; print its registers, memory and instructions",
        description="Compile a kernel without a GPU, and print what the compiler says of it: "
        "registers, spills, shared memory, occupancy, and the instructions of the kernel and of its"
        " hot loop, by kind and width.",
    )
    parser.add_argument(
        "kernel",
        help="an op, as 'tvm-iree-ext build' takes it; FILE.py:NAME, a TensorIR function with"
        " thread bindings; or mma:KIND, the smallest kernel of a matrix instruction, such as"
        " mma:MFMA_F32_16x16x16_F16",
    )
    add_op_arguments(parser)
    parser.add_argument(
        "--target",
        metavar="T",
        help="such as cuda:sm_80 or rocm:gfx942 (default: of mma:KIND, a chip that has it)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--assembly", action="store_true", help="print the assembly itself")
    what.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run_inspect)


def run_inspect(args: argparse.Namespace) -> int:
    """Print the report, or the assembly; 1 where there is none."""
    if ":" in args.kernel:
        if args.operands or args.set or args.config is not None:
            raise OpError(f"{args.kernel} is no op: it has no operands, attributes or config")
        code = ext.inspection.inspect_kernel(args.kernel, args.target)
    else:
        op = make_op(args.kernel, args.operands, args.set)
        if args.target is None:
            raise TargetError(f"{op.name}: name a GPU by --target, as cuda:sm_80 or rocm:gfx942")
        config = None if args.config is None else read_config(args.config)
        code = ext.inspection.inspect_op(op, args.target, config)
    if args.json:
        print(json.dumps(ext.inspection.report_data(code)))
    elif not args.assembly:
        print(ext.inspection.report_text(code))
    elif code.assembly is None:
        print(code.missing)
        return 1
    else:
        print(code.assembly)
    return 0
