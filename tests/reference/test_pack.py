"""The references of pack and unpack against numbers worked out by hand, and one another."""

import numpy as np

from tvm_iree_ext import reference

COUNTED = np.arange(1, 25).reshape(4, 6)


def test_the_tile_axes_follow_inner_dims_pos():
    packed = reference.pack(
        COUNTED, (2, 2, 3, 2), inner_dims_pos=(1, 0), outer_dims_perm=(0, 1), padding=0
    )
    assert packed[0, 0].tolist() == [[1, 7], [2, 8], [3, 9]]
    assert packed[1, 1].tolist() == [[16, 22], [17, 23], [18, 24]]


def test_padding_is_at_the_high_end():
    source = np.arange(1, 36).reshape(5, 7)
    packed = reference.pack(
        source, (3, 2, 2, 4), inner_dims_pos=(0, 1), outer_dims_perm=(0, 1), padding=-1
    )
    assert packed[0, 1].tolist() == [[5, 6, 7, -1], [12, 13, 14, -1]]
    assert packed[2, 1].tolist() == [[33, 34, 35, -1], [-1, -1, -1, -1]]


def test_the_outer_axes_follow_outer_dims_perm():
    packed = reference.pack(
        COUNTED, (2, 2, 2, 3), inner_dims_pos=(0, 1), outer_dims_perm=(1, 0), padding=0
    )
    assert packed[0, 1].tolist() == [[13, 14, 15], [19, 20, 21]]
    assert packed[1, 0].tolist() == [[4, 5, 6], [10, 11, 12]]


def test_unpack_undoes_pack():
    source = np.arange(5 * 3 * 4).reshape(5, 3, 4)
    tiling = {"inner_dims_pos": (2, 0), "outer_dims_perm": (1, 2, 0)}
    packed = reference.pack(source, (3, 2, 3, 3, 2), padding=-1, **tiling)
    np.testing.assert_array_equal(reference.unpack(packed, source.shape, **tiling), source)
