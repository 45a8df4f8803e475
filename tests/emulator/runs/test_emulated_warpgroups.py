"""Kernels of sm_90a whose warpgroups copy and multiply, in both orders: TMA, mbarriers, wgmma."""

from dataclasses import replace

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.codegen.gpu import cuda
from tvm_iree_ext.emulator.runs.emulated_devices import emulated_driver
from tvm_iree_ext.emulator.runs.emulated_ops import emulated_kernel
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup import chosen_warpgroups
from tvm_iree_ext.schedules.gpu.contraction.contraction_rule import GpuContraction
from tvm_iree_ext.targets.names import make_target

OBSTACLE = cuda.nvrtc_obstacle()
pytestmark = pytest.mark.skipif(bool(OBSTACLE), reason=f"PTX is made by NVRTC: {OBSTACLE}")
HOPPER = make_target("cuda:sm_90a")
SMALL = {
    "mma_kind": "NV_WGMMA_F32_64x64x16_F16", "workgroup_tile": {"m": 64, "n": 64},
    "subgroups": {"m": 4, "n": 1}, "stages": 2,
}  # fmt: skip


def product(copies):
    large = ops.matmul((2048, 256), (256, 2048), dtype="float16")
    config = GpuContraction().heuristic(large, HOPPER)
    op = ops.matmul(
        (2, 70, 200), (2, 200, 48), [ops.TensorType((48,), "float16")],
        epilogue="arg0 * 0.5 + arg1", dtype="float16",
    )  # fmt: skip
    return op, replace(config, **SMALL, algorithm=f"warpgroup_{copies}")


def product_of_one_step():
    _, config = product("tma")
    return ops.matmul((70, 64), (64, 48), dtype="float16"), config


def attention():
    shape = (1, 1, 200, 64)
    op = ops.attention((1, 1, 130, 64), shape, shape, dtype="float16", causal="lower_right")
    return op, chosen_warpgroups(op, HOPPER).lowering()


KERNELS = {
    "product, copied by TMA": lambda: product("tma"),
    "product, copied by lanes": lambda: product("async"),
    "product of one step": product_of_one_step,
    "attention": attention,
}


@pytest.mark.costly
@pytest.mark.parametrize("name", KERNELS)
def test_warpgroups_compute_what_the_reference_says(name, tmp_path, monkeypatch):
    monkeypatch.setattr(cuda, "find_tool", lambda tool: None)  # no cubin: it is not executed
    op, config = KERNELS[name]()
    build(op, HOPPER, config, folder=tmp_path / "kernel")
    assert "wgmma" in (tmp_path / "kernel" / "kernel.ptx").read_text()
    rng = np.random.default_rng(0)
    operands = {
        one.name: rng.standard_normal(one.shape).astype(numpy_dtype(one.dtype))
        for one in op.signature.arguments
    }
    entry = ENTRIES[op.name]
    want = entry.reference(op, operands)
    (result,) = want
    allowed = entry.tolerance(op, operands, want)[result]
    for order in (0, 1):
        driver = emulated_driver("cuda", "sm_90a", seed=order, order=order)
        got = emulated_kernel(tmp_path / "kernel", driver)(*operands.values())
        np.testing.assert_allclose(
            got.astype("f8"), want[result].astype("f8"), allowed.relative, allowed.absolute
        )
