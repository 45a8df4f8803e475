"""Key lengths in the CPU kernels: what lies behind one is NaN here, and nobody sees it."""

from dataclasses import replace

import agreement
import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.runtime.machine import cpu_flags
from tvm_iree_ext.schedules.cpu.attention.attention_rule import CpuAttention
from tvm_iree_ext.targets.names import make_target

RULE = CpuAttention()
RNG = np.random.default_rng(11)
KEYS = 270  # more than a tile of any form
LENGTHS = np.array([0, 1, 97, KEYS - 1, KEYS + 9, -4], "int32")
MANY = {"cooperlake": "pairs", "sapphirerapids": "tiles", "x86-64-v3": "lanes"}


def numbers(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(numpy_dtype(dtype))


def arrays(rows, dtype="float32", width=24):
    """Query of four heads on two of key and value, which are NaN from their lengths on."""
    query = numbers(len(LENGTHS), 4, rows, width, dtype=dtype)
    key, value = (numbers(len(LENGTHS), 2, KEYS, width, dtype=dtype) for _ in "kv")
    for point, length in enumerate(LENGTHS):
        key[point, :, max(0, length) :] = value[point, :, max(0, length) :] = np.nan
    return query, key, value


def shortened(point, query, key, value):
    """The operands of one batch point, without the keys behind its length."""
    count = int(LENGTHS[point].clip(0, KEYS))
    one = slice(point, point + 1)
    return query[one], *(np.ascontiguousarray(array[one, :, :count]) for array in (key, value))


@pytest.mark.parametrize("rows", [1, 40])  # for either form
@pytest.mark.parametrize("options", [{}, {"causal": "lower_right", "window": (60, None)}])
def test_each_batch_point_is_attention_over_its_own_keys(rows, options):
    query, key, value = arrays(rows)
    op = ops.attention(query, key, value, key_lengths=LENGTHS, **options)
    (got,) = agreement.check(op, query, key, value, LENGTHS)
    shape = (1, 2, "keys", 24)
    short = build(ops.attention((1, 4, rows, 24), shape, shape, **options))
    for point, length in enumerate(LENGTHS):
        if length <= 0:
            assert np.isnan(got[point]).all()
            continue
        want = short(*shortened(point, query, key, value))
        np.testing.assert_allclose(got[point], want[0], atol=2e-6)


@pytest.mark.parametrize("cpu", MANY)
@pytest.mark.parametrize("width", [24, 31])  # even or odd: pairs are read or copied
def test_forms_for_many_rows_end_at_the_lengths(cpu, width):
    if cpu != "x86-64-v3" and "avx512_bf16" not in cpu_flags():
        pytest.skip("this CPU does not multiply pairs of bfloat16")
    query, key, value = arrays(40, "bfloat16", width)
    op = ops.attention(query, key, value, causal="lower_right", key_lengths=LENGTHS)
    target = make_target({"kind": "llvm", "mcpu": cpu, "num-cores": 2})
    kernel = build(op, target)
    assert kernel.config.algorithm == MANY[cpu]
    if cpu != "sapphirerapids" or "amx_bf16" in cpu_flags():
        agreement.check(op, query, key, value, LENGTHS, kernel=kernel)


@pytest.mark.parametrize("splits", [2, 7])
def test_splits_without_a_key_add_nothing(splits):
    query, key, value = arrays(2)
    op = ops.attention(query, key, value, key_lengths=LENGTHS)
    config = replace(RULE.heuristic(op, make_target("llvm")), splits=splits)
    agreement.check(op, query, key, value, LENGTHS, kernel=build(op, config=config))


@pytest.mark.parametrize("rows", [1, 40])
def test_without_a_key_the_running_state_stays(rows):
    query, key, value = arrays(rows)
    op = ops.online_attention(query, key, value, key_lengths=LENGTHS)
    row = query.shape[:-1]
    state = numbers(*row, 24), numbers(*row), RNG.uniform(1, 2, row).astype("float32")
    got = agreement.check(op, query, key, value, LENGTHS, *state)
    for now, before in zip(got, state, strict=True):
        np.testing.assert_array_equal(now[LENGTHS <= 0], before[LENGTHS <= 0])


def test_a_length_may_be_of_each_head_and_of_64_bits():
    lengths = np.array([[3, 70, 2**40]], "int64").T
    query, key, value = numbers(3, 1, 5, 8), numbers(3, 1, 7, 10, 8), numbers(3, 1, 7, 10, 8)
    maps = [
        "(h, b, m, n, k1, p, s) -> (h, b, m, k1)",
        "(h, b, m, n, k1, p, s) -> (h, b, p, s, k1)",
        "(h, b, m, n, k1, p, s) -> (h, b, p, s, n)",
        "(h, b, m, n, k1, p, s) -> ()",
        "(h, b, m, n, k1, p, s) -> (h, b)",
        "(h, b, m, n, k1, p, s) -> (h, b, m, n)",
    ]
    kind = TensorType(lengths.shape, "int64")
    op = ops.attention(query, key, value, key_lengths=kind, indexing_maps=maps)
    (got,) = agreement.check(op, query, key, value, lengths)
    key[0].reshape(70, 8)[3:] = np.nan  # several key dims are counted through in their order
    np.testing.assert_array_equal(build(op)(query, key, value, lengths), got)
