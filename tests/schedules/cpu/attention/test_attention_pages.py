"""Pages of keys and values in the CPU kernels: each form reads through the table."""

from dataclasses import replace

import agreement
import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.access_checks.guarded_calls import Guard, guarded_results
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.runtime.machine import cpu_flags
from tvm_iree_ext.schedules.cpu.attention.attention_rule import CpuAttention
from tvm_iree_ext.targets.names import make_target

RULE = CpuAttention()
RNG = np.random.default_rng(13)
LENGTHS = np.array([0, 1, 97, 160, 1000], "int32")
NOISE = np.array([-1, 2**31 - 1, -(2**31), 55, 0], "int32")  # what stands behind a length
MANY = {"cooperlake": "pairs", "sapphirerapids": "tiles", "x86-64-v3": "lanes"}


def numbers(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(numpy_dtype(dtype))


class Pool:
    """Keys and values of two heads, contiguous, and the same in pages, with NaN in all the rest."""

    def __init__(self, size, layout, dtype="float32", width=24):
        blocks, count = -(-160 // size), len(LENGTHS)
        self.whole = numbers(2, count, 2, blocks * size, width, dtype=dtype)
        self.table = RNG.permutation(count * blocks + 3)[: count * blocks].astype("int32")
        self.table = self.table.reshape(count, blocks)
        shape = (count * blocks + 3, 2, size, width)
        self.pages = np.full((2, *shape), np.nan, self.whole.dtype)
        for sequence, length in enumerate(LENGTHS):
            for key in range(min(length, blocks * size)):
                page = self.table[sequence, key // size]
                self.pages[:, page, :, key % size] = self.whole[:, sequence, :, key]
            self.table[sequence, -(-length // size) :] = NOISE[sequence]
        if layout == "pshd":
            self.pages = np.ascontiguousarray(self.pages.transpose(0, 1, 3, 2, 4))


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize(
    ("size", "layout", "options"),
    [
        (16, "phsd", {}),
        (64, "pshd", {"causal": "lower_right", "window": (60, None)}),
        (7, "pshd", {"region": "arg0 - 0.01 * abs(d3 - d6)"}),
    ],
)
def test_pages_are_what_they_hold_side_by_side(rows, size, layout, options):
    pool, query = Pool(size, layout), numbers(len(LENGTHS), 4, rows, 24)
    key, value = pool.pages
    any_pages = tuple(TensorType(("pages", *key.shape[1:]), "float32") for _ in "kv")
    table = (len(LENGTHS), "blocks")
    op = ops.attention(
        query, *any_pages, key_lengths=LENGTHS, block_table=table, pages=layout, **options
    )
    assert (RULE.heuristic(op, make_target("llvm")).algorithm == "rows") == (rows < 8)
    (got,) = agreement.check(op, query, key, value, LENGTHS, pool.table)
    if "region" in options:
        return
    whole = ops.attention(query, *pool.whole, key_lengths=LENGTHS, **options)
    want = build(whole)(query, *pool.whole, LENGTHS)
    np.testing.assert_allclose(got, want, atol=2e-6)


@pytest.mark.parametrize("cpu", MANY)
def test_forms_for_many_rows_read_pages(cpu):
    if cpu != "x86-64-v3" and "avx512_bf16" not in cpu_flags():
        pytest.skip("this CPU does not multiply pairs of bfloat16")
    pool, query = Pool(16, "phsd", "bfloat16"), numbers(len(LENGTHS), 4, 40, 24, dtype="bfloat16")
    op = ops.attention(
        query, *pool.pages, key_lengths=LENGTHS, block_table=pool.table, causal="lower_right"
    )
    kernel = build(op, make_target({"kind": "llvm", "mcpu": cpu, "num-cores": 2}))
    assert kernel.config.algorithm == MANY[cpu]
    if cpu != "sapphirerapids" or "amx_bf16" in cpu_flags():
        agreement.check(op, query, *pool.pages, LENGTHS, pool.table, kernel=kernel)


@pytest.mark.parametrize("rows", [2, 40])
def test_pages_may_be_read_in_place_or_copied(rows):
    pool, query = Pool(16, "pshd"), numbers(len(LENGTHS), 4, rows, 24)
    op = ops.attention(
        query, *pool.pages, key_lengths=LENGTHS, block_table=pool.table, pages="pshd"
    )
    config = RULE.heuristic(op, make_target("llvm"))
    other = () if config.promote else ("key", "value")
    kernel = build(op, config=replace(config, promote=other))
    agreement.check(op, query, *pool.pages, LENGTHS, pool.table, kernel=kernel)


@pytest.mark.parametrize(
    ("dtype", "rows"), [("float16", 1), ("bfloat16", 17), ("float32", 5), ("float64", 2)]
)
def test_lengths_pages_a_window_and_the_second_result_go_together(dtype, rows):
    pool = Pool(7, "phsd", dtype, width=33)
    query = numbers(len(LENGTHS), 6, rows, 33, dtype=dtype)
    op = ops.attention(
        query, *pool.pages, key_lengths=LENGTHS, block_table=pool.table, log_sum_exp=True,
        causal="lower_right", window=(50, None),
    )  # fmt: skip
    output, log_sum_exp = agreement.check(op, query, *pool.pages, LENGTHS, pool.table)
    assert np.isnan(output[0].astype("float32")).all()
    assert (log_sum_exp[0] == -np.inf).all()


@pytest.mark.parametrize("rows", [1, 40])
def test_nothing_beside_the_pool_is_read(rows):
    pool, query = Pool(16, "phsd"), numbers(len(LENGTHS), 4, rows, 24)
    op = ops.attention(query, *pool.pages, key_lengths=LENGTHS, block_table=pool.table)
    names = [one.name for one in op.signature.arguments]
    operands = dict(zip(names, (query, *pool.pages, LENGTHS, pool.table), strict=True))
    plain = build(op)(*operands.values())
    for _, (output,) in guarded_results(build(op), operands, Guard()):
        np.testing.assert_array_equal(output, plain)


def test_a_number_outside_of_the_pool_is_the_nearest_page():
    query, pool = numbers(2, 1, 1, 16), numbers(3, 1, 4, 16)
    op = ops.attention(query, pool, pool, block_table=(2, 1))
    kernel = build(op)
    got, want = (
        kernel(query, pool, pool, np.array([[a], [b]], "int32")) for a, b in ((-7, 3), (0, 2))
    )
    np.testing.assert_array_equal(got, want)
