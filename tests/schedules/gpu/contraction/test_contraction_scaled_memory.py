"""Products of blocks with scales in tensor memory: simulated, and compiled."""

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext import ops, verify
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.catalog.contraction_blocks_random import random_of_blocks
from tvm_iree_ext.codegen.gpu.cuda import find_tool
from tvm_iree_ext.inspection.inspected_kernel import inspect_op
from tvm_iree_ext.reference import block_scaled
from tvm_iree_ext.schedules.gpu.contraction.contraction_matrices import ContractionMatrices
from tvm_iree_ext.schedules.gpu.contraction.contraction_rule import GpuContraction
from tvm_iree_ext.schedules.gpu.contraction.contraction_scaled_memory import tensor_memory_blocks
from tvm_iree_ext.schedules.gpu.products.warpgroup_numbers import lowering_of
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import WarpgroupConfig
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets import make_target
from tvm_iree_ext.verify import kernel_checks

T = ops.TensorType
TARGET = make_target("cuda:sm_100a")
RULE = GpuContraction()
DRAWS = {"mx": (), "mxfp4": (("mxfp4",),), "nvfp4": (("nvfp4",),)}
NVFP4 = ("f4E2M1FN", "f4E2M1FN", 16, "f8E4M3FN")
SMALL = {  # configs of few columns: small products have more tiles
    "workgroups": {"workgroups": 2},
    "parts": {"splits": 2},
    "tiles": {"tiles": 2},
}


