"""GPU kernels simulated pass by pass: a fault in each pass is found, and the pass named."""

import numpy as np
import pytest
import tvm_ffi
from tvm import ir, tirx
from tvm.script import tirx as T

from tvm_iree_ext import ops
from tvm_iree_ext.access_checks.cpu_stages import SCHEDULED
from tvm_iree_ext.access_checks.gpu_stage_run import first_wrong_on_device
from tvm_iree_ext.access_checks.gpu_stages import DEVICE_STAGES, device_cut_after
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import OpError, SimulationError
from tvm_iree_ext.codegen import pass_seam
from tvm_iree_ext.codegen.gpu import gpu_pipeline
from tvm_iree_ext.codegen.pass_seam import chosen
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_function, simulate_op
from tvm_iree_ext.verify import kernel_checks

PRODUCT = ops.matmul((16, 64), (64, 16), dtype="bfloat16", result_dtype="float32")
CUDA, ROCM = "cuda:sm_80", "rocm:gfx942"
RAW = "tvm_iree_ext.rewrite_memory"  # which AMD's kernels have, and NVIDIA's do not


def wrong_with_the_product(target):
    """What is wrong with a product of matrices, as kernels are lowered now."""
    rng = np.random.default_rng(1)
    left, right = (rng.integers(-4, 5, shape) for shape in ((16, 64), (64, 16)))
    names = [operand.name for operand in PRODUCT.signature.arguments]
    arrays = (array.astype(numpy_dtype("bfloat16")) for array in (left, right))
    try:
        done = simulate_op(PRODUCT, target, dict(zip(names, arrays, strict=True)))
        (result,) = done.check().results.values()
    except SimulationError as error:
        return str(error)
    return "" if (result == left @ right).all() else "another result"


def plant(monkeypatch, stage, fault):
    """Let a pass of the pipeline do something wrong after its work."""

    def with_fault(every):
        return chosen(
            [
                ir.transform.Sequential([one, fault], name=stage) if one.info.name == stage else one
                for one in every
            ]
        )

    monkeypatch.setattr(gpu_pipeline, "chosen", with_fault)


@tirx.transform.prim_func_pass(opt_level=0)
def forgets_stores(func, _mod, _ctx):
    """Nothing is stored to what a kernel has for itself."""

    def store(node):
        return node if node.buffer.scope() == "global" else tirx.Evaluate(0)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.BufferStore, store)))


@pytest.mark.costly
@pytest.mark.parametrize("target", [CUDA, ROCM])
def test_a_right_kernel_is_right_after_every_pass(target):
    assert first_wrong_on_device(lambda: wrong_with_the_product(target)) == ""


@pytest.mark.costly
@pytest.mark.parametrize("stage", DEVICE_STAGES[1:])
def test_a_fault_in_a_pass_shows_after_it(monkeypatch, stage):
    plant(monkeypatch, stage, forgets_stores)
    with pass_seam.edited(device_cut_after(stage)):
        assert wrong_with_the_product(ROCM if stage == RAW else CUDA)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("stage", "target"), [("s_tir.InjectSoftwarePipeline", CUDA), ("privatize_local", ROCM)]
)
def test_the_first_pass_after_which_a_fault_shows_is_named(monkeypatch, stage, target):
    plant(monkeypatch, stage, forgets_stores)
    wrong = first_wrong_on_device(lambda: wrong_with_the_product(target))
    assert wrong.startswith(f"after {stage}: ")


@tirx.transform.prim_func_pass(opt_level=0)
def shares_what_is_live(func, _mod, _ctx):
    """Two shared buffers of one kind are one, whatever is in them."""
    first = {}
    replaced = {}

    def see(node):
        buffer = node.buffer
        if buffer.scope().startswith("shared"):
            replaced[hash(buffer)] = first.setdefault(str(buffer.dtype), buffer)

    tvm_ffi.structural_walk(func.body, (tirx.AllocBuffer, see))
    assert len(first) < len(replaced)
    body = tvm_ffi.structural_map(func.body, (ir.Var, lambda var: replaced.get(hash(var), var)))
    return func.with_body(body)


def test_shared_memory_that_two_live_buffers_get_is_found(monkeypatch):
    stage = "tvm_iree_ext.reuse_storage"
    plant(monkeypatch, stage, shares_what_is_live)
    with pass_seam.edited(device_cut_after(stage)):
        assert wrong_with_the_product(CUDA)


@T.prim_func(s_tir=True)
def beyond_a_row(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    T.func_attr({"global_symbol": "main", "tirx.noalias": True})
    with T.sblock("root"):
        tile = T.sblock_alloc_buffer((8, 8), "float32", scope="shared")
        for _ in T.thread_binding(1, "blockIdx.x"):
            for lane in T.thread_binding(64, "threadIdx.x"):
                with T.sblock("store"):
                    v = T.axis.opaque(64, lane)
                    tile[v // 8, v % 8] = x[v]
                with T.sblock("load"):
                    v = T.axis.opaque(64, lane)
                    y[v] = T.if_then_else(v < 63, tile[v // 8, v % 8 + 1], x[v])


def simulated_after(stage):
    arrays = {"x": np.arange(64, dtype="float32"), "y": np.zeros(64, "float32")}
    with pass_seam.edited(device_cut_after(stage)):
        (done,) = simulate_function(beyond_a_row, CUDA, arrays)
    return done


def test_an_index_outside_of_its_dimension_is_refused_until_buffers_are_flat():
    with pytest.raises(SimulationError, match=r"index 8 is outside of 0\.\.7 in the load tile"):
        simulated_after(SCHEDULED).check()
    simulated_after(DEVICE_STAGES[-1]).check()


@pytest.mark.costly
@pytest.mark.parametrize("target", [CUDA, ROCM])
def test_random_cases_are_right_after_every_pass(target):
    cases = kernel_checks.random_cases(["pack", "attention", "grouped_matmul"], count=1)
    assert [result.message for result in kernel_checks.check(cases, target, passes=True)] == [
        ""
    ] * 3


def test_stages_that_are_none_are_refused():
    with pytest.raises(OpError, match="stage is 'none'; expected one of the schedule, "):
        device_cut_after("none")
