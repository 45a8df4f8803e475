"""Programs in f16, bf16 and floats of 8 bits, as PyTorch exports them: each operation rounds."""

import ml_dtypes
import numpy as np
import pytest

HALVES = [("f16", np.dtype("f2")), ("bf16", np.dtype(ml_dtypes.bfloat16))]
EIGHTHS = [("f8E4M3FN", ml_dtypes.float8_e4m3fn), ("f8E5M2", ml_dtypes.float8_e5m2)]
NARROW = [*HALVES, *((name, np.dtype(dtype)) for name, dtype in EIGHTHS)]
narrow = pytest.mark.parametrize(("kind", "dtype"), NARROW, ids=[name for name, _ in NARROW])
halves = pytest.mark.parametrize(("kind", "dtype"), HALVES, ids=[name for name, _ in HALVES])


def as_passed(array: np.ndarray) -> np.ndarray:
    """Floats of 8 bits are passed as their bit patterns."""
    return array.view("u1") if array.dtype.itemsize == 1 else array


def same_bits(came: np.ndarray, want: np.ndarray) -> bool:
    word = f"u{want.dtype.itemsize}"
    nan = np.isnan(want.astype("f4"))
    came = np.asarray(came).view(want.dtype)
    same = came.view(word) == want.view(word)
    return bool(np.all(same | (nan & np.isnan(came.astype("f4")))))


def chain(kind: str, steps: int) -> str:
    """x -> x*x + x0, that many times: written out, a rounded number stands in the next often."""
    lines = ["%x0 = arith.mulf %a0, %a0"]
    for step in range(steps):
        lines.append(f"%m{step} = arith.mulf %a{step}, %a{step}")
        lines.append(f"%a{step + 1} = arith.addf %m{step}, %x0")
    body = "\n".join(f"{line} : {kind}" for line in lines)
    same = "affine_map<(d0, d1) -> (d0, d1)>"
    return f"""
    func.func @f(%x: tensor<7x50x{kind}>) -> tensor<7x50x{kind}> {{
      %e = tensor.empty() : tensor<7x50x{kind}>
      %r = linalg.generic {{indexing_maps = [{same}, {same}],
          iterator_types = ["parallel", "parallel"]}}
          ins(%x : tensor<7x50x{kind}>) outs(%e : tensor<7x50x{kind}>) {{
      ^bb0(%a0: {kind}, %o: {kind}):
        {body}
        linalg.yield %a{steps} : {kind}
      }} -> tensor<7x50x{kind}>
      return %r : tensor<7x50x{kind}>
    }}
    """


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@narrow
def test_each_of_many_operations_rounds(built, kind, dtype):
    x = (np.random.default_rng(0).standard_normal((7, 50)) / 2).astype(dtype)
    want, x0 = x, (x.astype("f4") ** 2).astype(dtype)
    for _ in range(12):
        want = ((want.astype("f4") ** 2).astype(dtype).astype("f4") + x0.astype("f4")).astype(dtype)
    (came,) = built(chain(kind, 12))(as_passed(x))
    assert same_bits(came, want)


@halves
def test_what_is_narrowed_between_two_loops_is_rounded_there(built, kind, dtype):
    """A linear layer: the product in f32, narrowed, and the bias added to that."""
    text = f"""
    #row = affine_map<(d0, d1) -> (d0, d1)>
    #bias = affine_map<(d0, d1) -> (d1)>
    func.func @f(%x: tensor<5x24x{kind}>, %w: tensor<24x37x{kind}>, %b: tensor<37x{kind}>)
        -> tensor<5x37x{kind}> {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<5x37xf32>
      %s = linalg.fill ins(%zero : f32) outs(%e : tensor<5x37xf32>) -> tensor<5x37xf32>
      %y = linalg.matmul ins(%x, %w : tensor<5x24x{kind}>, tensor<24x37x{kind}>)
          outs(%s : tensor<5x37xf32>) -> tensor<5x37xf32>
      %h = tensor.empty() : tensor<5x37x{kind}>
      %0 = linalg.generic {{indexing_maps = [#row, #row],
          iterator_types = ["parallel", "parallel"]}}
          ins(%y : tensor<5x37xf32>) outs(%h : tensor<5x37x{kind}>) {{
      ^bb0(%a: f32, %o: {kind}):
        %1 = arith.truncf %a : f32 to {kind}
        linalg.yield %1 : {kind}
      }} -> tensor<5x37x{kind}>
      %2 = linalg.generic {{indexing_maps = [#row, #bias, #row],
          iterator_types = ["parallel", "parallel"]}}
          ins(%0, %b : tensor<5x37x{kind}>, tensor<37x{kind}>) outs(%h : tensor<5x37x{kind}>) {{
      ^bb0(%a: {kind}, %c: {kind}, %o: {kind}):
        %3 = arith.addf %a, %c : {kind}
        linalg.yield %3 : {kind}
      }} -> tensor<5x37x{kind}>
      return %2 : tensor<5x37x{kind}>
    }}
    """
    rng = np.random.default_rng(0)
    x = rng.integers(-8, 8, (5, 24)).astype(dtype)  # products and sums of these are exact in f32
    w = (rng.integers(-99, 99, (24, 37)) / 16).astype(dtype)
    b = rng.standard_normal(37).astype(dtype)
    sums = (x.astype("f4") @ w.astype("f4")).astype(dtype)
    (came,) = built(text)(x, w, b)
    assert same_bits(came, (sums.astype("f4") + b.astype("f4")).astype(dtype))