def product(m, n, k, lhs, rhs, block=32, scales="f8E8M0FNU", batch=()):
    return ops.matmul(
        T((*batch, m, k // block, block), lhs),
        T((*batch, n, k // block, block), rhs),
        lhs_scales=T((*batch, m, k // block), scales),
        rhs_scales=T((*batch, n, k // block), scales),
        transpose_rhs=True,
    )


def blocks_of(op, target=TARGET):
    return tensor_memory_blocks(op, ContractionMatrices(op), target)


def config_of(op, number=0, **options):
    """The config of an instruction of the op's, of one tile and two stages."""
    blocks = blocks_of(op)
    given = {"stages": 2, "pad": blocks.pad} | options
    return lowering_of(WarpgroupConfig(blocks.kinds[number].name, 1, **given))


@pytest.fixture
def uncompiled(monkeypatch):
    """Checks without compilers, which take longest; what they say is another test's."""

    def simulated(*args, compiled):
        return simulate_op(*args)

    monkeypatch.setattr(kernel_checks, "simulate_op", simulated)


def check(op, operands, config):
    """Whether a product is what the elements by their scales give, in float32's bits."""
    got = simulate_op(op, TARGET, operands, config).check().results["result"]
    lhs, rhs = (
        block_scaled.dequantized(operands[side], operands[f"{side}_scales"])
        for side in ("lhs", "rhs")
    )
    want = lhs @ rhs.swapaxes(-1, -2)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6 * np.abs(want).max())


@pytest.mark.costly
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("seed", range(6))
def test_is_right_on_the_simulator(draw, seed, uncompiled):
    op, operands = random_of_blocks(np.random.default_rng([2, seed]), *DRAWS[draw])
    result = verify.check_op(op, operands, TARGET, config_of(op, seed % 4), simulate=True)
    assert result.status == "passed", result.message


def drawn(m, n, k, lhs, rhs, batch=()):
    """Operands of some formats: random elements, and scales between 1/8 and 8."""
    rng, operands = np.random.default_rng(0), {}
    for side, rows, form in (("lhs", m, lhs), ("rhs", n, rhs)):
        block = block_scaled.FORMATS[form][2]
        numbers = rng.standard_normal((*batch, rows, k // block, block))
        numbers *= np.exp2(rng.integers(-3, 4, (*batch, rows, k // block, 1)))
        elements, scales, _ = block_scaled.quantized(numbers.reshape(*batch, rows, k), form)
        operands |= {side: elements, f"{side}_scales": scales}
    return operands


@pytest.mark.costly
@pytest.mark.parametrize("options", SMALL)
@pytest.mark.parametrize("n", [72, 200])
def test_turns_parts_and_tiles(options, n):
    """Columns of 192 are a tile and a half of scales."""
    op = product(160, n, 320, "f8E4M3FN", "f8E5M2")
    operands = drawn(160, n, 320, "mxfp8_e4m3", "mxfp8_e5m2")
    check(op, operands, config_of(op, 2, **SMALL[options]))


@pytest.mark.costly
@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
@pytest.mark.parametrize("rows", [1, 129])
def test_rows_that_are_known_at_call_time(batch, rows):
    op = product("rows", 70, 96, "f4E2M1FN", "f8E4M3FN", batch=batch)
    operands = drawn(rows, 70, 96, "mxfp4", "mxfp8_e4m3", batch)
    check(op, operands, config_of(op, workgroups=2))


def test_no_rows():
    op = product("rows", 70, 64, "f4E2M1FN", "f8E4M3FN")
    operands = {
        one.name: np.zeros([0 if e == "rows" else e for e in one.shape], np.uint8).view(one.dtype)
        for one in op.signature.arguments
    }
    assert simulate_op(op, TARGET, operands, config_of(op)).check().results["result"].size == 0


def test_scales_of_e4m3_may_be_below_zero_or_nan():
    """K is no multiple of the instruction's, nor of 16 bytes of packed elements."""
    rng = np.random.default_rng(3)
    m, n, blocks = 18, 20, 13
    words = rng.integers(0x30, 0x40, (m, blocks), np.uint8) | 0x80 * rng.integers(
        0, 2, (m, blocks), np.uint8
    )
    words[5, 12], words[17, 0] = 0x7F, 0xFF
    a, b = (
        rng.integers(0, 16, (lines, blocks, 16), np.uint8).view(ml_dtypes.float4_e2m1fn)
        for lines in (m, n)
    )
    scales = [words, rng.integers(0x30, 0x40, (n, blocks), np.uint8)]
    scales = [one.view(ml_dtypes.float8_e4m3fn) for one in scales]
    op = product(m, n, blocks * 16, *NVFP4)
    operands = {"lhs": a, "rhs": b, "lhs_scales": scales[0], "rhs_scales": scales[1]}
    got = simulate_op(op, TARGET, operands, config_of(op)).check().results["result"]
    want = block_scaled.dequantized(a, scales[0]) @ block_scaled.dequantized(b, scales[1]).T
    assert np.isnan(got[[5, 17]]).all()
    kept = np.delete(np.arange(m), [5, 17])
    np.testing.assert_allclose(got[kept], want[kept], rtol=1e-5, atol=1e-5)


LARGE = (4096, 4096, 4096)


@pytest.mark.parametrize("chip", ["sm_100a", "sm_103a", "sm_110a"])
@pytest.mark.parametrize(
    ("types", "kind", "pad"),
    [
        (("f8E4M3FN", "f8E5M2"), "192x32_B32_F8E4M3FN_F8E5M2", ()),
        (("f8E4M3FN", "f4E2M1FN"), "192x32_B32_F8E4M3FN_F4E2M1FN", ("rhs",)),
        (("f6E2M3FN", "f6E3M2FN"), "192x32_B32_F6E2M3FN_F6E3M2FN", ("lhs", "rhs")),
        (("f4E2M1FN", "f4E2M1FN"), "192x64_B32_F4E2M1FN_F4E2M1FN", ("lhs", "rhs")),
        (NVFP4, "192x64_B16_F4E2M1FN_F4E2M1FN", ("lhs", "rhs")),
    ],
    ids=["mxfp8", "mxfp8 by mxfp4", "mxfp6", "mxfp4", "nvfp4"],
)
def test_large_products_are_in_tensor_memory(chip, types, kind, pad):
    config = RULE.heuristic(product(*LARGE, *types), make_target(f"cuda:{chip}"))
    assert (config.mma_kind, config.pad) == (f"NV_TCGEN05_SCALE_F32_128x{kind}", pad)


@pytest.mark.parametrize(
    ("op", "chip"),
    [
        (product(*LARGE, "f8E4M3FN", "f8E4M3FN"), "sm_100"),
        (product(*LARGE, "f8E4M3FN", "f8E4M3FN"), "sm_90a"),
        (product(64, 64, 128, "f8E4M3FN", "f8E4M3FN"), "sm_100a"),
        (product(4096, "columns", 4096, "f8E4M3FN", "f8E4M3FN"), "sm_100a"),
        (product(*LARGE, "f4E2M1FN", "f4E2M1FN", 16), "sm_100a"),
        (product(*LARGE, "f8E4M3FN", "f4E2M1FN", 16, "f8E4M3FN"), "sm_100a"),
    ],
    ids=["no a", "warpgroups", "few tiles", "open columns", "E8M0 of 16", "E4M3 beside 8 bits"],
)
def test_what_stays_as_it_was(op, chip):
    assert "SCALE" not in RULE.heuristic(op, make_target(f"cuda:{chip}")).mma_kind


def test_tuning_forms_are_of_the_instructions_with_scales():
    op = product(*LARGE, "f4E2M1FN", "f4E2M1FN")
    bases = [form.base for form in RULE.space(op, TARGET).forms]
    kinds = {one.mma_kind for one in bases if one.algorithm == "warpgroup_tma"}
    # Two tiles of 256 columns, by turns, leave none for scales.
    assert kinds == {kind.name for kind in blocks_of(op).kinds if kind.n < 256}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pad": ()}, "lhs is no matrix that lies row by row in memory as multiplied"),
        ({"stages": 1}, "1 tiles, 1 stages; expected 1 and 2 or more"),
        ({"tiles": 2, "workgroups": 4, "number": 3}, "sums and scales take 1056 columns"),
        ({"stages": 9}, "9 stages of tiles take"),
    ],
    ids=str,
)
def test_configs_that_do_not_fit_are_refused(options, message):
    op = product(512, 512, 512, "f4E2M1FN", "f4E2M1FN")
    with pytest.raises(ScheduleError, match=message):
        RULE.lower(op, TARGET, config_of(op, **options))


@pytest.mark.costly
@pytest.mark.skipif(not (find_tool("ptxas") and find_tool("nvdisasm")), reason="no ptxas, nvdisasm")
@pytest.mark.parametrize("chip", ["sm_100a", "sm_103a"])
@pytest.mark.parametrize(
    ("types", "instruction"),
    [(("f8E4M3FN", "f8E4M3FN"), "UTCQMMA"), (("f4E2M1FN", "f4E2M1FN"), "UTCOMMA"),
     (NVFP4, "UTCOMMA.BLOCK16")],
    ids=["mxfp8", "mxfp4", "nvfp4"],
)  # fmt: skip
def test_compiles_to_its_instructions(chip, types, instruction):
    code = inspect_op(product(*LARGE, *types), make_target(f"cuda:{chip}"))
    for kernel in code.resources.values():
        assert (kernel.spills, kernel.scratch_bytes, kernel.advice) == (0, 0, ())
    for name in (instruction, "UTCCP.T.S.4x32dp128bit", "LDTM.x64", "UTMALDG.2D"):
        assert name in code.assembly, name
    assert "BRA.U.ANY" not in code.assembly  # one lane is elected
