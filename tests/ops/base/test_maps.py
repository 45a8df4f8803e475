"""Indexing maps are read in MLIR's spelling, with and without symbols."""

import pytest

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops.base.maps import IndexingMap, fuse_dims, parse_maps
from tvm_iree_ext.ops.base.symbol_maps import SymbolMap


@pytest.mark.parametrize("text", ["(d0, d1, d2) -> (d0, d2)", "(d0) -> ()", "() -> ()"])
def test_a_map_is_read_as_it_is_written(text):
    assert str(IndexingMap.parse(text)) == text
    assert IndexingMap.parse(f"affine_map<{text}>") == IndexingMap.parse(text)


def test_dims_may_have_any_names():
    assert IndexingMap.parse("(row, column) -> (column, row)").axes == ((1,), (0,))


def test_all_maps_are_over_the_same_dims():
    assert list(parse_maps("op", ["(i) -> (i)", "(j) -> ()"], ["a", "b"])) == ["a", "b"]
    with pytest.raises(OpError, match="op: the indexing map of b has 2 dims; expected 1 as for a"):
        parse_maps("op", ["(i) -> (i)", "(i, j) -> (i)"], ["a", "b"])


def test_dims_fuse_where_they_lie_together_in_every_operand():
    assert fuse_dims([(0, 1, 2)], 3) == ((0, 1, 2),)
    assert fuse_dims([(0, 1, 2), (1, 2)], 3) == ((0,), (1, 2))
    assert fuse_dims([(0, 1), (1, 0)], 2) == ((0,), (1,))
    assert fuse_dims([(0, 1)], 2, lambda first, second: False) == ((0,), (1,))


def test_a_map_with_symbols_names_its_dims_and_symbols_anew():
    one = SymbolMap.parse("op", "affine_map<(i, j)[s] -> (s, j)>")
    assert (str(one), one.dims) == ("(d0, d1)[s0] -> (s0, d1)", (1,))
    assert SymbolMap.parse("op", "(i) -> (0, i)", zero=True).results == ("0", "d0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(i)", "expected the form"),
        ("(i)[i] -> (i)", "a name is declared twice"),
        ("(i) -> (0)", "'0' is not a plain dim or symbol$"),
        ("(i)[s] -> (i + s)", r"'i \+ s' is not a plain dim or symbol"),
    ],
)
def test_refuses_other_maps_with_symbols(text, message):
    with pytest.raises(OpError, match=message):
        SymbolMap.parse("op", text)
