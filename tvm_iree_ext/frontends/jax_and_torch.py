"""From a live JAX function or PyTorch module to a built program, through IREE's front ends.

JAX lowers to StableHLO and PyTorch's exporter to the torch dialect; IREE's compiler brings either
to the dialects that :mod:`tvm_iree_ext.mlir` imports.  The frameworks are imported when they are
asked for: ``pip install 'tvm-iree-ext[jax]'``, ``pip install 'tvm-iree-ext[pytorch]'``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.base.garbage import collector_at_rest
from tvm_iree_ext.frontends import torch_export, torch_weights
from tvm_iree_ext.frontends.iree_compiler import NOT_LOWERED, lower
from tvm_iree_ext.frontends.jax_constants import text_beside_constants
from tvm_iree_ext.frontends.jax_lapack import without_lapack
from tvm_iree_ext.frontends.mhlo_text import as_stablehlo
from tvm_iree_ext.frontends.stablehlo_complex import complex_operations
from tvm_iree_ext.frontends.stablehlo_extremes import exact_extremes
from tvm_iree_ext.frontends.stablehlo_forms import taken_forms
from tvm_iree_ext.frontends.stablehlo_transforms import declared_transforms
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.mlir.importing.boundary import Boundary, Given
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.mlir.reading import form, reader
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.runtime.program import Program
from tvm_iree_ext.targets.names import TargetLike

_PRODUCT = re.compile(
    r"stablehlo\.(dot_general|dot|convolution)\b.*:"
    r" \(tensor<(?:[\d?]+x)*(ui\d+)>, tensor<(?:[\d?]+x)*ui\d+>\) -> tensor<(?:[\d?]+x)*(\w+)>"
)
_WIDENED = re.compile(
    r"(%\w+) = (?:stablehlo\.convert |\"stablehlo\.convert\"\()(%[\w#]+)\)?"  # pretty, or generic
    r" : \(tensor<((?:[\d?]+x)*)(i1|ui8|ui16|ui32)>\) -> tensor<(?:[\d?]+x)*(\w+)>"
)


@collector_at_rest()
def from_jax(
    function: Any,
    *examples: Any,
    target: TargetLike = "llvm",
    folder: Path | str | None = None,
    donate_argnums: int | Sequence[int] = (),
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
        target: see :mod:`tvm_iree_ext.targets.names`; by default this machine's CPU.
        folder: where to write the artifact; by default the cache keeps it.
        donate_argnums: as of ``jax.jit``: arguments in whose memory a call writes results of
            their types, on a CPU.
        named: keyword arguments to trace with.

    Raises:
        MlirError: where JAX or IREE is not installed, or the program holds what is not supported.
        ExtError: as :func:`tvm_iree_ext.programs.program_build.build_program`.
    """
    imported = import_jax(function, *examples, donate_argnums=donate_argnums, **named)
    return build_program(imported, target, folder=folder)


@collector_at_rest()
def import_jax(
    function: Any, *examples: Any, donate_argnums: int | Sequence[int] = (), **named: Any
) -> Imported:
    """The same, imported and not built."""
    reader.start_early()
    lowered = function
    if not hasattr(function, "as_text"):
        try:
            import jax
        except ImportError as error:
            raise _absent("JAX", "jax", error) from None
        if not hasattr(function, "lower"):
            jitted = jax.jit(function, donate_argnums=donate_argnums)
        elif donate_argnums == ():
            jitted = function
        else:
            raise MlirError("donate_argnums is an option of jax.jit; give it there")
        lowered = jitted.lower(*examples, **named)
    elif examples or named or donate_argnums != ():
        raise MlirError("what is lowered already takes no arguments to trace with")
    text, constants = text_beside_constants(lowered)
    _refuse_unsigned_products(text)
    text = _taken(text)
    return import_written(_writes(text), "stablehlo", _boundaries_of_jax(lowered), constants)


