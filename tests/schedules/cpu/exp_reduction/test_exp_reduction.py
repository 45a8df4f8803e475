"""The CPU kernels of exp_reduction: right in every form, on hard shapes, scores and regions."""

import dataclasses

import agreement
import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import CallError, ScheduleError
from tvm_iree_ext.bench.cases import exp_reduction as bench
from tvm_iree_ext.bench.measure.footprint import extra_bytes
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.schedules.cpu.exp_reduction.exp_reduction_rule import CpuExpReduction
from tvm_iree_ext.schedules.shared.exp_reduction_plan import ReductionPlan
from tvm_iree_ext.targets.names import make_target

RULE = CpuExpReduction()
RNG = np.random.default_rng(17)
ATTENTION = ["(b, m, n, k) -> (b, m, k)", "(b, m, n, k) -> (b, k, n)"]
ATTENTION += ["(b, m, n, k) -> (b, m)"] * 2 + ["(b, m, n, k) -> (b, m, n)"]
PRODUCT = "arg2, arg0 + arg3, arg0 * arg1 + arg4"


def attention(b, m, n, k, region=PRODUCT, rescaled=(1, 2), maps=ATTENTION, **more):
    return ops.exp_reduction(
        [(b, m, k), (b, k, n)],
        [(b, m), (b, m), (b, m, n)],
        indexing_maps=maps,
        iterator_types=["parallel", "parallel", "parallel", "reduction"],
        exp_reduced_operands=rescaled,
        region=region,
        **more,
    )


def sums(m, k, region="arg1, arg0 + arg2", keys_last=True, **more):
    scores = (m, k) if keys_last else (k, m)
    return ops.exp_reduction(
        [scores],
        [(m,), (m,)],
        indexing_maps=[
            "(m, k) -> (m, k)" if keys_last else "(m, k) -> (k, m)",
            "(m, k) -> (m)",
            "(m, k) -> (m)",
        ],
        iterator_types=["parallel", "reduction"],
        exp_reduced_operands=[1],
        region=region,
        **more,
    )


def operands_of(op, **sizes):
    """Random ones, from a fresh state."""
    made = {}
    for one in op.signature.arguments:
        shape = [sizes.get(extent, extent) for extent in one.shape]
        values = RNG.standard_normal(shape)
        if one.name == "init0":
            values = np.full(shape, -np.inf)
        kind = ml_dtypes.bfloat16 if one.dtype == "bfloat16" else one.dtype
        made[one.name] = np.asarray(values).astype(kind)
    return made


def check(op, operands, config=None):
    """Run a kernel of ``op`` and compare with the reference; returns the kernel's results."""
    return agreement.check(op, *operands.values(), config=config)


def config_of(op, **changes):
    return dataclasses.replace(RULE.heuristic(op, make_target("llvm")), **changes)


# Around register tiles of 6 rows, tiles of 48 rows, vectors of columns and tiles of keys.
@pytest.mark.costly
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1), (2, 5, 16, 3), (1, 7, 17, 65), (1, 49, 64, 130), (2, 6, 96, 129)]
)
def test_attention_of_any_size(sizes):
    op = attention(*sizes)
    assert config_of(op).algorithm == "tiles"
    assert ReductionPlan(op).online
    check(op, operands_of(op))


def test_one_kernel_serves_every_size():
    op = attention("b", "m", "n", "k")
    for b, m, n, k in ((1, 1, 1, 1), (2, 50, 37, 150), (3, 7, 64, 129)):
        check(op, operands_of(op, b=b, m=m, n=n, k=k))


@pytest.mark.costly
@pytest.mark.parametrize("keys", [1, 15, 64, 65, 1000, 5000])
def test_sums_of_any_length(keys):
    op = sums(3, keys)
    check(op, operands_of(op))


@pytest.mark.parametrize("keys_last", [True, False])
def test_scores_along_either_axis(keys_last):
    op = sums(70, 33, keys_last=keys_last)
    assert config_of(op).algorithm == ("tiles" if keys_last else "nests")
    check(op, operands_of(op))
    for algorithm in ("tiles", "nests"):
        check(op, operands_of(op), config_of(op, algorithm=algorithm))


