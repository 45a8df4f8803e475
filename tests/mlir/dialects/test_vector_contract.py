"""vector.contract: the registry's contraction where it adds products, else loops."""

import numpy as np
import pytest

from tvm_iree_ext.base.errors import MlirError

MAPS = {
    "plain": ("(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"),
    "turned": ("(m, n, k) -> (k, m)", "(m, n, k) -> (n, k)", "(m, n, k) -> (n, m)"),
    "batch": ("(b, m, k) -> (b, m, k)", "(b, m, k) -> (b, k)", "(b, m, k) -> (b, m)"),
}
ITERATORS = {"plain": "ppr", "turned": "ppr", "batch": "ppr"}


def function(name, form, kind, types):
    lhs, rhs, acc = types
    maps = ", ".join(f"affine_map<{one}>" for one in MAPS[form])
    words = {"p": '"parallel"', "r": '"reduction"'}
    iterators = ", ".join(words[one] for one in ITERATORS[form])
    return f"""
func.func @{name}(%a: vector<{lhs}>, %b: vector<{rhs}>, %c: vector<{acc}>) -> vector<{acc}> {{
  %0 = vector.contract {{indexing_maps = [{maps}], iterator_types = [{iterators}],
      kind = #vector.kind<{kind}>}} %a, %b, %c : vector<{lhs}>, vector<{rhs}> into vector<{acc}>
  return %0 : vector<{acc}>
}}"""


TEXT = "".join(
    [
        function("halves", "plain", "add", ("5x7xf16", "7x3xf16", "5x3xf32")),
        function("turned", "turned", "add", ("7x5xf32", "3x7xf32", "3x5xf32")),
        function("bytes", "plain", "add", ("5x7xi8", "7x3xi8", "5x3xi32")),
        function("words", "plain", "add", ("5x7xi32", "7x3xi32", "5x3xi32")),
        function("largest", "batch", "maxnumf", ("2x5x7xf32", "2x7xf32", "2x5xf32")),
        function("least", "plain", "minsi", ("5x7xi16", "7x3xi16", "5x3xi32")),
    ]
)


@pytest.fixture(scope="module")
def program(built):
    return built(TEXT)


def integers(dtype, *shape):
    return np.random.default_rng(sum(shape)).integers(-9, 10, shape).astype(dtype)


@pytest.mark.parametrize(
    ("name", "dtypes"), [("halves", ("f2", "f4")), ("bytes", ("i1", "i4")), ("words", ("i4", "i4"))]
)
def test_adds_products_to_what_it_takes(program, name, dtypes):
    a, b, c = (integers(dtypes[i // 2], *s) for i, s in enumerate([(5, 7), (7, 3), (5, 3)]))
    want = a.astype(dtypes[1]) @ b.astype(dtypes[1]) + c
    np.testing.assert_array_equal(program(a, b, c, function=name)[0], want)


def test_operands_lie_as_their_maps_say(program):
    a, b, c = integers("f4", 7, 5), integers("f4", 3, 7), integers("f4", 3, 5)
    np.testing.assert_array_equal(program(a, b, c, function="turned")[0], (a.T @ b.T).T + c)


def test_combines_products_as_its_kind_says(program):
    a, b, c = integers("f4", 2, 5, 7), integers("f4", 2, 7), integers("f4", 2, 5)
    want = np.maximum(c, (a * b[:, None]).max(-1))
    np.testing.assert_array_equal(program(a, b, c, function="largest")[0], want)
    a, b, c = integers("i2", 5, 7), integers("i2", 7, 3), integers("i4", 5, 3)
    want = np.minimum(c, (a[:, :, None].astype("i4") * b).min(1))
    np.testing.assert_array_equal(program(a, b, c, function="least")[0], want)


def test_sums_of_products_are_the_registrys(program):
    names = [op.name for op in program.program.ops.values()]
    assert names == ["tvm_iree_ext.contraction"] * 3


def test_refuses_a_scalar(imported):
    text = """func.func @f(%a: vector<7xf32>, %c: f32) -> f32 {
  %0 = vector.contract {indexing_maps = [affine_map<(k) -> (k)>, affine_map<(k) -> (k)>,
      affine_map<(k) -> ()>], iterator_types = ["reduction"], kind = #vector.kind<add>}
      %a, %a, %c : vector<7xf32>, vector<7xf32> into f32
  return %0 : f32
}"""
    with pytest.raises(MlirError, match=r"vector\.contract: a contraction to a scalar"):
        imported(text)
