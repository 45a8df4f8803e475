"""From a live PyTorch module to a built program, by way of the torch dialect and IREE's front end.

PyTorch is imported when it is asked for: ``pip install 'tvm-iree-ext[pytorch]'``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.base.garbage import collector_at_rest
from tvm_iree_ext.frontends.base.iree_compiler import NOT_LOWERED
from tvm_iree_ext.frontends.base.written_modules import absent, import_written, writes
from tvm_iree_ext.frontends.torch import torch_export, torch_weights
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.mlir.reading import reader
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.runtime.program import Program
from tvm_iree_ext.targets.names import TargetLike


@collector_at_rest()
def from_torch(
    module: Any,
    *examples: Any,
    target: TargetLike = "llvm",
    folder: Path | str | None = None,
    **options: Any,
) -> Program:
    """Build a program of a PyTorch module; its weights become the program's constants.

    >>> program = from_torch(model.eval(), x)                       # doctest: +SKIP
    >>> y = program(x)                                              # doctest: +SKIP

    Args:
        module: a ``torch.nn.Module``, or what ``torch.export.export`` gave.
        examples: tensors to trace with; none for what is exported already.
        target: see :mod:`tvm_iree_ext.targets.names`; by default this machine's CPU.
        folder: where to write the artifact; by default the cache keeps it.
        options: of ``iree.turbine.aot.export``, such as ``dynamic_shapes``.

    Raises:
        MlirError: where PyTorch or IREE is not installed, or the program holds what is not
            supported.
        ExtError: as :func:`tvm_iree_ext.programs.program_build.build_program`.
    """
    return build_program(import_torch(module, *examples, **options), target, folder=folder)


@collector_at_rest()
@torch_export.without_own_deprecations()
def import_torch(module: Any, *examples: Any, **options: Any) -> Imported:
    """The same, imported and not built: its constants are the memory of the module's weights."""
    try:
        import torch  # noqa: F401
        from iree.turbine import aot  # noqa: F401
    except ImportError as error:
        raise absent("iree-turbine", "pytorch", error) from None
    reader.start_early()
    traced = torch_export.exported(module, examples, options)
    if torch_export.is_recurrent(traced):
        return _import_exported(torch_export.simpler(traced), options)
    try:
        return _import_exported(traced, options)
    except MlirError as reason:
        if not str(reason).startswith(NOT_LOWERED) or not hasattr(traced, "run_decompositions"):
            raise
        try:
            return _import_exported(torch_export.simpler(traced), options)
        except MlirError:
            raise reason from None


def _import_exported(exported: Any, options: dict[str, Any]) -> Imported:
    from iree.turbine import aot

    with torch_weights.beside(exported) as weights, torch_export.written(exported):
        try:
            output = aot.export(exported, **options)
        except (LookupError, TypeError, ValueError, RuntimeError, AssertionError) as error:
            what = f"{NOT_LOWERED} {type(error).__name__}: {error}"
            raise MlirError(what) from error

    def write(place: Path) -> Path:
        if rewritten := torch_export.rewritten_text(exported):
            text = output.mlir_module.get_asm(enable_debug_info=True)
            return writes(rewritten(text))(place)
        path = place / "module.mlirbc"
        output.save_mlir(path)
        return path

    boundary = torch_export.boundary(exported)
    name = options.get("function_name") or "main"
    return import_written(write, "torch", {name: boundary} if boundary else None, weights)
