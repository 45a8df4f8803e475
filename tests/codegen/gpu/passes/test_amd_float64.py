"""Functions of float64 in AMD's machine code, executed."""

import numpy as np
import pytest
from tvm import tirx

from tvm_iree_ext import ops
from tvm_iree_ext.emulator.runs.emulated_ops import emulate_op
from tvm_iree_ext.targets.names import make_target

pytest.importorskip("tinygrad")

CASES = [("gfx942", "cos", 1e10, 1e12), ("gfx942", "log", 0.1, 9), ("gfx1100", "arcsin", -1, 1)]


@pytest.mark.parametrize(("chip", "name", "low", "high"), CASES)
def test_within_a_unit_of_the_last_place(chip, name, low, high):
    x = np.random.default_rng(0).uniform(low, high, (16, 1))
    function = getattr(tirx, name.replace("arc", "a"))
    op = ops.matmul(x.shape, (1, 16), dtype="float64", epilogue=function)
    operands = {"lhs": x, "rhs": np.ones((1, 16))}
    results = emulate_op(op, make_target(f"rocm:{chip}"), operands)
    exact = getattr(np, name)(np.broadcast_to(x, (16, 16)))
    np.testing.assert_array_max_ulp(results["result"], exact, 1)


def test_a_region_that_branches_on_functions():
    op = ops.sort(
        (3, 9), dtype="float64", region=lambda a, b: tirx.sin(a) < tirx.sin(b), dimension=1
    )
    x = np.random.default_rng(0).uniform(-9, 9, (3, 9))
    results = emulate_op(op, make_target("rocm:gfx942"), {"operand0": x})
    order = np.argsort(np.sin(x), axis=1)
    (output,) = results.values()
    np.testing.assert_array_equal(output, np.take_along_axis(x, order, 1))
