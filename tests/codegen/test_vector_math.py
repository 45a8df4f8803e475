"""Elementary functions as vector code: how exact, and at the ends of the range."""

import math
import re

import numpy as np
import pytest
import tvm
from tvm import s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.codegen.vector_math import COARSE, NEGATIVE_EXP2, lower_vector_math
from tvm_iree_ext.targets.names import make_target

COUNT = 1 << 16


def prim_func(function, dtype, vector=True, attributes=None):
    """``y = function(x)`` over COUNT elements."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("main")
        I.func_attr(attributes or {})
        x, y = (
            I.arg(name, I.buffer((COUNT,), dtype, align=np.dtype(dtype).itemsize)) for name in "xy"
        )
        loop = I.vectorized if vector else I.serial
        with I.sblock("root"), I.serial(0, COUNT // 16) as block, loop(0, 16) as lane:
            I.buffer_store(y, function(x[block * 16 + lane]), [block * 16 + lane])
    return builder.get()


def elementwise(function, dtype, vector=True, attributes=None, target="llvm"):
    """A kernel of that."""
    cpu_pipeline.register()
    return tvm.compile(
        tvm.IRModule({"main": prim_func(function, dtype, vector, attributes)}),
        target=make_target(target),
        tir_pipeline=cpu_pipeline.CPU_PIPELINE,
    )


def run(kernel, values):
    padded = np.zeros(COUNT, values.dtype)
    padded[: values.size] = values
    result = np.zeros_like(padded)
    kernel["main"](padded, result)
    return result[: values.size]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


erf = np.vectorize(math.erf, otypes=[np.float64])

CASES = [
    (tirx.exp2, np.exp2, "float32", (-125, 127.99), 1.1),
    (tirx.exp, np.exp, "float32", (-87, 88.7), 1.1),
    (tirx.tanh, np.tanh, "float32", (-10, 10), 1),
    (tirx.tanh, np.tanh, "float32", (-0.7, 0.7), 1),
    (tirx.tanh, np.tanh, "float64", (-20, 20), 1),
    (tirx.tanh, np.tanh, "float64", (-0.7, 0.7), 1),
    (tirx.sigmoid, sigmoid, "float32", (-60, 60), 4),
    (tirx.exp2, np.exp2, "float64", (-1021, 1023.9), 2),
    (tirx.exp, np.exp, "float64", (-700, 709), 2),
    (tirx.sigmoid, sigmoid, "float64", (-60, 60), 4),
]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("target", "vector"),
    [("llvm", True), ("llvm", False), ({"kind": "llvm", "mcpu": "x86-64-v2"}, True)],
    ids=["vector", "scalar", "vector-without-AVX-512"],
)
@pytest.mark.parametrize(("function", "numpy", "dtype", "limits", "ulps"), CASES)
def test_within_a_few_units_in_the_last_place(function, numpy, dtype, limits, ulps, target, vector):
    x = np.linspace(*limits, COUNT).astype(dtype)
    want = numpy(x.astype(np.longdouble))
    error = np.abs(run(elementwise(function, dtype, vector, target=target), x) - want)
    assert float((error / np.maximum(np.abs(want), 1e-300)).max()) < ulps * np.finfo(dtype).eps


def test_tanh_never_falls():
    """Of numbers next to each other, where two formulas meet and where results are near 1."""
    kernel = elementwise(tirx.tanh, "float32")
    for middle in (0.1, 0.5, 0.625, 0.8, 1.0, 3.0, 9.02):
        first = int(np.float32(middle).view(np.int32)) - COUNT // 2
        x = np.arange(first, first + COUNT, dtype=np.int32).view(np.float32)
        assert (np.diff(run(kernel, x)) >= 0).all()


LOGARITHMS = [
    # Relative to the unit of each result, by where numbers lie evenly on a scale of powers.
    (tirx.log, np.log, lambda t: 2.0 ** (t * 125), 1.0),
    (tirx.log, np.log, lambda t: 1 + t / 3, 1.0),
    (tirx.log, np.log, lambda t: 2.0 ** (-137 + 11 * t), 1.0),
    (tirx.log1p, np.log1p, lambda t: 2.0 ** (t * 125), 1.0),
    (tirx.log1p, np.log1p, lambda t: -(2.0 ** (t * 10 - 10.001)), 1.0),
    (tirx.log1p, np.log1p, lambda t: t, 1.0),
    (tirx.erf, erf, lambda t: 4.1 * t, 1.5),
    (tirx.erf, erf, lambda t: 1 + t / 8, 1.5),
    (tirx.erf, erf, lambda t: 2.0 ** (60 * t - 60), 1.5),
]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("target", "vector"),
    [("llvm", True), ("llvm", False), ({"kind": "llvm", "mcpu": "x86-64-v2"}, True)],
    ids=["vector", "scalar", "vector-without-multiply-add"],
)
def test_logarithms_and_erf_within_a_unit_in_the_last_place(target, vector):
    kernels = {}
    for function, numpy, numbers, units in LOGARITHMS:
        if function not in kernels:
            kernels[function] = elementwise(function, "float32", vector, target=target)
        x = numbers(np.linspace(-1, 1, COUNT)[1:]).astype("float32")
        want = numpy(x.astype(np.float64))
        error = np.abs(run(kernels[function], x) - want) / np.spacing(np.abs(want).astype("f4"))
        assert error.max() < units, function.__name__


def test_coarse_weights_are_exact_to_13_bits():
    kernel = elementwise(tirx.exp2, "float32", attributes={NEGATIVE_EXP2: COARSE})
    x = np.linspace(-125, 0, COUNT).astype("float32")
    want = np.exp2(x.astype(np.float64))
    assert np.abs(run(kernel, x) / want - 1).max() < 2.0**-13
    ends = np.array([np.nan, -np.inf, -1e5, 0.0], "float32")
    np.testing.assert_array_equal(run(kernel, ends), np.array([np.nan, 0, 0, 1], "float32"))


def test_of_negative_numbers_what_is_below_the_normal_numbers_is_zero_and_nothing_above_is():
    x = np.linspace(-151, -124, COUNT).astype("float32")
    got = run(elementwise(tirx.exp2, "float32", attributes={NEGATIVE_EXP2: True}), x)
    assert not got[x < -125.5].any()
    assert (got[x >= -125.5] >= 2.0**-125.5 * (1 - 1e-6)).all()


SUBNORMAL = [
    (tirx.exp, np.exp, "float32", (-104.5, -86)),
    (tirx.exp2, np.exp2, "float32", (-151, -124)),
    (tirx.exp, np.exp, "float64", (-746, -707)),
    (tirx.exp2, np.exp2, "float64", (-1076, -1020)),
]


@pytest.mark.parametrize(("function", "numpy", "dtype", "limits"), SUBNORMAL)
def test_subnormal_numbers_are_rounded_once_with_and_without_scaling_instructions(
    function, numpy, dtype, limits
):
    x = np.linspace(*limits, COUNT).astype(dtype)
    want = numpy(x.astype(np.longdouble))
    unit = np.spacing(np.maximum(want.astype(dtype), np.finfo(dtype).tiny))
    for target in ("llvm", {"kind": "llvm", "mcpu": "x86-64-v3"}):
        got = run(elementwise(function, dtype, target=target), x)
        assert float((np.abs(got - want) / unit).max()) < 1.1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("function", "most"), [(tirx.exp, 88), (tirx.exp2, 127)])
def test_a_number_has_the_same_bits_in_a_vector_and_alone(function, most, dtype):
    x = np.linspace(-1.2 * most, 1.02 * most, COUNT).astype(dtype)
    vector, alone = (run(elementwise(function, dtype, how), x) for how in (True, False))
    np.testing.assert_array_equal(vector, alone)


@pytest.mark.parametrize(("function", "numpy"), [(tirx.tanh, np.tanh), (tirx.tan, np.tan)])
def test_functions_of_float64_do_not_cancel_near_0(function, numpy):
    """A quotient of exponentials or of sine and cosine was off by 17 units."""
    x = np.linspace(-0.7, 0.7, COUNT)
    want = numpy(x.astype(np.longdouble))
    unit = np.spacing(np.abs(want.astype("float64")))
    assert float((np.abs(run(elementwise(function, "float64"), x) - want) / unit).max()) < 1.1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("function", "want"),
    [
        (tirx.exp, [np.nan, np.inf, 0, 1, 1, np.inf, 0]),
        (tirx.exp2, [np.nan, np.inf, 0, 1, 1, np.inf, 0]),
        (tirx.sigmoid, [np.nan, 1, 0, 0.5, 0.5, 1, 0]),
        (tirx.tanh, [np.nan, 1, -1, 0, 0, 1, -1]),
    ],
)
def test_ends_of_the_range(function, want, dtype):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e5, -1e5], dtype)
    np.testing.assert_array_equal(run(elementwise(function, dtype), x), np.array(want, dtype))


@pytest.mark.parametrize("vector", [True, False], ids=["vector", "scalar"])
@pytest.mark.parametrize(
    ("function", "numpy"), [(tirx.log, np.log), (tirx.log1p, np.log1p), (tirx.erf, erf)]
)
def test_logarithms_and_erf_at_the_ends(function, numpy, vector):
    """Signs of zeros, too."""
    x = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, -2.0, 1e-45, -1e-45, 3.4e38, -3.4e38, 2e-38]
    x = np.array(x, np.float32)
    with np.errstate(all="ignore"):
        want = numpy(x.astype(np.float64)).astype(np.float32)
    got = run(elementwise(function, "float32", vector), x)
    np.testing.assert_allclose(got, want, rtol=2e-7)
    zeros = want == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


def test_a_nan_with_any_payload_stays_nan():
    bits = np.array([0x7FC00001, 0x7FABCDEF, 0xFFFFFFFF, 0x7F800001], np.uint32)
    assert np.isnan(run(elementwise(tirx.exp2, "float32"), bits.view(np.float32))).all()


def test_what_a_condition_guards_stays_behind_it():
    def guarded(x):
        return tirx.if_then_else(x > 0, tirx.exp(tirx.log(x) + tirx.exp2(x)), x) - tirx.tanh(x)

    x = np.array([-1.0, 0.0, 1.0], np.float32)
    got = run(elementwise(guarded, "float32", vector=False), x)
    np.testing.assert_allclose(got, [-1, 0, np.exp(2)] - np.tanh(x), rtol=1e-6)


def test_what_is_read_under_a_condition_is_read_nowhere_else():
    """The last elements of ``x`` are beyond its end."""
    with IRBuilder() as builder, I.prim_func():
        I.func_name("main")
        x, y = (
            I.arg(name, I.buffer((n,), "float32", align=4)) for name, n in (("x", 8), ("y", 64))
        )
        with I.serial(0, 64) as at:
            value = tirx.if_then_else(at < 8, tirx.exp(x[at]), tirx.const(0, "float32"))
            I.buffer_store(y, value, [at])
    mod = lower_vector_math(tvm.IRModule({"main": builder.get()}))
    s_tir.analysis.OOBChecker()(mod)


FUNCTIONS = (
    *("exp", "exp2", "exp10", "sigmoid", "tanh", "log", "log2", "log10", "log1p", "sin", "cos"),
    *("tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "rsqrt"),
)


def lowered(function, dtype, depth, guarded):
    """As code generation gets a function of a function of a function ..."""

    def chain(x):
        value = x
        for _ in range(depth):
            value = function(value)
        return tirx.if_then_else(x > 0, value, x) if guarded else value

    mod = tvm.IRModule({"main": prim_func(chain, dtype, vector=False)})
    mod = tirx.transform.BindTarget(make_target("llvm").with_host("llvm"))(mod)
    lower, finalize, _ = cpu_pipeline._cpu_pipeline()
    return len(finalize()(lower(mod)).script())


@pytest.mark.costly
@pytest.mark.parametrize("guarded", [False, True], ids=["plain", "guarded"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_chain_of_functions_grows_with_its_length(name, guarded):
    for dtype in ("float32", "float64"):
        sizes = [lowered(getattr(tirx, name), dtype, depth, guarded) for depth in (0, 4, 8)]
        assert sizes[2] - sizes[0] < 2.5 * (sizes[1] - sizes[0])


def test_no_library_call_is_left():
    for function in (tirx.tanh, tirx.log, tirx.log1p, tirx.erf):
        source = elementwise(function, "float32").mod.inspect_source("asm")
        assert not re.search(r"(exp|tanh|log|log1p|erf)f\b", source)
