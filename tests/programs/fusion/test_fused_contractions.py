"""Ops of the registry in programs, and what is fused into their kernels."""

import numpy as np
import pytest
from relax_programs import Maker, check, normal
from tvm import tirx

from tvm_iree_ext import ops


def test_an_op_of_the_registry_and_a_parameter(tmp_path):
    op = ops.matmul((4, 8), (8, 6))
    m = Maker(x=((4, 8), "float32"))
    weights = m.parameter("weights", normal(8, 6))

    def make(emit):
        (x,) = m.vars
        y = emit(m.op("product", op, [x, weights], (4, 6), "float32"))
        return [emit(m.nest([y], (4, 6), "float32", lambda r, i, j: r[0](i, j) + 1.0))]

    x = normal(4, 8)
    built = check(m, make, [((4, 6), "float32")], [x], [x @ m.parameters["weights"] + 1], tmp_path)
    assert built.resources["kernels"] == 1


def test_the_beginning_of_a_product_is_no_epilogue(tmp_path):
    """It stands at the same places, but is smaller."""
    op = ops.matmul((2, 4, 8), (2, 8, 6))
    m = Maker(x=((2, 4, 8), "float32"), w=((2, 8, 6), "float32"))

    def make(emit):
        y = emit(m.op("product", op, list(m.vars), (2, 4, 6), "float32"))
        return [emit(m.nest([y], (1, 4, 6), "float32", lambda r, b, i, j: r[0](b, i, j)))]

    x, w = normal(2, 4, 8), normal(2, 8, 6)
    check(m, make, [((1, 4, 6), "float32")], [x, w], [(x @ w)[:1]], tmp_path)


def test_elements_of_a_product_that_are_gathered_are_no_epilogue(tmp_path):
    """Its sums are read at places that another operand says, and the result has another rank."""
    op = ops.matmul((4, 8), (8, 6))
    m = Maker(x=((4, 8), "float32"), w=((8, 6), "float32"), at=((3, 5), "int32"))

    def gathered(r, i, j, k):
        return r[0](i, tirx.min(tirx.max(r[1](j, k), 0), 5))

    def make(emit):
        x, w, at = m.vars
        y = emit(m.op("product", op, [x, w], (4, 6), "float32"))
        return [emit(m.nest([y, at], (4, 3, 5), "float32", gathered))]

    x, w = normal(4, 8), normal(8, 6)
    at = np.random.default_rng(0).integers(0, 6, (3, 5)).astype("int32")
    check(m, make, [((4, 3, 5), "float32")], [x, w, at], [(x @ w)[:, at]], tmp_path)


@pytest.mark.parametrize("rows", [30, "rows"])
def test_contractions_take_in_moves_and_epilogues(rows, tmp_path):
    """bias(relu(x @ broadcast(transpose(w)))) is one kernel, which reads w as it is."""
    op = ops.matmul((2, rows, 8), (2, 8, 6))
    m = Maker(x=((2, rows, 8), "float32"), more=((2, rows, 6), "float32"))
    w, bias = m.parameter("w", normal(6, 8)), m.parameter("bias", normal(6))

    def relu(r, b, i, j):
        return tirx.max(r[0](b, i, j) + r[1](j), tirx.const(0.0, "float32"))

    def make(emit):
        x, more = m.vars
        shape = (2, rows, 6)
        t = emit(m.nest([w], (8, 6), "float32", lambda r, i, j: r[0](j, i)))
        t = emit(m.nest([t], (2, 8, 6), "float32", lambda r, b, i, j: r[0](i, j)))
        y = emit(m.op("product", op, [x, t], shape, "float32"))
        y = emit(m.nest([y, bias], shape, "float32", relu))
        return [
            emit(
                m.nest(
                    [more, y], shape, "float32", lambda r, b, i, j: r[0](b, i, j) - r[1](b, i, j)
                )
            )
        ]

    x, more = normal(2, 30, 8), normal(2, 30, 6)
    y = np.maximum(x @ m.parameters["w"].T + m.parameters["bias"], 0)
    result = ((2, rows, 6), "float32")
    built = check(m, make, [result], [x, more], [more - y], tmp_path, atol=1e-5)
    assert built.resources["kernels"] == 1 + (rows == "rows")  # and what computes extents


def test_a_result_that_is_used_twice_is_no_epilogues(tmp_path):
    op = ops.matmul((4, 8), (8, 6))
    m = Maker(x=((4, 8), "float32"), w=((8, 6), "float32"))

    def make(emit):
        y = emit(m.op("product", op, m.vars, (4, 6), "float32"))
        return [y, emit(m.nest([y], (4, 6), "float32", lambda r, i, j: r[0](i, j) * 2.0))]

    x, w = normal(4, 8), normal(8, 6)
    check(m, make, [((4, 6), "float32")] * 2, [x, w], [x @ w, x @ w * 2], tmp_path, atol=1e-5)
