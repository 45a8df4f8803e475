"""Values of 16-bit floats that a kernel only hands on to itself, in float32: not rounded.

So PyTorch's compiler fuses operators, and XLA may: a value is rounded where it goes to memory, and
not after each step.  That is nearer to what the formula says, and saves what rounding costs, which
for bfloat16 is ten instructions a step.  What is compared with another value, or made whole, is
rounded as the program says: a test for what is equal to a stored value would fail otherwise.
"""

from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.tir.function_body import with_body
from tvm_iree_ext.tir.rounded_bits import before_widening, bfloat16_bits, is_rounding
from tvm_iree_ext.tir.tir_expressions import cast

_COMPARISONS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
_WHOLE = frozenset(
    f"{kind}.{name}"
    for kind in ("tirx", "prim")
    for name in ("floor", "ceil", "trunc", "round", "nearbyint")
)
_Rounded = Callable[[ir.Expr], ir.Expr]


def with_excess_precision(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function, scheduled, without roundings of what it computes with in float32."""
    calls: list[ir.Call] = []
    tvm_ffi.structural_walk(function.body, (ir.Call, calls.append))
    casts: list[tirx.Cast] = []
    tvm_ffi.structural_walk(function.body, (tirx.Cast, casts.append))
    if not any(map(_handed_on, (*calls, *casts))):
        return function
    callbacks = [
        (ir.Call, _call),
        (tirx.Cast, _cast),
        *((kind, _comparison) for kind in _COMPARISONS),
    ]
    return with_body(function, tvm_ffi.structural_mutate(function.body, callbacks))


def _handed_on(node: Any) -> tuple[ir.Expr, _Rounded] | None:
    """Of a float32 that was rounded to 16 bits: the number before, and what rounds it so."""
    match node:
        case tirx.Cast(value=tirx.Cast(value=wide)) if _types(node, node.value, wide) == (
            "float32", "float16", "float32",
        ):  # fmt: skip
            return wide, lambda value: cast(cast(value, "float16"), "float32")
    word: Any = before_widening(node)
    if _name(word) == "tirx.reinterpret":
        word = word.args[0]
    return (word.args[0], _through_bfloat16) if is_rounding(word) else None


def _through_bfloat16(value: ir.Expr) -> ir.Expr:
    return cast(tirx.reinterpret("bfloat16", bfloat16_bits(value)), "float32")


def _call(call: ir.Call, mutator: Any) -> ir.Expr:
    if (found := _handed_on(call)) is not None:
        return mutator.mutate(found[0])
    if _name(call) in _WHOLE:
        return ir.Call(call.op, [_kept(call.args[0], mutator)], attrs=call.attrs, ret_ty=call.ty)
    return mutator.default_mutate(call)


def _cast(node: tirx.Cast, mutator: Any) -> ir.Expr:
    if (found := _handed_on(node)) is not None:
        return mutator.mutate(found[0])
    if "float" not in str(node.ty.dtype):
        return tirx.Cast(node.ty, _kept(node.value, mutator))
    return mutator.default_mutate(node)


def _comparison(node: Any, mutator: Any) -> ir.Expr:
    if isinstance(node.a, tirx.FloatImm) or isinstance(node.b, tirx.FloatImm):
        return mutator.default_mutate(node)
    return type(node)(_kept(node.a, mutator), _kept(node.b, mutator))


def _kept(value: ir.Expr, mutator: Any) -> ir.Expr:
    """A value that stays rounded, of what is not."""
    found = _handed_on(value)
    return mutator.mutate(value) if found is None else found[1](mutator.mutate(found[0]))


def _name(node: Any) -> str:
    return str(getattr(getattr(node, "op", None), "name", ""))


def _types(*nodes: Any) -> tuple[str, ...]:
    return tuple(str(node.ty.dtype) for node in nodes)
