"""Numbers become integers by a scale and a zero point, and numbers again, as IREE decomposes it."""

import ml_dtypes
import numpy as np
import pytest

ROWS, ALL = "affine_map<(d0, d1) -> (d0)>", "affine_map<(d0, d1) -> (d0, d1)>"
NUMPY = {"f16": "float16", "f32": "float32", "f64": "float64"}


def dtype_of(kind):
    name = NUMPY.get(kind) or kind.replace("i", "int")
    return np.dtype(getattr(ml_dtypes, name, name))


def text(op, given, gives, bounds, flags):
    """A function of rows with a scale, and a zero point where there is one."""
    kinds = [f"tensor<4x9x{given[0]}>", *(f"tensor<4x{kind}>" for kind in given[1:])]
    names = ["%x", "%scale", "%point"][: len(kinds)]
    maps = ", ".join([ALL, *[ROWS] * (len(kinds) - 1), ALL])
    said = "".join(f", {flag}" for flag in flags)
    pairs = ", ".join(f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True))
    out = f"tensor<4x9x{gives}>"
    return f"""
    func.func @main({pairs}) -> {out} {{
      %empty = tensor.empty() : {out}
      %0 = iree_linalg_ext.{op}_affine
        <indexing_maps = [{maps}], quant_min = {bounds[0]}, quant_max = {bounds[1]}{said}>
        ins({", ".join(names)} : {", ".join(kinds)}) outs(%empty : {out}) -> {out}
      return %0 : {out}
    }}
    """


@pytest.mark.parametrize(
    ("given", "gives", "bounds", "flags"),
    [
        (("f32", "f32"), "i8", (-128, 127), ()),
        (("f32", "f32", "i8"), "i8", (0, 255), ("storage_unsigned", "zp_unsigned")),
        (("f16", "f32", "i64"), "i4", (-8, 7), ()),
        (("f16", "f16", "i32"), "i8", (-100, 100), ()),
        (("f64", "f64", "i32"), "i32", (-(2**31), 2**31 - 1), ()),
    ],
)
def test_quantize(built, given, gives, bounds, flags):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((4, 9)) * 60).astype(dtype_of(given[0]))
    x[0, :4] = [np.inf, -np.inf, np.nan, 0]
    scale = rng.uniform(0.2, 2, 4).astype(dtype_of(given[1]))
    points = [rng.integers(-5, 5, 4).astype(dtype_of(kind)) for kind in given[2:]]
    (found,) = built(text("quantize", given, gives, bounds, flags))(x, scale, *points)
    wide = np.result_type(x, scale)
    level = np.rint(x.astype(wide) / scale.astype(wide)[:, None])
    for point in points:
        level = level + (point.view("u1") if "zp_unsigned" in flags else point)[:, None]
    want = np.fmin(np.fmax(level, bounds[0]), bounds[1])
    found = found.view("u1") if "storage_unsigned" in flags else found
    np.testing.assert_array_equal(found.astype("f8"), want.astype("f8"))


@pytest.mark.parametrize(
    ("given", "gives", "bounds", "flags"),
    [
        (("i8", "f32", "i8"), "f32", (-128, 127), ()),
        (("i8", "f32", "i64"), "f32", (0, 255), ("input_unsigned",)),
        (("i8", "f32", "i8"), "f32", (0, 255), ("input_unsigned", "zp_unsigned")),
        (("i8", "f16"), "f16", (0, 255), ("input_unsigned",)),
        (("i8", "f32", "i32"), "f16", (-100, 100), ()),
        (("i32", "f64", "i32"), "f64", (-8, 7), ()),
    ],
)
def test_dequantize(built, given, gives, bounds, flags):
    rng = np.random.default_rng(1)
    stored = rng.integers(-128, 128, (4, 9)).astype(dtype_of(given[0]))
    scale = rng.uniform(0.2, 2, 4).astype(dtype_of(given[1]))
    points = [rng.integers(-5, 5, 4).astype(dtype_of(kind)) for kind in given[2:]]
    (found,) = built(text("dequantize", given, gives, bounds, flags))(stored, scale, *points)
    number = (stored.view("u1") if "input_unsigned" in flags else stored).astype("i8")
    for point in points:
        number = number - (point.view("u1") if "zp_unsigned" in flags else point)[:, None]
    want = number.astype(scale.dtype) * scale[:, None]
    np.testing.assert_array_equal(found, want.astype(dtype_of(gives)))
