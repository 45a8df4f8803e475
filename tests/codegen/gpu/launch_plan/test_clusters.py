"""Clusters of workgroups: what CUDA source, binary and launch plan say of them."""

import pytest
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.gpu.cuda import nvrtc_obstacle
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.runtime.launch.launch_contract import GpuLimits, KernelReport, disagreements
from tvm_iree_ext.targets.names import make_target

TARGET = make_target("cuda:sm_90")


def two_kernels(workgroups):
    """One without clusters, and one of pairs, which stores the number of each workgroup."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("numbers")
        x = I.arg("x", I.Buffer((workgroups,), "int32"))
        for paired in (False, True):
            with I.launch_thread("blockIdx.x", workgroups) as number:
                if paired:
                    with I.launch_thread("clusterCtaIdx.x", 2), I.launch_thread("threadIdx.x", 32):
                        I.buffer_store(x, number, [number])
                else:
                    with I.launch_thread("threadIdx.x", 32):
                        I.buffer_store(x, tirx.const(0, "int32"), [number])
    return builder.get()


@pytest.mark.skipif(bool(nvrtc_obstacle()), reason=f"PTX: {nvrtc_obstacle()}")
def test_the_kernel_itself_says_how_many_run_together():
    """Launches have no attributes for it; other kernels say nothing."""
    code = compile_device(two_kernels(6), TARGET)
    assert code.ptx.count(".reqnctapercluster 2, 1, 1") == 1
    assert [one.cluster for one in code.reports.values()] == [(1, 1, 1), (2, 1, 1)]
    plain, paired = code.plan()["steps"]
    assert "cluster" not in plain
    assert (paired["cluster"], paired["grid"]) == ([2, 1, 1], [6, 1, 1])


@pytest.mark.skipif(bool(nvrtc_obstacle()), reason=f"PTX: {nvrtc_obstacle()}")
def test_a_grid_is_of_whole_clusters():
    code = compile_device(two_kernels(5), TARGET)
    with pytest.raises(BuildError, match=r"grid.x is launched with 5; clusters have 2 workgroups"):
        code.plan()


def test_binary_and_plan_agree_on_clusters():
    step = {"launch": "k", "grid": [4, 1, 1], "block": [32, 1, 1], "shared": 0, "arguments": []}
    limits = GpuLimits("sm_90", True, 1024, (0, 0, 0), (0, 0, 0), 0, 0)
    report = KernelReport(32, 8, 0, (), cluster=(2, 1, 1))
    assert not list(disagreements({**step, "cluster": [2, 1, 1]}, report, limits))
    (problem,) = disagreements(step, report, limits)
    assert problem == "clusters have [2, 1, 1] workgroups in the binary; by the plan, [1, 1, 1]"
