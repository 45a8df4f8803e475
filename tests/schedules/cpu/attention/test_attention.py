"""The CPU kernels of attention: right on hard inputs, lean in memory and in their inner loops."""

import dataclasses
import math
import re

import numpy as np
import pytest
import tvm
from agreement import check

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.runtime.machine import cpu_flags, this_machine
from tvm_iree_ext.schedules.cpu.attention.attention_rule import CpuAttention
from tvm_iree_ext.targets.names import make_target

RULE = CpuAttention()
RNG = np.random.default_rng(7)


def arrays(rows, keys, width=16, columns=16, heads=2, dtype="float32"):
    shapes = ((1, heads, rows, width), (1, heads, keys, width), (1, heads, keys, columns))
    return tuple(RNG.standard_normal(shape).astype(dtype) for shape in shapes)


# Both forms on lengths around their tiles: 16 lanes, 8 and 64 keys, 64 and 192 rows.
@pytest.mark.costly
@pytest.mark.parametrize(
    ("rows", "counts"),
    [
        *((1, (1, 9, 65)), (2, (8, 64)), (8, (7, 130)), (9, (1, 63))),
        *(
            (16, (9, 65)),
            (17, (8, 64)),
            (63, (7, 130)),
            (64, (1, 63)),
            (65, (9, 64)),
            (193, (8, 65)),
        ),
    ],
)
def test_any_number_of_rows_and_keys(rows, counts):
    for keys in counts:
        query, key, value = arrays(rows, keys)
        check(ops.attention(query, key, value), query, key, value)


@pytest.mark.costly
@pytest.mark.parametrize(("width", "columns"), [(1, 1), (3, 5), (16, 24), (80, 33), (256, 160)])
def test_any_head_dim(width, columns):
    for rows in (1, 20):
        query, key, value = arrays(rows, 33, width, columns)
        check(ops.attention(query, key, value), query, key, value)


@pytest.mark.costly
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize(
    ("rows", "width", "columns"), [(1, 64, 64), (3, 31, 17), (2, 3, 5), (1, 256, 160)]
)
def test_keys_are_read_in_their_order_or_side_by_side(rows, width, columns, stages):
    for keys in (7, 130):
        query, key, value = arrays(rows, keys, width, columns)
        op = ops.attention(query, key, value)
        config = dataclasses.replace(RULE.heuristic(op, make_target("llvm")), stages=stages)
        assert config.algorithm == "rows"
        check(op, query, key, value, kernel=build(op, config=config))


def test_nothing_is_fetched_ahead_where_the_cpu_foresees_it():
    op = ops.attention(*arrays(1, 130))
    stages = [
        RULE.heuristic(op, make_target(f"llvm:{cpu}")).stages for cpu in ("znver4", "haswell")
    ]
    assert stages == [1, 2]


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_last_vector_of_an_odd_row_counts_no_element_twice(dtype):
    query, key, value = arrays(1, 40, 31, 17, dtype=dtype)
    query = np.abs(query)
    key[0, 0, 7, 15] = -np.inf  # of two vectors of a row; the score is -inf, and never NaN
    op = ops.attention(query, key, value)
    (output,) = check(op, query, key, value)
    assert np.isfinite(output.astype("float32")).all()


@pytest.mark.parametrize("rows", [1, 40])
def test_a_fully_masked_row_is_nan_and_no_other(rows):
    query, key, value = arrays(rows, 21)
    mask = np.ones((rows, 21), bool)
    mask[0] = False
    op = ops.attention(query, key, value, mask=mask)
    (got,) = check(op, query, key, value, mask)
    assert np.isnan(got[:, :, 0]).all()
    assert np.isfinite(got[:, :, 1:]).all()


