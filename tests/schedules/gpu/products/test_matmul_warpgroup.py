from dataclasses import replace

import pytest

from tests.support.warpgroup_products import HOPPER, KIND, WIDE, multiplied, shape_of
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.codegen.gpu.cuda import find_tool, nvrtc_obstacle
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.products.warpgroup_heuristic import warpgroup_config
from tvm_iree_ext.schedules.gpu.products.warpgroup_kernel import warpgroup_matmul
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import (
    WarpgroupConfig,
    plan_warpgroup_matmul,
)
from tvm_iree_ext.targets.mma.mma_table import mma_kind
from tvm_iree_ext.targets.names import make_target


@pytest.mark.costly
@pytest.mark.parametrize("lhs_order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("rhs_order", [(0, 1), (1, 0)])
def test_operands_lie_in_memory_either_way(lhs_order, rhs_order):
    """Tensor maps put zeros beyond the edges; extents are no multiples of the tiles."""
    done = multiplied(shape_of(KIND, 136, 88, 200, lhs_order, rhs_order), KIND, stages=2)
    assert done.counts[KIND] == 2 * 2 * 2 * 4 * 4  # workgroups, warpgroups, steps of 64
    assert done.counts["tensor map copy"] == 2 * 2 * 4 * (2 if lhs_order == (0, 1) else 3)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("n", "k", "rhs_order"),
    [(70, 101, (1, 0)), (70, 102, (0, 1)), (72, 132, (1, 0))],
    ids=["elements", "4 bytes", "8 bytes"],
)
def test_rows_that_no_tensor_map_has_are_copied_by_lanes(n, k, rhs_order):
    shape = shape_of(KIND, 65, n, k, (0, 1), rhs_order)
    with pytest.raises(ScheduleError, match=r"rows of .* bytes; expected a multiple of 16"):
        plan_warpgroup_matmul(shape, HOPPER, WarpgroupConfig(KIND))
    assert warpgroup_config(shape, HOPPER).copies == "async"
    assert not multiplied(shape, KIND, consumers=1, copies="async").counts.get("tensor map copy")


@pytest.mark.costly
@pytest.mark.parametrize(
    ("m", "options"),
    [(64, {"consumers": 1, "stages": 3}), (200, {"consumers": 3}), (130, {"tiles": 2})],
    ids=str,
)
def test_warpgroups_tiles_and_stages(m, options):
    multiplied(shape_of(KIND, m, 64, 320), KIND, **options)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("kind", "rhs_order"),
    [
        ("NV_WGMMA_F32_64x128x16_BF16", (0, 1)),
        ("NV_WGMMA_F16_64x128x16_F16", (1, 0)),
        ("NV_WGMMA_F32_64x128x8_TF32", (1, 0)),
        ("NV_WGMMA_F32_64x128x32_F8E4M3FN", (1, 0)),
        ("NV_WGMMA_I32_64x128x32_I8", (1, 0)),
        ("NV_WGMMA_F32_64x96x16_F16", (0, 1)),
    ],
)
def test_other_types(kind, rhs_order):
    multiplied(shape_of(kind, 60, 120, 144, (0, 1), rhs_order), kind, consumers=1, stages=2)


def test_the_widest_instruction_in_a_deep_pipeline():
    shape = shape_of(WIDE, 128, 256, 5 * 64)
    done = multiplied(shape, WIDE, consumers=2, stages=4)
    assert done.counts[WIDE] == 2 * 5 * 4


@pytest.mark.costly
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (KIND, {"stages": 3}),
        (KIND, {"stages": 2, "tiles": 2}),
        (KIND, {"consumers": 1, "columns": 2}),
        (KIND, {"copies": "async", "consumers": 1}),
        ("NV_WGMMA_F32_64x64x32_F8E4M3FN", {"columns": 2}),
        ("NV_WGMMA_F16_64x128x16_F16", {"consumers": 3, "stages": 2}),
    ],
    ids=str,
)
def test_workgroups_take_tiles_in_turns(kind, options):
    """Of six tiles or more, 4 workgroups have several; steps are no multiple of stages."""
    shape = shape_of(kind, 330, 330 if "64x128" in kind else 200, 304)
    counts = [multiplied(shape, kind, **options, workgroups=many).counts for many in (0, 4)]
    assert counts[0][kind] == counts[1][kind]


def test_more_workgroups_than_tiles():
    multiplied(shape_of(KIND, 64, 128, 128), KIND, consumers=1, workgroups=5)


