"""Names that CUDA C++ has, or takes once: kernels compile, and compute what they did."""

import re

import numpy as np
import pytest
from tvm import ir
from tvm.script import tirx as T

from tvm_iree_ext import ops
from tvm_iree_ext.codegen.gpu import cuda
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.emulator.runs.emulated_ops import emulate_op
from tvm_iree_ext.targets.names import make_target

OBSTACLE = cuda.nvrtc_obstacle()


@pytest.mark.costly
@pytest.mark.skipif(bool(OBSTACLE), reason=f"PTX is made by NVRTC: {OBSTACLE}")
@pytest.mark.parametrize("name", ["half", "min", "exp", "uint4", "rows"])
def test_an_extent_may_have_the_name_of_a_type_or_function(name, monkeypatch):
    monkeypatch.setattr(cuda, "find_tool", lambda tool: None)  # no cubin: it is not executed
    op = ops.matmul((name, 24), (24, 16), dtype="float16", epilogue="max(exp(arg0 * 0.1), 0.5)")
    rng = np.random.default_rng(0)
    lhs, rhs = (rng.integers(-2, 3, shape).astype("float16") for shape in ((9, 24), (24, 16)))
    got = emulate_op(op, "cuda:sm_80", {"lhs": lhs, "rhs": rhs})["result"]
    want = np.maximum(np.exp(lhs.astype("f4") @ rhs.astype("f4") * 0.1), 0.5)
    np.testing.assert_allclose(got, want, rtol=1e-3)


def turned(name, dtype):
    @T.prim_func(s_tir=True)
    def function(x: T.Buffer((64,), dtype), y: T.Buffer((64,), dtype)):
        T.func_attr({"global_symbol": name, "tirx.noalias": True})
        with T.sblock("root"):
            shared = T.sblock_alloc_buffer((64,), dtype, scope="shared.dyn")
            for _ in T.thread_binding(1, "blockIdx.x"):
                for lane in T.thread_binding(64, "threadIdx.x"):
                    with T.sblock("store"):
                        v = T.axis.opaque(64, lane)
                        shared[v] = x[v]
                    with T.sblock("load"):
                        v = T.axis.opaque(64, lane)
                        y[v] = shared[63 - v]

    return function


def test_shared_memory_of_several_kernels_may_be_of_several_types():
    """Declared once more, and of another type, it is refused by NVRTC."""
    kernels = {name: turned(name, name) for name in ("float32", "float64")}
    code = compile_device(ir.IRModule(kernels), make_target("cuda:sm_80"))
    declared = re.findall(r"extern __shared__ \S+ (\w+) (\w+)\[\]", code.source)
    assert sorted(kind for kind, _ in declared) == ["double", "float"]
    assert len({name for _, name in declared}) == 2