@pytest.mark.parametrize("rows", [4, 40])
def test_nan_in_a_query_row_stays_in_it(rows):
    query, key, value = arrays(rows, 70)
    query[0, 0, 1, 3] = np.nan
    (got,) = check(ops.attention(query, key, value), query, key, value)
    assert np.isnan(got[0, 0, 1]).all()
    assert np.isfinite(np.delete(got[0, 0], 1, axis=0)).all()


@pytest.mark.parametrize("rows", [1, 40])
def test_large_scores_are_safe(rows):
    query, key, value = arrays(rows, 70)
    (got,) = check(ops.attention(query, key, value, scale=2000.0), query, key, value)
    assert np.isfinite(got).all()


@pytest.mark.parametrize("rows", [1, 40])
def test_a_row_masked_with_the_lowest_float_attends_evenly(rows):
    # What libraries write for "masked" is not always -inf.
    query, key, value = arrays(rows, 70)
    mask = np.zeros((rows, 70), np.float32)
    mask[0] = np.finfo(np.float32).min
    op = ops.attention(query, key, value, mask=mask)
    got = build(op)(query, key, value, mask)
    np.testing.assert_allclose(got[:, :, 0], value.mean(axis=2), atol=1e-5)


@pytest.mark.costly
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_only_the_lowest_bit_of_an_integer_mask_counts(rows):
    query, key, value = arrays(rows, 30)
    mask = RNG.integers(0, 256, (rows, 30)).astype(np.uint8)
    got = build(ops.attention(query, key, value, mask=mask))(query, key, value, mask)
    plain = (mask & 1).astype(bool)
    same = build(ops.attention(query, key, value, mask=plain))(query, key, value, plain)
    np.testing.assert_array_equal(got, same)


# Every number of rows with either corner, and every window with each of both.
@pytest.mark.costly
@pytest.mark.parametrize(
    ("rows", "keys", "causal", "window"),
    [
        *((5, 5, "upper_left", None), (5, 5, "lower_right", 3)),
        *((200, 200, "upper_left", 3), (200, 200, "lower_right", (64, None))),
        *((130, 70, "upper_left", (64, None)), (130, 70, "lower_right", None)),
        *((70, 130, "upper_left", (64, None)), (70, 130, "lower_right", 3)),
        *((1, 50, "upper_left", 3), (1, 50, "lower_right", (64, None)), (1, 50, "lower_right", 3)),
    ],
)
def test_a_band_equals_the_mask_that_spells_it_out(rows, keys, causal, window):
    query, key, value = arrays(rows, keys)
    op = ops.attention(query, key, value, causal=causal, window=window)
    (got,) = check(op, query, key, value)
    position = np.arange(rows)[:, None] + (keys - rows if causal == "lower_right" else 0)
    mask = np.arange(keys)[None] <= position
    if window is not None:
        left = window if isinstance(window, int) else window[0]
        mask &= np.arange(keys)[None] >= position - left
    spelled = build(ops.attention(query, key, value, mask=mask))(query, key, value, mask)
    np.testing.assert_allclose(got, spelled, atol=2e-6)


def test_keys_outside_the_band_are_not_read():
    query, key, value = arrays(64, 256)
    key[:, :, 64:] = np.nan
    got = build(ops.attention(query, key, value, causal=True))(query, key, value)
    assert np.isfinite(got).all()


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("rows", [1, 40])
def test_dtypes(dtype, rows):
    kind = ext.TensorType
    numpy_dtype = np.dtype("float64") if dtype == "float64" else None
    import ml_dtypes

    numpy_dtype = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}.get(dtype, np.float64)
    query, key, value = (a.astype(numpy_dtype) for a in arrays(rows, 90))
    op = ops.attention(*(kind(a.shape, dtype) for a in (query, key, value)))
    (got,) = check(op, query, key, value)
    assert got.dtype == numpy_dtype


