"""Cycles of matrix units beside the data sheets' peaks."""

import pytest

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.inspection.loop_time.unit_timing import unit_timing
from tvm_iree_ext.targets.gpu import gpu_chip
from tvm_iree_ext.targets.mma.mma_kinds import tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_table

# Boost clocks in GHz, by the vendor's pages of the parts.
CLOCKS = {
    "gfx90a": ("MI250X", 1.7), "gfx942": ("MI300X", 2.1), "gfx950": ("MI355X", 2.4),
    "gfx1100": ("RX 7900 XTX", 2.5), "gfx1201": ("RX 9070 XT", 2.97),
}  # fmt: skip


@pytest.mark.parametrize("chip", CLOCKS)
def test_the_best_products_of_each_type_reach_the_peak(chip):
    """Within what data sheets round; types of which a chip has no full-rate product aside."""
    name, clock = CLOCKS[chip]
    known = gpu_chip(chip)
    part = next(one for one in known.parts if one.name == name)
    rates: dict[str, float] = {}
    for mma in mma_table().values():
        if not mma.on(chip) or not mma.isa or "sparse" in mma.kind or mma.a in ("i4", "f64"):
            continue
        dtype = tvm_dtype(mma.a)
        dtype = "float8" if dtype.startswith("float8") else dtype
        for mnemonic in mma.isa:
            if "mfmac" in mnemonic or "wmmac" in mnemonic:
                continue
            rate = mma.flops / unit_timing(chip).matrix(mnemonic.split()[0])
            rates[dtype] = max(rates.get(dtype, 0.0), rate)
    for dtype in ("float16", "bfloat16", "int8", "float8"):
        if dtype not in part.peak_tflops or dtype not in rates:
            continue
        peak = part.peak_tflops[dtype] * 1e3 / (clock * part.cores * known.simds_per_core)
        assert rates[dtype] == pytest.approx(peak, rel=0.03), dtype


def test_answers_are_scaled():
    slower = unit_timing("gfx942").with_answers(2)
    assert slower.lds_answer_cycles == 2 * unit_timing("gfx942").lds_answer_cycles
    assert slower.memory_bytes == unit_timing("gfx942").memory_bytes


def test_a_chip_without_figures_is_refused():
    with pytest.raises(
        TargetError, match="gfx908: its units' cycles are not known; known are gfx90"
    ):
        unit_timing("gfx908")
