"""Attention in bfloat16 by the instruction that multiplies pairs."""

import re
from dataclasses import replace

import agreement
import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.runtime.machine import cpu_flags
from tvm_iree_ext.schedules.cpu.attention.attention_rule import CpuAttention
from tvm_iree_ext.targets.names import make_target

RULE = CpuAttention()
RNG = np.random.default_rng(8)
BF16 = numpy_dtype("bfloat16")
PAIRS = make_target({"kind": "llvm", "mcpu": "cooperlake", "num-cores": 2})

runs = pytest.mark.skipif("avx512_bf16" not in cpu_flags(), reason="this CPU has no vdpbf16ps")


def numbers(*shape):
    return RNG.standard_normal(shape).astype(BF16)


def arrays(rows, keys, width=16, columns=16):
    return numbers(1, 2, rows, width), numbers(1, 2, keys, width), numbers(1, 2, keys, columns)


def check(op, *arguments, kernel=None, **changes):
    """Run a kernel of this form and compare with the reference; returns its results."""
    kernel = kernel or build(op, PAIRS, config=replace(RULE.heuristic(op, PAIRS), **changes))
    assert kernel.config.algorithm == "pairs"
    return agreement.check(op, *arguments, kernel=kernel)


# Pairs, blocks of 8 keys, tiles of 64 keys and 192 rows, and one more or less of each.
# An odd width has a word of its own for its last element.
@pytest.mark.costly
@runs
@pytest.mark.parametrize(
    ("rows", "width", "columns", "counts"),
    [
        (17, 2, 1, (7, 64)),
        (33, 34, 17, (193,)),
        (193, 64, 40, (7, 64, 193)),
        (17, 1, 3, (193,)),
        (50, 33, 32, (7, 64)),
        (65, 61, 61, (64, 193)),
        (193, 127, 7, (7, 193)),
    ],
)
def test_any_shape(rows, width, columns, counts):
    for keys in counts:
        query, key, value = arrays(rows, keys, width, columns)
        check(ops.attention(query, key, value), query, key, value)


@pytest.mark.costly
@runs
@pytest.mark.parametrize("width", [16, 15])
@pytest.mark.parametrize("keywords", [{"causal": True}, {"window": (5, 8)}])
def test_bands_read_no_key_outside(keywords, width):
    query, key, value = arrays(63, 200, width)
    check(ops.attention(query, key, value, **keywords), query, key, value)
    key[:, :, 72:], value[:, :, 72:] = np.nan, np.nan
    got = build(ops.attention(query, key, value, **keywords), PAIRS)(query, key, value)
    assert np.isfinite(got.astype(np.float32)).all()


@pytest.mark.costly
@runs
@pytest.mark.parametrize(
    ("shape", "dtype", "width"),
    [
        *(((1, 2, 70, 99), "bool", 16), ((1, 2, 70, 99), "bfloat16", 17)),
        *(((1, 1, 1, 99), "bool", 17), ((1, 1, 1, 99), "bfloat16", 16)),
        *(((70, 99), "bool", 16), ((70, 99), "bfloat16", 17)),
    ],
)
def test_masks(shape, dtype, width):
    query, key, value = arrays(70, 99, width)
    mask = numbers(*shape) if dtype == "bfloat16" else RNG.random(shape) < 0.8
    op = ops.attention(query, key, value, mask=ops.TensorType(shape, dtype))
    check(op, query, key, value, mask)


@runs
@pytest.mark.parametrize("width", [16, 19])
def test_grouped_query_and_transposed_value(width):
    query, key, value = numbers(2, 3, 40, width), numbers(2, 33, width), numbers(2, 24, 33)
    op = ops.attention(
        query,
        key,
        value,
        indexing_maps=[
            f"(b, g, m, k, l, n) -> ({dims})"
            for dims in ("b, g, m, l", "b, k, l", "b, n, k", "", "b, g, m, n")
        ],
    )
    check(op, query, key, value)


@runs
@pytest.mark.parametrize("width", [16, 45])
def test_one_kernel_serves_every_length(width):
    keys = ("batch", 2, "keys", width)
    op = ops.attention(("batch", 2, "rows", width), keys, keys, dtype="bfloat16", scale="operand")
    kernel = build(op, PAIRS)
    for batch, rows, count, scale in ((1, 1, 1, 0.5), (2, 65, 7, -1.0), (1, 200, 129, 0.25)):
        key, value = numbers(batch, 2, count, width), numbers(batch, 2, count, width)
        check(op, numbers(batch, 2, rows, width), key, value, scale, kernel=kernel)


