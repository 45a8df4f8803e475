"""Contractions on warpgroups: batches, transposed operands, epilogues, and when they are chosen."""

from dataclasses import replace

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.catalog.contraction import CONTRACTION
from tvm_iree_ext.schedules.gpu.contraction.contraction_rule import GpuContraction
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_function
from tvm_iree_ext.targets.names import make_target

HOPPER, BLACKWELL = (make_target(f"cuda:{chip}") for chip in ("sm_90a", "sm_100a"))
RULE = GpuContraction()
HALF = "float16"
SMALL = {
    HOPPER: ("NV_WGMMA_F32_64x64x16_F16", 64),
    BLACKWELL: ("NV_TCGEN05_F32_128x64x16_F16", 128),
}
FORMS = pytest.mark.parametrize(
    ("target", "copies"),
    [(HOPPER, "tma"), (HOPPER, "async"), (BLACKWELL, "tma")],
    ids=["tma", "async", "tensor memory"],
)
CHIPS = pytest.mark.parametrize("target", SMALL, ids=["sm_90a", "sm_100a"])


def config_of(copies="tma", target=HOPPER, **numbers):
    big = RULE.heuristic(ops.matmul((2048, 256), (256, 2048), dtype=HALF), target)
    assert big.algorithm == "warpgroup_tma"
    kind, rows = SMALL[target]
    small = {"mma_kind": kind, "workgroup_tile": {"m": rows, "n": 64},
             "subgroups": {"m": 4, "n": 1}, "stages": 2, "workgroups": 0}  # fmt: skip
    return replace(big, **(small | {"algorithm": f"warpgroup_{copies}"} | numbers))


def check(op, config, target=HOPPER, **extents):
    random = np.random.default_rng(0)
    operands = {
        name: random.integers(-3, 4, [extents.get(extent, extent) for extent in kind.shape]).astype(
            dtypes.numpy_dtype(kind.dtype)
        )
        for name, kind in op.types.items()
        if name != "result"
    }
    module = RULE.lower(op, target, config)
    want = CONTRACTION.reference(op, operands)["result"]
    result = np.zeros(want.shape, dtypes.numpy_dtype(op.types["result"].dtype))
    done = simulate_function(module[op.entry], target, {**operands, "result": result})
    np.testing.assert_array_equal(result.astype("float64"), want.astype("float64"))
    for one in done:
        one.check()
    (product,) = (one for one in done if one.counts.get(config.mma_kind))
    return product


@FORMS
def test_a_batch_with_tails_and_an_epilogue(target, copies):
    op = ops.matmul(
        (3, 70, 72),
        (3, 72, 48),
        [ops.TensorType((48,), HALF), ops.TensorType((3, 70, 48), "float32")],
        epilogue="max(arg0 * 0.5 + arg1, 0) + arg2",
        dtype=HALF,
    )
    done = check(op, config_of(copies, target), target)
    assert bool(done.counts.get("tensor map copy")) == (copies == "tma")


@CHIPS
@pytest.mark.parametrize(
    ("lhs", "rhs", "maps"),
    [
        ((72, 40), (48, 72), ["(m, n, k) -> (k, m)", "(m, n, k) -> (n, k)", "(m, n, k) -> (m, n)"]),
        # Two dims of rows, and the result's last dim is of the op's lhs.
        ((48, 72), (5, 7, 72), [
            "(a, b, n, k) -> (n, k)", "(a, b, n, k) -> (a, b, k)", "(a, b, n, k) -> (a, b, n)"]),
        # A batch in which rows beyond K are those of the next matrix.
        ((2, 72, 64), (2, 72, 64), [
            "(g, m, n, k) -> (g, k, m)", "(g, m, n, k) -> (g, k, n)", "(g, m, n, k) -> (g, m, n)"]),
    ],
)  # fmt: skip
def test_operands_in_any_order(target, lhs, rhs, maps):
    op = ops.contraction(lhs, rhs, indexing_maps=maps, dtype=HALF, result_dtype="float32")
    check(op, config_of(target=target), target)


