"""mhlo and older StableHLO run as text."""

import numpy as np
import pytest
from places import DATA

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.frontends.stablehlo.mhlo_text import as_stablehlo

pytest.importorskip("iree.compiler")


def floats(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


def test_dot_minus():
    program = ext.build_program(
        ext.frontends.import_lowered(DATA / "older" / "dot_mhlo.mlir", "stablehlo")
    )
    a, b, c = floats(64, 96), floats(96, 40), floats(64, 40)
    np.testing.assert_allclose(program(a, b, c), a @ b - c, rtol=1e-4, atol=1e-4)


def test_convolution_minus():
    path = str(DATA / "older" / "conv_mhlo.mlir")
    program = ext.build_program(ext.frontends.import_lowered(path, "stablehlo"))
    x, f, c = floats(1, 20, 20, 3), floats(3, 3, 3, 8), floats(1, 10, 10, 8)
    padded = np.pad(x, [(0, 0), (0, 1), (0, 1), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
    want = np.einsum("bhwcij,ijco->bhwo", windows, f) - c
    np.testing.assert_allclose(program(x, f, c), want, rtol=1e-4, atol=1e-4)


TEXT = """
// "mhlo.add"(%x) {permutation = dense<0> : tensor<1xi64>}
func.func @main(%x: tensor<4xi32>) -> tensor<2x4xi1> {
  %0 = "mhlo.broadcast_in_dim"(%x) {broadcast_dimensions = dense<1> : tensor<1xi64>}
    : (tensor<4xi32>) -> tensor<2x4xi32>
  %1 = "mhlo.transpose"(%0) <{permutation = dense<[1, 0]> : tensor<2xi64>}>
    : (tensor<2x4xi32>) -> tensor<4x2xi32>
  %2 = "stablehlo.transpose"(%1) {permutation = dense<[1, 0]> : tensor<2xi64>, note = "mhlo.x"}
    : (tensor<4x2xi32>) -> tensor<2x4xi32>
  %3 = mhlo.constant dense<2> : tensor<2x4xi32>
  %4 = "mhlo.compare"(%2, %3) {comparison_direction = #mhlo<comparison_direction LT>}
    : (tensor<2x4xi32>, tensor<2x4xi32>) -> tensor<2x4xi1>
  return %4 : tensor<2x4xi1>
}
"""


def test_older_attributes():
    program = ext.build_program(ext.frontends.import_lowered(TEXT, "stablehlo"))
    np.testing.assert_array_equal(
        program(np.arange(4, dtype="i4")), [[True, True, False, False]] * 2
    )


def test_comments_strings_and_lines_stay():
    came = as_stablehlo(TEXT)
    assert came.splitlines()[1] == TEXT.splitlines()[1]
    assert 'note = "mhlo.x"' in came
    assert came.count("\n") == TEXT.count("\n")
    assert as_stablehlo(came) == came


def test_what_iree_does_not_know_is_said_where_it_stands(tmp_path):
    path = tmp_path / "program.mlir"
    path.write_text("func.func @main() {\n  mhlo.oops\n  return\n}")
    with pytest.raises(MlirError, match=rf"{path}:2:3: error: custom op 'stablehlo\.oops'"):
        ext.frontends.import_lowered(path, "stablehlo")
    with pytest.raises(MlirError, match=r"<text>:2:3: error: custom op 'stablehlo\.oops'"):
        ext.frontends.import_lowered(path.read_bytes(), "stablehlo")
    with pytest.raises(MlirError, match=r"none\.mlir: No such file"):
        ext.frontends.import_lowered("none.mlir", "stablehlo")
