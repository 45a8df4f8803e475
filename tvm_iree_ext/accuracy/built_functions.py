"""Our functions, built from MLIR's math dialect and from Relax: one program for many of them."""

from collections.abc import Callable, Sequence

import numpy as np
from tvm import ir, relax, tirx

from tvm_iree_ext.accuracy.functions import MathFunction
from tvm_iree_ext.base.dtypes import mlir_name
from tvm_iree_ext.base.errors import AccuracyError
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.programs.relax_import.from_relax import from_relax
from tvm_iree_ext.targets.names import TargetLike, make_target

_RELAX = "relax."


def built_functions(
    functions: Sequence[MathFunction], dtype: str, target: TargetLike = "llvm"
) -> dict[str, Callable[..., np.ndarray]]:
    """By name, what computes functions of arrays of any length of a type.

    Raises:
        AccuracyError: for a target that is no CPU, whose results nobody can look at here.
        TargetError: for one that is not known.
    """
    resolved = make_target(target)
    if resolved.kind.name != "llvm":
        raise AccuracyError(
            f"accuracy: target {resolved.kind.name!r} does not run here; expected llvm"
        )
    neural = [function for function in functions if function.source.startswith(_RELAX)]
    others = [function for function in functions if function not in neural]
    programs = []
    if others:
        text = "\n".join(_mlir_text(function, mlir_name(dtype)) for function in others)
        programs.append(build_program(import_program(text), resolved))
    if neural:
        programs.append(build_program(from_relax(_relax_module(neural, dtype)), resolved))
    return {name: program[name] for program in programs for name in program}


def _mlir_text(function: MathFunction, element: str) -> str:
    names = [f"%x{place}" for place in range(function.operands)]
    parameters = ", ".join(f"{name}: tensor<?x{element}>" for name in names)
    return (
        f"func.func @{function.name}({parameters}) -> tensor<?x{element}> {{\n"
        f"  %result = {function.source} {', '.join(names)} : tensor<?x{element}>\n"
        f"  return %result : tensor<?x{element}>\n}}"
    )


def _relax_module(functions: Sequence[MathFunction], dtype: str) -> ir.IRModule:
    builder = relax.BlockBuilder()
    for function in functions:
        x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"),), dtype))
        operator = relax.op
        for part in function.source.removeprefix(_RELAX).split("."):
            operator = getattr(operator, part)
        with builder.function(function.name, [x], attrs={"global_symbol": function.name}):
            with builder.dataflow():
                result = builder.emit_output(builder.normalize(operator(x)))
            builder.emit_func_output(result)
    return builder.get()
