"""Regions that divide integers: by elements, and by numbers of a call, of any value."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops

X = np.array([-(2**31), 7, 0, -1, -5], "int32")


def scanned(divide):
    found = [X[0]]
    with np.errstate(all="ignore"):
        for x in X[1:]:
            found.append(divide(found[-1], x))
    return [int(one) for one in found]


@pytest.mark.parametrize("divisor", [0, -1, 3])
def test_by_a_number_of_a_call(divisor, tmp_path):
    op = ops.scan(X, ops.region("(arg0 + arg1) // s", s="int32"), dimension=0)
    got, _ = ext.build(op, folder=tmp_path / "k")(X, divisor, np.int32(0))
    assert got.tolist() == scanned(lambda a, b: (a + b) // np.int32(divisor))


@pytest.mark.parametrize(
    ("text", "divide"),
    [
        ("arg0 // arg1", lambda a, b: a // b),
        ("arg0 % arg1 + arg1", lambda a, b: a % b + b),
        ("select(arg1 != 0, arg0 // arg1, arg0)", lambda a, b: a // b if b else a),
    ],
)
def test_by_elements(text, divide, tmp_path):
    got, _ = ext.build(ops.scan(X, text, dimension=0), folder=tmp_path / "k")(X, np.int32(0))
    assert got.tolist() == scanned(divide)


def test_a_place_far_off_is_outside(tmp_path):
    x = np.ones((2, 9), "float32")
    op = ops.map_load(x, (2, 6), ops.region("arg0, arg1 + s, 5.0", s="int64"))
    kernel = ext.build(op, folder=tmp_path / "k")
    for shift in (-(2**63), 1 - 2**63, 2**63 - 1):
        assert (kernel(x, shift) == 5).all()
    assert (kernel(x, 3) == 1).all()
