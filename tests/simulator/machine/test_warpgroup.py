"""wgmma in the simulator: tiles by descriptor, swizzles, and what may not be forgotten."""

import numpy as np
import pytest
from sample_wgmma import warpgroup_product

from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.intrin.kernel_attributes import with_swizzles
from tvm_iree_ext.layout.analysis import Swizzle
from tvm_iree_ext.simulator import device_functions, simulate
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.machine.warpgroup import encode, tile_addresses
from tvm_iree_ext.targets.mma.mma_kinds import tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_kinds
from tvm_iree_ext.targets.names import make_target

F16 = mma_kind("NV_WGMMA_F32_64x64x16_F16")
SMALL = [mma for mma in mma_kinds("sm_90a", ("warpgroup",)) if mma.n <= 16 or mma.a != "f16"]


def kernel_of(mma, swizzles=None, **how):
    func, own = warpgroup_product(mma.name, **how)
    found = own if swizzles is None else swizzles
    module = lower_device(with_swizzles(func, found) if found else func, make_target("cuda:sm_90a"))
    (kernel,) = device_functions(module)
    return kernel


def run(mma, kernel, *, lhs_k_major=True, rhs_k_major=True, depth=4, **_):
    rng = np.random.default_rng(0)
    kinds = [element_type(tvm_dtype(dtype)) for dtype in (mma.a, mma.b, mma.c)]
    a = rng.integers(-4, 4, (mma.m, mma.k * depth)).astype(kinds[0])
    b = rng.integers(-4, 4, (mma.n, mma.k * depth)).astype(kinds[1])
    c = np.zeros((mma.m, mma.n), kinds[2])
    given = {"A": a if lhs_k_major else a.T.copy(), "B": b if rhs_k_major else b.T.copy(), "C": c}
    done = simulate(kernel, given)
    return done, c.astype("float64"), a.astype("float64") @ b.astype("float64").T


@pytest.mark.costly
@pytest.mark.parametrize("mma", SMALL, ids=lambda mma: mma.name)
@pytest.mark.parametrize("lhs_in_registers", [False, True], ids=["shared", "registers"])
def test_every_type(mma, lhs_in_registers):
    done, c, want = run(mma, kernel_of(mma, lhs_in_registers=lhs_in_registers))
    np.testing.assert_array_equal(c, want)
    assert done.check().counts[mma.name] == 4


@pytest.mark.parametrize(
    "how",
    [
        {"swizzle_bytes": 16},
        {"swizzle_bytes": 32, "steps": 1, "rounds": 4},
        {"swizzle_bytes": 64},
        {"swizzle_bytes": 128, "steps": 4, "rounds": 1},
        {"lhs_k_major": False},
        {"rhs_k_major": False},
        {"lhs_k_major": False, "rhs_k_major": False, "swizzle_bytes": 16},
    ],
    ids=str,
)
def test_swizzles_and_majors(how):
    done, c, want = run(F16, kernel_of(F16, **how), **how)
    np.testing.assert_array_equal(c, want)
    done.check()


def test_another_swizzle_gives_another_product():
    other = {"A_shared": Swizzle(32, 8, 1), "B_shared": Swizzle(32, 8, 1)}
    _, c, want = run(F16, kernel_of(F16, swizzles=other))
    assert (c != want).any()
    _, c, want = run(F16, kernel_of(F16, swizzles={}))
    assert (c != want).any()


def kinds(kernel, without, name, number=0):
    done, c, want = run(F16, without(kernel, name, number))
    return {finding.kind for finding in done.findings}, (c == want).all()


def test_what_may_not_be_forgotten(without):
    kernel = kernel_of(F16)
    found, _ = kinds(kernel, without, "ptx.wgmma_wait_group")
    assert found >= {"uninitialised", "unwaited copy"}
    found, _ = kinds(kernel, without, "ptx.wgmma_commit_group")
    assert "uninitialised" in found
    assert kinds(kernel, without, "ptx.fence_proxy") == ({"instruction"}, True)  # right by chance
    barriers = [kinds(kernel, without, "tvm_storage_sync", number)[0] for number in range(2)]
    assert all("race" in found for found in barriers)


def test_a_descriptor_leads_out_of_shared_memory():
    at = tile_addresses(int(encode(4096, 1, 64, 3)), 64, 16, 16, k_major=True)
    assert at.min() == 4096
    assert len(np.unique(at)) == at.size
    assert at[0, 8] == 4096 + 16
    assert at[1, 0] == 4096 + 128 + 16  # row 1: its first column stands second
    plain = tile_addresses(int(encode(4096, 64, 8, 0)), 64, 16, 16, k_major=True)
    assert (plain[0, 8], plain[8, 0]) == (4096 + 1024, 4096 + 128)
