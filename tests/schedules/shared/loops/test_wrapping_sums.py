"""Sums of integers as IR's arithmetic is written: known by what they give, and taken in vectors."""

import numpy as np
import pytest
import tvm_ffi
from tvm import tirx

import tvm_iree_ext as ext
from tvm_iree_ext.programs.base.relax_passes import prim_functions
from tvm_iree_ext.schedules.dispatch import schedule_loops
from tvm_iree_ext.schedules.shared.loops.loops_combiners import combiner_of
from tvm_iree_ext.schedules.shared.loops.loops_nests import nests_of
from tvm_iree_ext.targets.names import make_target

SUM = """
func.func @main(%x: tensor<{shape}x{given}>) -> tensor<5x{kind}> {{
  %zero = arith.constant 0 : {kind}
  %e = tensor.empty() : tensor<5x{kind}>
  %i = linalg.fill ins(%zero : {kind}) outs(%e : tensor<5x{kind}>) -> tensor<5x{kind}>
  %0 = linalg.generic {{
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
    iterator_types = ["parallel", "reduction"]
  }} ins(%x : tensor<{shape}x{given}>) outs(%i : tensor<5x{kind}>) {{
  ^bb0(%a: {given}, %b: {kind}):
    {wide}
    %s = arith.addi %b, %w : {kind}
    linalg.yield %s : {kind}
  }} -> tensor<5x{kind}>
  return %0 : tensor<5x{kind}>
}}
"""
SAME = "%same = arith.constant 0 : {kind}\n    %w = arith.addi %a, %same : {kind}"
KINDS = [
    *((kind, kind) for kind in ("i8", "i16", "i32", "i64")),
    *(("i32", "i64"), ("i8", "i32")),
]


def summed(given, kind):
    wide = SAME.format(kind=kind) if given == kind else f"%w = arith.extsi %a : {given} to {kind}"
    return ext.mlir.import_program(SUM.format(shape="5x1000", given=given, kind=kind, wide=wide))


def reduction(imported):
    """The value that is stored, and the buffer that it is added to."""
    for function in prim_functions(imported.module).values():
        for nest in nests_of(function).nests:
            if nest.reduced:
                return function, nest.stores[0]
    raise AssertionError("there is no reduction")


@pytest.fixture(autouse=True)
def iree():
    pytest.importorskip("iree.compiler", reason="IREE is not installed: pip install '.[mlir]'")


@pytest.mark.parametrize(("given", "kind"), KINDS)
def test_a_sum_is_known_and_taken_in_vectors(given, kind):
    function, store = reduction(summed(given, kind))
    combiner = combiner_of(store.value, store.buffer)
    assert combiner is not None
    assert int(combiner.neutral(f"int{kind[1:]}")) == 0
    assert "T.vectorized" in str(schedule_loops(function, make_target("llvm"), "k"))


@pytest.mark.costly
@pytest.mark.parametrize(("given", "kind"), KINDS)
def test_a_sum_wraps(given, kind, tmp_path):
    imported = summed(given, kind)
    program = ext.build(imported, folder=tmp_path / "p")
    dtype = f"int{given[1:]}"
    bounds = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(bounds.min, bounds.max, (5, 1000), dtype, endpoint=True)
    x[0], x[1] = bounds.max, bounds.min
    want = x.astype(f"int{kind[1:]}").sum(1, dtype=f"int{kind[1:]}")
    np.testing.assert_array_equal(program(x), want)


def test_another_mask_is_no_sum():
    _, store = reduction(summed("i64", "i64"))

    def changed(node):
        return tirx.const(0xFFFF, str(node.ty.dtype)) if int(node) == 0xFFFFFFFF else node

    value = tvm_ffi.structural_map(store.value, (tirx.IntImm, changed))
    assert not tvm_ffi.structural_equal(value, store.value)
    assert combiner_of(value, store.buffer) is None
