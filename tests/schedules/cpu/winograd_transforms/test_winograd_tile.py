"""Vectors of channels: every channel in one, the last one overlapping."""

import pytest

from tvm_iree_ext.schedules.cpu.winograd_transforms.winograd_tile import (
    first_channel,
    over_channels,
)


@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize("count", [1, 2, 3, 15, 16, 17, 61, 64])
def test_vectors_stay_inside_and_leave_no_channel_out(count, lanes):
    covered, vectors = set(), []
    over_channels(count, lanes, lambda taken, blocks: vectors.append((taken, blocks)))
    ((taken, blocks),) = vectors
    for block in range(blocks):
        first = int(first_channel(block, count, taken))
        covered.update(range(first, first + taken))
    assert covered == set(range(count))
    assert taken <= lanes
