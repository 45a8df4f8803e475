"""Functions of several kernels in the simulator, and kernels by name."""

import numpy as np
import pytest
import tvm_ffi
from tvm.script import tirx as T

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device, lower_with_host
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_function, simulate_kernel
from tvm_iree_ext.targets.names import make_target


def rows_summed(rows_written: int):
    """Doubles rows into a buffer of its own, as many as are asked for, and sums all of them."""

    @T.prim_func(s_tir=True)
    def kernel(a: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 64), "float32")
        C = T.match_buffer(c, (n,), "float32")
        B = T.sblock_alloc_buffer((n, 64), "float32")
        for bx in T.thread_binding(n - rows_written, "blockIdx.x"):
            for tx in T.thread_binding(64, "threadIdx.x"):
                with T.sblock("B"):
                    vb = T.axis.spatial(n, bx)
                    v = T.axis.spatial(64, tx)
                    B[vb, v] = A[vb, v] * T.float32(2)
        for bx in T.thread_binding((n + 31) // 32, "blockIdx.x"):
            for tx in T.thread_binding(32, "threadIdx.x"):
                with T.sblock("C"):
                    v = T.axis.spatial(n, bx * 32 + tx)
                    T.where(bx * 32 + tx < n)
                    T.reads(B[v, 0:64])
                    T.writes(C[v])
                    C[v] = T.float32(0)
                    for k in range(64):
                        C[v] = C[v] + B[v, k]

    return kernel


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_kernels_follow_each_other(target):
    a = np.random.default_rng(0).standard_normal((37, 64)).astype("float32")
    c = np.zeros(37, "float32")
    first, second = simulate_function(rows_summed(0), target, {"A": a, "C": c})
    assert (first.grid, second.grid) == ((37, 1, 1), (2, 1, 1))
    assert first.check().workgroups + second.check().workgroups == 39
    np.testing.assert_allclose(c, 2 * a.sum(axis=1), rtol=1e-4, atol=1e-4)


def test_what_the_first_kernel_left_unwritten_the_second_may_not_read():
    a, c = np.zeros((37, 64), "float32"), np.zeros(37, "float32")
    first, second = simulate_function(rows_summed(1), "cuda:sm_80", {"A": a, "C": c})
    assert first.findings == []
    (finding,) = second.findings
    assert finding.kind == "uninitialised"
    assert finding.lanes == (4,)
    assert "element 2304 of B" in finding.message


def test_the_kernels_are_those_that_are_compiled():
    target = make_target("rocm:gfx942")
    _, kernels = lower_with_host(rows_summed(0), target)
    compiled = lower_device(rows_summed(0), target)
    assert tvm_ffi.structural_equal(kernels, compiled)


def test_refuses_arguments_that_do_not_fit():
    a = np.zeros((37, 64), "float32")
    with pytest.raises(SimulationError, match="arguments A; the function takes A, C"):
        simulate_function(rows_summed(0), "cuda:sm_80", {"A": a})
    with pytest.raises(SimulationError, match="C axis 0 has extent 36; expected 37"):
        simulate_function(rows_summed(0), "cuda:sm_80", {"A": a, "C": np.zeros(36, "float32")})
    with pytest.raises(SimulationError, match="A has rank 1; expected 2"):
        simulate_function(rows_summed(0), "cuda:sm_80", {"A": a[0], "C": a[0]})


def test_a_kernel_has_random_operands():
    done = simulate_kernel("mma:WMMAR4_F32_16x16x16_F16")
    product = done.arrays["A"].astype("float32").reshape(16, 32) @ done.arrays["B"].astype(
        "float32"
    ).reshape(32, 16)
    np.testing.assert_allclose(done.arrays["C"].reshape(16, 16), product, rtol=1e-3, atol=1e-3)
    assert done.simulation.check().hardware.chip == "gfx1200"
