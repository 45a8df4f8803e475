"""Products of blocks on instructions that take their scales: simulated, and compiled."""

from dataclasses import replace

import numpy as np
import pytest

from tvm_iree_ext import ops, verify
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.catalog.contraction_blocks_random import random_of_blocks
from tvm_iree_ext.inspection.inspected_kernel import inspect_op
from tvm_iree_ext.intrin import amd
from tvm_iree_ext.reference import block_scaled
from tvm_iree_ext.schedules.gpu.contraction.contraction_rule import GpuContraction
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets import make_target

T = ops.TensorType
TARGET = make_target("rocm:gfx950")
GFX1250 = make_target("rocm:gfx1250")
RULE = GpuContraction()


def product(m, n, k, lhs="f8E4M3FN", rhs="f4E2M1FN", block=32, **attributes):
    blocks = "blocks" if k == "k" else k // block
    return ops.matmul(
        T((m, blocks, block), lhs),
        T((n, blocks, block), rhs),
        lhs_scales=T((m, blocks), attributes.pop("scales", "f8E8M0FNU")),
        transpose_rhs=True,
        **attributes,
    )


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(50))
def test_is_right_on_the_simulator(seed):
    op, operands = random_of_blocks(np.random.default_rng([1, seed]))
    assert RULE.heuristic(op, TARGET).mma_kind.startswith("MFMA_SCALE_F32_16x16x128_B32_")
    result = verify.check_op(op, operands, TARGET, simulate=True)
    assert result.status == "passed", result.message


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(20))
def test_is_right_on_gfx1250(seed):
    op, operands = random_of_blocks(np.random.default_rng([1, seed]))
    assert RULE.heuristic(op, GFX1250).mma_kind.startswith("WMMA_SCALE_F32_16x16x128_B32_")
    result = verify.check_op(op, operands, GFX1250, simulate=True)
    assert result.status == "passed", result.message


def test_another_half_of_the_lanes_has_other_scales(monkeypatch):
    rng = np.random.default_rng(0)
    op, operands = product(64, 20, 256, "f8E4M3FN", "f8E4M3FN"), {}
    for side, lines in (("lhs", 64), ("rhs", 20)):
        numbers = rng.standard_normal((lines, 8, 32)) * np.exp2(rng.integers(-8, 2, (lines, 8, 1)))
        elements, scales, _ = block_scaled.quantized(numbers.reshape(lines, -1), "mxfp8_e4m3")
        operands |= {side: elements} | ({"lhs_scales": scales} if side == "lhs" else {})
    want = simulate_op(op, GFX1250, operands).results["result"]
    call = amd.call
    monkeypatch.setattr(
        amd, "call", lambda *given: call(*given[:-1], (1 - given[-1][0], given[-1][1]))
    )
    assert not np.allclose(simulate_op(op, GFX1250, operands).results["result"], want)


@pytest.mark.parametrize("dtype", ["f8E5M2", "f4E2M1FN"])
def test_compiles_for_gfx1250_without_spills(dtype):
    code = inspect_op(product(4096, 4096, 4096, dtype, dtype), GFX1250)
    (kernel,) = code.resources.values()
    assert (kernel.spills, kernel.scratch_bytes) == (0, 0)
    assert code.assembly.count("v_wmma_scale_f32_16x16x128_f8f6f4") >= 16


@pytest.mark.parametrize(
    ("kind", "rows", "columns", "depth", "subgroups"),
    [("32x32x64", 64, 32, 128, (2, 1)), ("16x16x128", 32, 48, 256, (1, 3))],
)
def test_other_configs_compute_the_same(kind, rows, columns, depth, subgroups):
    rng = np.random.default_rng(5)
    op, operands = random_of_blocks(rng)
    usual = RULE.heuristic(op, TARGET)
    config = replace(
        usual,
        mma_kind=usual.mma_kind.replace("16x16x128", kind),
        workgroup_tile={"m": rows, "n": columns},
        reduction_tile={"k": depth},
        subgroups=dict(zip("mn", subgroups, strict=True)),
    )
    result = verify.check_op(op, operands, TARGET, config, simulate=True)
    assert result.status == "passed", result.message


