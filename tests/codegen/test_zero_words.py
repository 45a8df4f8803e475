"""A zero that is computed, and reinterpreted: TVM takes it for a pointer that is null."""

import numpy as np
import pytest
from tvm import IRModule
from tvm.script import tirx as T

import tvm_iree_ext as ext
from tvm_iree_ext.codegen.zero_words import write_zeros

ZEROS = """
func.func @main(%x: tensor<37x{given}>) -> tensor<37x{wanted}> {{
  %e = tensor.empty() : tensor<37x{wanted}>
  %0 = linalg.generic {{
    indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = ["parallel"]
  }} ins(%x : tensor<37x{given}>) outs(%e : tensor<37x{wanted}>) {{
  ^bb0(%a: {given}, %b: {wanted}):
    %z = arith.subi %a, %a : {given}
    %f = arith.bitcast %z : {given} to {wanted}
    linalg.yield %f : {wanted}
  }} -> tensor<37x{wanted}>
  return %0 : tensor<37x{wanted}>
}}
"""
WIDTHS = [("i32", "f32"), ("i16", "bf16"), ("i64", "f64")]


@pytest.mark.parametrize(("given", "wanted"), WIDTHS)
@pytest.mark.parametrize("target", ["llvm", "rocm:gfx942"])
def test_zeros_that_are_computed_are_reinterpreted(given, wanted, target, tmp_path):
    imported = ext.mlir.import_program(ZEROS.format(given=given, wanted=wanted))
    program = ext.build_program(imported, target, folder=tmp_path / "p")
    if target == "llvm":
        x = np.ones(37, f"int{given[1:]}")
        assert not np.any(np.asarray(program(x)).astype("float64"))


def test_zeros_that_jax_subtracts_of_one_another(tmp_path):
    jax = pytest.importorskip("jax")

    def zeros(x):
        three = jax.numpy.full((2,), 3, "uint8")
        return jax.lax.sub(three, three), jax.lax.bitwise_or(x, x)

    program = ext.from_jax(zeros, np.array([True]), folder=tmp_path / "p")
    assert [np.asarray(one).tolist() for one in program(np.array([True]))] == [[0, 0], [True]]


def test_only_words_that_are_all_zero_become_zeros():
    @T.prim_func
    def given(out: T.Buffer((4,), "float32")):
        out[0] = T.reinterpret("float32", T.int32(0))
        out[1] = T.reinterpret("float32", T.int32(1))
        out[2] = T.float32(0) + T.Cast("float32", T.reinterpret("int32", T.float32(-0.0)))

    text = write_zeros(IRModule({"main": given}))["main"].script()
    assert text.count("reinterpret") == 2
    assert "out[0] = T.float32(0" in text
