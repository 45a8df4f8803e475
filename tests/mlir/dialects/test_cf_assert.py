"""``cf.assert`` between operations: a call in which its condition does not hold fails."""

import numpy as np
import pytest

from tvm_iree_ext.base.errors import CallError, MlirError

TEXT = """
func.func @f(%a: tensor<?xi64>, %b: tensor<2xi64>) -> (tensor<?xi64>, tensor<2xi64>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : i64
  %first = tensor.extract %a[%c0] : tensor<?xi64>
  %small = arith.cmpi slt, %first, %c4 : i64
  cf.assert %small, "100% \\22small\\22"
  %n = tensor.dim %a, %c0 : tensor<?xi64>
  %count = arith.index_cast %n : index to i64
  %few = arith.cmpi sle, %count, %c4 : i64
  cf.assert %few, "expected four or less"
  %0 = arith.addi %a, %a : tensor<?xi64>
  return %0, %b : tensor<?xi64>, tensor<2xi64>
}
func.func @steps(%a: tensor<3xi64>, %n: index) -> tensor<3xi64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : i64
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> (tensor<3xi64>) {
    %last = tensor.extract %x[%c1] : tensor<3xi64>
    %small = arith.cmpi slt, %last, %c9 : i64
    cf.assert %small, "too many steps"
    %y = arith.addi %x, %a : tensor<3xi64>
    scf.yield %y : tensor<3xi64>
  }
  return %r : tensor<3xi64>
}
"""


@pytest.fixture(scope="module")
def program(built):
    return built(TEXT)


def test_a_call_in_which_an_assert_does_not_hold_fails_with_its_message(program):
    b = np.array([7, 8])
    doubled, same = program([3, 9], b, function="f")
    assert doubled.tolist() == [6, 18]
    assert same.tolist() == [7, 8]
    with pytest.raises(CallError, match=r'^f: 100% "small"$'):
        program([4, 9], b, function="f")
    with pytest.raises(CallError, match=r"^f: expected four or less$"):
        program([3, 9, 9, 9, 9], b, function="f")


def test_asserts_of_steps_are_looked_at_in_each(program):
    assert program([1, 2, 3], np.int64(4), function="steps")[0].tolist() == [5, 10, 15]
    with pytest.raises(CallError, match="steps: too many steps"):
        program([1, 2, 3], np.int64(5), function="steps")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('cf.assert %no, "is never so"', "cf.assert: never holds: is never so"),
        (
            'scf.if %b { cf.assert %b, "so" }',
            "scf.if: without results, with cf.assert inside",
        ),
        (
            'scf.for %i = %n to %n step %n { cf.assert %b, "so" }',
            "a cf.assert in what gives nothing that is computed",
        ),
    ],
)
def test_an_assert_that_cannot_be_kept_is_named(imported, body, said):
    text = f"""
    func.func @f(%b: i1, %n: index) -> i1 {{
      %no = arith.constant false
      {body}
      return %b : i1
    }}
    """
    with pytest.raises(MlirError, match=said):
        imported(text)
