"""``tvm-iree-ext build``: a kernel for any op, and its artifact."""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import MlirError, ScheduleError
from tvm_iree_ext.base.lowering_config import changed_fields
from tvm_iree_ext.base.text_tables import width_of
from tvm_iree_ext.base.wrapped_text import print_wrapped, refilled
from tvm_iree_ext.cli.operands import UsageError, explained, make_op
from tvm_iree_ext.cli.programs import type_text
from tvm_iree_ext.cli.run import PROGRAMS, add_input, imported_file

_EPILOG = """\
examples:
  tvm-iree-ext build attention 1x8x1024x64xf32 1x8x1024x64xf32 1x8x1024x64xf32 -o attention
  tvm-iree-ext build matmul Mx512xf16 512x256xf16 --set result_dtype=float16
  tvm-iree-ext build attention BATCHx8xSEQx64xf16 BATCHx8xSEQx64xf16 BATCHx8xSEQx64xf16 \\
      mask=SEQxSEQxi1 --set causal=true --set 'region=30 * tanh(arg0 / 30)'
  tvm-iree-ext build attention --help-op
  tvm-iree-ext build model.mlir -o model
"""


def add_build(commands: argparse._SubParsersAction) -> None:
    """Add the command ``build``."""
    parser = commands.add_parser(
        "build",
        help="build a kernel or a program, and export it",
        description="Build a kernel for an op, or a program of MLIR, or take it from the cache.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "op",
        metavar="OP|FILE.mlir|FILE.onnx|FILE.pt2",
        help="an op as 'tvm-iree-ext list' shows it, matmul, or a program",
    )
    add_op_arguments(parser)
    add_input(parser)
    parser.add_argument("--help-op", action="store_true", help="explain OP and its attributes")
    parser.add_argument(
        "--target",
        default="llvm",
        metavar="T",
        help="llvm (this machine), llvm:CPU, llvm:CPU@TRIPLE, cuda:CHIP, rocm:CHIP or JSON"
        " (default: %(default)s)",
    )
    parser.add_argument("-o", "--output", metavar="FOLDER", help="export the artifact there")
    parser.add_argument(
        "--runtime",
        action="store_true",
        help="with -o: put the TVM runtime beside it, for where no apache-tvm is installed",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run_build)


def add_op_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the words behind an op: operands, attributes, lowering config."""
    parser.add_argument(
        "operands",
        metavar="OPERAND",
        nargs="*",
        help="types in the op's order, or NAME=TYPE: extents (numbers, names in capitals or '?' for"
        " what is known when the kernel is called) and element type, separated by x",
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an attribute, as JSON or text; 'tvm-iree-ext build OP --help-op' lists them",
    )
    parser.add_argument(
        "--config",
        metavar="JSON|FILE",
        help="lowering config (default: that of the records of tuning, else the heuristic's)",
    )


def run_build(args: argparse.Namespace) -> None:
    """Build, export, and print what came out."""
    if args.runtime and args.output is None:
        raise UsageError("--runtime says what is exported; name a folder by -o")
    began = time.time()
    if args.input is not None and not args.op.endswith(PROGRAMS):
        raise UsageError("--input says in which dialect a FILE.mlir is; ops have none")
    if args.op.endswith(PROGRAMS):
        built, data = _build_program(args)
    elif args.help_op:
        text = explained(args.op)
        print(refilled(text, width_of(sys.stdout)) if sys.stdout.isatty() else text)
        return
    else:
        built, data = _build_kernel(args)
    is_old = built.folder.joinpath("manifest.json").stat().st_mtime < began
    seconds = time.time() - began
    folder = built.folder
    if args.output is not None:
        folder = built.export(args.output, runtime=args.runtime)
    if args.json:
        found = {**data, "from_cache": is_old, "seconds": seconds, "artifact": str(folder)}
        print(json.dumps(found, indent=2))
        return
    if "config" in data:
        data["config"] = changed_fields(data["config"])
    data["done"] = f"{'from the cache, in' if is_old else 'built in'} {seconds:.1f} s"
    data |= {"artifact": str(folder), "next": _next(args, folder)}
    for name, value in data.items():
        print_wrapped(value if isinstance(value, str) else json.dumps(value), f"{name:<10}  ")


def _next(args: argparse.Namespace, folder: Path) -> str:
    """What to do with an artifact."""
    if args.output is None:
        return "-o FOLDER exports it; in Python, tvm_iree_ext.build finds it at once"
    place = shlex.quote(str(folder))
    if args.target.partition(":")[0] != "llvm":
        return f"where that GPU is: python {place}/launch.py ARRAY.npy ..."
    return f"tvm_iree_ext.load({str(folder)!r}), or tvm-iree-ext run {place} --inputs FILE.npz"


def _build_program(args: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    if args.operands or args.set or args.config is not None or args.help_op:
        raise MlirError(f"{args.op} is a program, which has no operands, attributes or config")
    imported = imported_file(args.op, args.input)
    program = ext.build_program(imported, args.target)
    return program, {
        "program": program.name,
        "functions": {name: type_text(one.signature) for name, one in program.items()},
        "target": dict(program.target),
        "resources": dict(program.resources),
    }


def _build_kernel(args: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    config = None if args.config is None else read_config(args.config)
    op = make_op(args.op, args.operands, args.set)
    kernel = ext.build(op, args.target, config)
    return kernel, {
        "op": str(op),
        "attributes": op.attributes,
        "target": dict(kernel.target),
        "config": kernel.config.to_json(),
        "provenance": kernel.provenance,
        "resources": dict(kernel.resources),
    }


def read_config(text: str) -> ext.LoweringConfig:
    """The lowering config that a JSON text, or the file of that name, holds.

    Raises:
        ScheduleError: for a file that cannot be read, text that is not JSON, an unknown field, or
            a value of another type than the field's.
    """
    source = "--config"
    if not text.lstrip().startswith("{"):
        source = text
        try:
            text = Path(text).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise ScheduleError(f"lowering config: cannot read {source}: {why}") from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScheduleError(f"lowering config: {source} is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ScheduleError(f"lowering config: {source} holds no JSON object")
    return ext.LoweringConfig.from_json(data)
