"""Sums that branches store are complete before the first branch, and nothing waits on the stack."""

import re

import pytest
from tvm.script import tirx as T

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.records.record_choice import lowered
from tvm_iree_ext.targets.names import make_target

USE = "tvm_iree_ext_use_"


def odd_product(chip):
    """A product whose stores are under conditions, as are those of narrow floats on gfx1100."""
    kind = "float8_e4m3fn" if chip == "gfx1100" else "float16"
    return ops.contraction(
        ops.TensorType((20, 100), kind),
        ops.TensorType(("n", 100), kind),
        indexing_maps=["(m, n, k) -> (m, k)", "(m, n, k) -> (n, k)", "(m, n, k) -> (m, n)"],
        result_dtype="float32",
    )


@pytest.mark.parametrize("chip", ["gfx1100", "gfx1201"])
def test_no_product_is_moved_into_a_branch(chip, tmp_path):
    ext.build(odd_product(chip), f"rocm:{chip}", folder=tmp_path / "kernel")
    text = (tmp_path / "kernel" / "kernel.s").read_text()
    assert set(re.findall(r"vgpr_spill_count: +(\d+)", text)) == {"0"}
    last_step = text.partition("s_endpgm")[0].rpartition("s_barrier")[2]
    before, branch, branches = last_step.partition("saveexec")
    assert branch
    assert re.search("v_(wmma|mfma)", before)
    assert not re.search("v_(wmma|mfma)", branches)


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_rows_of_an_open_extent_need_no_stack(kind, tmp_path):
    """A guarded copy stands before the last step: its branch reads no sums."""
    maps = ["(n, k) -> (k)", "(n, k) -> (n, k)", "(n, k) -> (n)"]
    row, rows = ops.TensorType((100,), kind), ops.TensorType(("n", 100), kind)
    total = "int32" if kind == "int8" else kind
    op = ops.contraction(row, rows, indexing_maps=maps, result_dtype=total)
    ext.build(op, "rocm:gfx1201", folder=tmp_path / "kernel")
    text = (tmp_path / "kernel" / "kernel.s").read_text()
    assert set(re.findall(r"vgpr_spill_count: +(\d+)", text)) == {"0"}


def test_sums_of_loops_are_used_before_the_first_branch():
    """Lanes that multiply by themselves: each sum is one, in a loop that LLVM unrolls."""
    target = make_target("rocm:gfx1100")
    module, _ = lowered(ops.matmul((7, 63), (63, 34)), target, None)
    text = lower_device(module, target).script()
    branches = [at for at in range(len(text)) if text.startswith("if thread", at)]
    uses = [at for at in range(len(text)) if text.startswith(USE, at)]
    assert uses
    assert branches
    assert max(uses) < branches[-1]
    between = text[uses[0] : uses[-1]]
    assert between.count("\n") == len(uses) - 1  # one behind another


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
@pytest.mark.parametrize("kind", ["float16x16", "float32x32", "float64x4", "int32x16", "float16x1"])
def test_every_type_is_compiled(chip, kind):
    element, lanes = kind.split("x")
    lanes = int(lanes)
    whole = T.Ramp(0, 1, lanes) if lanes > 1 else 0

    @T.prim_func(s_tir=True)
    def kernel(x: T.Buffer((64 * lanes,), element), y: T.Buffer((64,), element)):
        T.func_attr({"global_symbol": "kernel"})
        lane = T.launch_thread("threadIdx.x", 64)
        sums = T.alloc_buffer((lanes,), element, scope="local")
        for i in T.unroll(lanes):
            sums[i] = x[lane * lanes + i]
        sums[whole] = sums[whole] * sums[whole]
        if lane < 5:
            y[lane] = sums[lanes - 1]

    target = make_target(f"rocm:{chip}")
    assert USE in lower_device(kernel, target).script()
    assert compile_device(kernel, target).binary
