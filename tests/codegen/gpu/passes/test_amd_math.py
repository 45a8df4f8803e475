"""Functions that AMD's compiler lacks: how exact, at the ends of the range."""

import math

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.s_tir.pipeline import default_s_tir_pipeline
from tvm.script.ir_builder import IRBuilder
from tvm.tirx import compilation_pipeline
from tvm.tirx.script import builder as I

import tvm_iree_ext as ext
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.codegen.gpu.passes.amd_math import lower_amd_math
from tvm_iree_ext.codegen.vector_math import EXP2_OF_NEGATIVE
from tvm_iree_ext.targets.names import make_target

COUNT = 4096


@pytest.fixture(scope="module", autouse=True)
def as_on_a_device():
    """The pass in its place, for this machine: after the last simplification."""

    def passes():
        _, finalize, other = default_s_tir_pipeline()
        return (
            cpu_pipeline._lower,
            lambda: tvm.ir.transform.Sequential([lower_amd_math, finalize()]),
            other,
        )

    compilation_pipeline.register_tir_pipeline("tvm_iree_ext.test_amd_math", passes)


def apply(function, values, *others):
    """The function of an array, and of numbers."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("main")
        x, y = (
            I.arg(name, I.buffer((values.size,), str(values.dtype), align=values.itemsize))
            for name in "xy"
        )
        with I.sblock("root"), I.serial(0, values.size) as at:
            if function == EXP2_OF_NEGATIVE:
                value = tirx.call_pure_extern(str(values.dtype), function, x[at])
            else:
                numbers = [tirx.const(number, str(values.dtype)) for number in others]
                value = getattr(tirx, function)(x[at], *numbers)
            I.buffer_store(y, value, [at])
    kernel = tvm.compile(
        tvm.IRModule({"main": builder.get()}),
        target=make_target("llvm"),
        tir_pipeline="tvm_iree_ext.test_amd_math",
    )
    result = np.zeros_like(values)
    kernel["main"](values, result)
    return result


def exact(function, values):
    one = {
        "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "exp2": np.exp2,
        EXP2_OF_NEGATIVE: np.exp2,
    }.get(function)  # fmt: skip
    if one is None and function != "erf":
        one = getattr(np, function)
    if function == "erf":
        return np.array([math.erf(value) for value in values])
    return one(values.astype(np.longdouble))


ACCURACY = [
    ("exp", "float64", -700, 709, 2), ("exp2", "float64", -1020, 1023, 2),
    (EXP2_OF_NEGATIVE, "float64", -1020, 0, 2),
    ("log", "float64", 1e-3, 4, 4), ("log", "float64", 1e-300, 1e300, 4),
    ("log2", "float64", 0.1, 9, 4), ("log10", "float64", 0.1, 9, 4),
    ("log1p", "float64", -0.9, 9, 4), ("log1p", "float64", -1e-9, 1e-9, 4),
    ("tanh", "float64", -25, 25, 4), ("tanh", "float64", -0.1, 0.1, 4),
    ("sinh", "float64", -40, 40, 8), ("sinh", "float64", 690, 710, 8),
    ("cosh", "float64", -40, 40, 8), ("erf", "float64", -7, 7, 4), ("erf", "float64", -1, 1, 4),
    ("tanh", "float32", -12, 12, 4), ("erf", "float32", -5, 5, 4), ("sinh", "float32", -40, 40, 8),
    ("cosh", "float32", -40, 40, 8), ("log1p", "float32", -0.9, 9, 4),
    ("sin", "float32", -3, 3, 2), ("sin", "float32", 1e3, 1.001e3, 2),
    ("sin", "float32", -1e8, 1e8, 2),
    ("cos", "float32", -4, 4, 2), ("cos", "float32", 1e5, 1.001e5, 2), ("tan", "float32", -9, 9, 4),
    ("tan", "float32", 1e4, 1e5, 4),
]  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize(("function", "dtype", "low", "high", "ulps"), ACCURACY)
def test_within_a_few_units_in_the_last_place(function, dtype, low, high, ulps):
    x = np.linspace(low, high, COUNT).astype(dtype)
    want = exact(function, x)
    error = np.abs(apply(function, x) - want)
    assert float((error / np.maximum(np.abs(want), 1e-300)).max()) <= ulps * np.finfo(dtype).eps


@pytest.mark.parametrize(
    "exponent", [3.0, 2.0, 0.3, -1.0, -2.5, 0.0, 77.3, np.inf, -np.inf, np.nan]
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_powers_of_all_kinds_of_numbers(exponent, dtype):
    """As C has them; of two signs and at the ends of the range."""
    values = [0.3, 1, 2, 7.7, 130, 1e-3, 6e4, np.inf, 0, np.nan]
    x = np.array(values + [-value for value in values], dtype)
    with np.errstate(all="ignore"):
        want = np.power(x.astype("float64"), np.dtype(dtype).type(exponent)).astype(dtype)
    got = apply("pow", x, exponent)
    np.testing.assert_array_max_ulp(got[~np.isnan(want)], want[~np.isnan(want)], 1)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(
        np.signbit(got[~np.isnan(want)]), np.signbit(want[~np.isnan(want)])
    )


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("function", "want"),
    [
        ("tanh", [np.nan, 1, -1, 0]),
        ("erf", [np.nan, 1, -1, 0]),
        ("sinh", [np.nan, np.inf, -np.inf, 0]),
        ("cosh", [np.nan, np.inf, np.inf, 1]),
        ("log1p", [np.nan, np.inf, np.nan, 0]),
        ("log", [np.nan, np.inf, np.nan, -np.inf]),
        ("sin", [np.nan, np.nan, np.nan, 0]),
        ("cos", [np.nan, np.nan, np.nan, 1]),
        ("tan", [np.nan, np.nan, np.nan, 0]),
    ],
)
def test_ends_of_the_range(function, want, dtype):
    x = np.array([np.nan, np.inf, -np.inf, 0.0], dtype)
    np.testing.assert_array_equal(apply(function, x), np.array(want, dtype))


def test_a_negative_exponent_may_be_infinite():
    x = np.array([np.nan, -np.inf, -1e300, -0.0])
    np.testing.assert_array_equal(apply(EXP2_OF_NEGATIVE, x), [np.nan, 0, 0, 1])


def test_the_smallest_numbers_have_logarithms():
    x = np.array([5e-324, 1e-310, 2.3e-308])
    np.testing.assert_allclose(apply("log", x), np.log(x), rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_sign_of_another(dtype):
    values = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan], dtype)
    for sign in (1.0, -0.0, -3.0):
        result = apply("copysign", values, sign)
        np.testing.assert_array_equal(result, np.copysign(values, sign))
        np.testing.assert_array_equal(np.signbit(result), np.signbit(np.copysign(values, sign)))


ONE = """acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor log
    log10 log1p log2 round roundeven rsqrt sin sinh sqrt tan tanh trunc"""
OF_ONE = [*ONE.split()]
OF_TWO, OF_THREE = ["atan2", "copysign", "powf"], ["fma"]


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_every_function_of_the_math_dialect_builds(tmp_path, element):
    pytest.importorskip("iree.compiler", reason="IREE is not installed: pip install '.[mlir]'")
    kind, text = f"tensor<64x{element}>", ""
    for count, names in enumerate((OF_ONE, OF_TWO, OF_THREE), 1):
        for name in names:
            given = ", ".join(f"%a{n}: {kind}" for n in range(count))
            operands = ", ".join(f"%a{n}" for n in range(count))
            text += (
                f"func.func @{name}({given}) -> {kind} {{\n"
                f"  %0 = math.{name} {operands} : {kind}\n"
                f"  return %0 : {kind}\n}}\n"
            )
    imported = ext.mlir.import_program(text)
    program = ext.build(imported, "rocm:gfx942", folder=tmp_path / "p")
    assert len(program.manifest.functions) == len(OF_ONE) + len(OF_TWO) + len(OF_THREE)
