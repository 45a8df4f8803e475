"""What callers give and get where IR says less: signs, buffer views that nothing reads."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import CallError, MlirError
from tvm_iree_ext.mlir import import_program
from tvm_iree_ext.mlir.importing.boundary import Boundary, Given
from tvm_iree_ext.mlir.reading.form import ParsedTensorType

DOUBLED = """
func.func @main(%x: tensor<3xi8>) -> tensor<3xi8> {
  %0 = arith.addi %x, %x : tensor<3xi8>
  return %0 : tensor<3xi8>
}
"""
VIEWS = """
util.func public @f(%x: !hal.buffer_view, %y: !hal.buffer_view) -> !hal.buffer_view {
  %0 = hal.tensor.import %x : !hal.buffer_view -> tensor<4xf32>
  %1 = arith.addf %0, %0 : tensor<4xf32>
  %2 = hal.tensor.export %1 : tensor<4xf32> -> !hal.buffer_view
  util.return %2 : !hal.buffer_view
}
"""


CAST = """
func.func @main(%x: tensor<?x?xf32>) -> tensor<4x?xf32> {
  %0 = tensor.cast %x : tensor<?x?xf32> to tensor<4x?xf32>
  return %0 : tensor<4x?xf32>
}
"""


def of(argument, *results):
    return Boundary((argument,), results)


def test_an_integer_has_the_sign_that_callers_give_it():
    boundary = of(Given(ParsedTensorType((3,), "uint8")), "uint8")
    program = ext.build_program(import_program(DOUBLED, boundaries={"main": boundary}))
    doubled = program(np.array([1, 100, 200], "u1"))
    assert doubled.dtype == np.uint8
    assert doubled.tolist() == [2, 200, 144]
    with pytest.raises(CallError, match="arg0 is int8; expected uint8"):
        program(np.zeros(3, "i1"))


def test_an_argument_that_the_ir_leaves_out_keeps_its_place():
    arguments = (Given(ParsedTensorType((2,), "float32"), False), Given(), Given(None, False))
    boundary = Boundary(arguments, (None,))
    program = ext.build_program(import_program(DOUBLED, boundaries={"main": boundary}))
    x = np.array([1, 2, 3], "i1")
    assert program(np.zeros(2, "f4"), x, "anything").tolist() == [2, 4, 6]
    with pytest.raises(CallError, match="arg0 axis 0 has extent 5; expected 2"):
        program(np.zeros(5, "f4"), x, None)


@pytest.mark.parametrize(
    ("boundary", "said"),
    [
        (
            of(Given(ParsedTensorType((3,), "float32")), None),
            "arg0 is int8 in IR; expected float32",
        ),
        (of(Given(), "uint16"), "result 0 is int8 in IR; expected uint16"),
        (of(Given()), "returns 1 tensors; expected 0"),
        (of(Given(None, False), None), "takes 1 arguments; expected 0"),
    ],
)
def test_other_bits_and_other_numbers_of_values_are_refused(boundary, said):
    with pytest.raises(MlirError, match=said):
        import_program(DOUBLED, boundaries={"main": boundary})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CAST, "tensor.cast: axis 0 of arg0 is declared open, and has to be 4 here"),
        (CAST.replace("?x?", "4x?"), "axis 0 of arg0 is declared open, and is 4 in IR"),
    ],
    ids=["by an operation", "by its type"],
)
def test_an_axis_that_is_declared_open_does_not_get_a_number(text, said):
    boundary = of(Given(ParsedTensorType((None, None), "float32")), "float32")
    with pytest.raises(MlirError, match=said):
        import_program(text, boundaries={"main": boundary})


def test_an_axis_that_is_not_declared_gets_the_number_that_it_has_to_be():
    program = ext.build_program(import_program(CAST))
    assert program(np.ones((4, 2), "f4")).shape == (4, 2)
    with pytest.raises(CallError, match="arg0 axis 0 has extent 3; expected 4"):
        program(np.ones((3, 2), "f4"))


def test_a_buffer_view_that_nothing_reads_is_anything(tmp_path):
    program = ext.build_program(import_program(VIEWS), folder=tmp_path / "views")
    x = np.ones(4, "f4")
    for other in (np.zeros((2, 3)), None, x):
        assert program(x, other).tolist() == [2, 2, 2, 2]
    again, out = ext.load(tmp_path / "views"), np.zeros(4, "f4")
    again(x, arg1=x, out=out)
    assert out.tolist() == [2, 2, 2, 2]
    assert "arg1: unused" in repr(again["f"])
    with pytest.raises(CallError, match="arg1 missing"):
        program(x)


def test_a_buffer_view_that_is_only_given_back_is_refused():
    text = VIEWS.replace("util.return %2", "util.return %y")
    with pytest.raises(MlirError, match="returns a buffer view, which is no tensor"):
        import_program(text)
