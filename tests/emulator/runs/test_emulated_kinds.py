"""The smallest kernels of NVIDIA's matrix instructions: products of small integers, exact in PTX.

The instruction's registers follow the manual in the emulator, and the table in the kernel.
"""

import numpy as np
import pytest
from sample_wgmma import warpgroup_product

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.codegen.gpu import cuda
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.emulator.driver import EmulatedDevice, EmulatedLaunch
from tvm_iree_ext.emulator.ptx.running.launch import load_ptx
from tvm_iree_ext.intrin.kernel_attributes import with_swizzles
from tvm_iree_ext.simulator.runs.sample_mma import tile_product
from tvm_iree_ext.targets.names import make_target

OBSTACLE = cuda.nvrtc_obstacle()
pytestmark = pytest.mark.skipif(bool(OBSTACLE), reason=f"PTX is made by NVRTC: {OBSTACLE}")
HOPPER = make_target("cuda:sm_90a")


def emulated(func, arrays, order):
    """What a function's kernels leave in arrays, by name."""
    code = compile_device(func, HOPPER)
    plan = code.plan()
    device = EmulatedDevice("cuda", "sm_90a", order, order)
    memory, kernels = device.memory, load_ptx(code.ptx.encode(), device)
    made = {one["name"]: arrays(one) for one in plan["parameters"]}
    addresses = {name: memory.allocate(array.nbytes) for name, array in made.items()}
    for name, array in made.items():
        memory.write(addresses[name], array.tobytes())
    for step in plan["steps"]:
        arguments = [addresses[one["array"]].to_bytes(8, "little") for one in step["arguments"]]
        kernels[step["launch"]].launch(
            EmulatedLaunch(
                device, step["launch"], tuple(step["grid"]), tuple(step["block"]),
                step["shared"], arguments,
            )
        )  # fmt: skip
    memory.findings.check("kernel")
    left = np.frombuffer(memory.read(addresses["C"], made["C"].nbytes), made["C"].dtype)
    return made, left.reshape(made["C"].shape)


def small(one):
    rng = np.random.default_rng(len(one["name"]) + one["shape"][0])
    return rng.integers(-3, 4, one["shape"]).astype(numpy_dtype(one["dtype"]))


@pytest.fixture(autouse=True)
def ptx_alone(monkeypatch):
    monkeypatch.setattr(cuda, "find_tool", lambda tool: None)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("NV_MMA_SYNC_F16_16x8x32_F8E4M3FN", {}),
        ("NV_MMA_SYNC_F32_16x8x8_TF32", {}),
        ("NV_MMA_SYNC_F64_16x8x16_F64", {}),
        ("NV_MMA_SYNC_F32_16x8x16_BF16", {"shared": True, "ldmatrix": True}),
        ("NV_MMA_SYNC_I32_16x8x32_I8", {"shared": True}),
    ],
)
def test_a_warps_product_is_exact(name, named):
    made, got = emulated(tile_product(name, **named), small, 0)
    want = made["A"].astype("f8") @ made["B"].astype("f8")
    np.testing.assert_array_equal(got.astype("f8"), want)


def test_elements_of_4_bits_lie_two_to_a_byte():
    def bytes_(one):
        rng = np.random.default_rng(one["shape"][0])
        return rng.integers(-128, 128, one["shape"]).astype(numpy_dtype(one["dtype"]))

    made, got = emulated(tile_product("NV_MMA_SYNC_I32_16x8x64_I4"), bytes_, 0)
    halves = [
        [((made[name].astype(int) >> shift & 15) ^ 8) - 8 for shift in (0, 4)] for name in "AB"
    ]
    (a_low, a_high), (b_low, b_high) = halves
    np.testing.assert_array_equal(got, a_low @ b_low + a_high @ b_high)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("NV_WGMMA_F32_64x64x32_F8E4M3FN", {"steps": 4}),
        ("NV_WGMMA_I32_64x64x32_I8", {"steps": 1, "swizzle_bytes": 16}),
        ("NV_WGMMA_F32_64x128x8_TF32", {"steps": 4}),
        ("NV_WGMMA_F16_64x128x16_F16", {"steps": 4, "rhs_k_major": False}),
        (
            "NV_WGMMA_F32_64x64x16_BF16",
            {"steps": 2, "lhs_k_major": False, "lhs_in_registers": True},
        ),
        ("NV_WGMMA_F32_64x64x16_F16", {"steps": 2, "lhs_k_major": False}),
    ],
)
def test_a_warpgroups_product_is_exact(name, named):
    func = with_swizzles(*warpgroup_product(name, **named))
    made, got = emulated(func, small, 1)
    a = made["A"] if named.get("lhs_k_major", True) else made["A"].T
    b = made["B"].T if named.get("rhs_k_major", True) else made["B"]
    np.testing.assert_array_equal(got.astype("f8"), a.astype("f8") @ b.astype("f8"))
