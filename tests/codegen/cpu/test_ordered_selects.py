"""Selects by a comparison and tests for NaN: one comparison where it says the same."""

import itertools
import math
import operator

import pytest
import tvm
import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.codegen.cpu.ordered_selects import order_selects

NUMBERS = (math.nan, -math.inf, -1.0, 0.0, 1.0, math.inf)
A, B = (tirx.Var(name, "float32") for name in "ab")
ZERO, NAN = (tirx.const(value, "float32") for value in (0.0, math.nan))
COMPARE = {tirx.GT: operator.gt, tirx.GE: operator.ge, tirx.LT: operator.lt, tirx.LE: operator.le}
COMPARE |= {tirx.EQ: operator.eq, tirx.Add: operator.add}


def either(*terms):
    return tirx.Or(either(*terms[:-1]), terms[-1]) if len(terms) > 1 else terms[0]


TAKEN = {
    "a constant": tirx.Select(either(A > ZERO, tirx.isnan(A)), A, ZERO),
    "the test first": tirx.Select(either(tirx.isnan(A), A < ZERO), ZERO, A),
    "two tests": tirx.Select(either(tirx.isnan(B), A <= B, tirx.isnan(A)), A, B),
    "a test before": tirx.Select(tirx.isnan(A), A, tirx.Select(A >= ZERO, A, ZERO)),
    "sums": tirx.Select(either(A + B > ZERO, tirx.isnan(A + B)), A, B),
}
LEFT = {
    "no comparison": tirx.Select(tirx.isnan(A), B, A),
    "a side that is not tested": tirx.Select(either(A > B, tirx.isnan(A)), A, B),
    "another's test": tirx.Select(either(A > ZERO, tirx.isnan(B)), A, B),
    "a test too many": tirx.Select(either(A > ZERO, tirx.isnan(A), tirx.isnan(B)), A, B),
    "the constant NaN": tirx.Select(either(A > NAN, tirx.isnan(A)), A, B),
    "equality": tirx.Select(either(tirx.EQ(A, ZERO), tirx.isnan(A)), A, B),
    "another before": tirx.Select(tirx.isnan(A), B, tirx.Select(A >= ZERO, A, ZERO)),
    "two comparisons": tirx.Select(either(A > ZERO, B > ZERO, tirx.isnan(A)), A, B),
}


def rewritten(expression):
    func = tirx.PrimFunc([A, B], tirx.Evaluate(expression))
    return order_selects(tvm.IRModule({"main": func}))["main"].body.value


def value(node, numbers):
    """What an expression is of numbers, as Python compares them."""
    if isinstance(node, tirx.Select):
        condition = value(node.condition, numbers)
        return value(node.true_value if condition else node.false_value, numbers)
    if isinstance(node, tirx.Or):
        return value(node.a, numbers) or value(node.b, numbers)
    if isinstance(node, tirx.FloatImm):
        return float(node.value)
    if isinstance(node, ir.Call):
        assert node.op.name == "tirx.isnan"
        return math.isnan(value(node.args[0], numbers))
    if type(node) in COMPARE:
        return COMPARE[type(node)](value(node.a, numbers), value(node.b, numbers))
    return numbers[node.name]


@pytest.mark.parametrize("form", TAKEN)
def test_the_opposite_comparison_says_the_same(form):
    before = TAKEN[form]
    after = rewritten(before)
    tests = []
    tvm_ffi.structural_walk(after, (ir.Call, tests.append))
    assert not tests
    for a, b in itertools.product(NUMBERS, repeat=2):
        numbers = {"a": a, "b": b}
        assert repr(value(before, numbers)) == repr(value(after, numbers)), numbers


@pytest.mark.parametrize("form", LEFT)
def test_what_it_does_not_say_stays(form):
    assert tvm_ffi.structural_equal(rewritten(LEFT[form]), LEFT[form])
