"""Reductions to an extreme and its place, as JAX's argmax and argmin are: found, and in vectors."""

import numpy as np
import pytest

TEXT = """
#in = affine_map<(d0, d1) -> ({order})>
#out = affine_map<(d0, d1) -> (d0)>
func.func @f(%x: tensor<{shape}x{kind}>) -> (tensor<{rows}x{kind}>, tensor<{rows}x{place}>) {{
  %first = arith.constant {first} : {kind}
  %zero = arith.constant {start} : {place}
  %c = arith.constant {rows_axis} : index
  %rows = tensor.dim %x, %c : tensor<{shape}x{kind}>
  %e = tensor.empty({size}) : tensor<{rows}x{kind}>
  %i = tensor.empty({size}) : tensor<{rows}x{place}>
  %a = linalg.fill ins(%first : {kind}) outs(%e : tensor<{rows}x{kind}>) -> tensor<{rows}x{kind}>
  %b = linalg.fill ins(%zero : {place}) outs(%i : tensor<{rows}x{place}>)
      -> tensor<{rows}x{place}>
  %r:2 = linalg.generic {{indexing_maps = [#in, #out, #out],
      iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<{shape}x{kind}>)
      outs(%a, %b : tensor<{rows}x{kind}>, tensor<{rows}x{place}>) {{
  ^bb0(%v: {kind}, %best: {kind}, %at: {place}):
    %n = linalg.index 1 : index
    %here = arith.index_cast %n : index to {place}
    {body}
    %20 = arith.select %keep, %best, %v : {kind}
    %21 = arith.select %stay, %at, %here : {place}
    linalg.yield %20, %21 : {kind}, {place}
  }} -> (tensor<{rows}x{kind}>, tensor<{rows}x{place}>)
  return %r#0, %r#1 : tensor<{rows}x{kind}>, tensor<{rows}x{place}>
}}
"""

# As JAX has it: NaN is kept, equal ones stay where the first of them is.
FLOATS = """
    %1 = arith.cmpf {better}, %best, %v : {kind}
    %2 = arith.cmpf une, %best, %best : {kind}
    %keep = arith.ori %1, %2 : i1
    %3 = arith.cmpf oeq, %best, %v : {kind}
    %4 = arith.cmpi slt, %at, %here : {place}
    %5 = arith.andi %3, %4 : i1
    %stay = arith.ori %keep, %5 : i1
"""
INTEGERS = """
    %keep = arith.cmpi {better}, %best, %v : {kind}
    %3 = arith.cmpi eq, %best, %v : {kind}
    %4 = arith.cmpi slt, %at, %here : {place}
    %5 = arith.andi %3, %4 : i1
    %stay = arith.ori %keep, %5 : i1
"""
LOWEST = {
    ("f32", "max"): "0xFF800000",
    ("f32", "min"): "0x7F800000",
    ("f16", "max"): "0xFC00",
    ("i32", "max"): "-2147483648",
    ("i8", "min"): "127",
}
DTYPES = {"f32": "f4", "f16": "f2", "i32": "i4", "i8": "i1", "i64": "i8"}


def text(kind, place, name, *, axis=1, dynamic=False, body=None, start=0):
    shape = ["?" if dynamic else "5", "67"] if axis else ["67", "?" if dynamic else "5"]
    better = {"max": "gt", "min": "lt"}[name]
    better = f"o{better}" if kind.startswith("f") else f"s{better}"
    inner = body or (FLOATS if kind.startswith("f") else INTEGERS)
    return TEXT.format(
        order="d0, d1" if axis else "d1, d0",
        shape="x".join(shape),
        rows="?" if dynamic else "5",
        size="%rows" if dynamic else "",
        rows_axis=1 - axis,
        kind=kind,
        place=place,
        first=LOWEST[kind, name],
        start=start,
        body=inner.format(better=better, kind=kind, place=place),
    )


def random(kind, axis):
    rng = np.random.default_rng(0)
    x = rng.integers(-20, 20, (5, 67)).astype(DTYPES[kind])  # with equal ones
    if kind.startswith("f"):
        x[1, [50, 30]] = np.nan
        x[2] = -np.inf
        x[3, 4] = np.inf
    return x if axis else np.ascontiguousarray(x.T)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("kind", "place", "name", "axis", "dynamic"),
    [
        ("f32", "i32", "max", 1, False),
        ("f32", "i64", "min", 0, False),
        ("f32", "i32", "max", 0, True),
        ("f16", "i32", "max", 1, True),
        ("i32", "i64", "max", 1, False),
        ("i8", "i32", "min", 0, False),
    ],
)
def test_the_first_extreme(built, kind, place, name, axis, dynamic):
    program = built(text(kind, place, name, axis=axis, dynamic=dynamic))
    assert "first_place" in program.program.module.script()
    x = random(kind, axis)
    extreme, where = program(x)
    want, first = (np.max, np.argmax) if name == "max" else (np.min, np.argmin)
    np.testing.assert_array_equal(extreme, want(x, axis=axis))
    np.testing.assert_array_equal(where, first(x, axis=axis))
    assert where.dtype == DTYPES[place]


LAST = """
    %keep = arith.cmpf ogt, %best, %v : f32
    %stay = arith.ori %keep, %keep : i1
"""


@pytest.mark.parametrize(
    ("given", "last"),
    [({"body": LAST}, True), ({"start": 7}, False)],
    ids=["keeps the last", "starts elsewhere"],
)
def test_what_is_something_else_is_plain_loops(built, given, last):
    program = built(text("f32", "i32", "max", **given))
    assert "first_place" not in program.program.module.script()
    x = np.random.default_rng(1).integers(-20, 20, (5, 67)).astype("f4")
    want = 66 - np.argmax(x[:, ::-1], axis=1) if last else np.argmax(x, axis=1)
    np.testing.assert_array_equal(program(x)[1], want)
