"""Cycles of matrix units beside the data sheets' peaks."""

import pytest
from sass_lines import sass_line

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.codegen.gpu.instruction_counts import cuda_matrix_shape
from tvm_iree_ext.inspection.loop_time.amd_timing import amd_timing
from tvm_iree_ext.inspection.loop_time.nvidia_steps import nvidia_steps
from tvm_iree_ext.inspection.loop_time.nvidia_timing import nvidia_timing
from tvm_iree_ext.targets.gpu import gpu_chip
from tvm_iree_ext.targets.mma.mma_kinds import tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_table

# Boost clocks in GHz, by the vendor's pages of the parts.
AMD = {
    "gfx90a": ("MI250X", 1.7), "gfx942": ("MI300X", 2.1), "gfx950": ("MI355X", 2.4),
    "gfx1100": ("RX 7900 XTX", 2.5), "gfx1201": ("RX 9070 XT", 2.97),
}  # fmt: skip
# H100's and B200's peaks of matrix instructions are at these clocks, others at the boost of 1.98.
NVIDIA = {
    "sm_80": ("A100 80 GB", 1.41), "sm_86": ("RTX 3090", 1.695), "sm_89": ("RTX 4090", 2.52),
    "sm_90": ("H100 SXM", 1.83), "sm_90a": ("H100 SXM", 1.83), "sm_100a": ("B200", 1.86),
}  # fmt: skip
SUBGROUP = {
    "float16": "HMMA.16816.F32", "bfloat16": "HMMA.16816.F32.BF16",
    "tfloat32": "HMMA.1688.F32.TF32", "int8": "IMMA.16832.S8.S8",
    "float8": "QMMA.16832.F32.E4M3.E4M3",
}  # fmt: skip
WARPGROUP = {
    "float16": "HGMMA.64x256x16.F32", "bfloat16": "HGMMA.64x256x16.F32.BF16",
    "tfloat32": "HGMMA.64x256x8.F32.TF32", "int8": "IGMMA.64x256x32.S8.S8",
    "float8": "QGMMA.64x256x32.F32.E4M3.E4M3",
}  # fmt: skip
TENSOR_MEMORY = {
    "float16": "UTCHMMA.128x256x16", "bfloat16": "UTCHMMA.128x256x16",
    "int8": "UTCIMMA.128x256x32", "float8": "UTCQMMA.128x256x32",
}  # fmt: skip
OF_A_SUBGROUP = 0.629  # of Hopper's peak, on average: Luo et al. (2025), 6.2


def peaks(chip, name, clock):
    """Operations of a scheduler in a cycle, by type."""
    known = gpu_chip(chip)
    part = next(one for one in known.parts if one.name == name)
    schedulers = part.cores * known.simds_per_core
    return {dtype: peak * 1e3 / (clock * schedulers) for dtype, peak in part.peak_tflops.items()}


@pytest.mark.parametrize("chip", AMD)
def test_the_best_products_of_each_type_reach_the_peak(chip):
    """Within what data sheets round; types of which a chip has no full-rate product aside."""
    peak = peaks(chip, *AMD[chip])
    rates: dict[str, float] = {}
    for mma in mma_table().values():
        if not mma.on(chip) or not mma.isa or "sparse" in mma.kind or mma.a in ("i4", "f64"):
            continue
        dtype = tvm_dtype(mma.a)
        dtype = "float8" if dtype.startswith("float8") else dtype
        for mnemonic in mma.isa:
            if "mfmac" in mnemonic or "wmmac" in mnemonic:
                continue
            rate = mma.flops / amd_timing(chip).matrix(mnemonic.split()[0])
            rates[dtype] = max(rates.get(dtype, 0.0), rate)
    for dtype in ("float16", "bfloat16", "int8", "float8"):
        if dtype in peak and dtype in rates:
            assert rates[dtype] == pytest.approx(peak[dtype], rel=0.03), dtype


@pytest.mark.parametrize("chip", NVIDIA)
def test_products_of_nvidia_have_the_rate_of_the_peak(chip):
    """On Hopper those of a subgroup aside."""
    timing, whole = nvidia_timing(chip), 1.0
    table = {"sm_90a": WARPGROUP, "sm_100a": TENSOR_MEMORY}.get(chip, SUBGROUP)
    if chip == "sm_90":
        whole = OF_A_SUBGROUP
    for dtype, peak in peaks(chip, *NVIDIA[chip]).items():
        # H100 makes products of 16 bits of a subgroup's of 8-bit floats.
        if dtype not in table or (chip == "sm_90" and dtype == "float8"):
            continue
        rows, columns, depth = cuda_matrix_shape(table[dtype])
        if table is not SUBGROUP:
            rows //= 4  # those of a scheduler
        rate = 2 * rows * columns * depth / timing.matrix(table[dtype])
        assert rate == pytest.approx(whole * peak, rel=0.07 if chip == "sm_90" else 0.03), dtype


def test_products_take_the_cycles_that_ptxas_leaves_between_two():
    """Its stalls in the product of 4096 x 4096 x 4096; on GeForce the unit takes longer."""
    for chip, cycles in {"sm_80": 8, "sm_90": 6, "sm_100": 8}.items():
        timing = nvidia_timing(chip)
        assert timing.matrix(SUBGROUP["float16"]) == timing.matrix(SUBGROUP["int8"]) == cycles
    assert nvidia_timing("sm_90").of_peak == pytest.approx(OF_A_SUBGROUP, rel=0.07)
    (b200,) = gpu_chip("sm_100").parts
    whole = b200.peak_tflops["float16"] * 1e3 / (1.86 * 4 * b200.cores)  # at about that clock
    assert nvidia_timing("sm_100").of_peak == pytest.approx(2 * 16 * 8 * 16 / 8 / whole, rel=0.05)


def test_lanes_of_nvidia_have_the_rate_of_the_peak():
    for chip, (name, clock) in NVIDIA.items():
        peak = peaks(chip, name, 1.98 if chip.startswith(("sm_90", "sm_100")) else clock)["float32"]
        assert 64 / nvidia_timing(chip).cycles("fma") == pytest.approx(peak, rel=0.03), chip


@pytest.mark.parametrize(
    ("columns", "cycles"), [(256, 128), (128, 64), (64, 32), (32, 24), (16, 20), (8, 18)]
)
def test_products_of_warpgroups_take_what_was_measured(columns, cycles):
    """Luo et al. (2025), table 9: both operands in shared memory."""
    text = sass_line(f"HGMMA.64x{columns}x16.F32 R24, gdesc[UR8], R24")
    ((_, found),) = nvidia_steps([text], nvidia_timing("sm_90a"))[0].units
    assert found == cycles


def test_answers_are_scaled():
    slower = amd_timing("gfx942").with_answers(2)
    assert slower.lds_answer_cycles == 2 * amd_timing("gfx942").lds_answer_cycles
    assert slower.memory_bytes == amd_timing("gfx942").memory_bytes


@pytest.mark.parametrize(("timing", "chip"), [(amd_timing, "gfx908"), (nvidia_timing, "sm_120")])
def test_a_chip_without_figures_is_refused(timing, chip):
    with pytest.raises(TargetError, match=f"{chip}: its units' cycles are not known; known are"):
        timing(chip)


def test_a_product_without_figures_is_refused():
    with pytest.raises(TargetError, match=r"QMMA\.16832\.F32: its cycles are not known"):
        nvidia_timing("sm_80").matrix("QMMA.16832.F32")