def test_one_kernel_serves_every_length():
    shape = ("batch", 2, "rows", 16)
    keys = ("batch", 2, "keys", 16)
    op = ops.attention(shape, keys, keys, mask=("batch", 1, "rows", "keys"))
    kernel = build(op)
    for batch, rows, count in ((1, 1, 1), (2, 1, 300), (1, 65, 7), (3, 64, 64), (1, 200, 129)):
        query = RNG.standard_normal((batch, 2, rows, 16)).astype("float32")
        key, value = (RNG.standard_normal((batch, 2, count, 16)).astype("float32") for _ in "kv")
        mask = RNG.random((batch, 1, rows, count)) < 0.8
        mask[..., 0] = True
        check(op, query, key, value, mask, kernel=kernel)


@pytest.mark.costly
@pytest.mark.parametrize("splits", [1, 2, 3, 7])
def test_splits_of_the_keys_merge(splits):
    query, key, value = arrays(2, 700)
    op = ops.attention(query, key, value, causal="lower_right")
    config = dataclasses.replace(RULE.heuristic(op, make_target("llvm")), splits=splits)
    check(op, query, key, value, kernel=build(op, config=config))


@pytest.mark.costly
@pytest.mark.parametrize("rows", [1, 40])
def test_online_steps_in_any_order_make_attention(rows):
    query, key, value = arrays(rows, 120)
    parts = [slice(60, 120), slice(0, 13), slice(13, 60)]
    state = (
        np.zeros((1, 2, rows, 16), "float32"),
        np.full((1, 2, rows), -np.inf, "float32"),
        np.zeros((1, 2, rows), "float32"),
    )
    for part in parts:
        k, v = (np.ascontiguousarray(a[:, :, part]) for a in (key, value))
        op = ops.online_attention(query, k, v)
        state = check(op, query, k, v, *state)
    whole = build(ops.attention(query, key, value))(query, key, value)
    np.testing.assert_allclose(state[0] / state[2][..., None], whole, atol=2e-6)


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("start", [-np.inf, float(np.finfo(np.float32).min)])
def test_a_fully_masked_online_row_keeps_or_loses_its_state_as_the_dialect_says(rows, start):
    query, key, value = arrays(rows, 30)
    mask = np.zeros((rows, 30), bool)
    state = (
        np.zeros((1, 2, rows, 16), "float32"),
        np.full((1, 2, rows), start, "float32"),
        np.zeros((1, 2, rows), "float32"),
    )
    op = ops.online_attention(query, key, value, mask=mask)
    output, maximum, total = check(op, query, key, value, mask, *state)
    if np.isinf(start):
        assert np.isnan(output).all()
        assert np.isnan(total).all()
    else:
        assert (output == 0).all()
        assert (total == 0).all()
    assert (maximum == np.float32(start)).all()


@pytest.mark.parametrize("rows", [1, 40])
def test_online_state_may_hold_nan_and_no_maximum(rows):
    query, key, value = arrays(rows, 70)
    maximum = np.zeros((1, 2, rows), "float32")
    maximum[0, 0, 0] = np.nan
    maximum[0, 1, 0] = -np.inf  # then sum and output count nothing
    state = (np.ones((1, 2, rows, 16), "float32"), maximum, np.ones((1, 2, rows), "float32"))
    op = ops.online_attention(query, key, value)
    output, newest, total = check(op, query, key, value, *state)
    assert np.isnan(output[0, 0, 0]).all()
    assert np.isnan(newest[0, 0, 0])
    assert np.isnan(total[0, 0, 0])


@pytest.mark.parametrize("rows", [1, 40])
def test_nan_scores_show_in_the_online_maximum(rows):
    query, key, value = arrays(rows, 200)
    query[0, 1, 0, 0] = np.nan
    state = (
        np.zeros((1, 2, rows, 16), "float32"),
        np.zeros((1, 2, rows), "float32"),
        np.ones((1, 2, rows), "float32"),
    )
    _, newest, _ = check(ops.online_attention(query, key, value), query, key, value, *state)
    assert np.isnan(newest[0, 1, 0])
    assert np.isfinite(newest[0, 0]).all()


