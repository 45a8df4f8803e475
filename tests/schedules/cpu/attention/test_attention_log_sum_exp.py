"""The second result of attention on CPUs, by either form."""

from dataclasses import replace

import agreement
import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.schedules.cpu.attention.attention_rule import CpuAttention
from tvm_iree_ext.targets.names import make_target

RNG = np.random.default_rng(12)
OPTIONS = {
    "in base 2 from the start": {"causal": "lower_right"},
    "after a float mask": {"mask": TensorType((90,), "float32")},
    "in base 2 by request": {"score_domain": "log2", "region": "2 * tanh(arg0)"},
}


def arrays(rows, keys=90, dtype="float32"):
    shapes = (2, 4, rows, 24), (2, 2, keys, 24), (2, 2, keys, 16)
    return tuple(RNG.standard_normal(shape).astype(numpy_dtype(dtype)) for shape in shapes)


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("option", OPTIONS)
def test_agrees_with_the_reference(rows, option):
    operands = arrays(rows)
    op = ops.attention(*operands, log_sum_exp=True, **OPTIONS[option])
    if "mask" in op.types:
        operands += (RNG.standard_normal(90).astype("float32"),)
    agreement.check(op, *operands)


@pytest.mark.parametrize("rows", [1, 40])
def test_it_is_of_the_scores_as_they_are_of_narrow_operands_too(rows):
    query, key, value = arrays(rows, dtype="bfloat16")
    op = ops.attention(query, key, value, log_sum_exp=True)
    _, found = agreement.check(op, query, key, value)
    assert found.dtype == np.float32
    scores = np.einsum("bhgmk,bhnk->bhgmn", query.reshape(2, 2, 2, rows, 24).astype("float64"), key)
    want = np.log(np.exp(scores * op.scale).sum(-1)).reshape(2, 4, rows)
    np.testing.assert_allclose(found, want, atol=4e-6)


@pytest.mark.parametrize("rows", [1, 40])
def test_without_a_key_it_is_minus_infinity(rows):
    operands = arrays(rows)
    lengths = np.array([0, 50], "int32")
    op = ops.attention(*operands, log_sum_exp=True, key_lengths=lengths)
    output, found = agreement.check(op, *operands, lengths)
    assert (found[0] == -np.inf).all()
    assert np.isnan(output[0]).all()
    assert np.isfinite(found[1]).all()


@pytest.mark.parametrize("splits", [1, 3])
def test_parts_of_the_keys_merge_by_it(splits):
    query, key, value = arrays(2, 300)

    def kernel(keys):
        shape = (2, 2, keys)
        op = ops.attention(query, (*shape, 24), (*shape, 16), log_sum_exp=True)
        heuristic = CpuAttention().heuristic(op, make_target("llvm"))
        return build(op, config=replace(heuristic, splits=splits))

    whole, both = kernel(300)(query, key, value)
    part, parts = kernel(150), []
    for half in (slice(0, 150), slice(150, 300)):
        parts.append(part(query, *(np.ascontiguousarray(x[:, :, half]) for x in (key, value))))
    np.testing.assert_allclose(np.logaddexp(parts[0][1], parts[1][1]), both, atol=1e-6)
    merged = sum(output * np.exp(found - both)[..., None] for output, found in parts)
    np.testing.assert_allclose(merged, whole, atol=1e-6)
