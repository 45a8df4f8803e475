"""What an editor shows of an op's arguments."""

import inspect

import pytest

from tvm_iree_ext import ops

FUNCTIONS = {
    name: one
    for module in (ops, ops.vector_ext)
    for name in dir(module)
    if name != "region" and inspect.isfunction(one := getattr(module, name))
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_types_have_short_names(name):
    shown = str(inspect.signature(FUNCTIONS[name]))
    assert "OperandLike" in shown
    assert "collections.abc" not in shown
    assert "tvm_iree_ext." not in shown
