from dataclasses import replace

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.catalog.contraction import CONTRACTION, random_case
from tvm_iree_ext.schedules.gpu.contraction.contraction_matrices import ContractionMatrices
from tvm_iree_ext.schedules.gpu.contraction.contraction_rule import GpuContraction
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_function
from tvm_iree_ext.targets.mma.mma_table import mma_kind
from tvm_iree_ext.targets.names import make_target

RULE = GpuContraction()
CHIPS = [
    *("cuda:sm_80", "cuda:sm_86", "cuda:sm_89", "cuda:sm_90", "cuda:sm_100"),
    *("rocm:gfx90a", "rocm:gfx942", "rocm:gfx950", "rocm:gfx1100", "rocm:gfx1201"),
]
HALF = "float16"


def check(op, operands, chip, config=None):
    """Lower by the rule, simulate, and compare with the reference; the simulations."""
    target = make_target(chip)
    assert RULE.applies(op, target) is None
    words = op.in_words
    module = RULE.lower(words, target, config or RULE.heuristic(words, target))
    want = CONTRACTION.reference(op, operands)
    result = np.zeros(want["result"].shape, dtypes.numpy_dtype(op.types["result"].dtype))
    passed = {
        name: array.view(dtypes.numpy_dtype(words.types[name].dtype))
        for name, array in operands.items()
    }
    done = simulate_function(module[op.entry], target, {**passed, "result": result})
    for simulation in done:
        simulation.check()
    tolerance = CONTRACTION.tolerance(op, operands, want)["result"]
    np.testing.assert_allclose(
        result.astype("float64"),
        want["result"].astype("float64"),
        rtol=tolerance.relative,
        atol=tolerance.absolute,
    )
    return done


