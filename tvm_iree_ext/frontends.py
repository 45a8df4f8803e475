"""From a live JAX function or PyTorch module to a built program, through IREE's front ends.

JAX lowers to StableHLO and PyTorch's exporter to the torch dialect; IREE's compiler brings either
to the dialects that :mod:`tvm_iree_ext.mlir` imports.  The frameworks are imported when they are
asked for: ``pip install 'tvm-iree-ext[jax]'``, ``pip install 'tvm-iree-ext[pytorch]'``.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tvm_iree_ext.errors import MlirError
from tvm_iree_ext.mlir.imported import Imported
from tvm_iree_ext.mlir.program import import_program
from tvm_iree_ext.program import Program
from tvm_iree_ext.program_builder import build_program
from tvm_iree_ext.target.names import TargetLike

_OF_TRACING = ("kwargs", "dynamic_shapes")  # options that are torch.export's
_FLOATS_OF_NUMPY = ("torch.float16", "torch.float32", "torch.float64")
_NOT_LOWERED = "IREE does not lower it:"
_MOST_LINES = 20  # of what the compiler complains


def from_jax(
    function: Any,
    *examples: Any,
    target: TargetLike = "llvm",
    folder: Path | str | None = None,
    **named: Any,
) -> Program:
    """Build a program of a JAX function.

    >>> program = from_jax(lambda x, w: jax.nn.relu(x @ w), x, w)   # doctest: +SKIP
    >>> y = program(x, w)                                           # doctest: +SKIP

    The program takes and gives the leaves of the function's arguments and results, in JAX's order.

    Args:
        function: a function, one of ``jax.jit``, or what its ``lower`` gave.
        examples: arguments to trace with: arrays, or ``jax.ShapeDtypeStruct``; none for what is
            lowered already.
        target: see :mod:`tvm_iree_ext.target.names`; by default this machine's CPU.
        folder: where to write the artifact; by default the cache keeps it.
        named: keyword arguments to trace with.

    Raises:
        MlirError: where JAX or IREE is not installed, or the program holds what is not supported.
        ExtError: as :func:`tvm_iree_ext.program_builder.build_program`.
    """
    return build_program(import_jax(function, *examples, **named), target, folder=folder)


def import_jax(function: Any, *examples: Any, **named: Any) -> Imported:
    """The same, imported and not built."""
    lowered = function
    if not hasattr(function, "as_text"):
        try:
            import jax
        except ImportError as error:
            raise _absent("JAX", "jax", error) from None
        jitted = function if hasattr(function, "lower") else jax.jit(function)
        lowered = jitted.lower(*examples, **named)
    elif examples or named:
        raise MlirError("what is lowered already takes no arguments to trace with")
    return import_lowered(lowered.as_text("stablehlo", debug_info=True), "stablehlo")


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
        target: see :mod:`tvm_iree_ext.target.names`; by default this machine's CPU.
        folder: where to write the artifact; by default the cache keeps it.
        options: of ``iree.turbine.aot.export``, such as ``dynamic_shapes``.

    Raises:
        MlirError: where PyTorch or IREE is not installed, or the program holds what is not
            supported.
        ExtError: as :func:`tvm_iree_ext.program_builder.build_program`.
    """
    return build_program(import_torch(module, *examples, **options), target, folder=folder)


def import_torch(module: Any, *examples: Any, **options: Any) -> Imported:
    """The same, imported and not built."""
    try:
        import torch
        from iree.turbine import aot
    except ImportError as error:
        raise _absent("iree-turbine", "pytorch", error) from None
    traced = module
    if isinstance(module, torch.nn.Module):
        tracing = {name: options.pop(name) for name in _OF_TRACING if name in options}
        tracing["strict"] = options.pop("strict_export", True)
        traced = torch.export.export(module, args=examples, **tracing)
        if decompositions := aot.decompositions.current_aot_decompositions():
            traced = traced.run_decompositions(decompositions)
    elif examples:
        raise MlirError("what is exported already takes no arguments to trace with")
    try:
        return _import_exported(traced, options)
    except MlirError as reason:
        if not str(reason).startswith(_NOT_LOWERED) or not hasattr(traced, "run_decompositions"):
            raise
        try:  # of fewer, simpler operators
            return _import_exported(traced.run_decompositions(_decompositions()), options)
        except MlirError:
            raise reason from None


