"""Batcher's network by the 0-1 principle: what sorts all rows of zeros and ones sorts any."""

from itertools import product

import pytest

from tvm_iree_ext.schedules.cpu.ordering.batcher_network import batcher, cleaner


def exchanged(rows, pairs):
    rows = list(rows)
    for first, second in pairs:
        if rows[second] < rows[first]:
            rows[first], rows[second] = rows[second], rows[first]
    return rows


@pytest.mark.parametrize("count", range(1, 13))
def test_rows_of_any_number_are_sorted(count):
    pairs = batcher(count)
    assert all(exchanged(rows, pairs) == sorted(rows) for rows in product((0, 1), repeat=count))


@pytest.mark.parametrize("count", [3, 5, 8, 13, 16])
def test_a_bitonic_run_whose_end_is_missing_is_sorted(count):
    """The end counts as larger than all: the run falls, then rises to it."""
    distance = 1 << (count - 1).bit_length() >> 1
    for first, rest in product(range(count + 1), repeat=2):
        rows = [int(at < first or at >= first + rest) for at in range(count)]
        assert exchanged(rows, cleaner(count, distance)) == sorted(rows)


def test_exchanges_of_eight_rows_are_nineteen():
    assert len(batcher(8)) == 19