def arrays(op, seed=0, **extents):
    """Operands of small integers, so that products are exact."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(-3, 4, [extents.get(e, e) for e in kind.shape]).astype(
            dtypes.numpy_dtype(kind.dtype)
        )
        for name, kind in op.types.items()
        if name != "result"
    }


@pytest.mark.costly
@pytest.mark.parametrize("chip", CHIPS)
def test_batches_tails_and_an_epilogue_on_every_chip(chip):
    op = ops.matmul(
        (2, 37, 40),
        (2, 40, 50),
        [ops.TensorType((50,), HALF), ops.TensorType((2, 37, 50), "float32")],
        epilogue="max(arg0 * 0.5 + arg1, 0) + arg2",
        dtype=HALF,
    )
    check(op, arrays(op), chip)


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx942", "rocm:gfx1100"])
@pytest.mark.parametrize(
    ("lhs", "rhs", "maps"),
    [
        # Several dims of each role, in any order.
        (
            (3, 8, 5, 8),
            (8, 6, 8),
            [
                "(m0, k0, m1, k1, n) -> (m0, k0, m1, k1)",
                "(m0, k0, m1, k1, n) -> (k0, n, k1)",
                "(m0, k0, m1, k1, n) -> (m1, n, m0)",
            ],
        ),
        # The result's last dim is of lhs.
        ((24, 40), (40, 16), ["(a, b, c) -> (a, b)", "(a, b, c) -> (b, c)", "(a, b, c) -> (c, a)"]),
        # Batches are contiguous, so that no run of memory is of one product.
        (
            (16, 16, 3),
            (16, 8, 3),
            ["(b, m, n, k) -> (m, k, b)", "(b, m, n, k) -> (k, n, b)", "(b, m, n, k) -> (b, m, n)"],
        ),
        # No rows, no columns, no depth.
        ((40,), (40, 33), ["(n, k) -> (k)", "(n, k) -> (k, n)", "(n, k) -> (n)"]),
        ((40,), (40,), ["(k) -> (k)", "(k) -> (k)", "(k) -> ()"]),
        ((17,), (9,), ["(m, n) -> (m)", "(m, n) -> (n)", "(m, n) -> (m, n)"]),
    ],
    ids=["several", "swapped", "batch_last", "vector", "dot", "outer"],
)
def test_indexing_maps_of_any_kind(chip, lhs, rhs, maps):
    op = ops.contraction(lhs, rhs, indexing_maps=maps, dtype=HALF, result_dtype="float32")
    check(op, arrays(op), chip)


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx942", "rocm:gfx1100"])
@pytest.mark.parametrize(
    ("lhs", "rhs", "result"),
    [
        ("bfloat16", "bfloat16", "bfloat16"),
        ("float32", "float32", "float32"),
        ("float64", "float64", "float64"),
        ("int8", "int8", "int32"),
        ("int8", "int8", "float16"),
        # Converted where they are copied.
        ("float16", "bfloat16", "float32"),
        ("float16", "float32", "float16"),
        ("float32", "float64", "float32"),
        ("float8_e4m3fn", "bfloat16", "float32"),
        ("float8_e5m2", "float8_e5m2", "float16"),
        ("float16", "int8", "float16"),
        ("int8", "bfloat16", "float32"),
    ],
)
def test_types(chip, lhs, rhs, result):
    transpose = chip != "cuda:sm_80"
    op = ops.matmul(
        ops.TensorType((2, 20, 24), lhs),
        ops.TensorType((2, 18, 24) if transpose else (2, 24, 18), rhs),
        transpose_rhs=transpose,
        result_dtype=result,
    )
    check(op, arrays(op), chip)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("chip", "dtypes", "kind"),
    [
        ("cuda:sm_80", ("float8_e4m3fn", "float8_e5m2"), "NV_MMA_SYNC_F32_16x8x16_F16"),
        ("cuda:sm_89", ("float8_e4m3fn", "float8_e5m2"), "NV_MMA_SYNC_F32_16x8x32_F8E4M3FN_F8E5M2"),
        ("rocm:gfx942", ("float8_e4m3fn", "float8_e4m3fn"), "VMFMA_F32_16x16x32_F16"),
        ("rocm:gfx942", ("float8_e4m3fnuz",) * 2, "VMFMA_F32_16x16x64_F8E4M3FNUZ"),
        ("rocm:gfx950", ("float8_e4m3fn",) * 2, "MFMA_F32_16x16x128_F8E4M3FN"),
        ("rocm:gfx1201", ("float8_e5m2",) * 2, "WMMAR4_F32_16x16x16_F8E5M2"),
    ],
)
def test_floats_of_8_bits_are_multiplied_as_they_are_or_as_halves(chip, dtypes, kind):
    lhs, rhs = dtypes
    op = ops.matmul(ops.TensorType((20, 64), lhs), ops.TensorType((64, 48), rhs))
    assert op.signature.results[0].dtype == "float32"
    assert RULE.heuristic(op, make_target(chip)).mma_kind == kind
    check(op, arrays(op), chip)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("chip", "across", "dtype", "change"),
    [
        ("cuda:sm_80", True, HALF, {}),
        ("cuda:sm_80", False, "bfloat16", {"splits": 3}),
        ("rocm:gfx942", False, HALF, {}),
        ("rocm:gfx942", True, "bfloat16", {"stages": 1}),
        ("rocm:gfx1100", True, HALF, {"workgroups": 2}),
    ],
)
def test_factors_are_made_on_their_way_to_matrix_instructions(chip, across, dtype, change):
    own = "(g, i, n)" if across else "(n, g, i)"
    maps = ["(m, g, i)", own, own.replace("i, ", "").replace(", i", ""), "(n)", "(m, n)"]
    shape, scale = ((3, 36, 20), (3, 20)) if across else ((20, 3, 36), (20, 3))
    op = ops.contraction(
        ops.TensorType((33, 3, 36), dtype),
        ops.TensorType(shape, "uint8"),
        prologue="(arg0 - arg2) * arg1",
        prologue_operands=[ops.TensorType(scale, "float32"), ops.TensorType((20,), "int8")],
        indexing_maps=[f"(m, n, g, i) -> {one}" for one in maps],
        result_dtype="float32",
    )
    config = replace(RULE.heuristic(op, make_target(chip)), **change)
    assert mma_kind(config.mma_kind).kind != "fma"
    check(op, arrays(op), chip, config)


def test_a_product_without_depth_has_a_config():
    """Of 8-bit floats, whose instruction has 128 steps: more addresses than scalar registers."""
    lhs, rhs = (ops.TensorType((count,), "float8_e5m2") for count in (65, 15))
    maps = ["(m, n) -> (m)", "(m, n) -> (n)", "(m, n) -> (m, n)"]
    op = ops.contraction(lhs, rhs, indexing_maps=maps, result_dtype="float32")
    check(op, arrays(op), "rocm:gfx950")


@pytest.mark.parametrize("chip", ["rocm:gfx1100", "rocm:gfx1201"])
def test_narrow_factors_of_odd_rows_fit_the_registers(chip):
    op = ops.contraction(
        ops.TensorType(("m", 33), "float32"),
        ops.TensorType((100, 33), "uint8"),
        [ops.TensorType((100,), HALF)],
        prologue="arg0 * arg1",
        prologue_operands=[ops.TensorType((100,), "bfloat16")],
        epilogue="arg0 + arg1",
        indexing_maps=[
            f"(m, n, k) -> {one}" for one in ("(m, k)", "(n, k)", "(n)", "(n)", "(m, n)")
        ],
    )
    assert RULE.heuristic(op, make_target(chip)).workgroup_tile


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["rocm:gfx942", "rocm:gfx1201"])
@pytest.mark.parametrize(
    ("rows", "columns", "transpose_rhs", "dtype"),
    [(16, 264, False, HALF), (27, 72, True, HALF), (5, 64, False, "int8")],
)
def test_few_rows_need_no_shared_memory(chip, rows, columns, transpose_rhs, dtype):
    rhs = (columns, 96) if transpose_rhs else (96, columns)
    bias = ops.TensorType((columns,), "float32")
    op = ops.matmul(
        (rows, 96), rhs, [bias], transpose_rhs=transpose_rhs, dtype=dtype,
        epilogue="arg0 + arg1", result_dtype="float32",
    )  # fmt: skip
    config = RULE.heuristic(op, make_target(chip))
    assert (config.promote, config.subgroups["m"]) == ((), 1)
    own = config.workgroup_tile["n"] // config.subgroups["n"]
    tile = {**config.workgroup_tile, "n": 2 * own}
    two = replace(config, subgroups={"m": 1, "n": 2}, workgroup_tile=tile, splits=1)
    check(op, arrays(op), chip, two)


def test_rows_across_memory_go_through_shared_memory():
    op = ops.matmul((96, 16), (96, 64), transpose_lhs=True, dtype=HALF, result_dtype="float32")
    config = RULE.heuristic(op, make_target("rocm:gfx942"))
    assert config.promote == ("lhs",)
    check(op, arrays(op), "rocm:gfx942", config)
    with pytest.raises(
        ScheduleError, match="lhs is read by columns; expected among those promoted"
    ):
        RULE.lower(op, make_target("rocm:gfx942"), replace(config, promote=()))
    with pytest.raises(ScheduleError, match=r"promote is \['bias'\]; expected some of lhs, rhs"):
        RULE.lower(op, make_target("rocm:gfx942"), replace(config, promote=("bias",)))


@pytest.mark.parametrize("result", ["float16", "float64"])
def test_all_types_and_rows_of_any_length_have_tiles(result):
    """However many registers conversions and narrow reads ask for."""
    for lhs, rhs in (("float8_e5m2", "float8_e5m2"), (HALF, "int8")):
        types = ops.TensorType((3, 300, 301), lhs), ops.TensorType((3, 301, 303), rhs)
        op = ops.matmul(*types, result_dtype=result)
        assert RULE.heuristic(op, make_target("rocm:gfx1100")).mma_kind


def test_types_that_a_chip_cannot_multiply_are_refused():
    mixed = ops.matmul(ops.TensorType((4, 4), "float8_e4m3fnuz"), (4, 4))
    assert "is AMD's" in RULE.applies(mixed, make_target("cuda:sm_80"))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("chip", "transpose_lhs", "transpose_rhs"),
    [
        ("cuda:sm_80", False, False),
        ("cuda:sm_80", True, True),
        ("rocm:gfx1100", True, False),
        ("rocm:gfx1100@wave64", False, True),
    ],
)
def test_lanes_multiply_what_no_instruction_does(chip, transpose_lhs, transpose_rhs):
    op = ops.matmul(
        (12, 34) if transpose_lhs else (34, 12),
        (20, 12) if transpose_rhs else (12, 20),
        transpose_lhs=transpose_lhs,
        transpose_rhs=transpose_rhs,
    )
    kind = RULE.heuristic(op, make_target(chip)).mma_kind
    along = ("KM"[transpose_lhs], "NK"[transpose_rhs])
    assert kind.removesuffix("_W64").endswith(f"x4_{along[0]}{along[1]}")
    check(op, arrays(op), chip)


def test_other_roundings_are_for_who_asks():
    op, chip = ops.matmul((32, 32), (32, 32)), "cuda:sm_80"
    config = replace(
        RULE.heuristic(op, make_target(chip)),
        mma_kind="NV_MMA_SYNC_F32_16x8x8_TF32",
        workgroup_tile={"m": 32, "n": 32},
        subgroups={"m": 1, "n": 1},
        reduction_tile={"k": 16},
    )
    (done,) = check(op, arrays(op), chip, config)
    assert done.counts["NV_MMA_SYNC_F32_16x8x8_TF32"]


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx942"])
def test_extents_known_at_call_time(chip):
    op = ops.matmul(("b", "m", "k"), ("b", "k", "n"), dtype=HALF)
    config = small(op, chip)
    for m, n, k in ((1, 1, 1), (35, 18, 40)):
        check(op, arrays(op, b=2, m=m, n=n, k=k), chip, config)


@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx942"])
def test_floats_of_8_bits_end_with_a_depth_known_at_call_time(chip):
    types = ops.TensorType((20, "k"), HALF), ops.TensorType((18, "k"), "float8_e5m2")
    op = ops.matmul(*types, transpose_rhs=True, result_dtype="float32")
    check(op, arrays(op, k=37), chip, replace(small(op, chip), stages=1))


@pytest.mark.costly
@pytest.mark.parametrize(("chip", "columns"), [("rocm:gfx90a", 8), ("rocm:gfx942", 16)])
def test_few_columns_of_8_bits_are_copied_by_fewer_lanes(chip, columns):
    """All lanes of a workgroup would copy more than its tile of an open K has."""
    types = ops.TensorType((40, "k"), "float8_e4m3fn"), ops.TensorType(("k", columns), "int8")
    op = ops.matmul(*types, result_dtype="float32")
    for k in (37, 128):
        check(op, arrays(op, k=k), chip)


def small(op, chip):
    """A config of one instruction for each of four subgroups."""
    config = RULE.heuristic(op, make_target(chip))
    mma = mma_kind(config.mma_kind)
    return replace(
        config,
        subgroups={"m": 2, "n": 2},
        workgroup_tile={"m": 2 * mma.m, "n": 2 * mma.n},
        reduction_tile={"k": mma.k},
    )


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx942", "rocm:gfx1100"])
def test_parts_of_k_are_added_by_a_second_kernel(chip):
    bias = ops.TensorType((18,), "float32")
    op = ops.matmul((2, 5, 100), (2, 100, 18), [bias], epilogue="max(arg0 + arg1, 0)", dtype=HALF)
    for splits in (2, 3):
        first, _ = check(op, arrays(op), chip, replace(small(op, chip), splits=splits))
        assert first.grid[2] == 2 * splits


def test_parts_of_k_of_a_length_known_at_call_time():
    op = ops.matmul((5, "k"), ("k", 18), dtype=HALF)
    for k in (1, 50):
        check(op, arrays(op, k=k), "cuda:sm_80", replace(small(op, "cuda:sm_80"), splits=2))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("chip", "workgroups", "k"),
    [
        ("cuda:sm_80", 5, 100),  # a round of whole tiles, and a rest
        ("cuda:sm_80", 32, 200),  # no whole tile
        ("rocm:gfx942", 7, 200),
        ("rocm:gfx1100", 5, 100),
        ("rocm:gfx1100", 4, 30),  # no rest
    ],
)
def test_workgroups_share_tiles_and_steps(chip, workgroups, k):
    bias = ops.TensorType((40,), "float32")
    op = ops.matmul((2, 35, k), (2, k, 40), [bias], epilogue="max(arg0 + arg1, 0)", dtype=HALF)
    config = replace(small(op, chip), workgroups=workgroups)
    first, *merged = check(op, arrays(op), chip, config)
    tiles = 2 * -(-35 // config.workgroup_tile["m"]) * -(-40 // config.workgroup_tile["n"])
    assert first.grid == (workgroups, 1, 1)
    assert len(merged) == (tiles % workgroups > 0)


@pytest.mark.costly
@pytest.mark.parametrize("m", [1, 70])
def test_workgroups_share_what_is_known_at_call_time(m):
    op, chip = ops.matmul(("m", 100), (100, 40), dtype=HALF), "rocm:gfx942"
    check(op, arrays(op, m=m), chip, replace(small(op, chip), workgroups=5))


def test_steps_of_an_unknown_number_are_not_shared():
    op, target = ops.matmul((8, "k"), ("k", 8), dtype=HALF), make_target("rocm:gfx942")
    with pytest.raises(ScheduleError, match="5 workgroups share steps of K, which are not known"):
        RULE.lower(op, target, replace(RULE.heuristic(op, target), workgroups=5))


def test_workgroups_share_where_the_last_round_would_be_for_few():
    """64 tiles for 108 cores; 512 tiles are rounds enough."""
    target = make_target("cuda:sm_80")
    few = RULE.heuristic(ops.matmul((2048, 8192), (8192, 2048), dtype=HALF), target)
    many = RULE.heuristic(ops.matmul((4096, 4096), (4096, 4096), dtype=HALF), target)
    assert few.workgroups == 108
    assert many.workgroups == 0


@pytest.mark.costly
@pytest.mark.parametrize("chip", CHIPS)
def test_k_is_split_where_tiles_are_few(chip):
    """Only there: a large product has tiles for all cores."""
    target = make_target(chip)
    few = RULE.heuristic(ops.matmul((16, 16384), (16384, 512), dtype=HALF), target)
    many = RULE.heuristic(ops.matmul((4096, 4096), (4096, 4096), dtype=HALF), target)
    assert few.splits > 1 == many.splits
    assert 256 % few.splits == 0  # tiles of K are whole


def test_rows_are_copied_in_runs_where_dims_allow():
    """Two dims of k, the last of 8 elements: runs of 16 bytes, of either operand."""
    maps = ["(m, n, a, b) -> (a, m, b)", "(m, n, a, b) -> (n, a, b)", "(m, n, a, b) -> (m, n)"]
    op = ops.contraction((6, 64, 8), (64, 6, 8), indexing_maps=maps, dtype=HALF)
    source = ContractionMatrices(op).source("lhs")
    assert (source.name, source.contiguous, source.row) == ("lhs", "k", 8)
    (done,) = check(op, arrays(op), "rocm:gfx942")
    loads = {a.access_bytes for a in done.accesses if a.space == "global" and not a.store}
    assert loads == {16}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"algorithm": "panels"},
            "algorithm is 'panels'; expected one of mma, warpgroup_tma, warpgroup_async",
        ),
        ({"mma_kind": "MFMA_X"}, "mma kind 'MFMA_X' is unknown"),
        ({"mma_kind": "NV_WGMMA_F32_64x64x16_F16"}, "which is warpgroup; expected one of native"),
        ({"subgroups": {"m": 2}}, r"subgroups\['n'\] is None; expected a number from 1"),
        ({"workgroup_tile": {"m": 48, "n": 64}}, r"\['m'\] is 48; expected a multiple of"),
        ({"reduction_tile": {"k": 24}}, r"reduction_tile\['k'\] is 24; expected a multiple of 16"),
        ({"stages": 0}, "stages is 0; expected a number from 1"),
        ({"splits": -1}, "splits is -1; expected a number from 1"),
        ({"workgroups": -1}, "workgroups is -1; expected a number from 0"),
        ({"splits": 2, "workgroups": 2}, "2 splits, and 2 workgroups that share"),
        ({"column_major": True}, "A and B are not each other's transposes"),
    ],
)
def test_configs_that_do_not_fit_are_refused(change, message):
    op, target = ops.matmul((64, 64), (64, 64), dtype=HALF), make_target("cuda:sm_80")
    with pytest.raises(ScheduleError, match=message):
        RULE.lower(op, target, replace(RULE.heuristic(op, target), **change))


def test_matrices_of_more_rows_than_32_bits_count_are_refused():
    op = ops.contraction(
        (1 << 32,), (2,), indexing_maps=["(m, n) -> (m)", "(m, n) -> (n)", "(m, n) -> (n, m)"]
    )
    assert "n is 4294967296" in RULE.applies(op, make_target("cuda:sm_80"))


# The heuristic's tiles of a large product, one workgroup of them: nothing waits for a bank.
@pytest.mark.costly
@pytest.mark.parametrize(
    ("chip", "dtype", "transpose_rhs"),
    [
        ("cuda:sm_80", HALF, False),
        ("rocm:gfx942", HALF, True),
        ("rocm:gfx1201", HALF, False),  # rows are joined and permuted
        ("rocm:gfx1201", "int8", False),  # half the depth leaves room for padding
        ("rocm:gfx950", "int8", False),  # blocks of rows are padded
        ("cuda:sm_86", "int8", False),
    ],
)
def test_main_loops_meet_in_no_bank(chip, dtype, transpose_rhs):
    large = ops.matmul((4096, 4096), (4096, 4096), transpose_rhs=transpose_rhs, dtype=dtype)
    config = RULE.heuristic(large, make_target(chip))
    m, n = (config.workgroup_tile[role] for role in "mn")
    k = 2 * config.reduction_tile["k"]
    op = ops.matmul(
        (m, k), (n, k) if transpose_rhs else (k, n), transpose_rhs=transpose_rhs, dtype=dtype
    )
    (done,) = check(op, arrays(op), chip, config)
    assert done.bank_conflicts == 0


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(3))
def test_random_cases(seed):
    rng = np.random.default_rng(1000 + seed)
    for chip in ("cuda:sm_80", "rocm:gfx942"):
        op, operands = random_case(rng)
        if RULE.applies(op, make_target(chip)) is None:
            check(op, operands, chip)