ONLINE = {
    "arg0 * arg1 + arg4": True,
    "max(arg4, arg0 * arg1)": True,
    "arg4 * 0.5 + arg0 * arg1": True,
    "arg4 - abs(arg1) * arg0 / 3": True,
    "select(arg1 > 0, arg0, arg4)": True,
    "arg4 + select(arg0 > arg4, arg0, 0) * arg1": True,
    "arg4 + arg0 * arg0 * arg1": False,
    "arg4 + arg1": False,
    "arg4 + arg0 + 1": False,
    "arg4 + tanh(arg0) * arg1": False,
    "min(arg4, 1) + arg0 * arg1": False,
    "select(arg0 > arg4, arg0, 0)": False,
}


@pytest.mark.costly
@pytest.mark.parametrize(("yielded", "online"), ONLINE.items(), ids=ONLINE)
def test_one_pass_only_where_scaling_weights_scales_the_result(yielded, online):
    op = attention(2, 9, 20, 200, region=f"arg2, arg0 + arg3, {yielded}")
    assert ReductionPlan(op).online is online
    operands = operands_of(op)
    operands["input0"] *= 5
    check(op, operands)


def test_an_output_that_is_not_rescaled_needs_the_last_maximum():
    op = attention(2, 9, 20, 200, rescaled=(1,))
    assert not ReductionPlan(op).online
    check(op, operands_of(op))


def test_products_are_found_in_other_words():
    rounded = attention(
        1,
        7,
        20,
        70,
        region=lambda p, v, m, s, a: (m, p + s, a - v * p.astype("float16").astype("float32")),
    )
    product = ReductionPlan(rounded).accumulations[1]
    assert "float16" in product.left.text
    assert "arg1" in product.right.text
    check(rounded, operands_of(rounded))


def test_plain_reductions_are_carried_along():
    op = ops.exp_reduction(
        [(2, 9, 200), TensorType((200, 20), "i8")],
        [(2, 9), (2, 9), TensorType((20,), "i32")],
        indexing_maps=[
            *["(b, m, n, k) -> (b, m, k)", "(b, m, n, k) -> (k, n)"],
            *["(b, m, n, k) -> (b, m)"] * 2,
            "(b, m, n, k) -> (n)",
        ],
        iterator_types=["parallel", "parallel", "parallel", "reduction"],
        exp_reduced_operands=[1],
        region="arg2, arg0 + arg3, arg1 + arg4",
    )
    operands = operands_of(op)
    operands["input1"] = RNG.integers(-99, 99, (200, 20)).astype("int8")
    total = check(op, operands)[2]
    expected = operands["init2"] + operands["input1"].sum(axis=0, dtype=np.int32)
    np.testing.assert_array_equal(total, expected)


def test_fewer_rows_at_once_where_columns_are_many():
    assert config_of(attention(8, 1000, 64, 50)).workgroup_tile["m"] == 48
    assert config_of(attention(8, 1000, 5000, 50)).workgroup_tile["m"] == 12
    assert config_of(attention(1, 20, 64, 50)).workgroup_tile["m"] == 6


def test_several_reduction_dims_apart_and_together():
    for scores, fused in (("(b, h, m, w)", 2), ("(b, m, h, w)", 1)):
        op = ops.exp_reduction(
            [tuple({"b": 2, "h": 5, "m": 9, "w": 70}[c] for c in scores if c.isalpha())],
            [(2, 9), (2, 9)],
            indexing_maps=[f"(b, m, h, w) -> {scores}", *["(b, m, h, w) -> (b, m)"] * 2],
            iterator_types=["parallel", "parallel", "reduction", "reduction"],
            exp_reduced_operands=[1],
            region="arg1, arg0 + arg2",
        )
        assert len(ReductionPlan(op).keys) == fused
        check(op, operands_of(op))


