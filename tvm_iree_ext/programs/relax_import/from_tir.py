"""Functions of TE and TensorIR as programs: what each stores to are the results of a call."""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, relax, s_tir, te, tirx

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.programs.base.relax_passes import variables_of
from tvm_iree_ext.programs.relax_import.from_relax import from_relax
from tvm_iree_ext.tir.tensor_scalars import with_tensor_scalars


def from_tensors(tensors: Sequence[te.Tensor]) -> Imported:
    """The program of tensors of TE: operands and results, as ``te.create_prim_func`` takes them.

    Raises:
        BuildError: as :func:`from_functions`, and for tensors that TVM makes no function of.
    """
    try:
        function = te.create_prim_func(list(tensors))
    except (RuntimeError, ValueError, TypeError) as error:  # TVM's checks raise all three
        raise BuildError(f"TVM makes no function of the tensors: {error}") from error
    return from_functions({"main": function})


def from_functions(functions: Mapping[str, tirx.PrimFunc]) -> Imported:
    """The program of functions by their names, each of which can be called.

    Operands are the buffers that a function reads alone, and its scalars; results those that it
    writes.  Extents follow from the operands: a parameter that is one is no operand.

    Raises:
        BuildError: for a function that writes none of its parameters, or reads one before it
            writes it, and for extents of a result that follow from no operand.
    """
    builder = relax.BlockBuilder()
    suffix = "_loops"  # of the functions that are called, none of which has a caller's name
    while any(name.endswith(suffix) for name in functions):
        suffix += "_"
    for name, function in functions.items():
        _add(builder, name, function, suffix)
    return from_relax(builder.get(), "module" if len(functions) > 1 else next(iter(functions)))


def _add(builder: relax.BlockBuilder, name: str, function: tirx.PrimFunc, suffix: str) -> None:
    """A function of Relax that calls a function."""
    function = _with_tensors(function)
    results = _written(name, function)
    operands = [one for one in function.params if one not in results]
    extents: dict[ir.Var, Any] = {}
    for operand in operands:
        for var in variables_of(list(operand.ty.shape)):
            extents.setdefault(var, tirx.Var(var.name, "int64"))
    given = [relax.Var(one.name, _type(one, extents)) for one in operands]
    for result in results:
        for var in variables_of(list(result.ty.shape)):
            if var not in extents:
                raise BuildError(
                    f"{name}: an extent of {result.name} is {var.name}, which no operand has"
                )
    types = [_type(one, extents) for one in results]
    private = tirx.PrimFunc([*operands, *results], function.body, attrs=function.attrs)
    private = private.without_attr("global_symbol")
    with builder.function(name, given, attrs={"global_symbol": name}):
        with builder.dataflow():
            var = builder.add_func(private, f"{name}{suffix}")
            result = builder.emit_output(relax.call_tir(var, given, types))
        builder.emit_func_output(result)


def _type(buffer: ir.Var, extents: Mapping[ir.Var, Any]) -> relax.TensorType:
    """The type of a buffer as Relax has it, whose extents are 64 bits wide."""

    def wide(extent: Any) -> Any:
        if isinstance(extent, tirx.IntImm):
            return int(extent)
        named = tvm_ffi.structural_map(extent, (ir.Var, lambda var: extents.get(var, var)))
        return named if str(named.ty.dtype) == "int64" else tirx.Cast("int64", named)

    return relax.TensorType([wide(one) for one in buffer.ty.shape], str(buffer.ty.dtype))


def _with_tensors(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with a tensor of rank 0 for each scalar, and without extents among these."""
    buffers = [one for one in function.params if isinstance(one.ty, tirx.BufferType)]
    extents = {var for one in buffers for var in variables_of(list(one.ty.shape))}
    scalars = {
        one.name: str(one.ty.dtype)
        for one in function.params
        if one not in buffers and one not in extents
    }
    made = with_tensor_scalars(function, scalars)
    kept = [one for one in made.params if one not in extents]
    return tirx.PrimFunc(kept, made.body, attrs=function.attrs)


def _written(name: str, function: tirx.PrimFunc) -> list[ir.Var]:
    """The parameters that a function writes, none of which it reads before."""
    written: dict[ir.Var, None] = {}
    read: dict[ir.Var, None] = {}

    def block(one: s_tir.SBlock) -> None:
        if one.init is not None:  # which is run before the body
            tvm_ffi.structural_walk(one.init, (tirx.BufferStore, store), order="pre")

    def store(one: tirx.BufferStore) -> None:
        tvm_ffi.structural_walk([one.value, *one.indices], (ir.TensorLoad, load))
        written.setdefault(one.buffer)

    def load(one: ir.TensorLoad) -> None:
        if one.source not in written:
            read.setdefault(one.source)

    tvm_ffi.structural_walk(
        function.body,
        [(s_tir.SBlock, block), (tirx.BufferStore, store), (ir.TensorLoad, load)],
        order="pre",
    )
    results = [one for one in function.params if one in written]
    if not results:
        raise BuildError(f"{name} writes none of its parameters, so that it has no result")
    for one in results:
        if one in read:
            raise BuildError(
                f"{name} reads {one.name} before it writes it; expected operands that are read"
                " alone, and results"
            )
    return results
