import numpy as np
import pytest
from tvm_iree_ext.schedules.gpu.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.matmul_warpgroup import (
    plan_warpgroup_matmul,
    schedule_warpgroup_matmul,
)

from tvm_iree_ext.device.code import compile_device
from tvm_iree_ext.device.cuda import find_tool, nvrtc_obstacle
from tvm_iree_ext.device.pipeline import lower_device
from tvm_iree_ext.dtypes import numpy_dtype
from tvm_iree_ext.errors import ScheduleError
from tvm_iree_ext.simt import device_functions, simulate
from tvm_iree_ext.target.mma import tvm_dtype
from tvm_iree_ext.target.mma_table import mma_kind
from tvm_iree_ext.target.names import make_target

HOPPER = make_target("cuda:sm_90a")
KIND = "NV_WGMMA_F32_64x64x16_F16"


def shape_of(kind, m, n, k, lhs_order=(0, 1), rhs_order=(1, 0)):
    mma = mma_kind(kind)
    dtypes = (tvm_dtype(dtype) for dtype in (mma.a, mma.b, mma.c))
    return MatmulShape(m, n, k, *dtypes, lhs_order, rhs_order)


def multiplied(shape, kind, **options):
    schedule = schedule_warpgroup_matmul(shape, HOPPER, kind, **options)
    (kernel,) = device_functions(lower_device(schedule.mod, HOPPER))
    random = np.random.default_rng(1)
    arrays = {
        side: random.integers(-3, 4, shape.extents(side)).astype(numpy_dtype(dtype))
        for side, dtype in (("lhs", shape.lhs_dtype), ("rhs", shape.rhs_dtype))
    }
    arrays["result"] = np.zeros((shape.m, shape.n), shape.result_dtype)
    given = [arrays[parameter.name.removesuffix("_ptr")] for parameter in kernel.params]
    simulation = simulate(kernel, given).check()
    lhs = arrays["lhs"].astype("float64").transpose(shape.lhs_order)
    rhs = arrays["rhs"].astype("float64").transpose(shape.rhs_order)
    np.testing.assert_array_equal(arrays["result"], lhs @ rhs)
    return simulation


@pytest.mark.parametrize("lhs_order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("rhs_order", [(0, 1), (1, 0)])
def test_operands_lie_in_memory_either_way(lhs_order, rhs_order):
    """Either way a descriptor reads them; extents are prime to the tiles."""
    simulation = multiplied(shape_of(KIND, 70, 100, 104, lhs_order, rhs_order), KIND, stages=2)
    assert simulation.counts[KIND] == 2 * 2 * 2 * 4  # of the workgroups, steps of 64
    assert simulation.bank_conflicts == 0


@pytest.mark.parametrize("stages", [1, 3])
def test_stages(stages):
    assert multiplied(shape_of(KIND, 64, 64, 320), KIND, stages=stages).bank_conflicts == 0


@pytest.mark.parametrize("kind", ["NV_WGMMA_F32_64x128x16_BF16", "NV_WGMMA_F16_64x128x16_F16"])
def test_other_types(kind):
    multiplied(shape_of(kind, 64, 128, 64), kind)


def test_it_compiles_to_its_instruction():
    obstacle = nvrtc_obstacle()
    if obstacle or not find_tool("nvdisasm"):
        pytest.skip(obstacle or "needs nvdisasm (pip install nvidia-cuda-nvdisasm)")
    schedule = schedule_warpgroup_matmul(shape_of(KIND, 4096, 4096, 4096), HOPPER, KIND, stages=2)
    code = compile_device(schedule.mod, HOPPER)
    (resources,) = code.resources.values()
    assert (resources.spills, resources.scratch_bytes) == (0, 0)
    assert "HGMMA.64x64x16.F32" in code.assembly
    assert "LDGSTS.E.BYPASS.128" in code.assembly


@pytest.mark.parametrize(
    ("target", "kind", "options", "message"),
    [
        ("cuda:sm_80", KIND, {}, "sm_80 has no such warpgroup instruction"),
        ("cuda:sm_90a", "NV_MMA_SYNC_F32_16x8x16_F16", {}, "no such warpgroup instruction"),
        ("cuda:sm_90a", "NV_WGMMA_F32_64x128x16_BF16", {}, "its types are bfloat16"),
        ("cuda:sm_90a", KIND, {"stages": 4}, "4 stages of tiles take 65536 bytes"),
    ],
)
def test_what_does_not_fit_is_refused(target, kind, options, message):
    shape = shape_of(KIND, 256, 256, 256)
    with pytest.raises(ScheduleError, match=message):
        plan_warpgroup_matmul(shape, make_target(target), kind, **options)
