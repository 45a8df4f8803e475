"""Arithmetic of floats against exact fractions, rounded once; conversions against ml_dtypes."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

COUNT = 512


def floats(seed, kind="f4", spread=6, count=COUNT):
    """Numbers of many exponents, few of whose bits are ones, so that ties come up."""
    rng = np.random.default_rng(seed)
    exponents = rng.integers(-spread, spread + 1, count)
    whole = rng.integers(1, 1 << 24, count) & rng.integers(0, 1 << 24, count)
    return ((whole + 1) * 2.0 ** (exponents - 12) * rng.choice([-1, 1], count)).astype(kind)


def rounded(exact, bits, least, how):
    """A fraction with ``bits`` of fraction and exponents from ``least`` on."""
    if exact == 0:
        return exact
    exponent = math.frexp(exact)[1] - 1 if abs(exact) > Fraction(1, 1 << 1000) else -1000
    while abs(exact) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, least) - bits)
    quotient = exact / step
    change = {"rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil}[how]
    return change(quotient) * step


FORMS = {"f32": ("f4", 23, -126), "f64": ("f8", 52, -1022), "f16": ("f2", 10, -14)}
FUNCTIONS = {
    "add": (2, lambda a, b: a + b),
    "sub": (2, lambda a, b: a - b),
    "mul": (2, lambda a, b: a * b),
    "fma": (3, lambda a, b, c: a * b + c),
    "div": (2, lambda a, b: a / b),
}


@pytest.mark.parametrize(
    ("name", "how", "kind"),
    [
        *((name, "rn", kind) for name in ("add", "mul", "fma") for kind in FORMS),
        *((n, how, "f32") for n in ("add", "sub", "mul", "fma") for how in ("rz", "rm", "rp")),
        ("add", "rm", "f64"), ("mul", "rp", "f64"), ("div", "rn", "f32"), ("div", "rn", "f64"),
    ],
)  # fmt: skip
def test_a_result_is_rounded_once(each_lane, name, how, kind):
    numpy_kind, bits, least = FORMS[kind]
    count, function = FUNCTIONS[name]
    spread = 6 if kind == "f16" else 30
    most = 200 if kind == "f16" else np.inf
    columns = [np.clip(floats(seed, "f8", spread), -most, most) for seed in range(count)]
    columns = [column.astype(numpy_kind) for column in columns]
    words = [column.view(f"u{column.dtype.itemsize}") for column in columns]
    line = f"{name}.{how}.{kind} %d, {', '.join(f'%{n}' for n in 'abc'[:count])};"
    got = each_lane(line, *words, gives=f"u{words[0].itemsize}").view(numpy_kind)
    values = zip(*(column.tolist() for column in columns), strict=True)
    for operands, found in zip(values, got.tolist(), strict=True):
        want = rounded(function(*map(Fraction, operands)), bits, least, how)
        assert Fraction(found) == want, (operands, found, float(want))


def test_a_sum_in_the_middle_of_two_numbers_is_rounded_by_what_comes_behind(each_lane):
    """Rounded to float64 first, it would look like a tie, which it is not."""
    a = np.full(32, 1 + 2.0**-12, "f4")  # squared: 1 + 2^-11 + 2^-24
    c = np.full(32, 2.0**-70, "f4")
    words = [one.view("u4") for one in (a, a, c)]
    got = each_lane("fma.rn.f32 %d, %a, %b, %c;", *words, gives="u4").view("f4")
    assert got[0] == np.float32(1 + 2.0**-11 + 2.0**-23)


NUMBERS = np.array(
    [0, -0.0, 1, -1, 0.5, 1.5, 2.5, -2.5, 447, 449, 465, 1e5, -1e5, 3e38, np.inf, -np.inf, np.nan,
     1e-40, 2.0**-9, 2.0**-10, 2.0**-11, 3 * 2.0**-11, 57344, 61440, 65504, 65519, 65520, 2.0**31,
     -(2.0**31), 2.0**32, 255.5, 2.0**63], "f4",
)  # fmt: skip


def test_float_to_integer_is_held_at_the_limits(each_lane):
    got = each_lane("cvt.rzi.s32.f32 %d, %a;", NUMBERS.view("u4"), gives="i4")
    inside = np.clip(np.nan_to_num(NUMBERS.astype("f8")), -(2**31), 2**31 - 1)
    np.testing.assert_array_equal(got, np.trunc(inside).astype("i4"))


def test_float_to_integer_rounds_to_even(each_lane):
    got = each_lane("cvt.rni.s32.f32 %d, %a;", NUMBERS[:8].repeat(4).view("u4"), gives="i4")
    assert got[::4].tolist() == [0, 0, 1, -1, 0, 2, 2, -2]


@pytest.mark.parametrize("how", ["rn", "rz"])
def test_integer_to_float_is_rounded_once(each_lane, how):
    rng = np.random.default_rng(3)
    a = rng.integers(-(1 << 63), 1 << 63, 256, dtype=np.int64) >> rng.integers(0, 40, 256)
    got = each_lane(f"cvt.{how}.f32.s64 %d, %a;", a.view("u8"), gives="u4").view("f4")
    for value, found in zip(a.tolist(), got.tolist(), strict=True):
        assert Fraction(found) == rounded(Fraction(value), 23, -126, how)


def pairs(words):
    """Each number, and the next one: as a conversion of two takes them."""
    return words, np.roll(words, -1)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("cvt.rn.satfinite.e4m3x2.f32", ml_dtypes.float8_e4m3fn),
        ("cvt.rn.satfinite.e5m2x2.f32", ml_dtypes.float8_e5m2),
        ("cvt.rn.bf16x2.f32", ml_dtypes.bfloat16),
        ("cvt.rn.f16x2.f32", np.float16),
    ],
)
def test_two_numbers_become_a_pair(each_lane, line, kind):
    numbers = np.concatenate([NUMBERS, floats(5, spread=20)])
    numbers = np.resize(numbers, COUNT)
    first, second = pairs(numbers)
    narrow = np.dtype(kind).itemsize
    gives = f"u{2 * narrow}"
    got = each_lane(f"{line} %d, %a, %b;", first.view("u4"), second.view("u4"), gives=gives)
    halves = got.view(f"u{narrow}").reshape(-1, 2)
    if narrow == 1:  # .satfinite
        most = np.float32(ml_dtypes.finfo(kind).max)
        first, second = (np.clip(one, -most, most) for one in (first, second))
    for column, numbers in ((1, first), (0, second)):
        with np.errstate(over="ignore"):
            want = numbers.astype(kind)
        found = halves[:, column].copy().view(kind)
        same = found.view(f"u{narrow}") == want.view(f"u{narrow}")
        assert (same | np.isnan(want.astype("f4")) & np.isnan(found.astype("f4"))).all()


def test_float64_becomes_bfloat16_by_rounding_once(each_lane):
    middle = 1 + 2.0**-8  # between two numbers of bfloat16: what comes behind decides
    a = np.concatenate([floats(7, "f8", 20), [middle, middle + 2.0**-40, np.inf, 1e300] * 8])
    got = each_lane("cvt.rn.bf16.f64 %d, %a;", a.view("u8"), gives="u2").view(ml_dtypes.bfloat16)
    for value, found in zip(a.tolist(), got.astype("f8").tolist(), strict=True):
        if abs(value) > 1e299:
            assert found == np.inf
        else:
            assert Fraction(found) == rounded(Fraction(value), 7, -126, "rn")


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_pairs_of_8_bits_become_halves(each_lane, kind):
    codes = np.arange(256, dtype=np.uint8)
    words = np.stack([codes, codes[::-1]], axis=1).copy().view("u2")[:, 0]
    got = each_lane(f"cvt.rn.f16x2.{kind}x2 %d, %a;", words, gives="u4")
    named = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[kind]
    want = codes.view(named).astype(np.float16)
    halves = got.view(np.float16).reshape(-1, 2)
    np.testing.assert_array_equal(halves[:, 0], want)
    np.testing.assert_array_equal(halves[:, 1], want[::-1])


def test_bfloat16_products_and_sums_are_rounded_once(each_lane):
    a, b, c = (floats(seed).astype(ml_dtypes.bfloat16) for seed in (1, 2, 3))
    words = [one.view("u2") for one in (a, b, c)]
    got = each_lane("fma.rn.bf16 %d, %a, %b, %c;", *words, gives="u2").view(ml_dtypes.bfloat16)
    exact = [
        rounded(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), 7, -126, "rn")
        for x, y, z in zip(a, b, c, strict=True)
    ]
    assert [Fraction(float(one)) for one in got] == exact


@pytest.mark.parametrize(
    ("name", "function", "error"),
    [
        # PTX ISA, the error that each approximation may have.
        ("ex2.approx.f32", np.exp2, 2.0**-22), ("rcp.approx.f32", np.reciprocal, 2.0**-23),
        ("rsqrt.approx.f32", lambda a: 1 / np.sqrt(np.abs(a)), 2.0**-22.4),
        ("sqrt.approx.f32", lambda a: np.sqrt(np.abs(a)), 2.0**-22),
        ("tanh.approx.f32", np.tanh, 2.0**-10.987),
    ],
)  # fmt: skip
def test_an_approximation_is_within_its_error(each_lane, name, function, error):
    a = floats(9, spread=4)
    if "sqrt" in name:
        a = np.abs(a)
    got = each_lane(f"{name} %d, %a;", a.view("u4"), gives="u4").view("f4")
    with np.errstate(over="ignore"):
        want = function(a.astype("f8"))
    usual = (np.abs(want) > 2.0**-120) & (np.abs(want) < 2.0**127)
    assert np.all(np.abs(got[usual] - want[usual]) <= error * np.abs(want[usual]))


def test_a_root_of_float64_has_all_digits_but_with_ftz(each_lane):
    a = np.abs(floats(3, "f8"))
    want = 1 / np.sqrt(a)
    whole, upper = (
        each_lane(f"rsqrt.approx{form}.f64 %d, %a;", a.view("u8"), gives="u8").view("f8")
        for form in ("", ".ftz")
    )
    assert np.all(np.abs(whole - want) <= 2.0**-52 * want)
    assert not (upper.view("u8") & np.uint64(0xFFFFFFFF)).any()
    assert np.all(np.abs(upper - want) <= 2.0**-19 * want)


def test_ftz_takes_subnormal_numbers_for_zeros(each_lane):
    a = np.full(32, 1e-39, "f4").view("u4")
    kept = each_lane("add.f32 %d, %a, %a;", a, gives="u4").view("f4")
    gone = each_lane("add.ftz.f32 %d, %a, %a;", a, gives="u4").view("f4")
    assert (kept[0], gone[0]) == (np.float32(1e-39) * 2, 0)


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("min.f32 %d, %a, %b;", [1, 1, -0.0, np.nan]),
        ("max.NaN.f32 %d, %a, %b;", [np.nan, np.nan, 0.0, np.nan]),
    ],
)
def test_of_a_number_and_nan_min_is_the_number(each_lane, line, want):
    a = np.array([1, np.nan, 0.0, np.nan] * 8, "f4")
    b = np.array([np.nan, 1, -0.0, np.nan] * 8, "f4")
    got = each_lane(line, a.view("u4"), b.view("u4"), gives="u4").view("f4")[:4]
    np.testing.assert_array_equal(got, np.array(want, "f4"))
    np.testing.assert_array_equal(np.signbit(got)[2], np.signbit(want[2]))


@pytest.mark.parametrize("name", ["lt", "ge", "ltu", "geu", "neu", "equ", "ne", "num", "nan"])
def test_comparisons_with_nan(each_lane, name):
    a = np.array([1, 2, np.nan, 1] * 8, "f4")
    b = np.array([2, 1, 1, np.nan] * 8, "f4")
    line = f"setp.{name}.f32 %p0, %a, %b; selp.u32 %d, 1, 0, %p0;"
    got = each_lane(line, a.view("u4"), b.view("u4"), gives="u4")[:4].tolist()
    want = {
        "lt": [1, 0, 0, 0], "ge": [0, 1, 0, 0], "ltu": [1, 0, 1, 1], "geu": [0, 1, 1, 1],
        "neu": [1, 1, 1, 1], "equ": [0, 0, 1, 1], "ne": [1, 1, 0, 0], "num": [1, 1, 0, 0],
        "nan": [0, 0, 1, 1],
    }  # fmt: skip
    assert got == want[name]
