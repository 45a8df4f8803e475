"""Loops and branches of known extents are functions of the library, and give what others do."""

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext.codegen import code_parts
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.runtime import program_control

SUMS = """
func.func @sums(%x: tensor<{n}x{kind}>, %count: tensor<i64>) -> tensor<{n}x{kind}> {{
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %last = tensor.extract %count[] : tensor<i64>
  %r = scf.for %i = %zero to %last step %one iter_args(%s = %x) -> (tensor<{n}x{kind}>) : i64 {{
    %t = arith.{add} %s, %x : tensor<{n}x{kind}>
    scf.yield %t : tensor<{n}x{kind}>
  }}
  return %r : tensor<{n}x{kind}>
}}
"""
NESTED = """
func.func @nested(%x: tensor<4xf32>, %limit: tensor<f32>) -> (tensor<4xf32>, tensor<i32>) {
  %zero = arith.constant 0 : i32
  %none = tensor.from_elements %zero : tensor<i32>
  %one = arith.constant 1 : i32
  %half = arith.constant 0.5 : f32
  %most = tensor.extract %limit[] : tensor<f32>
  %r:2 = scf.while (%v = %x, %n = %none) : (tensor<4xf32>, tensor<i32>)
      -> (tensor<4xf32>, tensor<i32>) {
    %i = arith.constant 0 : index
    %first = tensor.extract %v[%i] : tensor<4xf32>
    %more = arith.cmpf olt, %first, %most : f32
    scf.condition(%more) %v, %n : tensor<4xf32>, tensor<i32>
  } do {
  ^bb0(%v: tensor<4xf32>, %n: tensor<i32>):
    %steps = tensor.extract %n[] : tensor<i32>
    %next = arith.addi %steps, %one : i32
    %two = arith.constant 2 : i32
    %rest = arith.remsi %steps, %two : i32
    %even = arith.cmpi eq, %rest, %zero : i32
    %w = scf.if %even -> (tensor<4xf32>) {
      %d = arith.addf %v, %v : tensor<4xf32>
      scf.yield %d : tensor<4xf32>
    } else {
      %low = arith.constant 0 : index
      %high = arith.constant 3 : index
      %step = arith.constant 1 : index
      %t = scf.for %j = %low to %high step %step iter_args(%s = %v) -> (tensor<4xf32>) {
        %u = arith.addf %s, %x : tensor<4xf32>
        scf.yield %u : tensor<4xf32>
      }
      scf.yield %t : tensor<4xf32>
    }
    %m = tensor.from_elements %next : tensor<i32>
    scf.yield %w, %m : tensor<4xf32>, tensor<i32>
  }
  return %r#0, %r#1 : tensor<4xf32>, tensor<i32>
}
"""


@pytest.fixture
def no_control(monkeypatch):
    """The run time's loops fail, so that only compiled ones pass."""

    def fail(*_):
        raise AssertionError("a loop was run by the run time")

    monkeypatch.setattr(program_control, "_KINDS", dict.fromkeys(program_control._KINDS, fail))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("f32", "f4"),
        ("f64", "f8"),
        ("f16", "f2"),
        ("i8", "i1"),
        ("i32", "i4"),
        ("i64", "i8"),
    ],
)
def test_elements_of_any_type_are_carried(tmp_path, no_control, kind, dtype):
    add = "addf" if "f" in kind else "addi"
    imported = import_program(SUMS.format(n=5, kind=kind, add=add))
    program = build_program(imported, folder=tmp_path / "sums")
    x = np.arange(1, 6).astype(dtype)
    for count in (0, 1, 7):
        result = program(x, np.array(count, "i8"))
        np.testing.assert_array_equal(result, x * np.array(count + 1).astype(x.dtype))
        assert not np.shares_memory(result, x)


@pytest.mark.parametrize("functions", [1, code_parts._PART])
def test_a_loop_and_a_branch_in_a_loop(tmp_path, no_control, monkeypatch, functions):
    monkeypatch.setattr(code_parts, "_PART", functions)  # of a part of the library
    program = build_program(import_program(NESTED), folder=tmp_path / "nested")
    x = np.array([1, 2, 3, 4], "f4")
    value, steps = x, 0
    while value[0] < 100:
        value, steps = (value * 2 if steps % 2 == 0 else value + 3 * x), steps + 1
    got, count = program(x, np.float32(100))
    np.testing.assert_array_equal(got, value)
    assert count == steps > 4


def test_a_loop_over_words_is_run_by_the_run_time(tmp_path):
    program = build_program(
        import_program(SUMS.format(n=5, kind="bf16", add="addf")), folder=tmp_path / "sums"
    )
    x = np.arange(5).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(program(x, np.array(3, "i8")), x * ml_dtypes.bfloat16(4))


def test_a_loop_over_extents_of_the_call_is_run_by_the_run_time(tmp_path):
    imported = import_program(SUMS.format(n="?", kind="f32", add="addf"))
    program = build_program(imported, folder=tmp_path / "sums")
    x = np.arange(6, dtype="f4")
    np.testing.assert_array_equal(program(x, np.array(3, "i8")), 4 * x)