@pytest.mark.parametrize("rows", [1, 40])
def test_an_infinite_score_is_the_online_maximum(rows):
    query, key, value = arrays(rows, 200)
    query[0, 1, 0, 0], key[0, 1, :, 0] = np.inf, 1.0
    state = (
        np.zeros((1, 2, rows, 16), "float32"),
        np.zeros((1, 2, rows), "float32"),
        np.ones((1, 2, rows), "float32"),
    )
    _, newest, _ = check(ops.online_attention(query, key, value), query, key, value, *state)
    assert newest[0, 1, 0] == np.inf


@pytest.mark.parametrize(("rows", "keys"), [(4, 2), (200, 31)])
def test_a_row_without_keys_keeps_its_online_state_and_nan_stays_nan(rows, keys):
    query, key, value = arrays(rows, keys)
    maximum = np.zeros((1, 2, rows), "float32")
    maximum[0, 0, 0] = np.nan
    state = (np.ones((1, 2, rows, 16), "float32"), maximum, np.ones((1, 2, rows), "float32"))
    op = ops.online_attention(query, key, value, causal="lower_right")
    output, _, total = check(op, query, key, value, *state)
    assert np.isnan(output[0, 0, 0]).all()
    assert (output[0, 1, 0] == 1).all()
    assert total[0, 1, 0] == 1


@pytest.mark.parametrize("rows", [1, 40])
def test_masked_steps_in_a_row_keep_minus_infinity(rows):
    query, key, value = arrays(rows, 30)
    mask = np.zeros((rows, 30), bool)
    kernel = build(ops.online_attention(query, key, value, mask=mask))
    state = (
        np.zeros((1, 2, rows, 16), "float32"),
        np.full((1, 2, rows), -np.inf, "float32"),
        np.zeros((1, 2, rows), "float32"),
    )
    for _ in range(2):
        state = kernel(query, key, value, mask, *state)
        assert np.isnan(state[0]).all()
        assert (state[1] == -np.inf).all()
        assert np.isnan(state[2]).all()


@pytest.mark.parametrize("rows", [1, 20])
def test_long_sums_do_not_drift(rows):
    keys = 1 << 20
    query, key = np.zeros((1, 1, rows, 1), "float32"), np.zeros((1, 1, keys, 1), "float32")
    value = np.full((1, 1, keys, 1), 1.5, "float32")
    got = build(ops.attention(query, key, value))(query, key, value)
    np.testing.assert_allclose(got, 1.5, rtol=1e-6)


REGIONS = {
    "abs(arg0)": np.abs,
    "erf(0.3 * arg0)": np.vectorize(lambda x: math.erf(0.3 * x)),
    "exp(0.3 * arg0)": lambda x: np.exp(0.3 * x),
    "exp2(0.3 * arg0)": lambda x: np.exp2(0.3 * x),
    "log(1 + abs(arg0))": lambda x: np.log(1 + np.abs(x)),
    "max(arg0, 0.1)": lambda x: np.maximum(x, 0.1),
    "min(arg0, 0.1)": lambda x: np.minimum(x, 0.1),
    "rsqrt(1 + arg0 * arg0)": lambda x: 1 / np.sqrt(1 + x * x),
    "select(arg0 > 0.2, arg0, -arg0)": lambda x: np.where(x > 0.2, x, -x),
    "sigmoid(arg0)": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt(abs(arg0))": lambda x: np.sqrt(np.abs(x)),
    "2 * tanh(arg0)": lambda x: 2 * np.tanh(x),
    lambda x: tvm.tirx.if_then_else(x > 0, x, 3 * x): lambda x: np.where(x > 0, x, 3 * x),
    lambda x: tvm.tirx.log1p(x * x): lambda x: np.log1p(x * x),
}


