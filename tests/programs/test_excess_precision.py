"""Chains of operations on 16-bit floats: one kernel, rounded after each step or at the end."""

from dataclasses import replace

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.programs.program_explanation import explain_program
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program

ROWS, COLUMNS = 7, 67
NAMES = {"float16": "f16", "bfloat16": "bf16"}
RNG = np.random.default_rng(0)


def generic(result, operation, *values, kind):
    """An operation of each element, as a front end writes it."""
    tensor = f"tensor<{ROWS}x{COLUMNS}x{kind}>"
    count = len(values)
    maps = ", ".join(["affine_map<(d0, d1) -> (d0, d1)>"] * (count + 1))
    names = ", ".join(f"%e{place}" for place in range(count))
    arguments = ", ".join(f"%e{place}: {kind}" for place in range(count))
    return f"""
  %{result} = linalg.generic {{indexing_maps = [{maps}],
      iterator_types = ["parallel", "parallel"]}}
      ins({", ".join(f"%{one}" for one in values)} : {", ".join([tensor] * count)})
      outs(%empty : {tensor}) {{
  ^bb0({arguments}, %out: {kind}):
    %y = {operation} {names} : {kind}
    linalg.yield %y : {kind}
  }} -> {tensor}"""


def chain(dtype):
    """``exp(a * b) - a`` of which each step is an operation of its own."""
    kind = NAMES[dtype]
    tensor = f"tensor<{ROWS}x{COLUMNS}x{kind}>"
    steps = (
        generic("product", "arith.mulf", "a", "b", kind=kind)
        + generic("power", "math.exp", "product", kind=kind)
        + generic("less", "arith.subf", "power", "a", kind=kind)
    )
    return import_program(f"""func.func @chain(%a: {tensor}, %b: {tensor}) -> {tensor} {{
  %empty = tensor.empty() : {tensor}{steps}
  return %less : {tensor}
}}""")


def operands(dtype):
    a, b = RNG.normal(0, 1, (2, ROWS, COLUMNS)).astype(numpy_dtype(dtype))
    a[0, :5] = np.array([np.nan, np.inf, -np.inf, 0, 1e-6], "float32").astype(a.dtype)
    return a, b


def of_steps(a, b, *, rounded):
    """The chain by NumPy; rounded after each step, or at the end."""

    def step(value):
        return value.astype(a.dtype).astype("float32") if rounded else value

    with np.errstate(all="ignore"):
        wide_a, wide_b = a.astype("float32"), b.astype("float32")
        product = step(wide_a * wide_b)
        power = step(np.exp(product.astype("float64")).astype("float32"))
        return (power - wide_a).astype(a.dtype)


@pytest.mark.parametrize("dtype", NAMES)
def test_a_chain_of_16_bits_is_one_kernel(dtype):
    assert len(explain_program(chain(dtype)).kernels) == 1


@pytest.mark.costly
@pytest.mark.parametrize("target", ["llvm", "rocm:gfx942", "cuda:sm_80"])
@pytest.mark.parametrize("is_rounded", [True, False], ids=["each step", "at the end"])
@pytest.mark.parametrize("dtype", NAMES)
def test_where_a_chain_is_rounded(dtype, is_rounded, target, tmp_path):
    program = replace(chain(dtype), excess_precision=not is_rounded)
    a, b = operands(dtype)
    if target == "llvm":
        got = np.asarray(build_program(program, folder=tmp_path / "p")(a, b))
    else:
        got = np.asarray(simulate_program(program, target, [a, b]).check().results[0])
    want, other = (of_steps(a, b, rounded=one) for one in (is_rounded, not is_rounded))
    # A power that lies next to the middle of two numbers may be rounded to the other one.
    assert np.count_nonzero(~same(got, want)) <= 2
    assert np.count_nonzero(~same(got, other)) > ROWS * COLUMNS // 8


def same(a, b):
    return (a == b) | (np.isnan(a.astype("float32")) & np.isnan(b.astype("float32")))


@pytest.mark.parametrize("dtype", NAMES)
def test_what_is_compared_with_another_value_is_rounded(dtype):
    """The largest of a row is one of the row, although it was stored and the others were not."""
    jax = pytest.importorskip("jax", reason="JAX is not installed")

    def largest(x):
        y = x * 1.1 + x * x * 0.37
        return y == jax.numpy.max(y, 1, keepdims=True)

    x = operands(dtype)[1]
    got = np.asarray(ext.from_jax(largest, x)(x))
    assert (got.sum(1) >= 1).all()


def test_frameworks_round_at_the_end():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    x = jax.numpy.ones((4, 4), jax.numpy.bfloat16)
    assert ext.frontends.import_jax(lambda x: x * x + x, x).excess_precision
    assert not chain("bfloat16").excess_precision


@pytest.mark.parametrize("dtype", NAMES)
def test_the_largest_of_16_bits(dtype, tmp_path):
    """By vectors along the row, with a NaN in one of them."""
    kind = NAMES[dtype]
    program = import_program(f"""
func.func @most(%x: tensor<5x333x{kind}>) -> tensor<5x{kind}> {{
  %first = arith.constant -1.0 : {kind}
  %empty = tensor.empty() : tensor<5x{kind}>
  %init = linalg.fill ins(%first : {kind}) outs(%empty : tensor<5x{kind}>) -> tensor<5x{kind}>
  %most = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
      affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<5x333x{kind}>) outs(%init : tensor<5x{kind}>) {{
  ^bb0(%e: {kind}, %a: {kind}):
    %m = arith.maximumf %e, %a : {kind}
    linalg.yield %m : {kind}
  }} -> tensor<5x{kind}>
  return %most : tensor<5x{kind}>
}}""")
    x = RNG.normal(0, 5, (5, 333)).astype(numpy_dtype(dtype))
    x[2, 300] = np.nan
    got = np.asarray(build_program(program, folder=tmp_path / "p")(x))
    np.testing.assert_array_equal(got.astype("float32"), x.astype("float32").max(1))
