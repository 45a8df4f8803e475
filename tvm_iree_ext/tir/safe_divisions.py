"""Divisions of integers that end no process, whatever the divisor: as NumPy divides.

    x / 0 = 0          x % 0 = 0          the least integer / -1 = the least integer

A processor traps on these, and a region's divisor may be a number of a call, or an element.  Both
ways of a choice are computed, but inside one TVM takes what it asks for granted, and would leave
out what sees to a divisor of 0.  So that asks for the divisor as a float, of which TVM knows
nothing (only 0 and -1 are rounded to 0 and -1), and a factor stands where a choice could.
"""

from __future__ import annotations

from typing import Any

from tvm_iree_ext.tir.tvm_modules import ir, tirx, tvm_ffi


def with_safe_divisions(body: ir.Expr) -> ir.Expr:
    """An expression whose divisions of integers have a value for every divisor."""
    quotients, remainders = (tirx.FloorDiv, tirx.Div), (tirx.FloorMod, tirx.Mod)
    rules = [(quotients, _quotient), (remainders, _remainder)]
    result: ir.Expr = tvm_ffi.structural_map(body, rules)
    return result


def _quotient(node: Any) -> Any:
    if _is_safe(node):
        return node
    b, dtype = node.b, str(node.b.ty.dtype)
    factor: Any = tirx.const(1, dtype)
    if dtype.startswith("int"):
        factor = tirx.Select(_is(b, -1), tirx.const(-1, dtype), factor)
    factor = tirx.Select(_is(b, 0), tirx.const(0, dtype), factor)
    return type(node)(node.a, _divisor(b)) * factor


def _remainder(node: Any) -> Any:
    """As of a division by 1 where the divisor is 0 or -1: 0."""
    return node if _is_safe(node) else type(node)(node.a, _divisor(node.b))


def _divisor(b: Any) -> Any:
    """1 in place of what a processor may trap on."""
    dtype = str(b.ty.dtype)
    traps = _is(b, 0)
    if dtype.startswith("int"):
        traps = tirx.Or(traps, _is(b, -1))
    return tirx.Select(traps, tirx.const(1, dtype), b)


def _is(b: Any, number: int) -> Any:
    return tirx.EQ(tirx.Cast("float32", b), tirx.const(float(number), "float32"))


def _is_safe(node: Any) -> bool:
    """Whether it is of floats, or by a number that is neither 0 nor -1."""
    if "int" not in str(node.ty.dtype):
        return True
    return isinstance(node.b, tirx.IntImm) and int(node.b) not in (0, -1)
