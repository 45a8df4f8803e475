"""``tvm-iree-ext import``, ``run``, ``run-checks``, ``check-programs``: programs of MLIR."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import CallError, RecordError
from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.cli.parser import count_from

SUFFIXES = (".mlir", ".mlirbc")
"""Suffixes of MLIR files, which tell them from ops and artifacts."""

ARRAYS = "an .npz with in0, in1, ... or arrays by the names of the arguments"


def add_import(commands: argparse._SubParsersAction) -> None:
    """Add the command ``import``."""
    parser = commands.add_parser(
        "import",
        help="show what a program of MLIR becomes",
        description="Read and import a file of MLIR, as IREE's front ends make it; list its"
        " functions with their types.",
    )
    parser.add_argument("file", metavar="FILE.mlir")
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
    imported = ext.mlir.import_program(Path(args.file))
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


def add_run(commands: argparse._SubParsersAction) -> None:
    """Add the command ``run``."""
    parser = commands.add_parser(
        "run",
        help="run a program or an artifact on the arrays of a file",
        description="Run an artifact, or a file of MLIR that is built first. With --check, the"
        " results are compared with out0, out1, ... of the same file at the tolerance of their"
        " element types; the exit status is 1 when one is wrong.",
    )
    parser.add_argument("program", metavar="DIR|FILE.mlir")
    parser.add_argument("--inputs", metavar="FILE.npz", help=ARRAYS)
    parser.add_argument("--function", metavar="NAME", help="default: the only one, or main")
    parser.add_argument("--check", action="store_true", help="compare the results with out0, ...")
    parser.add_argument("-o", "--output", metavar="OUT.npz", help="write the results there")
    parser.set_defaults(run=run_run)


def run_run(args: argparse.Namespace) -> int:
    """Run, compare, write."""
    if args.check and args.inputs is None:
        raise RecordError("--check compares with the results in the file of --inputs; name one")
    arrays = {} if args.inputs is None else ext.program_checks.read_arrays(args.inputs)
    name, function = find_function(args.program, args.function)
    returned = function(*ext.program_checks.arguments(name, function.signature, arrays))
    results = returned if isinstance(returned, tuple) else (returned,)
    if args.output is not None:
        ext.program_checks.write_arrays(args.output, results)
    for place, operand in enumerate(function.signature.results):
        shape = ", ".join(map(str, results[place].shape))
        print(f"out{place}: {operand.dtype}[{shape}]")
    if not args.check:
        return 0
    wrong = ext.program_checks.differences(function.signature, results, arrays)
    print("\n".join(wrong) or "all results are as recorded")
    return 1 if wrong else 0


def find_function(program: str, name: str | None) -> tuple[str, Any]:
    """A function to be called, of an artifact or a file, and its name."""
    loaded: Any
    if program.endswith(SUFFIXES) or Path(program).is_file():
        loaded = ext.build_program(ext.mlir.import_program(Path(program)))
    else:
        loaded = ext.load(program)
    if isinstance(loaded, ext.Kernel):
        if name is not None:
            raise CallError(f"{program} is the kernel of one op, and has no function {name!r}")
        return loaded.op, loaded
    if name is None:
        return loaded.main.name, loaded.main
    if name not in loaded:
        hint = did_you_mean(name, loaded)
        raise CallError(f"{program} has no function {name!r}; there are {', '.join(loaded)}{hint}")
    return name, loaded[name]


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