def _boundaries_of_jax(lowered: Any) -> Mapping[str, Boundary] | None:
    """Types at the boundary of a lowered function's calls; None for what does not tell.

    JAX leaves out of the IR the arguments that nothing reads.
    """
    try:
        kept = lowered._lowering.compile_args["kept_var_idx"]
    except (AttributeError, KeyError, TypeError):
        return None
    import jax

    def plain(one: Any) -> Any:
        """An array, or what stands for one: a key's data."""
        if not jax.dtypes.issubdtype(one.dtype, jax.dtypes.prng_key):
            return one
        key = jax.ShapeDtypeStruct(one.shape, one.dtype)
        return jax.eval_shape(jax.random.key_data, key)

    def kind(one: Any) -> form.ParsedTensorType | None:
        is_array = not jax.dtypes.issubdtype(one.dtype, jax.dtypes.extended)
        return form.ParsedTensorType(one.shape, str(one.dtype)) if is_array else None

    leaves, results = (
        [plain(one) for one in jax.tree_util.tree_leaves(infos)]
        for infos in (lowered.args_info, lowered.out_info)
    )
    arguments = [Given(kind(one), place in kept) for place, one in enumerate(leaves)]
    return {"main": Boundary(tuple(arguments), tuple(str(one.dtype) for one in results))}


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
        raise _absent("iree-turbine", "pytorch", error) from None
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
            return _writes(rewritten(text))(place)
        path = place / "module.mlirbc"
        output.save_mlir(path)
        return path

    boundary = torch_export.boundary(exported)
    name = options.get("function_name") or "main"
    return import_written(write, "torch", {name: boundary} if boundary else None, weights)


def import_lowered(
    source: str | bytes | os.PathLike[str], dialect: Literal["stablehlo", "torch"]
) -> Imported:
    """Import a module of a framework's dialect; mhlo is taken for today's StableHLO.

    Args:
        source: a path, or a ``str`` that ends in ``.mlir`` or ``.mlirbc``: a file of MLIR's text
            or bytecode; any other ``str`` or ``bytes``: the text or bytecode itself.
        dialect: ``stablehlo`` or ``torch``.

    Raises:
        MlirError: for what IREE does not bring to the dialects that are imported, and as
            :func:`tvm_iree_ext.mlir.from_file.import_program`.
    """
    module = reader.text_of(source)
    if module.startswith(form.BYTECODE):
        return import_written(_writes(module), dialect)
    text = module.decode("utf-8", "surrogateescape")
    if dialect == "stablehlo":
        text = as_stablehlo(text)
    _refuse_unsigned_products(text)
    text = _taken(text)
    module = text.encode("utf-8", "surrogateescape")
    return import_written(_writes(module), dialect, name=reader.name_of(source))


def _refuse_unsigned_products(text: str) -> None:
    """Refuse what IREE lowers wrongly: it widens the factors of products as if they were signed.

    Raises:
        MlirError: for a product of unsigned integers that has another element type.
    """
    for name, given, result in _PRODUCT.findall(text):
        if result != given:
            raise MlirError(
                f"stablehlo.{name} of {given} to {result}: IREE takes the factors for signed;"
                " convert them to the result's type before"
            )


def _taken(text: str) -> str:
    """The text of a module in forms that IREE's front end takes and computes rightly."""
    text = _widened_by_signed(without_lapack(text))
    return declared_transforms(complex_operations(taken_forms(exact_extremes(text))))


def _widened_by_signed(text: str) -> str:
    """The program with bools and unsigned integers converted by way of a signed type.

    IREE takes a conversion into a product that reads it, and there its operand for signed.  It
    leaves one of a type that not all values of would survive: the type in between is such.
    """

    def twice(found: re.Match[str]) -> str:
        result, given, shape, narrow, wide = found.groups()
        if wide in ("i64", "ui64"):
            between = "f64"
        else:
            between = "i64" if narrow == "ui32" or wide in ("i32", "ui32", "f64") else "i32"
        name, kind = f"%signed_{result[1:]}", f"tensor<{shape}{between}>"
        return (
            f"{name} = stablehlo.convert {given} : (tensor<{shape}{narrow}>) -> {kind}\n"
            f"{result} = stablehlo.convert {name} : ({kind}) -> tensor<{shape}{wide}>"
        )

    return _WIDENED.sub(twice, text)


def _writes(text: str | bytes) -> Callable[[Path], Path]:
    """A function that writes a text into a folder."""

    def write(place: Path) -> Path:
        path = place / "module.mlir"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def import_written(
    write: Callable[[Path], Path],
    dialect: str,
    boundaries: Mapping[str, Boundary] | None = None,
    parameters: Mapping[str, np.ndarray] | None = None,
    name: str | None = None,
) -> Imported:
    """Import what is written in a framework's dialect.

    Of its functions those that have boundaries, where any has.

    ``name`` is what messages call the text, where it has no places of a program's source.  Running
    sums may be bracketed and values of 16 bits be kept in float32, as the frameworks do.
    """
    with scratch() as place:
        lowered = lower(write(place), dialect, name)
    imported = import_program(
        lowered,
        only=boundaries,
        boundaries=boundaries,
        parameters=parameters,
        scans_in_order=False,
    )
    return replace(imported, excess_precision=True)


def _absent(what: str, extra: str, error: ImportError) -> MlirError:
    return MlirError(f"{what} is not installed: {error}; pip install 'tvm-iree-ext[{extra}]'")
