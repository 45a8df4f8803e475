"""Extents that go by names of CUDA C++: kernels compile, and compute what they did."""

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.codegen.gpu import cuda
from tvm_iree_ext.emulator.runs.emulated_ops import emulate_op

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