def test_without_a_reduction_dim_each_point_is_a_step():
    op = ops.exp_reduction(
        [(5, 40)],
        [(5, 40), (5, 40)],
        indexing_maps=["(i, j) -> (i, j)"] * 3,
        iterator_types=["parallel", "parallel"],
        exp_reduced_operands=[1],
        region="arg1, arg0 + arg2",
    )
    check(op, operands_of(op) | {"init0": RNG.standard_normal((5, 40), np.float32)})


def test_a_single_row_without_dims():
    op = ops.exp_reduction(
        [(2560,)],
        [(), ()],
        indexing_maps=["(i) -> (i)", "(i) -> ()", "(i) -> ()"],
        iterator_types=["reduction"],
        exp_reduced_operands=[1],
        region="arg1, arg0 + arg2",
    )
    check(op, operands_of(op))


def test_the_maximum_alone():
    op = ops.exp_reduction(
        [(3, 100)],
        [(3,)],
        indexing_maps=["(m, k) -> (m, k)", "(m, k) -> (m)"],
        iterator_types=["parallel", "reduction"],
        exp_reduced_operands=[],
        region="arg1",
    )
    operands = operands_of(op)
    (maximum,) = check(op, operands)
    np.testing.assert_array_equal(maximum, operands["input0"].max(axis=1))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("dtype", "domain"),
    [
        *(("float16", "log2"), ("bfloat16", "natural")),
        *(("float64", "log2"), ("float64", "natural")),  # which has functions of its own
    ],
)
def test_other_types(dtype, domain):
    op = attention(2, 9, 40, 140, dtype=dtype, score_domain=domain)
    check(op, operands_of(op))
    narrow = attention(2, 9, 40, 140, dtype=dtype, output_dtype=dtype)
    check(narrow, operands_of(narrow))


def test_sums_of_halves_do_not_stall():
    op = sums(2, 6000, dtype="f16", output_dtype="f16")
    zeros = np.zeros(2, "f2")
    scores = np.zeros((2, 6000), "f2")
    total = build(op)(scores, np.full(2, -np.inf, "f2"), zeros)[1]
    np.testing.assert_array_equal(total, 6000)


@pytest.mark.costly
@pytest.mark.parametrize("keys", [1, 64, 65, 200, "k"])
@pytest.mark.parametrize("splits", [2, 3])
def test_keys_in_parts(keys, splits):
    op = attention(1, 2, 20, keys)
    for number in (1, 130, 500) if keys == "k" else (keys,):
        operands = operands_of(op, k=number)
        operands["init0"][0, 0] = 1.0
        check(op, operands, config_of(op, splits=splits))


def test_a_long_row_is_cut_into_parts():
    op = sums(1, 200_001)
    assert config_of(op).splits > 1
    x = np.zeros((1, 200_001), np.float32)
    x[0, 150_000] = 3.0
    maximum, total = build(op)(x, np.full(1, -np.inf, "f4"), np.zeros(1, "f4"))
    assert (maximum, total) == (3.0, 1 + 200_000 / 8)


SUM, MAXIMUM = "arg1, arg0 + arg2", "arg1, max(arg0, arg2)"
FORMS = [("tiles", SUM), ("nests", SUM), ("parts", SUM), ("tiles", MAXIMUM), ("nests", MAXIMUM)]


@pytest.mark.costly
@pytest.mark.parametrize(("algorithm", "region"), FORMS, ids=" ".join)
def test_infinities_and_nan(algorithm, region):
    # Tiles of 64 keys: what is odd lies in the first, in a later one, or in all.
    op = sums(12, 200, region=region)
    operands = operands_of(op)
    scores = operands["input0"]
    scores[1] = -np.inf
    scores[2, :100] = -np.inf
    scores[3, 100:] = -np.inf
    scores[4, 5], scores[5, 150] = np.inf, np.inf
    scores[6, 5], scores[7, 150] = np.nan, np.nan
    lowest = np.finfo(np.float32).min
    scores[8] = lowest
    fresh = operands["init0"]
    fresh[9], fresh[10], fresh[11] = np.inf, np.nan, 300.0
    scores[6, 190] = np.inf
    config = config_of(op, reduction_tile={"k": 64})
    if algorithm == "parts":
        config = dataclasses.replace(config, splits=2)
    else:
        config = dataclasses.replace(config, algorithm=algorithm)
    check(op, operands, config)
    operands["init0"] = np.full(12, lowest, np.float32)
    maximum, total = check(op, operands, config)
    assert maximum[1] == lowest
    assert total[1] == (operands["init1"][1] if region == SUM else max(operands["init1"][1], 0))


