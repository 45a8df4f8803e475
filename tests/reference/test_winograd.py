"""The references of the Winograd transforms: the convolution that they make, and a value each."""

import numpy as np
import pytest

from tvm_iree_ext import reference

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("r", [2, 4, 6])
@pytest.mark.parametrize("size", [(3, 3), (8, 9), (13, 7)])
def test_the_three_together_are_a_convolution(r, size):
    image, kernels = RNG.standard_normal((2, *size, 3)), RNG.standard_normal((3, 3, 3, 2))
    tiles = reference.input_transform(image, r=r, channels_last=True)
    weights = reference.filter_transform(kernels, r=r, channels_last=True)
    products = np.einsum("abnhwc,abcf->abnhwf", tiles, weights)
    got = reference.output_transform(products, r=r, channels_last=True)
    rows, columns = (extent - 2 for extent in size)
    for row in range(rows):
        for column in range(columns):
            window = image[:, row : row + 3, column : column + 3]
            want = np.tensordot(window, kernels, 3)
            np.testing.assert_allclose(got[:, row, column], want, atol=1e-10)


def test_layouts_differ_in_the_order_of_axes_alone():
    image = RNG.standard_normal((1, 8, 10, 2))
    last = reference.input_transform(image, r=6, channels_last=True)
    first = reference.input_transform(image.transpose(0, 3, 1, 2), r=6, channels_last=False)
    np.testing.assert_array_equal(last, first)
    kernels = RNG.standard_normal((3, 3, 2, 4))
    last = reference.filter_transform(kernels, r=6, channels_last=True)
    first = reference.filter_transform(kernels.transpose(3, 2, 0, 1), r=6, channels_last=False)
    np.testing.assert_array_equal(last, first)


def test_one_tile_of_rank_2():
    image = np.arange(36.0).reshape(6, 6)
    tile = reference.input_transform(image, r=6, channels_last=True)
    assert tile[0].tolist() == [73.5, -368.25, -71.25, -64.5, -70.5, -78.0, -72.0, -74.5]
    kernel = reference.filter_transform(np.arange(1.0, 10).reshape(3, 3), r=6, channels_last=True)
    np.testing.assert_allclose(kernel[0, :3], [1, -4 / 3, -4 / 9])
    tile = (np.arange(64) % 5 - 2.0).reshape(8, 8)
    output = reference.output_transform(tile, r=6, channels_last=True)
    assert output[0].tolist() == [0, -2, 7, -13.25, 31, -63.0625]


def test_one_dim_is_a_convolution():
    image, kernels = RNG.standard_normal((2, 13, 3)), RNG.standard_normal((5, 3, 4))
    tiles = reference.input_transform(image, r=4, m=5, channels_last=True)
    weights = reference.filter_transform(kernels, r=4, m=5, channels_last=True)
    products = np.einsum("inwc,icf->inwf", tiles, weights)
    got = reference.output_transform(products, r=4, m=5, channels_last=True)[:, :9]
    windows = np.lib.stride_tricks.sliding_window_view(image, 5, 1)
    np.testing.assert_allclose(got, np.einsum("nwcx,xcf->nwf", windows, kernels), atol=1e-12)


def test_one_tile_of_rank_1():
    line = reference.input_transform(np.array([1.0, 2, 3]), r=2, channels_last=True)
    assert line.tolist() == [-2, 5, 1, 2]
    assert reference.filter_transform(np.array([1.0, 2, 3]), r=2, channels_last=True).tolist() == [
        *[1, 3, 1, 3]
    ]
    tile = reference.output_transform(np.array([1.0, 2, 3, 4]), r=2, channels_last=True)
    assert tile.tolist() == [6, -5]
