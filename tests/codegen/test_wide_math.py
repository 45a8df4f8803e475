"""Functions of float32 by float64 arithmetic: rounded once, with C's special values."""

import importlib.util
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.codegen import hyperbolic_tangent, wide_math
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.targets.names import make_target

COUNT = 1 << 16
ROOT = Path(__file__).parents[2]
SPECIAL = np.array(
    [
        *(0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 2.5, 11, np.inf, -np.inf, np.nan),
        *(1e-45, -1e-45, 1e-38, 3e38, -3e38, 88.7, 88.8, 89.5, -87, -104, 1e6, 2**20, 2**20 + 1),
        *(-(2**21), 1e22, 1.5707964, 3.1415927, 16777216),
    ],
    "float32",
)


def by_name(name):
    """A function of the C library."""
    return lambda x: tirx.call_pure_extern("float32", name, x)


def erfc(x):
    """The C library's of float64."""
    return np.vectorize(math.erfc, otypes=[np.float64])(x)


FUNCTIONS = {
    "acos": (tirx.acos, np.arccos),
    "acosh": (tirx.acosh, np.arccosh),
    "asin": (tirx.asin, np.arcsin),
    "asinh": (tirx.asinh, np.arcsinh),
    "atan": (tirx.atan, np.arctan),
    "atan2": (tirx.atan2, np.arctan2),
    "cbrt": (by_name("cbrtf"), np.cbrt),
    "copysign": (tirx.copysign, np.copysign),
    "cos": (tirx.cos, np.cos),
    "cosh": (tirx.cosh, np.cosh),
    "erfc": (by_name("erfcf"), erfc),
    "expm1": (by_name("expm1f"), np.expm1),
    "log10": (tirx.log10, np.log10),
    "log2": (tirx.log2, np.log2),
    "pow": (tirx.pow, np.power),
    "sin": (tirx.sin, np.sin),
    "sinh": (tirx.sinh, np.sinh),
    "tan": (tirx.tan, np.tan),
}
OF_TWO = ("atan2", "copysign", "pow")


def kernel(name, target="llvm", vector=True):
    """The function over COUNT elements, and what gives its results."""
    function, names = FUNCTIONS[name][0], "yxz" if name in OF_TWO else "xz"
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("main")
        *given, result = (I.arg(one, I.buffer((COUNT,), "float32", align=4)) for one in names)
        loop = I.vectorized if vector else I.serial
        with I.sblock("root"), I.serial(0, COUNT // 16) as block, loop(0, 16) as lane:
            place = block * 16 + lane
            I.buffer_store(result, function(*(one[place] for one in given)), [place])
    cpu_pipeline.register()
    module = tvm.IRModule({"main": builder.get()})
    target, pipeline = make_target(target), cpu_pipeline.CPU_PIPELINE
    built = tvm.compile(module, target=target, tir_pipeline=pipeline)

    def run(*arrays):
        padded = [np.resize(one, COUNT) for one in arrays]
        result = np.zeros(COUNT, "float32")
        built["main"](*padded, result)
        return result

    return run


def operands(name):
    """Numbers of all sizes, usual ones, and special ones."""
    rng = np.random.default_rng(len(name))
    bits = rng.integers(0, 1 << 32, COUNT, dtype=np.uint32).view("float32")
    usual, unit = rng.standard_normal(COUNT) * 10, rng.uniform(-1, 1, COUNT)
    sets = [bits, usual.astype("float32"), unit.astype("float32"), SPECIAL]
    if name not in OF_TWO:
        return [(one,) for one in sets]
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)), "float32")
    several = [(one, np.roll(one, 1)) for one in sets[:3]]
    return [*several, (np.abs(sets[2]), sets[1]), (pairs[:, 0], pairs[:, 1])]


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rounded_once_and_special_as_in_c(name):
    run, exact = kernel(name), FUNCTIONS[name][1]
    for arrays in operands(name):
        result = run(*arrays)
        padded = [np.resize(one, COUNT).astype("float64") for one in arrays]
        wide = exact(*padded)
        want = wide.astype("float32")
        np.testing.assert_array_equal(np.isnan(result), np.isnan(want))
        is_number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(result[is_number]), np.signbit(want[is_number]))
        differs = (result != want) & is_number
        assert np.isfinite(result[differs]).all()
        assert np.isfinite(want[differs]).all()
        unit = np.spacing(np.abs(want[differs])).astype("float64")
        assert (np.abs(result[differs] - wide[differs]) < 0.501 * unit).all()


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("target", "vector"),
    [("llvm", False), ({"kind": "llvm", "mcpu": "x86-64-v3"}, True)],
    ids=["scalar", "AVX2"],
)
def test_as_in_other_vectors(name, target, vector):
    """The same but where a result lies next to the middle of two numbers."""
    run, other = kernel(name), kernel(name, target, vector)
    for arrays in operands(name):
        a, b = run(*arrays), other(*arrays)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        assert same.mean() > 0.9999
        np.testing.assert_allclose(a[~same], b[~same], rtol=2e-7, atol=2e-45)


@pytest.fixture(scope="module")
def fits():
    """The script that fits polynomials."""
    pytest.importorskip("mpmath", reason="mpmath is not installed: pip install mpmath")
    spec = importlib.util.spec_from_file_location("fit_math", ROOT / "scripts" / "fit_math.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_polynomials_are_as_near_as_they_say(fits):
    for fit in fits.FITS:
        assert fits.error_of(fit, getattr(wide_math, f"_{fit.name}"), points=101) < 5e-12, fit.name


def test_polynomials_of_tanh_are_as_near_as_they_say(fits):
    bounds = {"float32": 1.4e-7, "float64": 1e-16}
    for (dtype, name), fit in fits.TANH_FITS.items():
        terms = getattr(hyperbolic_tangent.TERMS[dtype], name)
        assert fits.error_of(fit, terms, points=101) < bounds[dtype], fit.name
