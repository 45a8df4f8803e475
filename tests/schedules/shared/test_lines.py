"""Tensors as lines along a dimension, for every rank and dimension."""

import numpy as np
import pytest

from tvm_iree_ext.schedules.shared.lines import Lines, static_lines


@pytest.mark.parametrize("dimension", [0, 1, 2])
def test_flat_positions_are_those_of_the_tensor(dimension):
    shape = (3, 4, 5)
    lines = Lines.of(shape, dimension)
    assert (lines.outer, lines.length, lines.inner) == static_lines(shape, dimension)
    by_line = np.moveaxis(np.arange(60).reshape(shape), dimension, -1).reshape(-1, shape[dimension])
    for line, positions in enumerate(by_line):
        outer, inner = divmod(line, lines.inner)
        found = [int(lines.at(outer, position, inner)) for position in range(lines.length)]
        assert found == positions.tolist()
        assert int(lines.line(outer, inner)) == line


def test_what_is_known_at_call_time_only_is_none():
    assert static_lines(("n", 4, 5, 6), 1) == (None, 4, 30)
    assert static_lines((2, "n", 5), 1) == (2, None, 5)
