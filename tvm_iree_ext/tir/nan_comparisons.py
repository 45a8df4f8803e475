"""Comparisons of floats that hold for NaN, and their opposites, kept as they are meant.

TVM simplifies as if there were no NaN, and its "not equal" does not hold beside one:

    x != x  ->  false          x == x  ->  true          not x < y  ->  x >= y
"""

from __future__ import annotations

from typing import Any

from tvm_iree_ext.base.dtypes import FLOATS
from tvm_iree_ext.tir.tvm_modules import ir, tirx, tvm_ffi


def with_nan_comparisons(body: Any) -> Any:
    """An expression or a statement whose comparisons and negations are right for NaN."""
    equal = (tirx.EQ, tirx.LE, tirx.GE)
    rules = [(tirx.NE, _differs), (equal, _equals_itself), (tirx.Not, _negated)]
    return tvm_ffi.structural_map(body, rules)


def _differs(compared: Any) -> Any:
    a, b = compared.a, compared.b
    if not _is_float(a):
        return compared
    if tvm_ffi.structural_equal(a, b):
        return _is_nan(a)
    tests = [_is_nan(one) for one in (a, b) if not isinstance(one, tirx.FloatImm)]
    for test in tests:
        compared = tirx.Or(compared, test)
    return compared


def _equals_itself(compared: Any) -> Any:
    if not _is_float(compared.a) or not tvm_ffi.structural_equal(compared.a, compared.b):
        return compared
    return tirx.Not(_is_nan(compared.a))


def _negated(negation: Any) -> Any:
    """As a comparison of bytes, which TVM leaves alone, where floats may have been compared."""
    if not _may_compare_floats(negation.a):
        return negation
    return tirx.NE(tirx.Cast("int8", negation.a), tirx.const(1, "int8"))


def _may_compare_floats(value: Any) -> bool:
    """Whether comparisons of floats stand in it, or elements, which may be found to be such."""
    found: list[Any] = []
    compared = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)

    def note(node: Any) -> None:
        if isinstance(node, ir.TensorLoad) or _is_float(node.a):
            found.append(node)

    tvm_ffi.structural_walk(value, ((*compared, ir.TensorLoad), note))
    return bool(found)


def _is_float(value: Any) -> bool:
    return str(value.ty.dtype) in FLOATS


def _is_nan(value: Any) -> Any:
    # TVM's test takes no bfloat16.
    is_short = str(value.ty.dtype) == "bfloat16"
    return tirx.isnan(tirx.Cast("float32", value) if is_short else value)
