"""Functions of TE and TensorIR as programs: what each stores to are the results of a call."""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, relax, te, tirx
from tvm_ffi import structural_equal

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.programs.base.relax_passes import variables_of
from tvm_iree_ext.programs.relax_import.from_relax import from_relax
from tvm_iree_ext.schedules.shared.loops.loops_nests import LoopNest, loads_of, nests_of
from tvm_iree_ext.tir.tensor_scalars import with_tensor_scalars
from tvm_iree_ext.tir.tir_expressions import known


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
        BuildError: for a function that writes none of its parameters, or not all of one, or reads
            one before it writes it; for what is not nests of loops; and for extents of a result
            that follow from no operand.
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
    function = _with_tensors(name, function)
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


def _with_tensors(name: str, function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with a tensor of rank 0 for each scalar, and without extents among these."""
    buffers = [one for one in function.params if isinstance(one.ty, tirx.BufferType)]
    for one in function.params:
        if one not in buffers and not isinstance(one.ty, ir.PrimType):
            raise BuildError(f"{name}: {one.name} is a pointer; expected buffers and numbers")
    extents = {var for one in buffers for var in variables_of(list(one.ty.shape))}
    scalars = {
        one.name: str(one.ty.dtype)
        for one in function.params
        if one not in buffers and one not in extents
    }
    bounds = {var for loop in _loops(function) for var in variables_of(loop.extent)}
    for one in function.params:
        if one.name in scalars and one in bounds:
            raise BuildError(
                f"{name}: {one.name} bounds a loop and is no extent of an operand; expected bounds"
                " that the operands tell"
            )
    made = with_tensor_scalars(function, scalars)
    kept = [one for one in made.params if one not in extents]
    return tirx.PrimFunc(kept, made.body, attrs=function.attrs)


def _loops(function: tirx.PrimFunc) -> list[tirx.For]:
    found: list[tirx.For] = []
    tvm_ffi.structural_walk(function.body, (tirx.For, found.append))
    return found


def _written(name: str, function: tirx.PrimFunc) -> list[ir.Var]:
    """The parameters that a function writes: each element, and before it reads any.

    A call has new memory for its results, of which nothing else may be seen.
    """
    stored: dict[ir.Var, None] = {}
    tvm_ffi.structural_walk(
        function.body, (tirx.BufferStore, lambda one: stored.setdefault(one.buffer))
    )
    results = [one for one in function.params if one in stored]
    if not results:
        raise BuildError(f"{name} writes none of its parameters, so that it has no result")
    form = nests_of(function)
    if form is None:
        raise BuildError(
            f"{name} is not loops in order around blocks without a predicate; expected such, of"
            " which it can be told that results are written whole"
        )
    whole: set[ir.Var] = set()
    for nest in form.nests:
        begun = whole | {one.buffer for one in nest.init}
        for value in nest.values():
            for source in loads_of(value):
                if source in results and source not in begun:
                    raise BuildError(
                        f"{name} reads {source.name} before it writes it; expected operands that"
                        " are read alone, and results"
                    )
        whole |= {one.buffer for one in nest.stores if _is_whole(one, nest)}
    for one in results:
        if one not in whole:
            raise BuildError(
                f"{name} does not write all of {one.name} in one nest of loops; expected results"
                " that are written whole"
            )
    return results


def _is_whole(store: tirx.BufferStore, nest: LoopNest) -> bool:
    """Whether a store goes to each element of its buffer."""
    extents = {axis.var: axis.extent for axis in nest.spatial}
    for index, extent in zip(store.indices, store.buffer.ty.shape, strict=True):
        if known(index) == 0 and known(extent) == 1:
            continue
        loop = extents.pop(index, None) if isinstance(index, ir.Var) else None
        if loop is None or not _is_same(loop, extent):
            return False
    return True


def _is_same(a: Any, b: Any) -> bool:
    numbers = known(a), known(b)
    return numbers[0] == numbers[1] if None not in numbers else structural_equal(a, b)
