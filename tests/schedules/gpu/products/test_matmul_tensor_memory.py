"""Products whose sums lie in tensor memory."""

import pytest

from tests.support.warpgroup_products import BLACKWELL, multiplied, shape_of
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.codegen.gpu.cuda import find_tool, nvrtc_obstacle
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.schedules.gpu.products.warpgroup_heuristic import warpgroup_config
from tvm_iree_ext.schedules.gpu.products.warpgroup_kernel import warpgroup_matmul
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import (
    WarpgroupConfig,
    plan_warpgroup_matmul,
)
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_kinds
from tvm_iree_ext.targets.names import make_target

KIND = "NV_TCGEN05_F32_128x64x16_F16"
WIDE = "NV_TCGEN05_F32_128x256x16_F16"
PAIR, WIDE_PAIR = "NV_TCGEN05_F32_256x64x16_F16", "NV_TCGEN05_F32_256x256x16_F16"
KINDS = mma_kinds("sm_100a", ("tensor_memory",))


@pytest.mark.costly
@pytest.mark.parametrize("lhs_order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("rhs_order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("workgroups", [0, 2])
def test_operands_lie_in_memory_either_way(lhs_order, rhs_order, workgroups):
    """Tensor maps put zeros beyond the edges; extents are no multiples of the tiles."""
    shape = shape_of(KIND, 136, 88, 200, lhs_order, rhs_order)
    done = multiplied(shape, KIND, stages=3, workgroups=workgroups)
    assert done.counts[KIND] == 2 * 2 * 4 * 4  # tiles, steps of 64


@pytest.mark.parametrize(
    "kind", ["NV_TCGEN05_F32_128x128x32_F8E4M3FN_F8E5M2", "NV_TCGEN05_I32_128x64x32_I8"]
)
def test_types_of_8_bits_lie_in_memory_either_way(kind):
    """Nothing is turned first."""
    shape = shape_of(kind, 144, 208, 272, (1, 0), (0, 1))
    assert warpgroup_config(shape, BLACKWELL).pad == ()
    multiplied(shape, kind, workgroups=2, stages=2)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("NV_TCGEN05_F32_128x128x16_BF16", {"workgroups": 3}),
        ("NV_TCGEN05_F32_128x64x32_F8E4M3FN", {"tiles": 2, "stages": 2}),
        ("NV_TCGEN05_F32_128x32x32_F8E5M2", {"workgroups": 1}),
        ("NV_TCGEN05_I32_128x256x32_I8", {"workgroups": 1, "stages": 3}),
        ("NV_TCGEN05_F32_128x16x16_F16", {"stages": 2}),
        (KIND, {"tiles": 2, "workgroups": 2}),
        (KIND, {"splits": 3}),
        (KIND, {"pad": ("lhs", "rhs"), "workgroups": 2}),
    ],
    ids=str,
)
def test_types_tiles_turns_and_parts(kind, options):
    odd = 297 if "pad" in options else 304
    multiplied(shape_of(kind, 140, 99 if "pad" in options else 272, odd), kind, **options)


@pytest.mark.costly
@pytest.mark.parametrize("mma", KINDS, ids=lambda mma: mma.name)
def test_every_kind(mma):
    shape = shape_of(mma.name, mma.m + 2, mma.n + 16, 5 * mma.k)
    assert multiplied(shape, mma.name, stages=2).counts[mma.name] == 2 * 2 * 2 * 4


@pytest.mark.parametrize(
    ("kind", "extents", "options"),
    [
        (PAIR, (300, 88, 200), {"workgroups": 2, "stages": 3}),  # four tiles, by one pair in turns
        ("NV_TCGEN05_F32_256x64x16_BF16", (40, 64, 304), {"splits": 2, "stages": 2}),
        ("NV_TCGEN05_I32_256x64x32_I8", (257, 80, 144), {"stages": 2}),
    ],
    ids=str,
)
def test_pairs(kind, extents, options):
    multiplied(shape_of(kind, *extents), kind, **options)