@pytest.mark.costly
@pytest.mark.parametrize(
    "kind", [KIND, "NV_WGMMA_F32_64x64x32_F8E4M3FN", "NV_WGMMA_I32_64x64x32_I8"]
)
def test_instructions_side_by_side_read_one_operand(kind):
    shape = shape_of(kind, 120, 240, 272)
    done = multiplied(shape, kind, columns=2, stages=2)
    steps = -(-272 // (4 * mma_kind(kind).k))
    assert done.counts["tensor map copy"] == 2 * 2 * steps  # of two tiles, both operands
    if kind == KIND:
        multiplied(replace(shape, rhs_order=(0, 1)), kind, columns=2, stages=2)


def test_a_config_by_the_chips_limits():
    config = warpgroup_config(shape_of(WIDE, 4096, 4096, 4096), HOPPER)
    assert config == WarpgroupConfig(WIDE, consumers=2, tiles=1, stages=4, workgroups=132)
    plan = plan_warpgroup_matmul(shape_of(WIDE, 4096, 4096, 4096), HOPPER, config)
    assert (plan.tile, plan.slot_bytes) == ((128, 256, 64), 48 * 1024)
    small = warpgroup_config(shape_of(WIDE, 64, 64, 4096), HOPPER)
    assert (small.mma_kind, small.consumers) == (KIND, 1)
    narrow = warpgroup_config(shape_of(WIDE, 8192, 12, 4096), HOPPER)
    assert narrow.mma_kind == "NV_WGMMA_F32_64x16x16_F16"


@pytest.mark.costly
@pytest.mark.parametrize("rhs_order", [(0, 1), (1, 0)])
def test_it_compiles_to_its_instructions(rhs_order):
    obstacle = nvrtc_obstacle()
    if obstacle or not find_tool("nvdisasm"):
        pytest.skip(obstacle or "needs nvdisasm (pip install nvidia-cuda-nvdisasm)")
    shape = shape_of(WIDE, 4096, 4096, 4096, (0, 1), rhs_order)
    code = compile_device(warpgroup_matmul(shape, HOPPER, WarpgroupConfig(WIDE)), HOPPER)
    (resources,) = code.resources.values()
    assert (resources.spills, resources.scratch_bytes, resources.advice) == (0, 0, ())
    for instruction in ("HGMMA.64x256x16.F32", "UTMALDG.2D", "SYNCS.PHASECHK", "USETMAXREG"):
        assert instruction in code.assembly, instruction
    hot = code.instructions("matmul_kernel").hot_loop
    assert hot.mma >= 4
    assert hot.total / hot.mma < 14


@pytest.mark.parametrize(
    ("target", "config", "message"),
    [
        ("cuda:sm_80", WarpgroupConfig(KIND), "sm_80 has no such warpgroup instruction"),
        ("cuda:sm_90", WarpgroupConfig(KIND), "sm_90 has no such warpgroup instruction"),
        (
            "cuda:sm_90a",
            WarpgroupConfig("NV_MMA_SYNC_F32_16x8x16_F16"),
            "no such warpgroup instruction",
        ),
        ("cuda:sm_90a", WarpgroupConfig("NV_WGMMA_F32_64x128x16_BF16"), "its types are bfloat16"),
        ("cuda:sm_90a", WarpgroupConfig(WIDE, stages=5), "5 stages of tiles take 245848 bytes"),
        ("cuda:sm_90a", WarpgroupConfig(WIDE, tiles=2), "take 256 registers of a lane; there are"),
        (
            "cuda:sm_90a",
            WarpgroupConfig(WIDE, consumers=3, stages=2),
            "take 128 registers of a lane; there are 96 for 3 consumers",
        ),
        ("cuda:sm_90a", WarpgroupConfig(KIND, stages=1), "1 stages; expected 1 to 3, 1 or more"),
        ("cuda:sm_90a", WarpgroupConfig(KIND, consumers=4), "4 consumers, 1 tiles"),
        ("cuda:sm_90a", WarpgroupConfig(KIND, copies="bulk"), "copies 'bulk'; there are tma"),
        ("cuda:sm_90a", WarpgroupConfig(KIND, splits=5), "5 splits of 4 steps leave parts empty"),
        ("cuda:sm_90a", WarpgroupConfig(KIND, splits=2, workgroups=2), "2 splits; only products"),
        ("cuda:sm_90a", WarpgroupConfig(KIND, copies="async", pad=("lhs",)), "that tensor maps"),
        ("cuda:sm_90a", WarpgroupConfig(KIND, pad=("result",)), r"pad is \['result'\]; expected"),
    ],
)
def test_what_does_not_fit_is_refused(target, config, message):
    shape = shape_of(KIND if "BF16" in config.mma_kind else config.mma_kind, 256, 256, 256)
    with pytest.raises(ScheduleError, match=message):
        plan_warpgroup_matmul(shape, make_target(target), config)


def test_types_without_an_instruction_are_refused():
    shape = MatmulShape(64, 64, 64, "float32", "float16", "float32")
    with pytest.raises(ScheduleError, match=r"sm_90a has no warpgroup instruction for float32"):
        warpgroup_config(shape, HOPPER)


def test_extents_of_call_time_are_refused():
    shape = MatmulShape(64, 64, None, "float16", "float16", "float32")
    with pytest.raises(ScheduleError, match="it takes matrices of fixed extents"):
        plan_warpgroup_matmul(shape, HOPPER, WarpgroupConfig(KIND))
