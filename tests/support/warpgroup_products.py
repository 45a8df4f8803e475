"""Products by warpgroups on the simulator, whose results are exact.

With sums in tensor memory they are by one that stores, for sm_100a.
"""

import numpy as np

from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.products.warpgroup_kernel import warpgroup_matmul
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import WarpgroupConfig
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_function
from tvm_iree_ext.targets.mma.mma_kinds import tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_kind
from tvm_iree_ext.targets.names import make_target

HOPPER, BLACKWELL = (make_target(f"cuda:{chip}") for chip in ("sm_90a", "sm_100a"))
KIND = "NV_WGMMA_F32_64x64x16_F16"
WIDE = "NV_WGMMA_F32_64x256x16_F16"


def shape_of(kind, m, n, k, lhs_order=(0, 1), rhs_order=(1, 0), groups=1):
    """The shape of a product in the types of an instruction."""
    mma = mma_kind(kind)
    dtypes = (tvm_dtype(dtype) for dtype in (mma.a, mma.b, mma.c))
    return MatmulShape(m, n, k, *dtypes, lhs_order, rhs_order, groups)


def multiplied(shape, kind, **options):
    """The simulation of a product that is exact, without a finding in any of its kernels."""
    in_tensor_memory = mma_kind(kind).kind == "tensor_memory"
    target = BLACKWELL if in_tensor_memory else HOPPER
    if in_tensor_memory:
        options = {"consumers": 1} | options
    func = warpgroup_matmul(shape, target, WarpgroupConfig(kind, **options))
    random = np.random.default_rng(1)
    largest = 1 if shape.result_dtype == "float16" else 3
    arrays = {}
    for side, dtype in (("lhs", shape.lhs_dtype), ("rhs", shape.rhs_dtype)):
        drawn = random.integers(-largest, largest + 1, shape.extents(side))
        arrays[side] = drawn.astype(element_type(dtype))
    arrays["result"] = np.zeros((shape.m, shape.n), shape.result_dtype)
    done = simulate_function(func, target, arrays)
    lhs = arrays["lhs"].astype("float64").transpose(shape.lhs_order)
    rhs = arrays["rhs"].astype("float64").transpose(shape.rhs_order)
    np.testing.assert_array_equal(arrays["result"].astype("float64"), lhs @ rhs)
    for one in done:
        one.check()
    (product,) = (one for one in done if one.counts.get(kind))
    return product
