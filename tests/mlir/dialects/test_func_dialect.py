"""Functions, IREE's ABI, globals, constants, complex numbers, element types below a byte."""

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext.base.errors import CallError

ABI = """
util.global private @weights = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
util.func public @main$async(%a: !hal.buffer_view, %w: !hal.fence, %s: !hal.fence)
    -> !hal.buffer_view {
  %n = hal.buffer_view.dim<%a : !hal.buffer_view>[0] : index
  %0 = hal.tensor.import wait(%w) => %a : !hal.buffer_view -> tensor<?x2xf32>{%n}
  %g = util.global.load @weights : tensor<2x2xf32>
  %e = tensor.empty(%n) : tensor<?x2xf32>
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x2xf32>) -> tensor<?x2xf32>
  %1 = linalg.matmul ins(%0, %g : tensor<?x2xf32>, tensor<2x2xf32>)
    outs(%f : tensor<?x2xf32>) -> tensor<?x2xf32>
  %2 = hal.tensor.barrier join(%1 : tensor<?x2xf32>) => %s : !hal.fence
  %3 = hal.tensor.export %2 : tensor<?x2xf32>{%n} -> !hal.buffer_view
  util.return %3 : !hal.buffer_view
}
util.func public @main(%a: !hal.buffer_view) -> !hal.buffer_view {
  %0 = util.null : !hal.fence
  %c0 = arith.constant 0 : index
  %m = arith.constant -1 : i32
  %d = hal.devices.get %c0 : !hal.device
  %f = hal.fence.create device(%d : !hal.device) flags("None") : !hal.fence
  %1 = util.call @main$async(%a, %0, %f)
    : (!hal.buffer_view, !hal.fence, !hal.fence) -> !hal.buffer_view
  %s = hal.fence.await until([%f]) timeout_millis(%m) flags("None") : i32
  util.return %1 : !hal.buffer_view
}
"""


def test_the_call_abi_is_identity(built):
    program = built(ABI)
    (point,) = program.program.functions
    assert point.name == "main"
    assert [(o.shape, o.role) for o in point.signature.operands] == [
        (("arg0_0", 2), "input"),
        (("arg0_0", 2), "result"),
    ]
    a = np.arange(6, dtype="f4").reshape(3, 2)
    np.testing.assert_allclose(program(a)[0], a @ np.array([[1, 2], [3, 4]]))


def test_an_asynchronous_function_alone_goes_by_its_own_name(imported):
    text = ABI[: ABI.index("util.func public @main(")]
    assert [p.name for p in imported(text).functions] == ["main"]


def test_a_function_is_called_what_it_is_called(built):
    """Names that Relax does not take, and names that kernels would have."""
    names = ["a.b", "a_b", "arith_addf", "arith_addf_1", "main", "x y/\u00fc'\""]
    body = """(%a: tensor<3xf32>) -> tensor<3xf32> {
      %0 = arith.addf %a, %a : tensor<3xf32>
      %1 = math.sqrt %0 : tensor<3xf32>
      return %1 : tensor<3xf32>
    }"""
    quoted = [name.replace('"', "\\22") for name in names]
    program = built("\n".join(f'func.func @"{name}"{body}' for name in quoted))
    for name in names:
        (result,) = program(np.array([2, 8, 18], "f4"), function=name)
        assert list(result) == [2, 4, 6]


EXTENTS = """func.func @f(%n: index, %m: index) -> tensor<?x?xf32> {
  %z = arith.constant 1.0 : f32
  %0 = tensor.empty(%n, %m) : tensor<?x?xf32>
  %1 = linalg.fill ins(%z : f32) outs(%0 : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}"""


def test_extents_whose_product_overflows_are_an_error(built):
    """Not less memory than the program then writes."""
    program = built(EXTENTS)
    assert program(np.int64(2), np.int64(3))[0].shape == (2, 3)
    assert program(np.int64(0), np.int64(3))[0].shape == (0, 3)
    for n, m in ((2**31, 2**31), (2**62, 1), (-2, -3), (-1, 4), (2**63 - 1, 2**63 - 1)):
        with pytest.raises(CallError):
            program(np.int64(n), np.int64(m))


def test_large_constants_are_parameters_once(built):
    rows = ", ".join(str(float(i)) for i in range(1000))
    text = f"""
    func.func @f(%a: tensor<1000xf32>) -> (tensor<1000xf32>, tensor<1000xf32>) {{
      %c = arith.constant dense<[{rows}]> : tensor<1000xf32>
      %d = arith.constant dense<[{rows}]> : tensor<1000xf32>
      %0 = arith.addf %a, %c : tensor<1000xf32>
      %1 = arith.mulf %a, %d : tensor<1000xf32>
      return %0, %1 : tensor<1000xf32>, tensor<1000xf32>
    }}
    """
    program = built(text)
    assert [a.shape for a in program.program.parameters.values()] == [(1000,)]
    a = np.ones(1000, "f4")
    np.testing.assert_array_equal(program(a)[0], np.arange(1000) + 1)


def test_what_a_function_does_not_use_is_no_parameter(imported):
    text = "func.func @f() {\n %c = arith.constant dense<[1, 2]> : tensor<2xi32>\n return\n}"
    program = imported(text)
    assert not program.parameters
    assert not program.functions[0].signature.operands


