"""Numbers of a launch plan: expressions of TIR as text that Python and C++ evaluate."""

import pytest
from tvm import tirx

from tvm_iree_ext.codegen.gpu.launch_plan.plan_expressions import Names


def test_a_number_is_a_number():
    assert Names().number(tirx.const(12, "int64")) == 12


def test_names_are_apart_and_reserved_in_neither_language():
    names = Names()
    given = [names.name(tirx.Var(name, "int64")) for name in ("n", "n", "class", "template", "1st")]
    assert given == ["n", "n_2", "_class", "_template", "_1st"]


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000])
def test_an_expression_means_in_python_what_it_means_in_tir(n):
    variable = tirx.Var("n", "int64")
    blocks = tirx.floordiv(variable + 63, 64)
    names = Names()
    name = names.name(variable)
    text = names.number(tirx.max(blocks * 64 - variable, tirx.floormod(variable, 7)))
    assert eval(str(text), {"min": min, "max": max}, {name: n}) == max(-n % 64, n % 7)


def test_a_division_that_was_moved_out_of_its_branch_does_not_trap():
    a, b = (tirx.Var(name, "int64") for name in "ab")
    names = Names()
    known = {names.name(a): 7, names.name(b): 0}
    for divided in (tirx.floordiv, tirx.floormod, tirx.truncdiv, tirx.truncmod):
        text = str(names.number(divided(a, b)))
        eval(text, {"max": max}, known)
        assert eval(text, {"max": max}, known | {"b": 4}) == int(divided(7, 4))


def test_arithmetic_of_bits_may_be_nodes_or_calls():
    a = tirx.Var("a", "int64")
    names = Names()
    known = {names.name(a): 0b1100}
    mask = tirx.const(0b1010, "int64")
    for node, call, want in (
        (tirx.BitwiseAnd(a, mask), tirx.bitwise_and(a, mask), 0b1000),
        (tirx.BitwiseOr(a, mask), tirx.bitwise_or(a, mask), 0b1110),
        (tirx.BitwiseXor(a, mask), tirx.bitwise_xor(a, mask), 0b0110),
    ):
        for expression in (node, call):
            assert eval(str(names.number(expression)), {}, known) == want
