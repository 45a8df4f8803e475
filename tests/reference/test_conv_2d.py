"""The reference of conv_2d against numbers worked out by hand."""

import numpy as np

from tvm_iree_ext import reference

PLAIN = {
    "channels_last": True,
    "strides": (1, 1),
    "dilations": (1, 1),
    "padding": ((0, 0), (0, 0)),
    "groups": 1,
}


def test_a_window_is_multiplied_without_turning_it():
    image = np.arange(9).reshape(1, 3, 3, 1)
    kernels = np.array([[1, 10], [100, 1000]]).reshape(2, 2, 1, 1)
    got = reference.conv_2d(image, kernels, **PLAIN)
    assert got[0, :, :, 0].tolist() == [[4310, 5421], [7643, 8754]]


def test_strides_dilations_and_padding():
    image = np.arange(1, 5).reshape(1, 1, 4, 1)
    attributes = PLAIN | {
        "strides": (1, 2),
        "dilations": (1, 2),
        "padding": ((1, 0), (2, 0)),
    }
    got = reference.conv_2d(image, np.array([1, 10]).reshape(1, 2, 1, 1), **attributes)
    assert got[0, :, :, 0].tolist() == [[0, 0], [10, 31]]


def test_an_epilogue_takes_operands_along_the_last_axes():
    image, kernels = np.array([1, 2]).reshape(1, 1, 2, 1), np.array([3, 5]).reshape(1, 1, 1, 2)
    got = reference.conv_2d(
        image,
        kernels,
        **PLAIN,
        operands=[np.array([10, 20]), np.array([[100], [200]])],
        epilogue=lambda s, a, b: s - a + b,
    )
    assert got.tolist() == [[[[93, 85], [196, 190]]]]
    only = reference.conv_2d(image, kernels, **PLAIN, epilogue=lambda s: 7)
    assert only.tolist() == [[[[7, 7], [7, 7]]]]


def test_groups_see_their_channels_alone():
    image = np.array([1, 2, 3, 4]).reshape(1, 4, 1, 1)
    kernels = np.array([[1, 10], [1, 10], [1, 10], [2, 20]]).reshape(4, 2, 1, 1)
    attributes = PLAIN | {"channels_last": False, "groups": 2}
    got = reference.conv_2d(image, kernels, **attributes)
    assert got.ravel().tolist() == [21, 21, 43, 86]
