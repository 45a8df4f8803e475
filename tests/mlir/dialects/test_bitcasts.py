"""Bits of tensors as elements of other widths, packed i1 among them."""

import numpy as np
import pytest

from tvm_iree_ext.base.errors import CallError, MlirError
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program

RNG = np.random.default_rng(5)
PACKED = "#iree_encoding.packed_storage"
PLANE = "affine_map<(a, b) -> (a, b)>"


def copied(source, target, body):
    """A tensor element by element, as another."""
    return f"""
  %copied = linalg.generic {{indexing_maps = [{PLANE}, {PLANE}],
      iterator_types = ["parallel", "parallel"]}} ins(%bits : {source}) outs(%e : {target}) {{
  ^bb0(%x: i1, %old: {"i8" if "i8" in target else "i1"}):
    {body}
  }} -> {target}"""


WIDENED = "%y = arith.extui %x : i1 to i8\n linalg.yield %y : i8"
TEXT = f"""
func.func @unpack(%a: tensor<3xi8>) -> tensor<2x10xi8> {{
  %bits = flow.tensor.bitcast %a : tensor<3xi8> -> tensor<2x10xi1, {PACKED}>
  %e = tensor.empty() : tensor<2x10xi8>
  {copied(f"tensor<2x10xi1, {PACKED}>", "tensor<2x10xi8>", WIDENED)}
  return %copied : tensor<2x10xi8>
}}
func.func @unpack_of_a_call(%a: tensor<?xi8>, %like: tensor<?x4xf32>) -> tensor<?x4xi8> {{
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %like, %c0 : tensor<?x4xf32>
  %count = tensor.dim %a, %c0 : tensor<?xi8>
  %bits = flow.tensor.bitcast %a : tensor<?xi8>{{%count}} -> tensor<?x4xi1, {PACKED}>{{%rows}}
  %e = tensor.empty(%rows) : tensor<?x4xi8>
  {copied(f"tensor<?x4xi1, {PACKED}>", "tensor<?x4xi8>", WIDENED)}
  return %copied : tensor<?x4xi8>
}}
func.func @pack(%a: tensor<2x10xi8>) -> (tensor<3xi8>, tensor<20xi8>) {{
  %bits = arith.trunci %a : tensor<2x10xi8> to tensor<2x10xi1>
  %bytes = flow.tensor.bitcast %bits : tensor<2x10xi1> -> tensor<20xi8>
  %e = tensor.empty() : tensor<2x10xi1, {PACKED}>
  {copied("tensor<2x10xi1>", f"tensor<2x10xi1, {PACKED}>", "linalg.yield %x : i1")}
  %packed = flow.tensor.bitcast %copied : tensor<2x10xi1, {PACKED}> -> tensor<3xi8>
  return %packed, %bytes : tensor<3xi8>, tensor<20xi8>
}}
func.func @pack_of_a_call(%a: tensor<?xi1, {PACKED}>, %n: index) -> tensor<?xi8> {{
  %c0 = arith.constant 0 : index
  %m = tensor.dim %a, %c0 : tensor<?xi1, {PACKED}>
  %0 = flow.tensor.bitcast %a : tensor<?xi1, {PACKED}>{{%m}} -> tensor<?xi8>{{%n}}
  return %0 : tensor<?xi8>
}}
func.func @wide(%a: tensor<8xi8>) -> (tensor<2xi32>, tensor<16xi4>, tensor<1xf64>) {{
  %0 = iree_tensor_ext.bitcast %a : tensor<8xi8> -> tensor<2xi32>
  %1 = iree_tensor_ext.bitcast %a : tensor<8xi8> -> tensor<16xi4>
  %2 = flow.tensor.bitcast %a : tensor<8xi8> -> tensor<1xf64>
  return %0, %1, %2 : tensor<2xi32>, tensor<16xi4>, tensor<1xf64>
}}
func.func @narrow(%a: tensor<2xi32>, %b: tensor<16xi4>, %c: tensor<1xf64>)
    -> (tensor<8xi8>, tensor<8xi8>, tensor<4xf16>) {{
  %0 = iree_tensor_ext.bitcast %a : tensor<2xi32> -> tensor<8xi8>
  %1 = iree_tensor_ext.bitcast %b : tensor<16xi4> -> tensor<8xi8>
  %2 = flow.tensor.bitcast %c : tensor<1xf64> -> tensor<4xf16>
  return %0, %1, %2 : tensor<8xi8>, tensor<8xi8>, tensor<4xf16>
}}"""


@pytest.fixture(scope="module")
def program(built):
    return built(TEXT)