@halves
def test_what_is_constant_is_spread_and_summed(built, kind, dtype):
    """A fill, a row spread over others, a sum whose every step rounds, the larger of two."""
    text = f"""
    #in = affine_map<(d0, d1) -> (d0, d1)>
    #column = affine_map<(d0, d1) -> (d0)>
    func.func @f(%x: tensor<6x40x{kind}>)
        -> (tensor<6x40x{kind}>, tensor<6x40x{kind}>, tensor<6x40x{kind}>) {{
      %c = arith.constant 1.5 : {kind}
      %zero = arith.constant 0.0 : {kind}
      %e = tensor.empty() : tensor<6x40x{kind}>
      %f = linalg.fill ins(%c : {kind}) outs(%e : tensor<6x40x{kind}>) -> tensor<6x40x{kind}>
      %r = tensor.empty() : tensor<6x{kind}>
      %z = linalg.fill ins(%zero : {kind}) outs(%r : tensor<6x{kind}>) -> tensor<6x{kind}>
      %s = linalg.generic {{indexing_maps = [#in, #column],
          iterator_types = ["parallel", "reduction"]}}
          ins(%x : tensor<6x40x{kind}>) outs(%z : tensor<6x{kind}>) {{
      ^bb0(%a: {kind}, %o: {kind}):
        %1 = arith.addf %a, %o : {kind}
        linalg.yield %1 : {kind}
      }} -> tensor<6x{kind}>
      %b = linalg.broadcast ins(%s : tensor<6x{kind}>) outs(%e : tensor<6x40x{kind}>)
          dimensions = [1]
      %m = arith.maximumf %x, %f : tensor<6x40x{kind}>
      return %f, %b, %m : tensor<6x40x{kind}>, tensor<6x40x{kind}>, tensor<6x40x{kind}>
    }}
    """
    x = np.random.default_rng(0).standard_normal((6, 40)).astype(dtype)
    x[2, 3] = np.nan
    filled, spread, larger = built(text)(x)
    assert same_bits(filled, np.full((6, 40), 1.5, dtype))
    assert same_bits(larger, np.maximum(x, dtype.type(1.5)))
    sums = np.zeros(6, dtype)
    for column in x.T:
        sums = (sums.astype("f4") + column.astype("f4")).astype(dtype)
    assert same_bits(spread, np.repeat(sums[:, None], 40, axis=1))


def test_what_numpy_has_no_type_for_is_passed_in_bytes(built):
    text = """
    func.func @f(%a: tensor<4xi4>, %b: tensor<4xf8E5M2>) -> (tensor<4xi4>, tensor<4xf8E5M2>) {
      %0 = arith.addi %a, %a : tensor<4xi4>
      %1 = arith.addf %b, %b : tensor<4xf8E5M2>
      return %0, %1 : tensor<4xi4>, tensor<4xf8E5M2>
    }
    """
    program = built(text)
    signature = program.built.main.signature
    assert [operand.dtype for operand in signature.operands] == ["int8", "uint8", "int8", "uint8"]
    b = np.array([1, 0.5, -3, np.inf], ml_dtypes.float8_e5m2)
    doubled, sums = program(np.array([1, 5, -8, -3], "i1"), b.view("u1"))
    assert doubled.tolist() == [2, -6, 0, -6]
    assert sums.view(b.dtype).astype("f4").tolist() == [2, 1, -6, np.inf]