def test_operands_that_are_no_matrices_are_refused():
    maps = ["(a, g, n, k) -> (a, g, k)", "(a, g, n, k) -> (g, n, k)", "(a, g, n, k) -> (g, a, n)"]
    op = ops.contraction((8, 2, 64), (2, 64, 64), indexing_maps=maps, dtype=HALF)
    with pytest.raises(ScheduleError, match="lhs is no matrix that lies row by row in memory"):
        RULE.lower(op, HOPPER, config_of())


@pytest.mark.costly
@pytest.mark.parametrize(
    ("target", "numbers"),
    [
        (HOPPER, {}),
        (HOPPER, {"workgroups": 5}),
        (HOPPER, {"splits": 2}),
        (HOPPER, {"workgroup_tile": {"m": 64, "n": 128}}),
        (BLACKWELL, {"workgroups": 5}),
        (BLACKWELL, {"splits": 2}),
    ],
    ids=["tile", "turns", "parts", "columns", "halves", "parts of sums in tensor memory"],
)
@pytest.mark.parametrize("dtypes", [(HALF, HALF), (HALF, "float32")], ids=str)
def test_a_batch_with_rows_of_any_length(target, numbers, dtypes):
    """Both operands are padded, one of them not row by row, and the result has odd rows, too."""
    dims = ("m, g, k", "g, k, n", "n", "g, m, n")  # of lhs, rhs, the bias and the result
    maps = [f"(g, m, n, k) -> ({names})" for names in dims]
    op = ops.contraction(
        (70, 3, 133), (3, 133, 91), [ops.TensorType((91,), HALF)],
        indexing_maps=maps, dtype=dtypes[0], result_dtype=dtypes[1],
        epilogue="arg0 + arg1",
    )  # fmt: skip
    check(op, config_of(target=target, pad=SIDES, **numbers), target)


PAIRS = {"mma_kind": "NV_TCGEN05_F32_256x64x16_F16", "workgroup_tile": {"m": 256, "n": 64}}


def test_a_batch_by_pairs():
    """With tails and an epilogue; two pairs take three tiles in turns."""
    op = ops.matmul(
        (3, 70, 72),
        (3, 72, 48),
        [ops.TensorType((48,), HALF), ops.TensorType((3, 70, 48), "float32")],
        epilogue="max(arg0 * 0.5 + arg1, 0) + arg2",
        dtype=HALF,
    )
    check(op, config_of(target=BLACKWELL, workgroups=4, **PAIRS), BLACKWELL)


def test_pairs_of_rows_that_are_known_at_call_time():
    op = ops.matmul((2, "rows", 72), (2, 72, 48), dtype=HALF)
    for rows in (1, 260):
        check(op, config_of(target=BLACKWELL, **PAIRS), BLACKWELL, rows=rows)


def test_one_padded_operand_of_open_rows():
    op = ops.matmul(("rows", 73), (73, 48), dtype=HALF)
    for rows in (1, 130):
        check(op, config_of(pad=("lhs",)), rows=rows)


@FORMS
def test_rows_that_are_known_at_call_time(target, copies):
    op = ops.matmul((2, "rows", 72), (2, 72, 48), dtype=HALF, epilogue="arg0 * 2")
    assert RULE.heuristic(op, target).algorithm == "warpgroup_tma"
    for rows in (1, 130):
        check(op, config_of(copies, target), target, rows=rows)
    op = ops.matmul((64, "depth"), ("depth", 64), dtype=HALF)
    with pytest.raises(ScheduleError, match="fixed extents, but for rows that lie along k"):
        RULE.lower(op, target, config_of(copies, target))


