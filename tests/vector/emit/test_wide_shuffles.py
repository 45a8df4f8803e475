"""Shuffles that give more lanes than they take."""

import numpy as np
import pytest

from tvm_iree_ext import vector


@pytest.mark.parametrize("dtype", ["f32", "i1"])
def test_a_shuffle_may_repeat_lanes(agree, dtype):
    pairs = []
    masks = ([1, 0, 1, 0], [0, 1, 1, 1, 0, 1, 0], [3, 0, 2, 1, 3, 2], [0, 0, 1, 0, 0])
    for mask in masks:
        with vector.program("wide") as b:
            x = b.argument("x", vector.vector((2,), dtype))
            y = b.argument("y", vector.vector((2,), dtype))
            b.returns(b.shuffle(x, y if max(mask) > 1 else x, mask))
        of = np.float32 if dtype == "f32" else bool
        arrays = {"x": np.array([0, 1]).astype(of), "y": np.array([1, 0]).astype(of)}
        pairs.append((b.program, arrays))
    agree(pairs)
