"""``tvm-iree-ext import``, ``run-checks``, ``check-programs``: whole programs."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tvm_iree_ext as ext
from tvm_iree_ext.cli.parser import count_from
from tvm_iree_ext.cli.run import add_input, imported_file


def add_import(commands: argparse._SubParsersAction) -> None:
    """Add the command ``import``."""
    parser = commands.add_parser(
        "import",
        help="show what a program of MLIR, ONNX or PyTorch becomes",
        description="Read and import a file of MLIR, as IREE's front ends make it, of ONNX, or of"
        " torch.export.save; list its functions with their types.",
    )
    parser.add_argument("file", metavar="FILE.mlir|FILE.onnx|FILE.pt2")
    add_input(parser)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--print", action="store_true", help="print the Relax module instead")
    shown.add_argument(
        "--explain",
        action="store_true",
        help="instead, list operations that became plain loops although a contraction, a"
        " convolution or another op is like them, with their lines and why; and the kernels of a"
        " CPU, each with the operations that it computes",
    )
    parser.set_defaults(run=run_import)


def run_import(args: argparse.Namespace) -> None:
    """Print the functions, the module, or what becomes of its operations."""
    imported = imported_file(args.file, args.input)
    if args.print:
        print(imported.module.script())
        return
    if args.explain:
        print(ext.explain_program(imported))
        return
    for function in imported.functions:
        print(f"{function.name}{type_text(function.signature)}")


def type_text(signature: Any) -> str:
    """``(arg0: float32[n, 4]) -> float32[n]``."""
    results = ", ".join(str(operand).partition(": ")[2] for operand in signature.results)
    several = f"({results})" if len(signature.results) != 1 else results
    return f"({', '.join(map(str, signature.arguments))}) -> {several}"


def add_run_checks(commands: argparse._SubParsersAction) -> None:
    """Add the command ``run-checks``."""
    parser = commands.add_parser(
        "run-checks",
        help="run the functions of a file as tests",
        description="Run each function of a file that takes no arguments, with the check ops in"
        " it, as IREE's end-to-end tests are. Prints 'ok NAME' or 'FAILED NAME: why' for each,"
        " then 'N passed, M failed'; the exit status is 1 when one failed.",
    )
    parser.add_argument("file", metavar="FILE.mlir")
    _add_limits(parser)
    parser.set_defaults(run=run_run_checks)


def run_run_checks(args: argparse.Namespace) -> int:
    """Check, and print how each function did."""
    return _report(
        ext.program_checks.program_suite.run_checks(
            Path(args.file), args.target, jobs=args.jobs, limit_s=args.limit
        )
    )


def add_check_programs(commands: argparse._SubParsersAction) -> None:
    """Add the command ``check-programs``."""
    parser = commands.add_parser(
        "check-programs",
        help="build and run all programs of a folder, and compare",
        description="Build and run every NAME.mlir of a folder on in0, in1, ... of its NAME.npz,"
        " and compare with out0, out1, ... A NAME.json may set rtol, atol and skip, for all"
        ' results or for one: {"rtol": 1e-3, "out1": {"skip": true}}. Prints \'ok NAME\' or'
        " 'FAILED NAME: why' for each, then 'N passed, M failed'; the exit status is 1 when one"
        " failed.",
    )
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument(
        "--simulate", action="store_true", help="run kernels for a GPU on the simulator"
    )
    parser.add_argument(
        "--emulate", action="store_true", help="execute the machine code of kernels for a GPU"
    )
    parser.add_argument(
        "--passes",
        action="store_true",
        help="check every access of kernels, after the schedule and after each pass that moves,"
        " shares or retypes storage; buffers begin as noise. Those of a GPU need --simulate",
    )
    parser.add_argument(
        "--guard",
        action="store_true",
        help="put the arrays and workspaces of a CPU's kernels beside pages that cannot be touched",
    )
    _add_limits(parser)
    parser.set_defaults(run=run_check_programs)


def run_check_programs(args: argparse.Namespace) -> int:
    """Check, and print how each program did."""
    return _report(
        ext.program_checks.program_suite.check_programs(
            args.folder,
            args.target,
            simulate=args.simulate,
            passes=args.passes,
            guard=args.guard,
            emulate=args.emulate,
            jobs=args.jobs,
            limit_s=args.limit,
        )
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-j",
        "--jobs",
        type=count_from(1),
        default=1,
        metavar="N",
        help="how many run at once, each in a process of its own (default: %(default)s)",
    )
    parser.add_argument(
        "--limit",
        type=count_from(1),
        default=60,
        metavar="SECONDS",
        help="what one may take, from reading to comparing (default: %(default)s)",
    )
    parser.add_argument(
        "--target", default="llvm", metavar="T", help="one that runs here (default: %(default)s)"
    )


def _report(outcomes: Iterable[Any]) -> int:
    done = []
    for outcome in outcomes:
        print(outcome, flush=True)
        done.append(outcome)
    print(ext.program_checks.program_suite.summary(done))
    return 0 if all(outcome.passed for outcome in done) else 1