@pytest.mark.costly
@pytest.mark.parametrize("lhs_order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("rhs_order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("kind", [PAIR, "NV_TCGEN05_F32_256x128x32_F8E4M3FN"])
def test_operands_of_pairs_lie_in_memory_either_way(kind, lhs_order, rhs_order):
    multiplied(shape_of(kind, 336, 144, 208, lhs_order, rhs_order), kind, workgroups=4, stages=2)


@pytest.mark.costly
def test_padded_operands_of_pairs():
    multiplied(shape_of(PAIR, 270, 99, 297), PAIR, pad=("lhs", "rhs"), workgroups=2)


@pytest.mark.long
@pytest.mark.skipif(bool(nvrtc_obstacle()), reason=f"PTX: {nvrtc_obstacle()}")
@pytest.mark.parametrize("mma", KINDS, ids=lambda mma: mma.name)
def test_every_kind_compiles(mma):
    func = warpgroup_matmul(
        shape_of(mma.name, 130, mma.n + 16, 5 * mma.k), BLACKWELL, WarpgroupConfig(mma.name, 1)
    )
    (resources,) = compile_device(func, BLACKWELL).resources.values()
    assert (resources.spills, resources.scratch_bytes, resources.advice) == (0, 0, ())


def test_a_config_by_the_chips_limits():
    shape = shape_of(WIDE, 8192, 8192, 4096)
    config = warpgroup_config(shape, BLACKWELL)
    assert config == WarpgroupConfig(WIDE_PAIR, consumers=1, tiles=1, stages=6, workgroups=148)
    plan = plan_warpgroup_matmul(shape, BLACKWELL, config)
    assert (plan.tile, plan.lanes, plan.halves * plan.sum_columns) == ((256, 256, 64), 256, 512)
    assert plan.slot_bytes == (128 + 256 // 2) * 64 * 2


def test_pairs_are_for_tiles_that_fill_the_cores():
    """74 pairs: 4096 x 4096 has 256 tiles, 1024 x 1024 has 64 of 256 x 64, which is the least."""
    found = {}
    for extent in (4096, 1024):
        config = warpgroup_config(shape_of(KIND, extent, extent, extent), BLACKWELL)
        found[extent] = config.mma_kind
    assert found == {4096: WIDE_PAIR, 1024: KIND}


def test_pairs_where_nobody_said_how_many_cores_there_are():
    shape = shape_of(KIND, 4096, 4096, 4096)
    config = warpgroup_config(shape, make_target("cuda:sm_110a"))
    assert (config.mma_kind, config.workgroups) == (WIDE_PAIR, 0)


@pytest.mark.parametrize(
    ("target", "config", "message"),
    [
        ("cuda:sm_100", WarpgroupConfig(KIND, 1), "sm_100 has no such warpgroup instruction"),
        ("cuda:sm_90a", WarpgroupConfig(KIND, 1), "sm_90a has no such warpgroup instruction"),
        ("cuda:sm_100a", WarpgroupConfig(KIND), "2 consumers, 1 columns, copies 'tma'"),
        ("cuda:sm_100a", WarpgroupConfig(KIND, 1, copies="async"), "copies 'async'; with sums"),
        ("cuda:sm_100a", WarpgroupConfig(PAIR, 1, workgroups=3), "1 tiles by 3 workgroups; pairs"),
        ("cuda:sm_100a", WarpgroupConfig(PAIR, 1, tiles=2), "2 tiles by 0 workgroups; pairs"),
        ("cuda:sm_90a", WarpgroupConfig(PAIR, 1), "sm_90a has no such warpgroup instruction"),
        (
            "cuda:sm_100a",
            WarpgroupConfig(WIDE, 1, tiles=2, stages=2, workgroups=4),
            "sums take 1024 columns of tensor memory; there are 512",
        ),
    ],
)
def test_what_does_not_fit_is_refused(target, config, message):
    shape = shape_of(config.mma_kind, 256, 256, 256)
    with pytest.raises(ScheduleError, match=message):
        plan_warpgroup_matmul(shape, make_target(target), config)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("kind", "instructions"),
    [
        (WIDE, ("UTCHMMA gdesc", "UTCBAR")),
        ("NV_TCGEN05_F32_128x256x32_F8E4M3FN", ("UTCQMMA gdesc", "UTCBAR")),
        ("NV_TCGEN05_I32_128x256x32_I8", ("UTCIMMA gdesc", "UTCBAR")),
        (WIDE_PAIR, ("UTCHMMA.2CTA", "UTCBAR.2CTA.MULTICAST", "UTMALDG.2D.2CTA", "UCGABAR_WAIT")),
    ],
)
def test_it_compiles_to_its_instructions(kind, instructions):
    obstacle = nvrtc_obstacle()
    if obstacle or not find_tool("nvdisasm"):
        pytest.skip(obstacle or "needs nvdisasm (pip install nvidia-cuda-nvdisasm)")
    shape = shape_of(kind, 8192, 8192, 4096)
    stages = 4 if mma_kind(kind).workgroups == 1 else 6
    config = WarpgroupConfig(kind, 1, stages=stages, workgroups=148)
    code = compile_device(warpgroup_matmul(shape, BLACKWELL, config), BLACKWELL)
    (resources,) = code.resources.values()
    assert (resources.spills, resources.scratch_bytes, resources.advice) == (0, 0, ())
    for name in (*instructions, "LDTM.x64", "UTMALDG.2D", "SYNCS.PHASECHK"):
        assert name in code.assembly, name
    # One lane is elected: no loop over those that might be active.
    assert "BRA.U.ANY" not in code.assembly
