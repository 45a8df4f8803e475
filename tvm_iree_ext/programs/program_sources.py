"""What a program can be made of: one place for all that ``build`` and its like take."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from tvm import ir, te, tirx

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.programs.base.relax_passes import prim_functions, relax_functions
from tvm_iree_ext.programs.relax_import.from_relax import from_relax
from tvm_iree_ext.programs.relax_import.from_tir import from_functions, from_tensors

ProgramLike: TypeAlias = Imported | ir.IRModule | tirx.PrimFunc | Sequence[te.Tensor]
"""What was imported, a module of Relax or TensorIR, a function, or TE's operands and results."""


def program_of(source: Any) -> Imported:
    """The program of what a caller gave.

    Raises:
        BuildError: for anything else than :data:`ProgramLike`, and as those that read it.
    """
    if isinstance(source, Imported):
        return source
    if isinstance(source, ir.IRModule):
        public = {
            str(function.attrs["global_symbol"]): function
            for function in prim_functions(source).values()
            if "global_symbol" in (function.attrs or {})
        }
        alone = public and not relax_functions(source)
        return from_functions(public) if alone else from_relax(source)
    if isinstance(source, tirx.PrimFunc):
        name = str((source.attrs or {}).get("global_symbol", "main"))
        return from_functions({name: source})
    if isinstance(source, list | tuple) and source:
        if all(isinstance(one, te.Tensor) for one in source):
            return from_tensors(source)
        source = next(one for one in source if not isinstance(one, te.Tensor))
        raise BuildError(f"a list holds {type(source).__name__}; expected tensors of TE alone")
    raise BuildError(
        "expected a program, a module of Relax or TensorIR, a PrimFunc, tensors of TE, or, for"
        f" build, an op of tvm_iree_ext.ops; {type(source).__name__} came"
    )
