import numpy as np
import pytest

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.codegen.gpu.cuda import find_tool, nvrtc_obstacle
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.products.warpgroup_kernel import warpgroup_matmul
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import (
    WarpgroupConfig,
    plan_warpgroup_matmul,
    warpgroup_config,
)
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_function
from tvm_iree_ext.targets.mma.mma_kinds import tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_kind
from tvm_iree_ext.targets.names import make_target

HOPPER = make_target("cuda:sm_90a")
KIND = "NV_WGMMA_F32_64x64x16_F16"
WIDE = "NV_WGMMA_F32_64x256x16_F16"


def shape_of(kind, m, n, k, lhs_order=(0, 1), rhs_order=(1, 0)):
    mma = mma_kind(kind)
    dtypes = (tvm_dtype(dtype) for dtype in (mma.a, mma.b, mma.c))
    return MatmulShape(m, n, k, *dtypes, lhs_order, rhs_order)


def multiplied(shape, kind, **options):
    """The simulation of a product that is exact, without a finding."""
    func = warpgroup_matmul(shape, HOPPER, WarpgroupConfig(kind, **options))
    random = np.random.default_rng(1)
    largest = 1 if shape.result_dtype == "float16" else 3
    arrays = {}
    for side, dtype in (("lhs", shape.lhs_dtype), ("rhs", shape.rhs_dtype)):
        drawn = random.integers(-largest, largest + 1, shape.extents(side))
        arrays[side] = drawn.astype(element_type(dtype))
    arrays["result"] = np.zeros((shape.m, shape.n), shape.result_dtype)
    (done,) = simulate_function(func, HOPPER, arrays)
    lhs = arrays["lhs"].astype("float64").transpose(shape.lhs_order)
    rhs = arrays["rhs"].astype("float64").transpose(shape.rhs_order)
    np.testing.assert_array_equal(arrays["result"].astype("float64"), lhs @ rhs)
    return done.check()


@pytest.mark.parametrize("lhs_order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("rhs_order", [(0, 1), (1, 0)])
def test_operands_lie_in_memory_either_way(lhs_order, rhs_order):
    """Tensor maps put zeros beyond the edges; extents are no multiples of the tiles."""
    done = multiplied(shape_of(KIND, 136, 88, 200, lhs_order, rhs_order), KIND, stages=2)
    assert done.counts[KIND] == 2 * 2 * 2 * 4 * 4  # workgroups, warpgroups, steps of 64
    assert done.counts["tensor map copy"] == 2 * 2 * 4 * (2 if lhs_order == (0, 1) else 3)


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


@pytest.mark.parametrize(
    ("m", "options"),
    [(64, {"consumers": 1, "stages": 3}), (200, {"consumers": 3}), (130, {"tiles": 2})],
    ids=str,
)
def test_warpgroups_tiles_and_stages(m, options):
    multiplied(shape_of(KIND, m, 64, 320), KIND, **options)


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


def test_a_config_by_the_chips_limits():
    config = warpgroup_config(shape_of(WIDE, 4096, 4096, 4096), HOPPER)
    assert config == WarpgroupConfig(WIDE, consumers=2, tiles=1, stages=4, copies="tma")
    plan = plan_warpgroup_matmul(shape_of(WIDE, 4096, 4096, 4096), HOPPER, config)
    assert (plan.tile, plan.slot_bytes) == ((128, 256, 64), 48 * 1024)
    small = warpgroup_config(shape_of(WIDE, 64, 64, 4096), HOPPER)
    assert (small.mma_kind, small.consumers) == (KIND, 1)
    narrow = warpgroup_config(shape_of(WIDE, 8192, 12, 4096), HOPPER)
    assert narrow.mma_kind == "NV_WGMMA_F32_64x16x16_F16"


@pytest.mark.parametrize("rhs_order", [(0, 1), (1, 0)])
def test_it_compiles_to_its_instructions(rhs_order):
    obstacle = nvrtc_obstacle()
    if obstacle or not find_tool("nvdisasm"):
        pytest.skip(obstacle or "needs nvdisasm (pip install nvidia-cuda-nvdisasm)")
    shape = shape_of(WIDE, 4096, 4096, 4096, (0, 1), rhs_order)
    code = compile_device(warpgroup_matmul(shape, HOPPER, WarpgroupConfig(WIDE)), HOPPER)
    (resources,) = code.resources.values()
    assert (resources.spills, resources.scratch_bytes) == (0, 0)
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
