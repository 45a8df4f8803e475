"""``tvm-iree-ext run``: an artifact, or a program of MLIR or ONNX, on arrays of a file."""

import argparse
from pathlib import Path
from typing import Any

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import CallError, MlirError, RecordError
from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.cli.operands import UsageError

SUFFIXES = (".mlir", ".mlirbc")
"""Suffixes of MLIR files, which tell them from ops and artifacts."""

ONNX = ".onnx"
EXPORTED = ".pt2"
PROGRAMS = (*SUFFIXES, ONNX, EXPORTED)
"""Suffixes of all files that become programs."""

ARRAYS = "an .npz with in0, in1, ... or arrays by the names of the arguments"


def add_run(commands: argparse._SubParsersAction) -> None:
    """Add the command ``run``."""
    parser = commands.add_parser(
        "run",
        help="run a program or an artifact on the arrays of a file",
        description="Run an artifact, or a file of MLIR, ONNX or PyTorch that is built first. With"
        " --check, the results are compared with out0, out1, ... of the same file at the tolerance"
        " of their element types; the exit status is 1 when one is wrong.",
    )
    parser.add_argument("program", metavar="DIR|FILE.mlir|FILE.onnx|FILE.pt2")
    add_input(parser)
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
    name, function = find_function(args.program, args.function, args.input)
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


def add_input(parser: argparse.ArgumentParser) -> None:
    """Add ``--input``: which dialect a file of MLIR is in."""
    parser.add_argument(
        "--input",
        choices=("stablehlo", "torch"),
        help="the front end's dialect of FILE.mlir, which IREE's compiler lowers first; mhlo is"
        " today's stablehlo (default: what is imported as it is)",
    )


def imported_file(file: str, dialect: Any) -> Any:
    """A file of MLIR, ONNX or PyTorch, imported."""
    if file.endswith((ONNX, EXPORTED)):
        if dialect is not None:
            raise UsageError(f"--input says in which dialect a FILE.mlir is; {file} is none")
        if file.endswith(ONNX):
            return ext.frontends.import_onnx(Path(file))
        return ext.frontends.import_torch(ext.frontends.read_exported(file))
    if dialect is None:
        return ext.mlir.import_program(Path(file))
    return ext.frontends.import_lowered(Path(file), dialect)


def find_function(program: str, name: str | None, dialect: str | None = None) -> tuple[str, Any]:
    """A function to be called, of an artifact or a file, and its name."""
    loaded: Any
    if program.endswith(PROGRAMS) or Path(program).is_file():
        loaded = ext.build_program(imported_file(program, dialect))
    elif dialect is not None:
        raise MlirError(f"--input says in which dialect a FILE.mlir is; {program} is an artifact")
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


def arguments_of(name: str, signature: Any, inputs: str | None) -> list[Any]:
    """Arguments of a function from a file of arrays, or noise where none is named."""
    if inputs is None:
        return list(ext.program_checks.noise(name, signature))
    arrays = ext.program_checks.read_arrays(inputs)
    return list(ext.program_checks.arguments(name, signature, arrays))
