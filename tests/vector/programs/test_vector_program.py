"""Programs as Python builds them, and as they are called."""

import numpy as np
import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.vector import VectorError


@pytest.mark.parametrize(
    ("build", "code", "text"),
    [
        (lambda b, v: b.elementwise("arith.addf", v), "E_ATTR_LENGTH", r"1 operands; expected lhs"),
        (lambda b, v: b.elementwise("arith.addq", v, v), "E_STRUCTURE", r"no op 'arith.addq', but"),
        (lambda b, v: b.elementwise("arith.addf", v, 1.0), "E_STRUCTURE", r"rhs is 1.0; expected"),
        (lambda b, v: b.empty([2.5], "f32"), "E_ELEMENT_TYPE", r"a size is 2.5"),
        (lambda b, v: b.argument("n", 4), "E_STRUCTURE", r"argument 'n' is 4; expected a type"),
    ],
)
def test_what_is_no_value_is_refused_by_name(build, code, text):
    with pytest.raises(VectorError, match=text) as error, vector.program("p") as b:
        build(b, b.argument("v", vector.vector((4,), "f32")))
    assert error.value.code == code


def test_a_program_is_named():
    with pytest.raises(VectorError, match="'a b': expected an identifier"), vector.program("a b"):
        pass


def returned_twice(b):
    v = b.argument("v", vector.vector((4,), "f32"))
    b.returns(v)
    b.returns(v)


def test_a_program_returns_once():
    with pytest.raises(VectorError, match="returns twice"), vector.program("p") as b:
        returned_twice(b)


def test_an_unfinished_program_is_refused():
    b = vector.program("never")
    with pytest.raises(VectorError, match="program 'never' is not complete"):
        b.program  # noqa: B018


def test_buffers_are_written_in_place_and_the_callers_arrays_are_not():
    with vector.program("shift") as b:
        memory = b.argument("memory", vector.buffer((8,)))
        filled = b.output("filled", vector.buffer((4,)))
        b.store(b.load(memory, [0], (4,)), memory, [4])
        b.store(b.load(memory, [2], (4,)), filled, [0])
    given = np.arange(8, dtype=np.float32)
    found = b.program.evaluate(given)
    assert list(found) == ["memory", "filled"]
    assert found["memory"].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert found["filled"].tolist() == [2, 3, 0, 1]
    assert given[4] == 4


def test_calls_are_checked():
    with vector.program("add") as b:
        x, y = (b.argument(name, vector.tensor(("n", 2))) for name in "xy")
        b.returns(*b.generic([x], [y], lambda one, other: one + other))
    x = np.ones((3, 2), np.float32)
    for arguments, message in [
        ((x,), "got 1 arguments and no names; expected x, y"),
        ((x, x[:2]), r"y axis 0 is 2; expected 3 \(n\)"),
        ((x, x.astype(np.float64)), "y is float64; expected float32"),
        ((x, x[:, :1]), r"y has shape \[3, 1\]; expected tensor<\[n\]x2xf32>"),
    ]:
        with pytest.raises(CallError, match=message):
            b.program.evaluate(*arguments)
