"""Arithmetic on extents: that of the operations, below 0 too."""

import numpy as np

TEXT = """
func.func @f(%a: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<5xi64>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c5 = arith.constant 5 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %a, %c0 : tensor<?xf32>
  %less = arith.subi %n, %c5 : index
  %half = arith.divsi %less, %c2 : index
  %rest = arith.remsi %less, %c2 : index
  %x = arith.addi %half, %c2 : index
  %y = arith.addi %rest, %c2 : index
  %z = arith.divsi %n, %c2 : index
  %ex = tensor.empty(%x) : tensor<?xf32>
  %ey = tensor.empty(%y) : tensor<?xf32>
  %ez = tensor.empty(%z) : tensor<?xf32>
  %fx = linalg.fill ins(%zero : f32) outs(%ex : tensor<?xf32>) -> tensor<?xf32>
  %fy = linalg.fill ins(%zero : f32) outs(%ey : tensor<?xf32>) -> tensor<?xf32>
  %fz = linalg.fill ins(%zero : f32) outs(%ez : tensor<?xf32>) -> tensor<?xf32>
  %p = arith.divui %less, %c2 : index
  %q = arith.remui %less, %c5 : index
  %r = arith.ceildivui %less, %c2 : index
  %s = arith.minui %less, %c2 : index
  %t = arith.divui %n, %c2 : index
  %u = tensor.from_elements %p, %q, %r, %s, %t : tensor<5xindex>
  %v = arith.index_cast %u : tensor<5xindex> to tensor<5xi64>
  return %fx, %fy, %fz, %v : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<5xi64>
}
"""


def test_extents_are_divided_toward_zero_or_as_unsigned_numbers(built):
    program = built(TEXT)
    shapes = [operand.shape for operand in program.built.main.signature.results]
    assert len(str(shapes[2])) < len(str(shapes[0]))  # what is not below 0 stays a plain quotient
    for n in (1, 2, 3, 4, 5, 8):
        half, rest, plain, unsigned = program(np.zeros(n, "f4"))
        less = n - 5
        assert len(half) == 2 + int(less / 2)
        assert len(rest) == 2 + int(np.fmod(less, 2))
        assert len(plain) == n // 2
        word = less % 2**64
        want = [word // 2, word % 5, -(-word // 2), min(word, 2), n // 2]
        assert unsigned.view("u8").tolist() == want