@runs
def test_online_steps_and_a_region():
    query, key, value = arrays(40, 61)
    state = tuple(RNG.random(shape).astype("float32") for shape in ((1, 2, 40, 16), (1, 2, 40)))
    op = ops.online_attention(query, key, value, region="2 * tanh(arg0)")
    check(op, query, key, value, *state, state[1])


# In 15 columns the first of a row lies beside the last of the one before.
@runs
@pytest.mark.parametrize("width", [16, 15])
def test_special_numbers_stay_in_their_row(width):
    query, key, value = arrays(40, 71, width)
    query[0, 0, 1, 3], query[0, 1, 7, 0] = np.nan, np.inf
    (got,) = check(ops.attention(query, key, value), query, key, value)
    assert np.isnan(got[0, 0, 1].astype(np.float32)).all()
    assert np.isnan(got[0, 1, 7].astype(np.float32)).all()
    assert np.isfinite(np.delete(got, (1, 7), 2).astype(np.float32)).all()


@pytest.mark.costly
@runs
@pytest.mark.parametrize(
    "changes",
    [
        {"vector_lanes": 4, "parallel": False},
        {"vector_lanes": 8, "register_tile": {"k2": 4, "n": 3, "m": 1}},
        {"reduction_tile": {"k2": 24}, "workgroup_tile": {"m": 64}},
        {"promote": ("key", "value")},
    ],
)
def test_other_configs_compute_the_same(changes):
    width = 16 if len(changes) == 1 or "parallel" in changes else 21
    query, key, value = arrays(50, 61, width)
    changes = {**changes, **({"promote": ("key", "value")} if width % 2 else {})}
    check(ops.attention(query, key, value, causal=True), query, key, value, **changes)


SHAPE = (1, 8, 1024, 64)
OP = ops.attention(SHAPE, SHAPE, SHAPE, dtype="bfloat16")


def test_instructions_multiply_and_round():
    cpu_pipeline.register()
    module = RULE.lower(OP, PAIRS, RULE.heuristic(OP, PAIRS))
    library = tvm.compile(module, PAIRS, tir_pipeline=cpu_pipeline.CPU_PIPELINE)
    text = library.mod.inspect_source("asm")
    loops = re.findall(r"^(\.LBB\w+):((?:(?!^\.LBB).)*?\bj\w+\s+\1\b)", text, re.M | re.S)
    # Two steps a turn, of 6 x 4 vectors and of the 4 x 4 that are left.  The first product's loop
    # also jumps to what is fetched beside it.
    assert [body.count("vdpbf16ps") for _, body in loops if "vdpbf16ps" in body] == [48, 32]
    assert text.count("vdpbf16ps") >= 48 + 48 + 32
    assert any("vcvtne2ps2bf16" in body for _, body in loops)
    assert not any("call" in body for _, body in loops)


@pytest.mark.parametrize(
    ("op", "cpu"),
    [
        (OP, "skylake-avx512"),
        (ops.attention(SHAPE, SHAPE, SHAPE, dtype="float16"), "cooperlake"),
    ],
)
def test_what_has_no_pairs_is_computed_in_float32(op, cpu):
    target = make_target({"kind": "llvm", "mcpu": cpu, "num-cores": 2})
    assert RULE.heuristic(op, target).algorithm == "lanes"
    with pytest.raises(ScheduleError, match="algorithm is 'pairs'; expected one of lanes, rows"):
        RULE.lower(op, target, RULE.heuristic(OP, PAIRS))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"promote": ()}, r"promote is \(\); expected value"),
        ({"vector_lanes": 2}, "vector_lanes is 2; expected a power of two from 4 up to 16"),
        ({"vector_lanes": 32}, "vector_lanes is 32; expected a power of two from 4 up to 16"),
        (
            {"reduction_tile": {"k2": 3}, "register_tile": {"k2": 3, "n": 8, "m": 2}},
            r"reduction_tile\['k2'\] is 3; expected a multiple of 2",
        ),
    ],
)
def test_configs_that_do_not_fit(changes, message):
    with pytest.raises(ScheduleError, match=f"cpu.attention: {message}"):
        RULE.lower(OP, PAIRS, replace(RULE.heuristic(OP, PAIRS), **changes))


def test_odd_rows_are_copied_to_words():
    odd = ops.attention((1, 8, 512, 61), (1, 8, 512, 61), (1, 8, 512, 61), dtype="bfloat16")
    config = RULE.heuristic(odd, PAIRS)
    assert (config.algorithm, config.promote) == ("pairs", ("key", "value"))
    with pytest.raises(ScheduleError, match=r"promote is \('value',\); expected key and value"):
        RULE.lower(odd, PAIRS, replace(config, promote=("value",)))


def test_a_tuner_may_choose_either_form():
    forms = {form.base.algorithm for form in RULE.space(OP, PAIRS).forms}
    assert forms == {"pairs", "lanes"}
