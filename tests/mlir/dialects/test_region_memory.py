"""Loops and branches that read and write memrefs from outside."""

import numpy as np
import pytest

from tvm_iree_ext.base.errors import MlirError

TEXT = """
func.func @powers(%x: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %two = arith.constant 2.0 : f32
  scf.for %i = %c1 to %n step %c1 {
    %before = arith.subi %i, %c1 : index
    %last = memref.load %x[%before] : memref<?xf32>
    %next = arith.mulf %last, %two : f32
    memref.store %next, %x[%i] : memref<?xf32>
  }
  return
}
func.func @rows(%x: memref<4x3xf32>, %y: memref<3xf32>, %n: index) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %row = memref.subview %x[%n, 0] [1, 3] [1, 1]
    : memref<4x3xf32> to memref<3xf32, strided<[1], offset: ?>>
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
    linalg.map { arith.addf } ins(%y, %row : memref<3xf32>, memref<3xf32, strided<[1], offset: ?>>)
      outs(%row : memref<3xf32, strided<[1], offset: ?>>)
    %first = memref.load %x[%n, %c0] : memref<4x3xf32>
    %more = arith.addf %s, %first : f32
    scf.yield %more : f32
  }
  return %sum : f32
}
func.func @chosen(%x: memref<3xf32>, %y: memref<3xf32>, %which: i1) {
  scf.if %which {
    memref.copy %x, %y : memref<3xf32> to memref<3xf32>
    scf.yield
  }
  return
}
func.func @doubled(%x: memref<f32>) {
  %limit = arith.constant 100.0 : f32
  scf.while : () -> () {
    %held = memref.load %x[] : memref<f32>
    %goes = arith.cmpf olt, %held, %limit : f32
    scf.condition(%goes)
  } do {
    %held = memref.load %x[] : memref<f32>
    %more = arith.addf %held, %held : f32
    memref.store %more, %x[] : memref<f32>
    scf.yield
  }
  return
}
"""


@pytest.fixture(scope="module")
def program(built):
    return built(TEXT).built


def test_a_loop_reads_what_it_wrote(program):
    x = np.ones(6, "f4")
    assert program["powers"](x, 5) is x
    np.testing.assert_array_equal(x, [1, 2, 4, 8, 16, 1])


def test_a_part_from_outside_is_the_same_memory(program):
    x, y = np.zeros((4, 3), "f4"), np.arange(1, 4, dtype="f4")
    total, same = program["rows"](x, y, 3)
    assert same is x
    np.testing.assert_array_equal(x[3], 3 * y)
    assert not x[:3].any()
    assert total == 1 + 2 + 3


@pytest.mark.parametrize("which", [True, False])
def test_a_branch_writes_or_not(program, which):
    x, y = np.arange(3, dtype="f4"), np.full(3, 7, "f4")
    program["chosen"](x, y, which)
    np.testing.assert_array_equal(y, x if which else [7, 7, 7])


def test_a_loop_goes_on_while_memory_says_so(program):
    x = np.array(3, "f4")
    program["doubled"](x)
    assert x == 192


def test_a_part_whose_extent_a_call_tells_is_taken_inside(imported):
    with pytest.raises(MlirError, match="a part of memory of an extent that a call tells"):
        imported("""
func.func @f(%x: memref<8xf32>, %n: memref<?xf32>, %b: i1, %v: f32) {
  %c0 = arith.constant 0 : index
  %m = memref.dim %n, %c0 : memref<?xf32>
  %part = memref.subview %x[0] [%m] [1] : memref<8xf32> to memref<?xf32, strided<[1]>>
  scf.if %b {
    linalg.fill ins(%v : f32) outs(%part : memref<?xf32, strided<[1]>>)
  }
  return
}
""")
