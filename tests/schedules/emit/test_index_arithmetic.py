"""Arithmetic on indices: at build time where numbers are known."""

import pytest
from tvm import tirx

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import IterationSpace

N = tirx.Var("n", "int64")


def test_numbers_stay_numbers():
    assert emit.product([2, 3, 4]) == 24
    assert emit.total([2, 3, 4]) == 9
    assert emit.ceil_div(13, 4) == 4
    assert (emit.smaller(3, 5), emit.larger(3, 5)) == (3, 5)
    assert emit.row_major((2, 3, 4)) == [12, 4, 1]


def test_what_is_not_known_is_an_expression():
    assert str(emit.product([2, N, 3])) == "n * T.int64(6)"
    assert "n + T.int64(3)" in str(emit.ceil_div(N, 4))


def test_what_is_divided_by_an_unknown_is_rounded_to_zero():
    assert isinstance(emit.divide(7, N)[0], tirx.Div)
    assert [int(part) for part in emit.divide(17, 5)] == [3, 2]


@pytest.mark.parametrize("dims", [(0,), (0, 2), (2, 1, 0)])
def test_spread_undoes_counting(dims):
    space = IterationSpace((3, 1, 5))
    extents = [space.extents[dim] for dim in dims]
    for flat in range(space.count(dims)):
        at = space.spread(emit.i64(flat), dims)
        assert int(emit.flat_index([at[dim] for dim in dims], extents)) == flat
