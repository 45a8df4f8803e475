"""Checks inside a kernel of a caller's arrays, for faults that TVM's own checks let through.

TVM's entry code looks at dtypes, ranks, extents, strides and the device.  A guarded kernel asks
besides that no array is misaligned or empty, and that no result shares memory with another array.
So a caller that has nothing to convert need not look at the arrays at all.
"""

import itertools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tvm import DataType, ir, tirx

from tvm_iree_ext.base.signature import Operand, Signature

_HOMES = "tvm_iree_ext.homes"  # of the PrimFunc: for each parameter one of these, or a place
_MAY_BE_EMPTY = "tvm_iree_ext.may_be_empty"  # of the PrimFunc: whether each parameter may be
_SCALAR, _INPUT, _RESULT = -3, -2, -1
_UNION_VALUE = 15  # kTVMFFIAnyUnionValue of TVM's TVMStructFieldKind
_ANY_BYTES = 16  # of a TVMFFIAny


def guarded(mod: ir.IRModule, entry: str, signature: Signature) -> ir.IRModule:
    """The module, whose function ``entry`` is guarded when it is compiled.

    A result that may be written in place of an input may have that one's address.
    """
    names = [operand.name for operand in signature.operands]

    def home(operand: Operand) -> int:
        if operand.role != "result":
            return _SCALAR if operand.role == "scalar" else _INPUT
        return names.index(operand.in_place_of) if operand.in_place_of else _RESULT

    homes = [home(operand) for operand in signature.operands]
    zeros = {0, *signature.may_be_0}
    may_be_empty = [not zeros.isdisjoint(operand.shape) for operand in signature.operands]
    function = mod[entry].with_attrs({_HOMES: homes, _MAY_BE_EMPTY: may_be_empty})
    return ir.IRModule({**mod.functions, mod.get_global_var(entry): function}, attrs=mod.attrs)


def addresses(
    pointers: Sequence[Any],
    bind: Callable[[Any], Any],
    evaluate: Callable[[Any], Any],
) -> list[Any]:
    """Pointers as int64.

    TensorIR has no cast for that, so they are stored, and read as numbers.  LLVM believes what
    parameters promise, that they are aligned and apart, and would answer questions by that; what a
    volatile copy has moved it does not know.
    """
    words, copy = (bind(tirx.tvm_stack_alloca("tvm_ffi_any", len(pointers))) for _ in "wc")
    for place, pointer in enumerate(pointers):
        evaluate(tirx.tvm_struct_set(words, place, _UNION_VALUE, pointer))
    size, is_volatile = tirx.const(_ANY_BYTES * len(pointers), "int64"), tirx.const(True, "bool")
    move = "llvm.memcpy.p0.p0.i64"
    evaluate(tirx.call_llvm_intrin("void", move, copy, words, size, is_volatile))
    return [
        bind(tirx.tvm_struct_get(copy, place, _UNION_VALUE, "int64"))
        for place in range(len(pointers))
    ]


@tirx.transform.prim_func_pass(opt_level=0)
def guard_calls(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Put the checks at the entry of a guarded function; before ``MakePackedAPI``."""
    if func.attrs is None or _HOMES not in func.attrs:
        return func
    homes, may_be_empty = (
        [int(one) for one in func.attrs[name]] for name in (_HOMES, _MAY_BE_EMPTY)
    )
    statements: list[Any] = []

    def bind(value: Any) -> Any:
        variable = tirx.Var(f"guard{len(statements)}", value.ty)
        statements.append(tirx.Bind(variable, value))
        return variable

    def need(condition: Any, message: str) -> None:
        kind, parts = ir.StringImm("ValueError"), [ir.StringImm(message)]
        statements.append(tirx.AssertStmt(condition, kind, parts))

    parameters = zip(func.params, homes, strict=True)
    arrays = {n: buffer for n, (buffer, home) in enumerate(parameters) if home != _SCALAR}
    sizes = {}
    for place, buffer in arrays.items():
        extents = [tirx.Cast("int64", extent) for extent in buffer.shape]
        element = DataType(str(buffer.dtype))
        item = tirx.const((element.bits * element.lanes + 7) // 8, "int64")
        sizes[place] = prod(extents, start=item), item
    found = addresses(
        [buffer.data for buffer in arrays.values()],
        bind,
        lambda value: statements.append(tirx.Evaluate(value)),
    )
    starts = dict(zip(arrays, found, strict=True))
    zero = tirx.const(0, "int64")
    for place, buffer in arrays.items():
        size, item = sizes[place]
        if not may_be_empty[place]:
            need(tirx.NE(size, zero), f"{buffer.name} is empty")
        aligned = tirx.EQ(tirx.bitwise_and(starts[place], item - 1), zero)
        need(aligned, f"{buffer.name} is misaligned")
    for place, other in itertools.product(arrays, arrays):
        if homes[place] >= _RESULT and (homes[other] == _INPUT or other < place):
            one, two = starts[place], starts[other]
            apart = tirx.Or(one + sizes[place][0] <= two, two + sizes[other][0] <= one)
            if other == homes[place]:
                apart = tirx.Or(apart, tirx.EQ(one, two))
            need(apart, f"{arrays[place].name} shares memory with {arrays[other].name}")
    return func.with_body(tirx.SeqStmt([*statements, func.body]))
