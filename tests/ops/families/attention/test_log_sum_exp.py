"""The logarithm of softmax's sum as a second result."""

import re

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.catalog.attention import run_reference
from tvm_iree_ext.ops import TensorType

MAPS = [
    "(b, m, n, k1, k2) -> (b, m, k1)",
    "(b, m, n, k1, k2) -> (b, k2, k1)",
    "(b, m, n, k1, k2) -> (b, k2, n)",
    "(b, m, n, k1, k2) -> ()",
    "(b, m, n, k1, k2) -> (b, m, n)",
]
SHAPES = (2, 3, 4), (2, 5, 4), (2, 5, 6)


@pytest.mark.parametrize(("layout", "shape"), [("bhsd", (2, 4, 3, 8)), ("bshd", (2, 3, 4, 8))])
def test_it_has_the_axes_of_the_rows(layout, shape):
    op = ops.attention(shape, shape, shape, dtype="float16", layout=layout, log_sum_exp=True)
    output, found = op.signature.results
    assert str(output) == f"output: float16{list(shape)}"
    assert str(found) == f"log_sum_exp: float32{list(shape[:3])}"
    assert op != ops.attention(shape, shape, shape, dtype="float16", layout=layout)


def test_it_is_as_wide_as_the_widest_operand():
    wide = TensorType((1, 1, 3, 8), "float64")
    op = ops.attention((1, 1, 3, 8), wide, (1, 1, 3, 8), log_sum_exp=True)
    assert op.types["log_sum_exp"].dtype == "float64"


def test_its_map_follows_the_output():
    maps = [*MAPS, "(b, m, n, k1, k2) -> (m, b)"]
    op = ops.attention(*SHAPES, indexing_maps=maps, log_sum_exp=True)
    assert str(op.signature.results[1]) == "log_sum_exp: float32[3, 2]"
    with pytest.raises(OpError, match=re.escape("log_sum_exp uses {d0}; expected {d0, d1}")):
        ops.attention(*SHAPES, indexing_maps=[*MAPS, "(b, m, n, k1, k2) -> (b)"], log_sum_exp=True)


@pytest.mark.parametrize("domain", ["natural", "log2"])
def test_the_canonical_function_computes_it(domain):
    rng = np.random.default_rng(0)
    kinds = [TensorType(shape, "float64") for shape in SHAPES]
    maps = [*MAPS, "(b, m, n, k1, k2) -> (b, m)"]
    op = ops.attention(*kinds, indexing_maps=maps, log_sum_exp=True, score_domain=domain)
    operands = [rng.standard_normal(shape) for shape in SHAPES]
    got = [tvm.runtime.tensor(np.zeros(shape)) for shape in ((2, 3, 6), (2, 3))]
    tvm.compile(op.prim_func(), target="llvm")(*map(tvm.runtime.tensor, operands), *got)
    want = run_reference(op, dict(zip(("query", "key", "value"), operands, strict=True)))
    np.testing.assert_allclose(got[1].numpy(), want["log_sum_exp"], atol=1e-12)
