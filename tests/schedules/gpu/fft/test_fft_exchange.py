"""Shared memory between stages of a transform: places of elements, and their banks."""

import numpy as np
import pytest

from tvm_iree_ext.schedules.gpu.emit.launches import WorkgroupShape
from tvm_iree_ext.schedules.gpu.fft.fft_pass import Pass, SharedMemory


def made(length, radices, lines, subgroups, sides, dtype="float32", size=32, bank_bytes=128):
    shape = WorkgroupShape(subgroups, size)
    return Pass(length, radices, lines, shape, *sides, dtype, SharedMemory("shared", bank_bytes))


PASSES = [
    made(4096, (16, 16, 16), 1, 8, (False, False)),
    made(4096, (8, 8, 8, 8), 1, 16, (False, False), "float64"),
    made(16384, (8, 8, 16, 16), 1, 8, (False, False), size=64, bank_bytes=256),
    made(64, (1, 4, 16, 1), 32, 2, (False, False), size=64),
    made(256, (16, 16), 16, 8, (True, False)),
    made(1024, (8, 8, 16), 8, 16, (True, False)),
    made(2048, (8, 16, 16), 4, 16, (True, True), "float64"),
]


@pytest.mark.parametrize("one", PASSES, ids=lambda one: f"{one.length}x{one.lines}")
def test_lanes_that_are_served_together_have_banks_of_their_own(one):
    item = 8 if one.dtype == "float64" else 4
    banks = one.shared.bank_bytes // item
    lanes = np.arange(min(one.shape.size, banks))
    for exchange, before, after in zip(one.exchanges, one.stages, one.stages[1:], strict=False):
        for turn in range(4):
            number = lanes + turn * len(lanes)
            for side, stage in ((before.written, before), (after.read, after)):
                for element in range(stage.radix):
                    places = exchange.at(*side(number, element))
                    assert len(np.unique(places % banks)) == len(lanes)


@pytest.mark.parametrize(
    "one",
    [*PASSES, made(60, (3, 5, 4), 4, 2, (False, False)), made(60, (3, 5, 4), 8, 2, (True, False))],
    ids=lambda one: f"{one.length}x{one.lines}",
)
def test_every_element_has_a_place_that_is_written_and_read_once(one):
    for exchange, before, after in zip(one.exchanges, one.stages, one.stages[1:], strict=False):
        numbers = np.arange(before.total)
        written = [exchange.at(*before.written(numbers, c)) for c in range(before.radix)]
        numbers = np.arange(after.total)
        read = [exchange.at(*after.read(numbers, q)) for q in range(after.radix)]
        places = np.sort(np.concatenate(written))
        assert len(np.unique(places)) == one.length * one.lines
        assert places[-1] < exchange.extent
        np.testing.assert_array_equal(places, np.sort(np.concatenate(read)))