def test_a_scale_that_is_nan_makes_its_row_nan():
    op = product(18, 20, 192)
    a = np.ones((18, 6, 32), op.types["lhs"].dtype)
    b = np.ones((20, 6, 32), op.types["rhs"].dtype)
    scales = np.full((18, 6), 127, np.uint8)
    scales[3, 5], scales[17, 0], scales[5, 1] = 255, 255, 0
    operands = {"lhs": a, "rhs": b, "lhs_scales": scales.view(op.types["lhs_scales"].dtype)}
    result = simulate_op(op, TARGET, operands).results["result"]
    assert np.isnan(result[[3, 17]]).all()
    assert (np.delete(result, [3, 5, 17], 0) == 192).all()
    assert (result[5] == 160).all()  # beside 2**-127 times 32


def test_rows_that_the_call_tells():
    op = product("rows", 45, 192)
    assert "SCALE" in RULE.heuristic(op, TARGET).mma_kind
    rng = np.random.default_rng(2)
    forms = block_scaled.FORMATS
    a, scales, _ = block_scaled.quantized(rng.standard_normal((37, 192)), "mxfp8_e4m3")
    b = block_scaled.encoded(rng.standard_normal((45, 6, 32)), forms["mxfp4"][0])
    result = verify.check_op(op, {"lhs": a, "rhs": b, "lhs_scales": scales}, TARGET, simulate=True)
    assert result.status == "passed", result.message


@pytest.mark.parametrize("dtype", ["f8E5M2", "f6E2M3FN", "f4E2M1FN"])
def test_compiles_without_spills_and_scratch(dtype):
    code = inspect_op(product(4096, 4096, 4096, dtype, dtype), TARGET)
    (kernel,) = code.resources.values()
    assert (kernel.spills, kernel.scratch_bytes) == (0, 0)
    assert code.assembly.count("v_mfma_scale_f32_16x16x128_f8f6f4") >= 32


@pytest.mark.parametrize("dtype", ["f8E5M2", "f4E2M1FN"])  # of 6 bits, words are stored one by one
def test_rows_of_shared_memory_meet_different_banks(dtype):
    op = product(128, 128, 256, dtype, dtype)
    rng = np.random.default_rng(0)
    operands = {
        one.name: rng.integers(100, 140, one.shape, np.uint8).view(one.dtype)
        if "scales" in one.name
        else np.zeros(one.shape, one.dtype)
        for one in op.signature.arguments
    }
    (found,) = simulate_op(op, TARGET, operands).simulations
    assert found.bank_conflicts == 0


@pytest.mark.parametrize(
    "op",
    [
        product(64, 64, 128, "f4E2M1FN", block=16, scales="f8E4M3FN"),
        product(64, 64, 128, rhs="f16"),
        product(64, 64, "k"),
        product(64, 64, 128, result_dtype="f64"),
        ops.matmul(T((64, 4, 32), "f8E5M2"), T((4, 32, 64), "f8E5M2"), rhs_scales=(4, 64)),
    ],
    ids=["nvfp4", "f16", "open blocks", "f64", "by columns"],
)
def test_what_no_instruction_takes_is_made_on_the_way(op):
    assert "SCALE" not in RULE.heuristic(op, TARGET).mma_kind
    RULE.lower(op.in_words, TARGET, RULE.heuristic(op.in_words, TARGET))  # refuses nothing


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mma_kind": "MFMA_F32_16x16x32_F16"}, "mma_kind is 'MFMA_F32_16x16x32_F16'"),
        ({"workgroup_tile": {"m": 40, "n": 64}}, r"workgroup_tile\['m'\] is 40"),
        ({"reduction_tile": {"k": 32}}, r"reduction_tile\['k'\] is 32"),
        (
            {"workgroup_tile": {"m": 512, "n": 512}, "reduction_tile": {"k": 128}},
            "registers of a lane for what is multiplied",
        ),
        ({"reduction_tile": {"k": 4096}}, "of shared memory"),
    ],
)
def test_refuses_numbers_that_do_not_fit(changes, message):
    op = product(512, 512, 512)
    config = replace(RULE.heuristic(op, TARGET), **changes)
    with pytest.raises(ScheduleError, match=message):
        RULE.lower(op.in_words, TARGET, config)


def test_tuning_has_both_instructions():
    space = RULE.space(product(512, 512, 512), TARGET)
    kinds = {form.base.mma_kind for form in space.forms}
    assert {kind.split("_")[3] for kind in kinds} == {"16x16x128", "32x32x64"}