def _import_exported(exported: Any, options: dict[str, Any]) -> Imported:
    from iree.turbine import aot

    with _weights_as_words(exported):
        output = aot.export(exported, **options)

    def write(place: Path) -> Path:
        path = place / "module.mlirbc"  # weights by their bytes
        output.save_mlir(path)
        return path

    return _import(write, "torch")


def _decompositions() -> Any:
    """PyTorch's operators by those of its core, less some of these that IREE does not lower."""
    import torch

    def squeezed(x: Any, dims: Sequence[int]) -> Any:
        gone = {dim % x.dim() for dim in dims if x.shape[dim] == 1}
        return x.reshape([extent for axis, extent in enumerate(x.shape) if axis not in gone])

    aten = torch.ops.aten
    normal = (aten._native_batch_norm_legit.no_stats, aten.native_group_norm)
    return {
        **torch.export.default_decompositions(),
        **torch._decomp.get_decompositions(normal),
        aten.squeeze.dims: squeezed,
    }


@contextmanager
def _weights_as_words(exported: Any) -> Iterator[None]:
    """Show weights of types that NumPy has not, such as bfloat16, to it as their words.

    ``iree.turbine`` takes the bytes of weights through NumPy.
    """
    import torch

    class Words(torch.Tensor):
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            word = torch.int16 if self.itemsize == 2 else torch.uint8
            return self.as_subclass(torch.Tensor).view(word).numpy()

    weights = {
        name: weight
        for name, weight in getattr(exported, "state_dict", {}).items()
        if weight.dtype.is_floating_point and str(weight.dtype) not in _FLOATS_OF_NUMPY
    }
    try:
        for name, weight in weights.items():
            words = weight.detach().as_subclass(Words)
            is_parameter = isinstance(weight, torch.nn.Parameter)
            exported.state_dict[name] = (
                torch.nn.Parameter(words, requires_grad=False) if is_parameter else words
            )
        yield
    finally:
        for name, weight in weights.items():
            exported.state_dict[name] = weight


def import_lowered(text: str | bytes, dialect: Literal["stablehlo", "torch"]) -> Imported:
    """Import a module of a framework's dialect, as text or bytecode.

    Raises:
        MlirError: for what IREE does not bring to the dialects that are imported, and as
            :func:`tvm_iree_ext.mlir.program.import_program`.
    """

    def write(place: Path) -> Path:
        path = place / "module.mlir"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return _import(write, dialect)


def _import(write: Callable[[Path], Path], dialect: str) -> Imported:
    try:
        from iree.compiler import tools
    except ImportError as error:
        raise _absent("IREE's compiler", "mlir", error) from None
    with tempfile.TemporaryDirectory(prefix="tvm_iree_ext-") as folder:
        place = Path(folder)
        result = place / "input.mlir"
        try:
            tools.compile_file(
                str(write(place)),
                input_type=dialect,
                output_file=str(result),
                output_format=tools.OutputFormat.MLIR_TEXT,
                extra_args=["--compile-to=input"],
            )
        except tools.CompilerToolError as error:
            said = str(error).partition("Diagnostics:")[2].partition("Invoked with:")[0]
            lines = [line for line in said.splitlines() if line.strip()][:_MOST_LINES]
            raise MlirError("\n".join([_NOT_LOWERED, *lines])) from None
        return import_program(result.read_bytes())


def _absent(what: str, extra: str, error: ImportError) -> MlirError:
    return MlirError(f"{what} is not installed: {error}; pip install 'tvm-iree-ext[{extra}]'")
