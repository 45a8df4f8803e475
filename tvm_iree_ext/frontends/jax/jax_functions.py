"""From a live JAX function to a built program, by way of StableHLO and IREE's front end.

JAX is imported when it is asked for: ``pip install 'tvm-iree-ext[jax]'``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.base.garbage import collector_at_rest
from tvm_iree_ext.frontends.base.written_modules import absent, import_written, writes
from tvm_iree_ext.frontends.jax.jax_constants import text_beside_constants
from tvm_iree_ext.frontends.stablehlo.stablehlo_text import taken_text
from tvm_iree_ext.mlir.importing.boundary import Boundary, Given
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.mlir.reading import form, reader
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.runtime.program import Program
from tvm_iree_ext.targets.names import TargetLike


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
            raise absent("JAX", "jax", error) from None
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
    write = writes(taken_text(text))
    return import_written(write, "stablehlo", _boundaries_of_jax(lowered), constants)


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
