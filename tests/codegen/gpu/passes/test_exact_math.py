"""Compilers keep what the simulator computes: nothing is approximate or flushed but by name."""

import re

import numpy as np
import pytest
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext import ops
from tvm_iree_ext.codegen.gpu.cuda import nvrtc_obstacle
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.inspection.inspected_kernel import inspect_op
from tvm_iree_ext.intrin.fast_exp2 import EXP2_APPROX, fast_exp2, with_definitions
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_function
from tvm_iree_ext.targets.names import make_target

needs_nvrtc = pytest.mark.skipif(bool(nvrtc_obstacle()), reason=f"PTX: {nvrtc_obstacle()}")


def elementwise(function):
    """``y[i] = function(x[i])`` for 64 numbers of float32."""
    with IRBuilder() as built, I.prim_func(s_tir=True):
        I.func_name("main")
        x = I.arg("x", I.Buffer((64,), "float32"))
        y = I.arg("y", I.Buffer((64,), "float32"))
        with I.launch_thread("blockIdx.x", 1), I.launch_thread("threadIdx.x", 64) as lane:
            I.buffer_store(y, function(x[lane]), [lane])
    return built.get()


EXACT = [
    ("division", lambda x: tirx.const(1.0, "float32") / x, r"rcp\.rn\.f32|div\.rn\.f32"),
    ("root", tirx.sqrt, r"sqrt\.rn\.f32"),
    ("sum", lambda x: x + x * x, r"fma\.rn\.f32"),
    ("comparison", lambda x: tirx.Select(x > tirx.abs(x), x, x * x), r"setp\.\w+\.f32"),
]  # fmt: skip


@pytest.mark.costly
@needs_nvrtc
@pytest.mark.parametrize(("name", "function", "instruction"), EXACT, ids=[one[0] for one in EXACT])
def test_cuda_rounds_right_and_keeps_subnormal_numbers(name, function, instruction):
    ptx = compile_device(elementwise(function), make_target("cuda:sm_80")).ptx
    assert re.search(instruction, ptx)
    assert not re.search(r"\.(ftz|approx)\b", ptx)


@needs_nvrtc
def test_cuda_computes_tanh_by_no_instruction():
    """``tanh.approx`` is within 2^-11."""
    assert (
        "tanh.approx" not in compile_device(elementwise(tirx.tanh), make_target("cuda:sm_80")).ptx
    )


def test_attention_names_its_fast_exponential():
    shape = (1, 1, 64, 16)
    code = inspect_op(ops.attention(shape, shape, shape, dtype="float16"), "cuda:sm_80")
    assert code.source.count(f"float {EXP2_APPROX}(float x)") == 1
    assert "exp2f(" not in code.source
    assert code.ptx is None or "ex2.approx.ftz.f32" in code.ptx


def test_a_source_without_it_has_no_definition():
    assert with_definitions('extern "C" __global__ void f() {}') == (
        'extern "C" __global__ void f() {}'
    )


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_the_simulator_flushes_what_the_fast_exponential_flushes(target):
    x = np.full(64, -1.0, "float32")
    x[:3] = -126.0, -127.0, -np.inf
    kind = target.partition(":")[0]
    y = np.zeros_like(x)
    simulate_function(elementwise(lambda one: fast_exp2(kind, one)), target, {"x": x, "y": y})
    np.testing.assert_array_equal(y[:4], np.array([2.0**-126, 0, 0, 0.5], "float32"))
    simulate_function(elementwise(tirx.exp2), target, {"x": x, "y": y})
    assert y[1] == np.float32(2.0**-127)


@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_amd_rounds_right_and_keeps_subnormal_numbers(chip):
    one = tirx.const(1.0, "float32")
    code = compile_device(elementwise(lambda x: one / tirx.sqrt(x)), make_target(f"rocm:{chip}"))
    assert ".amdhsa_float_denorm_mode_32 3" in code.assembly
    assert ".amdhsa_float_denorm_mode_16_64 3" in code.assembly
    assert "v_div_fixup_f32" in code.assembly  # the end of a division that is rounded right
    assert "v_rsq_f32" not in code.assembly