@pytest.mark.costly
@pytest.mark.parametrize(("number", "region"), list(enumerate(REGIONS)))
def test_every_function_of_a_region(number, region):
    rows = (1, 40)[number % 2]  # for either form
    query, key, value = arrays(rows, 70)
    got = build(ops.attention(query, key, value, region=region))(query, key, value)
    scores = np.einsum("bhmk,bhnk->bhmn", *(a.astype(float) for a in (query, key))) / 4
    weights = np.exp(REGIONS[region](scores))
    want = np.einsum("bhmn,bhnd->bhmd", weights / weights.sum(-1, keepdims=True), value)
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 40])  # for either form
def test_functions_take_positions(rows):
    query, key, value = arrays(rows, 70)
    op = ops.attention(query, key, value, region="arg0 + exp(-abs(d2 - d4)) + sqrt(d1)")
    scores = np.einsum("bhmk,bhnk->bhmn", *(a.astype(float) for a in (query, key))) / 4
    _, head, row, column = np.indices(scores.shape)
    weights = np.exp(scores + np.exp(-abs(row - column)) + np.sqrt(head))
    want = np.einsum("bhmn,bhnd->bhmd", weights / weights.sum(-1, keepdims=True), value)
    np.testing.assert_allclose(build(op)(query, key, value), want, atol=1e-5)


def test_scale_can_be_an_operand():
    query, key, value = arrays(20, 30)
    kernel = build(ops.attention(query, key, value, scale="operand"))
    for scale in (0.25, -1.0):
        constant = build(ops.attention(query, key, value, scale=scale))
        np.testing.assert_allclose(
            kernel(query, key, value, scale), constant(query, key, value), atol=1e-6
        )


def test_the_score_domain_changes_what_a_region_sees_and_nothing_else():
    query, key, value = arrays(20, 30)

    def run(**keywords):
        return build(ops.attention(query, key, value, **keywords))(query, key, value)

    np.testing.assert_allclose(run(score_domain="log2"), run(), atol=1e-6)
    softcap = {"region": "2 * tanh(arg0)"}
    assert np.abs(run(score_domain="log2", **softcap) - run(**softcap)).max() > 1e-3


def test_a_region_may_be_a_function_over_tir():
    query, key, value = arrays(20, 30)
    by_text = build(ops.attention(query, key, value, region="2 * tanh(arg0)"))
    by_function = build(
        ops.attention(query, key, value, region=lambda score: 2 * tvm.tirx.tanh(score))
    )
    np.testing.assert_array_equal(by_text(query, key, value), by_function(query, key, value))


def test_narrower_instruction_sets_compute_the_same():
    if this_machine() != "x86_64" or not {"avx2", "fma"} <= cpu_flags():
        pytest.skip("needs an x86-64 CPU with AVX2")
    for rows in (1, 6, 70):
        query, key, value = arrays(rows, 100, 24, 40)
        for target in ("llvm:haswell", "llvm:nehalem"):
            op = ops.attention(query, key, value, causal="lower_right")
            check(op, query, key, value, kernel=build(op, target))


# What the inner loops are made of, for targets that this machine need not be.

# The form that adds to its destination; exp, which does store, is evaluated with another.
FMA = {"llvm:znver4": "vfmadd231", "llvm:haswell": "vfmadd231"}
FMA["llvm:neoverse-n1@aarch64-linux-gnu"] = "fmla"


def loops(op, target):
    """The basic blocks of the kernel's assembly that end in a jump to their own start."""
    resolved = make_target(target)
    cpu_pipeline.register()
    module = RULE.lower(op, resolved, RULE.heuristic(op, resolved))
    library = tvm.compile(module, target=resolved, tir_pipeline=cpu_pipeline.CPU_PIPELINE)
    text = library.mod.inspect_source("asm")
    return re.findall(r"^(\.LBB\w+):((?:(?!^\.LBB).)*?\b(?:j\w+|b\.\w+)\s+\1\b)", text, re.M | re.S)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("target", FMA)