def unpacked(bits, shape):
    flat = np.unpackbits(bits.view("uint8"), bitorder="little")[: np.prod(shape)]
    return flat.reshape(shape).astype("int8")


def test_packed_bits_from_the_lowest_on(program):
    bits = RNG.integers(-128, 128, 3, "int8")
    (got,) = program(bits, function="unpack")
    np.testing.assert_array_equal(got, unpacked(bits, (2, 10)))
    packed, in_bytes = program(got, function="pack")
    assert packed.tolist() == [*bits[:2], bits[2] & 15]
    np.testing.assert_array_equal(in_bytes, got.ravel())


def test_packed_bits_of_extents_that_a_call_tells(program):
    bits = RNG.integers(-128, 128, 4, "int8")
    (got,) = program(bits, np.zeros((7, 4), "float32"), function="unpack_of_a_call")
    np.testing.assert_array_equal(got, unpacked(bits, (7, 4)))
    for rows in (6, 9):
        with pytest.raises(CallError, match="arg0 axis 0 has extent 4"):
            program(bits, np.zeros((rows, 4), "float32"), function="unpack_of_a_call")


def test_counts_that_are_data_are_those_of_the_bytes(program):
    bits = RNG.integers(0, 2, 11).astype(bool)
    (got,) = program(bits, 2, function="pack_of_a_call")
    np.testing.assert_array_equal(got.view("uint8"), np.packbits(bits, bitorder="little"))
    for count in (1, 5, -5):
        with pytest.raises(CallError, match=f"extent 2; expected {max(count, 0)}"):
            program(bits, count, function="pack_of_a_call")


def test_elements_of_other_widths(program):
    data = RNG.integers(-128, 128, 8, "int8")
    words, halves, double = program(data, function="wide")
    np.testing.assert_array_equal(words, data.view("int32"))
    np.testing.assert_array_equal(double.view("int8"), data)
    low = data.view("uint8") & 15
    assert (halves[::2] & 15).tolist() == low.tolist()
    assert halves.min() >= -8
    assert halves.max() < 8
    back = program(words, halves, double, function="narrow")
    for one in back:
        np.testing.assert_array_equal(one.view("int8"), data)


def test_types_of_other_parts_are_refused(imported):
    text = """
func.func @main(%a: tensor<2xcomplex<f32>>) -> tensor<16xi8> {
  %0 = flow.tensor.bitcast %a : tensor<2xcomplex<f32>> -> tensor<16xi8>
  return %0 : tensor<16xi8>
}"""
    with pytest.raises(MlirError, match=r"flow\.tensor\.bitcast: of complex64 to int8"):
        imported(text)


MASKED = f"""
func.func @main(%q: tensor<1x4x4xf32>, %k: tensor<1x8x4xf32>, %v: tensor<1x8x4xf32>,
    %bits: tensor<4xi8>) -> tensor<1x4x4xf32> {{
  %o = tensor.empty() : tensor<1x4x4xf32>
  %mask = flow.tensor.bitcast %bits : tensor<4xi8> -> tensor<1x4x8xi1, {PACKED}>
  %scale = arith.constant 0.5 : f32
  %0 = iree_linalg_ext.attention {{indexing_maps = [
      affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>,
      affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>,
      affine_map<(b, m, n, k1, k2) -> (b, m, k2)>, affine_map<(b, m, n, k1, k2) -> (b, m, n)>]}}
    ins(%q, %k, %v, %scale, %mask : tensor<1x4x4xf32>, tensor<1x8x4xf32>, tensor<1x8x4xf32>, f32,
        tensor<1x4x8xi1, {PACKED}>) outs(%o : tensor<1x4x4xf32>) {{
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  }} -> tensor<1x4x4xf32>
  return %0 : tensor<1x4x4xf32>
}}"""


@pytest.mark.costly
@pytest.mark.parametrize("target", ["llvm", "cuda:sm_80", "rocm:gfx942"])
def test_attention_under_a_packed_mask(target, imported, built):
    q, k, v = (RNG.standard_normal((1, rows, 4)).astype("float32") for rows in (4, 8, 8))
    bits = np.array([0xA5, 0xFF, 0x01, 0x6E], "uint8").view("int8")
    scores = np.where(unpacked(bits, (1, 4, 8)), q @ k.swapaxes(1, 2) * 0.5, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ v
    if target == "llvm":
        (got,) = built(MASKED)(q, k, v, bits)
    else:
        (got,) = simulate_program(imported(MASKED), target, [q, k, v, bits]).check().results
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
