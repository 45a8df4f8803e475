"""The pass that puts checks into a function: of every index, and noise into every new buffer.

Prefetches may name any address.  Masked loads and stores of vectors are as they were: which lanes
touch memory is theirs to say.
"""

import functools
import operator
from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx
from tvm.ir import TensorLoad
from tvm.target import codegen as llvm

from tvm_iree_ext.access_checks.check_library import INDEX, NOISE, number_of
from tvm_iree_ext.codegen.cpu.prefetch_levels import PREFETCH

_EXTERN = ir.Op.get("tirx.call_extern")
_ADDRESS_OF = ir.Op.get("tirx.address_of")
_MASKED = "tvm_iree_ext_compress_"
_INTRINSIC = ir.Op.get("tirx.call_llvm_intrin")


@tirx.transform.prim_func_pass(opt_level=0, name="tvm_iree_ext.check_accesses")
def check_accesses(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Check every index of a function whose blocks are lowered, and fill its buffers with noise."""
    prefetch = llvm.llvm_lookup_intrinsic_id(PREFETCH)

    def load(node: Any, mutator: Any) -> Any:
        indices = [mutator.mutate(index) for index in node.indices]
        return tirx.BufferLoad(node.source, _checked(node.source, indices, "the load", node))

    def store(node: Any, mutator: Any) -> Any:
        indices = [mutator.mutate(index) for index in node.indices]
        value = mutator.mutate(node.value)
        return tirx.BufferStore(
            node.buffer, value, _checked(node.buffer, indices, "the store to", node)
        )

    def call(node: Any, mutator: Any) -> Any:
        if node.op.same_as(_INTRINSIC) and int(node.args[0]) == prefetch:
            return node
        if _is_masked(node):
            arguments = [one if _is_address(one) else mutator.mutate(one) for one in node.args]
            return ir.Call(node.op, arguments, ret_ty=node.ty)
        return mutator.default_mutate(node)

    def sequence(node: Any, mutator: Any) -> Any:
        statements: list[Any] = []
        for statement in node.seq:
            statements.append(mutator.mutate(statement))
            if isinstance(statement, tirx.AllocBuffer):
                statements.append(_noise(statement.buffer))
        return tirx.SeqStmt(statements)

    handlers = [(TensorLoad, load), (tirx.BufferStore, store), (ir.Call, call)]
    body = tvm_ffi.structural_mutate(func.body, [*handlers, (tirx.SeqStmt, sequence)])
    return func.with_body(body)


@tirx.transform.prim_func_pass(opt_level=0, name="tvm_iree_ext.check_indices")
def check_indices(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Check every index of buffers of several dimensions, which a flat one forgets.

    Of those of one dimension the simulator checks them.
    """

    def load(node: Any, mutator: Any) -> Any:
        indices = [mutator.mutate(index) for index in node.indices]
        if len(indices) > 1:
            indices = _checked(node.source, indices, "the load", node)
        return tirx.BufferLoad(node.source, indices)

    def store(node: Any, mutator: Any) -> Any:
        indices = [mutator.mutate(index) for index in node.indices]
        value = mutator.mutate(node.value)
        if len(indices) > 1:
            indices = _checked(node.buffer, indices, "the store to", node)
        return tirx.BufferStore(node.buffer, value, indices)

    body = tvm_ffi.structural_mutate(func.body, [(TensorLoad, load), (tirx.BufferStore, store)])
    return func.with_body(body)


def _is_masked(call: Any) -> bool:
    """Whether a call is of one of our functions that touch the lanes of a mask, by its address."""
    return call.op.same_as(_EXTERN) and str(call.args[0].value).startswith(_MASKED)


def _is_address(value: Any) -> bool:
    return isinstance(value, ir.Call) and value.op.same_as(_ADDRESS_OF)


def _checked(buffer: Any, indices: Sequence[Any], what: str, node: Any) -> list[Any]:
    """The indices, each of which is one that the buffer has, or is noted.

    Zeros before the last index: the buffer is seen as one row.
    """
    text = ", ".join(str(index) for index in node.indices)
    access = f"{what} {buffer.name}[{text}]"
    extents = [tirx.Cast("int64", extent) for extent in buffer.ty.shape]
    if all(isinstance(index, tirx.IntImm) and int(index) == 0 for index in indices[:-1]):
        extents[-1:] = [functools.reduce(operator.mul, extents)] if extents else []
    return [
        _checked_index(index, extent, access)
        for index, extent in zip(indices, extents, strict=True)
    ]


def _checked_index(index: Any, extent: Any, access: str) -> Any:
    if isinstance(index, tirx.Broadcast):
        return tirx.Broadcast(_checked_index(index.value, extent, access), index.lanes)
    if isinstance(index, tirx.Ramp):
        span = index.stride * (index.lanes - 1)
        return tirx.Ramp(_call(index.base, span, extent, access), index.stride, index.lanes)
    if DataType(str(index.ty.dtype)).lanes > 1:  # lanes of any places
        return index
    return _call(index, 0, extent, access)


def _call(index: Any, span: Any, extent: Any, access: str) -> Any:
    if all(isinstance(each, int | tirx.IntImm) for each in (index, span, extent)):
        first, last = int(index), int(index) + int(span)
        if first >= 0 and last < int(extent):
            return index
    number = tirx.const(number_of(access), "int64")
    arguments = [tirx.Cast("int64", one) for one in (index, span, extent)]
    return tirx.Cast(str(index.ty.dtype), tirx.call_extern("int64", INDEX, *arguments, number))


def _noise(buffer: Any) -> Any:
    element = DataType(str(buffer.dtype))
    count: Any = tirx.const((element.bits * element.lanes + 7) // 8, "int64")
    for extent in buffer.shape:
        count = count * tirx.Cast("int64", extent)
    return tirx.Evaluate(tirx.call_extern("void", NOISE, buffer.data, count))
