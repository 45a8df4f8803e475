"""Operators of Relax on floats of 16 bits: in float32, rounded once; activations of all floats."""

import math

import numpy as np
import pytest
from tvm import relax

import tvm_iree_ext as ext
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.programs.relax_import.from_relax import from_relax
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program

ROWS, COLUMNS = 3, 20_000
NARROW = ("float16", "bfloat16")
EPSILON = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
EXTREMES = (12.0, -90.0, -20.0, 1e-3, -5.0, -math.inf, math.inf, math.nan, -0.0, 0.0)


def module(emit, shape, dtype):
    """A module of a function of a tensor."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            result = builder.emit_output(emit(x))
        builder.emit_func_output(result)
    return builder.get()


def numbers(dtype):
    """Numbers whose sum and sum of squares are beyond 65,504, the largest of float16."""
    values = np.random.default_rng(0).normal(10, 3, (ROWS, COLUMNS))
    return values.astype(numpy_dtype(dtype))


def ones(dtype, value=1.0):
    return relax.const(np.full(COLUMNS, value), dtype)


REDUCTIONS = {
    "mean": (lambda x, dtype: relax.op.mean(x, [1]), lambda v: v.mean(1)),
    "variance": (lambda x, dtype: relax.op.variance(x, [1]), lambda v: v.var(1)),
    "std": (lambda x, dtype: relax.op.std(x, [1]), lambda v: v.std(1)),
    "prod": (lambda x, dtype: relax.op.prod(x, [0]), lambda v: v.prod(0)),
    "layer_norm": (
        lambda x, dtype: relax.op.nn.layer_norm(x, ones(dtype), ones(dtype, 0.0), [-1]),
        lambda v: (v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5),
    ),
    "rms_norm": (
        lambda x, dtype: relax.op.nn.rms_norm(x, ones(dtype), [-1], 1e-5),
        lambda v: v / np.sqrt((v * v).mean(1, keepdims=True) + 1e-5),
    ),
    "log_softmax": (
        lambda x, dtype: relax.op.nn.log_softmax(x, -1),
        lambda v: v - v.max(1, keepdims=True) - _log_sums(v),
    ),
}


def _log_sums(v):
    return np.log(np.exp(v - v.max(1, keepdims=True)).sum(1, keepdims=True))


@pytest.mark.costly
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_are_rounded_once(name, dtype, tmp_path):
    emit, reference = REDUCTIONS[name]
    x = numbers(dtype)
    built = ext.build(module(lambda x: emit(x, dtype), x.shape, dtype), folder=tmp_path / "p")
    got = np.asarray(built(x)).astype("float64")
    want = reference(x.astype("float64"))
    assert np.abs(want).max() < 65_504
    assert np.isfinite(got).all()
    # Float32's own errors are of numbers as large as the largest here.
    bound = 1.01 * EPSILON[dtype] * np.abs(want) + 1e-5
    assert (np.abs(got - want) <= bound).all()


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sin", "asinh", "sqrt"])
def test_functions_of_each_element_are_rounded_once(name, tmp_path):
    """Of all numbers of float16, with signs of zeros."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    built = ext.build(module(getattr(relax.op, name), x.shape, "float16"), folder=tmp_path / "p")
    got = np.asarray(built(x))
    known = {"asinh": np.arcsinh, "erf": np.vectorize(math.erf, otypes=["float64"])}
    with np.errstate(all="ignore"):
        want = known.get(name, getattr(np, name, None))(x.astype("float64")).astype("float16")
    assert (np.isnan(got) == np.isnan(want)).all()
    is_number = ~np.isnan(want)
    apart = got.view(np.int16).astype(int) - want.view(np.int16).astype(int)
    # A result next to the middle of two numbers may be the other one.
    assert np.abs(apart[is_number]).max() <= 1
    assert np.count_nonzero(apart[is_number]) <= 4


def _sigmoid(v):
    power = np.exp(-np.abs(v))
    return np.where(v < 0, power, 1) / (1 + power)


_ERFC = np.vectorize(math.erfc, otypes=["float64"])
ACTIVATIONS = {
    "sigmoid": (relax.op.sigmoid, _sigmoid),
    "silu": (relax.op.nn.silu, lambda v: v * _sigmoid(v)),
    "gelu": (relax.op.nn.gelu, lambda v: v * (0.5 * _ERFC(-v / math.sqrt(2)))),
    "gelu_tanh": (
        relax.op.nn.gelu_tanh,
        lambda v: v * _sigmoid(math.sqrt(8 / math.pi) * (v + 0.044715 * v**3)),
    ),
    "selu": (
        relax.op.nn.selu,
        lambda v: 1.0507009873554805 * np.where(v > 0, v, 1.6732632423543772 * np.expm1(v)),
    ),
    "softplus": (
        lambda x: relax.op.nn.softplus(x, beta=2.0, threshold=15.0),
        lambda v: np.where(2 * v > 15, v, np.logaddexp(0, 2 * v) / 2),
    ),
}


@pytest.mark.costly
@pytest.mark.parametrize("target", ["llvm", "rocm:gfx942", "cuda:sm_80"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_activations_at_the_ends(dtype, target, tmp_path):
    """Also on a GPU's simulator."""
    x = np.array(EXTREMES).astype(numpy_dtype(dtype))
    names = list(ACTIVATIONS) if target == "llvm" else ["gelu", "selu", "softplus"]
    builder = relax.BlockBuilder()
    operand = relax.Var("x", relax.TensorType(x.shape, dtype))
    with builder.function("main", [operand], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            results = [builder.emit_output(ACTIVATIONS[name][0](operand)) for name in names]
        builder.emit_func_output(relax.Tuple(results))
    imported = from_relax(builder.get())
    if target == "llvm":
        got = ext.build(builder.get(), folder=tmp_path / "p")(x)
    else:
        got = simulate_program(imported, target, [x]).check().results
    for name, result in zip(names, got, strict=True):
        with np.errstate(all="ignore"):
            want = ACTIVATIONS[name][1](x.astype("float64")).astype(x.dtype).astype("float64")
        epsilon = EPSILON.get(dtype, 1e-5 if dtype == "float32" else 1e-12)
        result = np.asarray(result).astype("float64")
        smallest = 2.0**-24 if dtype == "float16" else 1e-30
        if dtype == "float64" and target.startswith("rocm"):
            smallest = 1e-15  # there erfc is 1 - erf
        np.testing.assert_allclose(result, want, rtol=2 * epsilon, atol=smallest, err_msg=name)
        np.testing.assert_array_equal(np.signbit(result[-2:]), np.signbit(want[-2:]), name)
