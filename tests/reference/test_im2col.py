"""The reference of im2col against numbers worked out by hand, and against slices."""

import numpy as np

from tvm_iree_ext import reference

PLAIN = {
    "strides": [1, 1],
    "dilations": [1, 1],
    "m_offset": [0],
    "m_strides": [1],
    "k_offset": [0],
    "k_strides": [1],
    "batch_pos": [0],
    "m_pos": [1, 2],
    "k_pos": [3],
}


def test_strides_and_dilations():
    image = np.arange(25).reshape(1, 5, 5, 1)
    attributes = PLAIN | {"kernel_size": [2, 2], "strides": [1, 2], "dilations": [2, 2]}
    got = reference.im2col(image, (1, 6, 4), **attributes)
    assert got[0, :3].tolist() == [[0, 2, 10, 12], [2, 4, 12, 14], [5, 7, 15, 17]]


def test_offsets_take_a_slice():
    image = np.arange(32).reshape(1, 4, 4, 2)
    attributes = PLAIN | {"kernel_size": [3, 3]}
    whole = reference.im2col(image, (1, 4, 18), **attributes)
    tile = reference.im2col(image, (1, 2, 6), **attributes | {"m_offset": [1], "k_offset": [6]})
    assert tile.tolist() == [[list(range(10, 16)), list(range(16, 22))]]
    np.testing.assert_array_equal(tile, whole[:, 1:3, 6:12])


def test_k_follows_the_order_of_the_input():
    image = np.arange(2 * 9).reshape(1, 2, 3, 3)
    attributes = PLAIN | {"kernel_size": [2, 2], "m_pos": [2, 3], "k_pos": [1]}
    got = reference.im2col(image, (1, 4, 8), **attributes)
    assert got[0, 0].tolist() == [0, 1, 3, 4, 9, 10, 12, 13]


def test_nothing_is_read_past_the_last_window():
    image = np.ones((1, 3, 3, 1))
    got = reference.im2col(image, (1, 5, 5), **PLAIN | {"kernel_size": [2, 2]})
    assert got[0].sum(axis=1).tolist() == [4, 4, 4, 4, 0]


SIZES = {
    "strides": [1, 1],
    "dilations": [1, 1],
    "kernel_size": [2, 2],
    "offsets": [0, 0, 0],
    "output_sizes": [[1], [2, 2], [1, 2, 2]],
    "batch_pos": [0],
    "m_pos": [1, 2],
    "k_pos": [3],
    "input_k_perm": [2, 0, 1],
    "output_perm": [0, 1, 2],
}


def test_sizes_with_another_order_of_k_and_of_the_result():
    image = np.arange(9).reshape(1, 3, 3, 1)
    plain = reference.im2col_of_sizes(image, (1, 4, 4), **SIZES)
    assert plain[0].tolist() == [[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [4, 5, 7, 8]]
    turned = reference.im2col_of_sizes(image, (4, 1, 4), **SIZES | {"output_perm": [2, 0, 1]})
    np.testing.assert_array_equal(turned, plain.transpose(2, 0, 1))


def test_padding_of_the_image_and_of_the_result():
    image = np.arange(1, 5).reshape(1, 2, 2, 1)
    around = {"input_pad_low": [0, 1, 0, 0], "input_pad_high": [0, 0, 1, 0], "pad_value": -1}
    got = reference.im2col_of_sizes(image, (1, 4, 4), **SIZES | around)
    assert got[0].tolist() == [[-1, -1, 1, 2], [-1, -1, 2, -1], [1, 2, 3, 4], [2, -1, 4, -1]]
    ends = {"output_pad_low": [0, 1, 0], "output_pad_high": [0, 0, 2]}
    got = reference.im2col_of_sizes(image, (1, 3, 4), **SIZES | around | ends)
    assert got[0, :, :2].tolist() == [[-1, -1], [-1, -1], [-1, -1]]
    assert got[0, 2].tolist() == [-1, -1, -1, -1]