def test_products_keep_their_accumulators_in_registers(target, dtype):
    shape = (1, 8, 1024, 64)
    pairs = (target, dtype) == ("llvm:znver4", "bfloat16")
    products = [
        body
        for _, body in loops(ops.attention(shape, shape, shape, dtype=dtype), target)
        if body.count("vdpbf16ps" if pairs else FMA[target]) >= 12
    ]
    assert len(products) >= 2
    for body in products:
        stores = re.findall(r"\bv?mov\w*\s+%[xyz]mm\d+, [^%\n]*\(|\bst[rp]\s", body)
        assert not stores, body


@pytest.mark.costly
@pytest.mark.parametrize("target", FMA)
def test_no_call_per_element(target):
    shape = (1, 8, 1024, 64)
    op = ops.attention(shape, shape, shape, region="2 * tanh(arg0)")
    for _, body in loops(op, target):
        assert not re.search(r"\b(callq?|bl)\s", body), body


def test_scratch_does_not_grow_with_the_sequence():
    def allocated(length):
        op = ops.attention(*[(1, 1, length, 64)] * 3)
        target = make_target("llvm")
        module = RULE.lower(op, target, RULE.heuristic(op, target))
        return sorted(re.findall(r"alloc_buffer\(([^)]*\))", module.script()))

    assert allocated(4096) == allocated(65536)
    assert allocated(4096)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithm": "magic"}, "algorithm is 'magic'; expected one of lanes, rows"),
        ({"vector_lanes": 12}, "vector_lanes is 12; expected a power of two"),
        ({"workgroup_tile": {"m": 20}}, r"workgroup_tile\['m'\] is 20; expected a multiple"),
        ({"workgroup_tile": {}}, r"workgroup_tile\['m'\] is None; expected a number"),
        ({"reduction_tile": {"k2": 3}}, r"reduction_tile\['k2'\] is 3; expected a multiple"),
        ({"register_tile": {"k2": 0, "n": 4, "m": 1}}, r"register_tile\['k2'\] is 0"),
        ({"workgroup_tile": {"m": 64, "zz": 3}}, "workgroup_tile is .*; expected tiles for m"),
        ({"workgroup_tile": {"m": 1 << 20}}, "tiles of 1048576 rows and 96 keys take .* bytes"),
        ({"splits": 7}, "splits is 7; expected 1 in the lanes form"),
        ({"algorithm": "rows"}, "register_tile is .*; expected tiles for n"),
        ({"promote": ("foo",)}, r"promote is \('foo',\); expected some of key and value"),
        ({"parallel": "x"}, "parallel is 'x'; expected a bool"),
        ({"vector_lanes": "16"}, "vector_lanes is '16'; expected a power of two"),
    ],
)
def test_refuses_a_config_that_does_not_fit(change, message):
    op = ops.attention(*[(1, 1, 256, 64)] * 3)
    config = dataclasses.replace(RULE.heuristic(op, make_target("llvm:znver4")), **change)
    with pytest.raises(ScheduleError, match=message):
        build(op, "llvm:znver4", config)


@pytest.mark.parametrize("splits", [0, -3, True, "2"])
def test_refuses_splits_that_are_no_number(splits):
    op = ops.attention((1, 1, 2, 64), (1, 1, 256, 64), (1, 1, 256, 64))
    config = dataclasses.replace(RULE.heuristic(op, make_target("llvm:znver4")), splits=splits)
    with pytest.raises(ScheduleError, match=f"splits is {splits!r}; expected a number from 1"):
        build(op, "llvm:znver4", config)


@pytest.mark.parametrize("rows", [2, 40])
def test_head_dims_may_be_known_at_call_time(rows):
    op = ops.attention((1, 1, rows, "k1"), (1, 1, 33, "k1"), (1, 1, 33, "n"), scale=0.3)
    for width, columns in ((1, 1), (17, 40), (64, 64)):
        check(op, *arrays(rows, 33, width, columns, heads=1))