@pytest.mark.parametrize(
    ("m", "n", "k", "algorithm", "numbers"),
    [
        (4096, 4096, 4096, "warpgroup_tma", {"workgroups": 132}),
        (1024, 2048, 4096, "warpgroup_tma", {"workgroups": 0}),  # a tile for each core
        (4096, 4096, 4098, "warpgroup_tma", {"pad": SIDES}),  # rows that no tensor map has
        (300, 300, 301, "mma", {"pad": ()}),  # copies would take longer than they save
        (16, 4096, 4096, "warpgroup_tma", {"splits": 8}),  # memory counts alone
        (128, 256, 65536, "warpgroup_tma", {"splits": 32}),  # few tiles, of which K is split
        (16, 256, 256, "mma", {}),  # few rows, and nothing to wait for
    ],
)
def test_when_they_are_chosen(m, n, k, algorithm, numbers):
    op = ops.matmul((m, k), (n, k), transpose_rhs=True, dtype=HALF)
    config = RULE.heuristic(op, HOPPER)
    assert config.algorithm == algorithm
    assert {name: config.value(name) for name in numbers} == numbers
    assert RULE.heuristic(op, make_target("cuda:sm_90")).algorithm == "mma"


@pytest.mark.parametrize(
    ("m", "n", "k", "algorithm", "kind", "numbers"),
    [
        (8192, 8192, 4096, "warpgroup_tma", "NV_TCGEN05_F32_256x256x16_F16", {"workgroups": 148}),
        (4096, 4096, 4098, "warpgroup_tma", "NV_TCGEN05_F32_256x256x16_F16", {"pad": SIDES}),
        (1024, 1024, 1024, "warpgroup_tma", "NV_TCGEN05_F32_128x64x16_F16", {"workgroups": 0}),
        (8192, 12, 4096, "warpgroup_tma", "NV_TCGEN05_F32_128x16x16_F16", {"workgroups": 0}),
        (300, 300, 301, "mma", "NV_MMA_SYNC_F32_16x8x16_F16", {}),
        (16, 256, 256, "mma", "NV_MMA_SYNC_F32_16x8x16_F16", {}),
    ],
)
def test_when_sums_are_in_tensor_memory(m, n, k, algorithm, kind, numbers):
    op = ops.matmul((m, k), (n, k), transpose_rhs=True, dtype=HALF)
    config = RULE.heuristic(op, BLACKWELL)
    assert (config.algorithm, config.mma_kind) == (algorithm, kind)
    assert {name: config.value(name) for name in numbers} == numbers
    for chip in ("sm_100", "sm_120a"):
        assert RULE.heuristic(op, make_target(f"cuda:{chip}")).algorithm == "mma"


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"stages": 20}, "20 stages of tiles take"),
        ({"stages": 0}, "stages is 0; expected a number from 1"),
        ({"subgroups": {"m": 6}}, r"subgroups\['m'\] is 6; expected a multiple of 4"),
        ({"workgroup_tile": {"m": 96}}, r"workgroup_tile\['m'\] is 96; expected a multiple of 64"),
        ({"mma_kind": "WGMMA"}, "mma kind 'WGMMA' is unknown"),
        ({"mma_kind": "NV_MMA_SYNC_F32_16x8x16_F16"}, "no such warpgroup instruction"),
        ({"algorithm": "warpgroups"}, "algorithm is 'warpgroups'; expected one of mma, warpgroup_"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(numbers, message):
    op = ops.matmul((64, 64), (64, 64), dtype=HALF)
    with pytest.raises(ScheduleError, match=message):
        RULE.lower(op, HOPPER, config_of(**numbers))


@pytest.mark.parametrize("size", [64, 512, 4096])
def test_float32_is_never_rounded_unless_a_config_asks_for_it(size):
    op = ops.matmul((size, size), (size, size), transpose_rhs=True)
    assert "TF32" not in RULE.heuristic(op, HOPPER).mma_kind
    forms = RULE.space(op, HOPPER).forms
    assert not [one.base.mma_kind for one in forms if "TF32" in one.base.mma_kind]
