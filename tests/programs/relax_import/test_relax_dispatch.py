"""Modules that TVM's own pipeline builds, with this package's kernels."""

import numpy as np
import pytest
import tvm
from relax_programs import normal
from tvm import relax, tirx

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import BuildError


def module(rows):
    """Attention, a product and a sort among other operators."""
    builder = relax.BlockBuilder()
    shape = (1, rows, 2, 16)
    q, k, v = (relax.Var(name, relax.TensorType(shape, "float32")) for name in "qkv")
    w = relax.Var("w", relax.TensorType((16, 16), "float32"))
    with builder.function("main", [q, k, v, w], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.attention(q, k, v))
            y = builder.emit(relax.op.nn.relu(relax.op.matmul(y, w)))
            y = builder.emit_output(relax.op.sort(y, axis=-1, descending=False))
        builder.emit_func_output(y)
    return builder.get()


@pytest.mark.costly
@pytest.mark.parametrize("rows", [24, None])
def test_tvms_pipeline_links_the_kernels(rows):
    given = module(tirx.Var("rows", "int64") if rows is None else rows)
    mod = ext.relax.Dispatch("llvm", database=())(given)
    (kernels,) = mod.attrs["external_mods"]
    assert kernels is not None
    assert "tvm_iree_ext_attention" in mod.script()
    assert "relax.op.sort" not in mod.script()
    machine = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
    for count in (rows or 24, rows or 7):
        q, k, v = (normal(1, count, 2, 16) for _ in range(3))
        w = normal(16, 16)
        scores = np.einsum("bmhd,bnhd->bhmn", q, k) / 4
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        attended = np.einsum("bhmn,bnhd->bmhd", weights / weights.sum(-1, keepdims=True), v)
        got = machine["main"](*map(tvm.runtime.tensor, (q, k, v, w)))
        want = np.sort(np.maximum(attended @ w, 0), -1)
        np.testing.assert_allclose(got.numpy(), want, 1e-4, 1e-5)


def test_a_module_without_ops_is_left_as_it_is():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            y = builder.emit_output(relax.op.nn.relu(x))
        builder.emit_func_output(y)
    mod = ext.relax.Dispatch("llvm")(builder.get())
    assert "external_mods" not in (mod.attrs or {})
    with pytest.raises(BuildError, match="is for CPUs"):
        ext.relax.Dispatch("cuda:sm_80")