def test_a_state_of_parts_is_the_state_of_the_whole():
    op = sums(4, "k")
    kernel = build(op)
    scores = (RNG.standard_normal((4, 900)) * 20).astype("float32")
    fresh = np.full(4, -np.inf, "f4"), np.zeros(4, "f4")
    whole = kernel(scores, *fresh)
    state = fresh
    for part in np.split(scores, 3, axis=1):
        state = kernel(np.ascontiguousarray(part), *state)
    np.testing.assert_allclose(state, whole, rtol=1e-6)


def test_memory_does_not_grow_with_the_keys():
    # The weights alone would take 5 MB.
    assert extra_bytes(build(attention(1, 64, 64, 20_000)).folder, 2) < 1 << 20


def test_dynamic_extents_must_agree():
    op = attention("b", "m", 8, "k")
    operands = operands_of(op, b=2, m=3, k=5)
    operands["input1"] = operands["input1"][:, :4].copy()
    with pytest.raises(CallError, match="input1 axis 1 has extent 4; expected 5"):
        build(op)(*operands.values())


CASES = [bench.attention_case(2, 20, 70, 16), bench.sum_case((30, 100)), bench.sum_case((500,))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_benchmarks_peers_compute_the_same(case):
    values = case.operands()
    judge = case.check(values)
    good = build(case.op)(*values.values())
    assert judge(good) is None
    assert judge(bench.numpy_reduction(values)()) is None
    assert judge((good[0], good[1] * 1.01, *good[2:])).startswith("result1")
    pytest.importorskip("torch", reason="PyTorch is an optional peer: scripts/setup dev bench")
    assert judge(bench.torch_reduction(values)()) is None


BAD_CONFIGS = {
    "splits": ({"splits": 0}, "splits is 0; expected a number from 1"),
    "splits of nests": (
        {"splits": 2, "algorithm": "nests"},
        "splits is 2; expected 1 in the form nests",
    ),
    "algorithm": ({"algorithm": "fold"}, "algorithm is 'fold'; expected one of tiles, nests"),
    "lanes": ({"vector_lanes": 12}, "vector_lanes is 12; expected a power of two"),
    "rows": (
        {"workgroup_tile": {"columns": 8}},
        r"workgroup_tile\['m'\] is None; expected a number from 1",
    ),
    "keys": ({"reduction_tile": {"k": 65}}, r"reduction_tile\['k'\] is 65; expected a multiple of"),
    "columns": (
        {"register_tile": {"m": 6, "n": 0}},
        r"register_tile\['n'\] is 0; expected a number from 1",
    ),
}


@pytest.mark.parametrize("case", BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_refuses_a_config(case):
    changes, message = case
    op = sums(8, 100)
    with pytest.raises(ScheduleError, match=message):
        RULE.lower(op, make_target("llvm"), config_of(op, **changes))


def test_only_sums_are_merged_from_parts():
    op = sums(8, 100, region="arg1, max(arg0, arg2)")
    with pytest.raises(ScheduleError, match="splits is 2; expected 1, as an output is no sum of"):
        RULE.lower(op, make_target("llvm"), config_of(op, splits=2))


def test_without_keys_there_are_no_tiles():
    op = ops.exp_reduction(
        [(4,)],
        [(4,)],
        indexing_maps=["(i) -> (i)"] * 2,
        iterator_types=["parallel"],
        exp_reduced_operands=[],
        region="arg1",
    )
    with pytest.raises(ScheduleError, match="algorithm is 'tiles'; expected 'nests'"):
        RULE.lower(op, make_target("llvm"), config_of(op, algorithm="tiles"))
