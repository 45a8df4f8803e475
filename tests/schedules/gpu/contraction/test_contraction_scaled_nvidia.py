"""Products of blocks on sm_120a's instructions that take their scales: simulated, and compiled."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext import ops, verify
from tvm_iree_ext.catalog.contraction_blocks_random import random_of_blocks
from tvm_iree_ext.codegen.gpu.cuda import find_tool
from tvm_iree_ext.inspection.inspected_kernel import inspect_op
from tvm_iree_ext.intrin import nvidia_scaled
from tvm_iree_ext.reference import block_scaled
from tvm_iree_ext.schedules.gpu.contraction.contraction_rule import GpuContraction
from tvm_iree_ext.schedules.gpu.products import scaled_calls
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets import make_target

T = ops.TensorType
TARGET = make_target("cuda:sm_120a")
RULE = GpuContraction()
DRAWS = {"mx": (), "mxfp4": (("mxfp4",),), "nvfp4": (("nvfp4",),)}


def product(m, n, k, lhs, rhs, block=32, scales="f8E8M0FNU"):
    return ops.matmul(
        T((m, k // block, block), lhs),
        T((n, k // block, block), rhs),
        lhs_scales=T((m, k // block), scales),
        rhs_scales=T((n, k // block), scales),
        transpose_rhs=True,
    )


@pytest.mark.costly
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("seed", range(10))
def test_is_right_on_the_simulator(draw, seed):
    op, operands = random_of_blocks(np.random.default_rng([1, seed]), *DRAWS[draw])
    assert RULE.heuristic(op, TARGET).mma_kind.startswith("NV_MMA_SCALE_F32_16x8x")
    result = verify.check_op(op, operands, TARGET, simulate=True)
    assert result.status == "passed", result.message


def of_4_bits(rng, scales):
    """An NVFP4 product with these scales of A, and what it is."""
    op = product(18, 20, 192, "f4E2M1FN", "f4E2M1FN", 16, "f8E4M3FN")
    elements = [rng.integers(0, 16, (lines, 12, 16), np.uint8) for lines in (18, 20)]
    a, b = (one.view(ml_dtypes.float4_e2m1fn) for one in elements)
    b_scales = rng.integers(0x30, 0x40, (20, 12), np.uint8).view(ml_dtypes.float8_e4m3fn)
    operands = {"lhs": a, "rhs": b, "lhs_scales": scales, "rhs_scales": b_scales}
    want = block_scaled.dequantized(a, scales) @ block_scaled.dequantized(b, b_scales).T
    return op, operands, want


def test_scales_of_e4m3_may_be_below_zero_or_nan():
    rng = np.random.default_rng(3)
    words = rng.integers(0x30, 0x40, (18, 12), np.uint8) | 0x80 * rng.integers(
        0, 2, (18, 12), np.uint8
    )
    words[5, 3], words[17, 0] = 0x7F, 0xFF
    op, operands, want = of_4_bits(rng, words.view(ml_dtypes.float8_e4m3fn))
    got = simulate_op(op, TARGET, operands).results["result"]
    assert np.isnan(got[[5, 17]]).all()
    kept = np.delete(np.arange(18), [5, 17])
    np.testing.assert_allclose(got[kept], want[kept], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("other", ["byte", "thread"])
def test_another_scale_is_found(other, monkeypatch):
    """A kernel that chooses another byte, or other lanes, of the scales of B."""

    def wrong(mma, a, b, c, scales):
        changed = replace(scales[1], **{other: (getattr(scales[1], other) + 1) % 4})
        return nvidia_scaled.scaled_call(mma, a, b, c, (scales[0], changed))

    rng = np.random.default_rng(0)
    op, operands = product(20, 20, 256, "f8E4M3FN", "f8E4M3FN"), {}
    for side in ("lhs", "rhs"):
        numbers = rng.standard_normal((20, 8, 32)) * np.exp2(rng.integers(-8, 2, (20, 8, 1)))
        elements, scales, _ = block_scaled.quantized(numbers.reshape(20, 256), "mxfp8_e4m3")
        operands |= {side: elements, f"{side}_scales": scales}
    want = simulate_op(op, TARGET, operands).results["result"]
    monkeypatch.setattr(scaled_calls, "scaled_call", wrong)
    assert not np.allclose(simulate_op(op, TARGET, operands).results["result"], want)


@pytest.mark.skipif(not (find_tool("ptxas") and find_tool("nvdisasm")), reason="no ptxas, nvdisasm")
@pytest.mark.parametrize(
    ("how", "instruction"),
    [
        (("f8E4M3FN", "f4E2M1FN"), "QMMA.SF.16832.F32.E4M3.E2M1.E8"),
        (("f6E2M3FN", "f6E3M2FN"), "QMMA.SF.16832.F32.E2M3.E3M2.E8"),
        (("f4E2M1FN", "f4E2M1FN"), "OMMA.SF.16864.F32.E2M1.E2M1.E8"),
        (("f4E2M1FN", "f4E2M1FN", 16, "f8E4M3FN"), "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X"),
    ],
    ids=["mxfp8 by mxfp4", "mxfp6", "mxfp4", "nvfp4"],
)
def test_compiles_without_spills_and_advice(how, instruction):
    code = inspect_op(product(4096, 4096, 4096, *how), TARGET)
    (kernel,) = code.resources.values()
    assert (kernel.spills, kernel.scratch_bytes, kernel.advice) == (0, 0, ())
    assert code.assembly.count(instruction) >= 32
    assert code.assembly.count("LDSM") == code.assembly.count(instruction) // 2


@pytest.mark.parametrize("dtype", ["f8E4M3FN", "f4E2M1FN"])
def test_rows_of_shared_memory_meet_different_banks(dtype):
    op = product(128, 128, 256, dtype, dtype)
    operands = {
        one.name: np.full(one.shape, 127 if "scales" in one.name else 0, np.uint8).view(one.dtype)
        for one in op.signature.arguments
    }
    (found,) = simulate_op(op, TARGET, operands).simulations
    assert found.bank_conflicts == 0


@pytest.mark.parametrize(
    "op",
    [
        product(64, 64, 128, "f8E4M3FN", "f4E2M1FN", 16, "f8E4M3FN"),
        product(64, 64, 128, "f4E2M1FN", "f4E2M1FN", 16),
        product(64, 64, 64, "f4E2M1FN", "f4E2M1FN", 8, "f8E4M3FN"),
    ],
    ids=["E4M3 beside 8 bits", "E8M0 of 16", "E4M3 of 8"],
)
def test_what_no_instruction_takes_is_made_on_the_way(op):
    assert "SCALE" not in RULE.heuristic(op, TARGET).mma_kind
