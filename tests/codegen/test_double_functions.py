"""Functions of float64 keep their bounds with and without a fused multiply-add."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

from tvm_iree_ext.accuracy.accuracy_report import report_row
from tvm_iree_ext.accuracy.built_functions import built_functions
from tvm_iree_ext.accuracy.functions import named
from tvm_iree_ext.accuracy.measuring import measure
from tvm_iree_ext.codegen import (
    double_angles,
    double_arcs,
    double_errors,
    double_exponentials,
    double_functions,
    double_logarithms,
    double_roots,
)
from tvm_iree_ext.tir.power_rests import SIZE_REST, TURN_REST

NAMES = [
    operator.rpartition(".")[2]
    for operator in double_functions.LOWERINGS
    if operator not in (SIZE_REST, TURN_REST)  # which complex powers take
]
ROOT = Path(__file__).parents[2]
TABLES = {
    "ATAN": (double_arcs, 6e-17),
    "ATAN_EXACT": (double_arcs, 3e-16),
    "ATANH_EXACT": (double_logarithms, 1e-15),
    "ATANH": (double_logarithms, 5e-16),
    "EXP": (double_exponentials, 1.2e-16),
    "SIN": (double_angles, 2e-16),
    "COS": (double_angles, 6e-17),
    "SINH": (double_exponentials, 6e-17),
    "CBRT": (double_roots, 1e-10),
    "ERF": (double_errors, 5e-17),
    "ERFCX": (double_errors, 3e-17),
}


def of_cpu(model):
    return {"kind": "llvm", "mcpu": model}


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"], ids=["no FMA", "FMA"])
def test_bounds_and_special_values(target):
    rows = measure(named(NAMES), "float64", of_cpu(target), count=600, with_peers=False)
    assert [report_row(row) for row in rows if not row.keeps_bound] == []


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"], ids=["no FMA", "FMA"])
def test_angles_next_to_multiples_of_half_pi(target):
    """Nearly all of an argument is subtracted; sin of the float64 next to pi is 1.2e-16."""
    mpmath = pytest.importorskip("mpmath", reason="mpmath is not installed: pip install mpmath")
    functions = built_functions(named(["sin", "cos", "tan"]), "float64", of_cpu(target))
    multiples = np.array([*range(1, 40), 355, 710, 9999, 2**19, 2**20 - 1, 2**20, 2**21 + 1, 2**40])
    x = multiples * (math.pi / 2)
    x = np.concatenate([x, np.nextafter(x, 0), np.nextafter(x, np.inf), -x])
    with mpmath.workdps(60):
        for name, function in functions.items():
            exact = [float(getattr(mpmath, name)(mpmath.mpf(float(one)))) for one in x]
            np.testing.assert_array_max_ulp(function(x), np.array(exact), 1)


def test_powers_have_whole_logarithms():
    functions = built_functions(named(["log2", "log10"]), "float64")
    whole = np.arange(-1074, 1024)
    np.testing.assert_array_equal(functions["log2"](np.ldexp(1.0, whole)), whole)
    tens = np.arange(23)  # what float64 holds exactly
    np.testing.assert_array_equal(functions["log10"](np.array([10.0**k for k in tens])), tens)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"], ids=["no FMA", "FMA"])
def test_powers_of_mantissas_that_are_far_from_1(target):
    """Their logarithms err the most, and exponents of 700 magnify that."""
    mpmath = pytest.importorskip("mpmath", reason="mpmath is not installed: pip install mpmath")
    rng = np.random.default_rng(0)
    x = rng.choice([0.7071, 1.4142, 0.7572, 1.3072], 300) * rng.uniform(0.9995, 1.0005, 300)
    y = rng.uniform(-700, 700, x.size) / np.log(x)
    power = built_functions(named(["pow"]), "float64", of_cpu(target))["pow"]
    with mpmath.workdps(40):
        exact = [mpmath.power(*map(mpmath.mpf, pair)) for pair in zip(x, y, strict=True)]
        pairs = zip(power(x, y), exact, strict=True)
        errors = [abs(mpmath.mpf(a) - b) / float(np.spacing(float(b))) for a, b in pairs]
    assert max(errors) < 0.6


def test_the_ends_of_exponentials_and_of_erf():
    exp = built_functions(named(["exp"]), "float64")["exp"]
    assert exp(np.array([709.782712893384]))[0] == 1.7976931348622732e308
    erf = built_functions(named(["erf"]), "float64", of_cpu("x86-64-v2"))["erf"]
    tiny = np.array([2.390167995e-315, 5e-324, 2.0**-500])
    np.testing.assert_array_max_ulp(erf(tiny), tiny * (2 / math.sqrt(math.pi)), 1)


def test_cubes_have_whole_roots():
    roots = np.arange(-2000.0, 2000.0)
    cbrt = built_functions(named(["cbrt"]), "float64")["cbrt"]
    np.testing.assert_array_equal(cbrt(roots**3), roots)


def test_polynomials_are_as_near_as_they_say():
    pytest.importorskip("mpmath", reason="mpmath is not installed: pip install mpmath")
    spec = importlib.util.spec_from_file_location("fit_math", ROOT / "scripts" / "fit_math.py")
    fits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fits)
    assert {fit.name for fit in fits.DOUBLE_FITS} == set(TABLES)
    for fit in fits.DOUBLE_FITS:
        module, bound = TABLES[fit.name]
        terms = getattr(module, f"_{fit.name}")
        pairs = getattr(module, f"_{fit.name}_FIRST", ())
        terms = (*(high for high, _ in pairs), *terms, *(low for _, low in pairs))
        assert fits.error_of(fit, terms, points=101) < bound, fit.name