COMPLEX = """
func.func @g(%a: tensor<8xcomplex<f32>>) -> (tensor<complex<f32>>, tensor<2x4xcomplex<f32>>) {
  %i = complex.constant [0.0 : f32, 1.0 : f32] : complex<f32>
  %z = arith.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>],
      iterator_types = ["reduction"]}
      ins(%a : tensor<8xcomplex<f32>>) outs(%z : tensor<complex<f32>>) {
  ^bb0(%x: complex<f32>, %o: complex<f32>):
    %p = complex.mul %x, %i : complex<f32>
    %s = complex.add %o, %p : complex<f32>
    linalg.yield %s : complex<f32>
  } -> tensor<complex<f32>>
  %1 = tensor.expand_shape %a [[0, 1]] output_shape [2, 4]
    : tensor<8xcomplex<f32>> into tensor<2x4xcomplex<f32>>
  return %0, %1 : tensor<complex<f32>>, tensor<2x4xcomplex<f32>>
}
"""
UNARY = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "neg": np.negative,
    "conj": np.conj,
    "abs": np.abs,
    "angle": np.angle,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "sign": lambda x: x / abs(x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
}


def mapped(name, count):
    """A function that maps an operation on complex numbers."""
    kind = "tensor<8xcomplex<f64>>"
    gives = "tensor<8xf64>" if name in ("abs", "angle") else kind
    arguments = ", ".join(f"%a{i}: {kind}" for i in range(count))
    operands = ", ".join(f"%a{i}" for i in range(count))
    kinds = ", ".join([kind] * count)
    return (
        f"func.func @{name}({arguments}) -> {gives} {{\n"
        f"  %e = tensor.empty() : {gives}\n"
        f"  %0 = linalg.map {{ complex.{name} }} ins({operands} : {kinds}) outs(%e : {gives})\n"
        f"  return %0 : {gives}\n}}\n"
    )


def test_complex_numbers(built):
    functions = [mapped(name, 1) for name in UNARY] + [mapped(name, 2) for name in BINARY]
    program = built(COMPLEX + "".join(functions))
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 8)) + 1j * rng.standard_normal((2, 8))
    for name, compute in UNARY.items():
        (result,) = program(a, function=name)
        np.testing.assert_allclose(result, compute(a), rtol=1e-12, err_msg=name)
    for name, compute in BINARY.items():
        (result,) = program(a, b, function=name)
        np.testing.assert_allclose(result, compute(a, b), rtol=1e-12, err_msg=name)
    c = a.astype("c8")
    total, rows = program(c, function="g")
    np.testing.assert_allclose(total, (1j * c).sum(), rtol=1e-5)
    np.testing.assert_array_equal(rows, c.reshape(2, 4))


def test_integers_of_four_bits(built):
    text = """
    func.func @f(%a: tensor<16xi8>) -> (tensor<16xi8>, tensor<16xi8>, tensor<16xi8>) {
      %c = arith.constant dense<3> : tensor<16xi4>
      %0 = arith.trunci %a : tensor<16xi8> to tensor<16xi4>
      %1 = arith.muli %0, %c : tensor<16xi4>
      %2 = arith.extsi %1 : tensor<16xi4> to tensor<16xi8>
      %3 = arith.extui %1 : tensor<16xi4> to tensor<16xi8>
      %4 = arith.shrui %0, %c : tensor<16xi4>
      %5 = arith.extui %4 : tensor<16xi4> to tensor<16xi8>
      return %2, %3, %5 : tensor<16xi8>, tensor<16xi8>, tensor<16xi8>
    }
    """
    a = np.arange(16, dtype="i1")
    signed, unsigned, shifted = built(text)(a)
    low = (a * 3) & 15
    np.testing.assert_array_equal(unsigned, low)
    np.testing.assert_array_equal(signed, np.where(low > 7, low - 16, low))
    np.testing.assert_array_equal(shifted, a >> 3)


FLOATS8 = ["f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ", "f8E3M4", "f8E4M3"]


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", FLOATS8)
def test_floats_of_eight_bits(built, kind):
    text = f"""
    func.func @f(%a: tensor<2048xf32>, %b: tensor<256xi8>) -> (tensor<2048xi8>, tensor<256xf32>) {{
      %0 = arith.truncf %a : tensor<2048xf32> to tensor<2048x{kind}>
      %1 = arith.bitcast %0 : tensor<2048x{kind}> to tensor<2048xi8>
      %2 = arith.bitcast %b : tensor<256xi8> to tensor<256x{kind}>
      %3 = arith.extf %2 : tensor<256x{kind}> to tensor<256xf32>
      return %1, %3 : tensor<2048xi8>, tensor<256xf32>
    }}
    """
    dtype = np.dtype(getattr(ml_dtypes, f"float8_{kind[2:].lower()}"))
    patterns = np.arange(256, dtype="u1")
    exact = patterns.view(dtype).astype("f4")
    finite = np.sort(exact[np.isfinite(exact)])
    rng = np.random.default_rng(0)
    between = (finite[1:] + finite[:-1]) / 2  # ties
    some = np.concatenate([exact, between, finite * 1.03, [1e30, -1e30, 1e-30, -1e-30]])
    scale = rng.standard_normal(2048 - len(some)) * np.exp2(rng.integers(-20, 18, 2048 - len(some)))
    a = np.concatenate([some, scale]).astype("f4")
    encoded, decoded = built(text)(a, patterns.view("i1"))
    np.testing.assert_array_equal(decoded, exact)
    want = a.astype(dtype)
    nan = np.isnan(want.astype("f4"))
    np.testing.assert_array_equal(np.isnan(encoded.view(dtype).astype("f4")), nan)
    np.testing.assert_array_equal(encoded.view("u1")[~nan], want.view("u1")[~nan])
