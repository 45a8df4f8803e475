"""Kernels that no array of a caller's reaches check no arguments; all others do."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.codegen.cpu import trusted_calls
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.programs import trusted_kernels
from tvm_iree_ext.programs.base import relax_passes
from tvm_iree_ext.programs.program_constants import Constants
from tvm_iree_ext.programs.program_lowering import scheduled_program
from tvm_iree_ext.targets.names import make_target

T = "tensor<8x8xf32>"


def product(name, a, b):
    return f"""
  %{name} = linalg.matmul ins(%{a}, %{b} : {T}, {T}) outs(%z : {T}) -> {T}"""


def text(body):
    return f"""
func.func @f(%a: {T}, %b: {T}) -> {T} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {T}
  %z = linalg.fill ins(%zero : f32) outs(%e : {T}) -> {T}
  {body}
}}
"""


# A transpose of its own, since two products read it: one kernel for the caller's array, and one
# for what the program made.
MOVED = f"""
  %c = linalg.transpose ins(%d : {T}) outs(%e : {T}) permutation = [1, 0]"""


@pytest.mark.parametrize(
    ("body", "trusted", "checked"),
    [
        (product("c", "a", "b") + f"return %c : {T}", 0, 1),
        (product("d", "a", "b") + product("c", "d", "b") + f"return %c : {T}", 0, 1),
        (product("d", "a", "b") + product("c", "d", "d") + f"return %c : {T}", 0, 1),
        (product("d", "a", "b") + MOVED + product("g", "c", "c") + f"return %g : {T}", 1, 1),
    ],
)
def test_kernels_that_get_what_the_program_made_are_trusted(body, trusted, checked):
    imported = import_program(text(body))
    scheduled = scheduled_program(imported, make_target("llvm"), Constants(), None)
    marked = trusted_kernels.with_trusted_kernels(relax_passes.plan(scheduled.module))
    kernels = relax_passes.prim_functions(marked).values()
    are_trusted = [trusted_calls.TRUSTED in kernel.attrs for kernel in kernels]
    assert (sum(are_trusted), len(are_trusted) - sum(are_trusted)) == (trusted, checked)


def test_a_callers_array_is_checked_although_kernels_behind_are_not():
    body = product("d", "a", "b") + MOVED + product("g", "c", "c") + f"return %g : {T}"
    program = ext.build_program(import_program(text(body)))
    a, b = np.random.default_rng(0).random((2, 8, 8), "f4")
    d = (a @ b).T
    np.testing.assert_allclose(program(a, b), d @ d, rtol=1e-5)
    np.testing.assert_allclose(program(a.T, b), (a.T @ b).T @ (a.T @ b).T, rtol=1e-5)
    with pytest.raises(CallError):
        program(a[:4], b)


def test_a_check_of_a_computed_number_stays():
    """The number comes of a kernel that reads no argument, and so does what checks it."""
    check = """
  %i = arith.constant 0 : index
  %x = tensor.extract %d[%i, %i] : tensor<8x8xf32>
  %t = arith.constant 0.0 : f32
  %small = arith.cmpf olt, %x, %t : f32
  cf.assert %small, "must be negative"
"""
    body = product("d", "a", "b") + check + product("g", "d", "d") + f"return %g : {T}"
    program = ext.build_program(import_program(text(body)))
    a, b = np.random.default_rng(0).random((2, 8, 8), "f4")
    with pytest.raises(CallError, match="must be negative"):
        program(a, b)
    d = a @ -b
    np.testing.assert_allclose(program(a, -b), d @ d, rtol=1e-5)
