"""Functions of complex numbers over the whole range of their parts, beside mpmath."""

import cmath
import itertools
import math

import mpmath
import numpy as np
import pytest

from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program

COUNT = 200
BOUND = 4.0
"""In ULP of the result's norm."""

FUNCTIONS = {
    "abs": abs,
    "exp": mpmath.exp,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log1p": mpmath.log1p,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda z: 1 / mpmath.sqrt(z),
    "sign": lambda z: z / abs(z),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "tanh": mpmath.tanh,
    "div": lambda z, w: z / w,
    "pow": lambda z, w: mpmath.exp(w * mpmath.log(z)),
}
OF_TWO = ("div", "pow")
PARTS = {"complex64": ("f32", np.float32), "complex128": ("f64", np.float64)}


def text(dtype, names=FUNCTIONS):
    """A module with a function for each operation."""
    part, _ = PARTS[dtype]
    kind = f"complex<{part}>"
    functions = []
    for name in names:
        result = part if name == "abs" else kind
        operands = "%a, %b" if name in OF_TWO else "%a"
        functions.append(f"""
        func.func @{name}(%x: tensor<{COUNT}x{kind}>, %y: tensor<{COUNT}x{kind}>)
            -> tensor<{COUNT}x{result}> {{
          %e = tensor.empty() : tensor<{COUNT}x{result}>
          %0 = linalg.generic {{indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}}
              ins(%x, %y : tensor<{COUNT}x{kind}>, tensor<{COUNT}x{kind}>)
              outs(%e : tensor<{COUNT}x{result}>) {{
          ^bb0(%a: {kind}, %b: {kind}, %o: {result}):
            %r = complex.{name} {operands} : {kind}
            linalg.yield %r : {result}
          }} -> tensor<{COUNT}x{result}>
          return %0 : tensor<{COUNT}x{result}>
        }}""")
    return "#id = affine_map<(i) -> (i)>" + "".join(functions)


@pytest.fixture(scope="module", params=PARTS)
def dtype(request):
    return request.param


@pytest.fixture(scope="module")
def program(imported, dtype):
    return build_program(imported(text(dtype)))


def numbers(rng, dtype, name):
    """Parts of any size that the function takes: of sizes of their own, alike, and near 1."""
    _, part = PARTS[dtype]
    info = np.finfo(part)
    low, high = math.log2(float(info.smallest_subnormal)) + 4, float(info.maxexp)
    if name in ("exp", "expm1", "sin", "cos", "tan", "tanh"):
        high = 13.0
    sizes = rng.uniform(low, high, (COUNT, 2))
    near = rng.uniform(-3, 3, (COUNT, 2))
    alike = sizes[:, :1] + rng.uniform(-2, 0, (COUNT, 2))
    choice = rng.integers(0, 3, (COUNT, 1))
    powers = np.select([choice == 0, choice == 1], [sizes, alike], near)
    parts = np.exp2(np.minimum(powers, high - 1e-3)) * rng.choice([-1.0, 1.0], (COUNT, 2))
    return parts.astype(part).view(dtype)[:, 0]


def operands(rng, dtype, name):
    """Two arrays; powers have exponents of which b log a is as large as results allow."""
    x, y = numbers(rng, dtype, name), numbers(rng, dtype, name)
    if name == "pow":
        _, part = PARTS[dtype]
        large = 6.0 if part is np.float32 else 9.0
        exponents = np.exp2(rng.uniform(-3, large, COUNT)) * np.exp(1j * rng.uniform(0, 7, COUNT))
        x[::8] = 1 + x[::8] / abs(x[::8]) * np.exp2(rng.uniform(-20, -2, COUNT // 8))
        y = (exponents / np.log(x)).astype(dtype)
    return x, y


def in_norm(got, want, part):
    """The distance in ULP of the norm of what is wanted; 0 where both overflow."""
    info = np.finfo(part)
    size = abs(want)
    if size > float(info.max) * (1 - float(info.eps)) and not np.isfinite(got):
        return 0.0
    if size == 0:
        return 0.0 if got == 0 else math.inf
    exponent = max(int(mpmath.floor(mpmath.log(size, 2))), int(info.minexp))
    unit = mpmath.mpf(2) ** (exponent - info.nmant)
    if not np.isfinite(got):
        return math.inf
    distance = abs(mpmath.mpc(complex(got)) - want) / unit
    return float(distance)


def check_errors(name, dtype, x, y, results):
    errors = []
    with mpmath.workprec(400):
        for a, b, got in zip(x, y, results, strict=True):
            taken = (a, b) if name in OF_TWO else (a,)
            want = FUNCTIONS[name](*(mpmath.mpc(complex(z)) for z in taken))
            errors.append(in_norm(got, want, PARTS[dtype][1]))
    place = int(np.argmax(errors))
    assert errors[place] <= BOUND, (x[place], y[place], results[place])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_a_few_ulp_in_norm(program, dtype, name):
    x, y = operands(np.random.default_rng(list(FUNCTIONS).index(name)), dtype, name)
    check_errors(name, dtype, x, y, np.asarray(program[name](x, y)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_on_a_gpu_of_amd(imported, name):
    x, y = operands(np.random.default_rng(list(FUNCTIONS).index(name)), "complex128", name)
    done = simulate_program(imported(text("complex128", [name])), "rocm:gfx942", (x, y), name)
    check_errors(name, "complex128", x, y, done.check().results[0])


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "sin", "cos", "tan", "tanh"])
def test_special_values_are_those_of_c(program, dtype, name):
    parts = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan)
    values = [complex(re, im) for re, im in itertools.product(parts, parts)]
    x = np.resize(np.array(values, dtype), COUNT)
    results = np.asarray(program[name](x, x))[: len(values)]
    for z, got in zip(values, results, strict=True):
        try:
            want = getattr(cmath, name)(z)
        except ValueError:  # what C signals as invalid, or as a division by 0
            continue
        for part, other in ((got.real, want.real), (got.imag, want.imag)):
            if cmath.isnan(want):  # signs beside NaN are not specified
                part, other = abs(part), abs(other)
            if not np.isfinite(other) or other == 0:
                assert np.array_equal(part, other, equal_nan=True), (z, got, want)


def test_a_finite_number_over_an_infinite_one_is_zero(program, dtype):
    infinite = [complex(math.inf, 1), complex(-1, math.inf), complex(-math.inf, math.inf)]
    x, y = np.full(COUNT, 3 - 4j, dtype), np.resize(np.array(infinite, dtype), COUNT)
    np.testing.assert_array_equal(np.asarray(program["div"](x, y)), np.zeros(COUNT, dtype))
