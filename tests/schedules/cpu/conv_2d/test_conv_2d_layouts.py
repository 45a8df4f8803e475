"""Which convolutions are faster with channels last, and which constant filters in panels."""

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.schedules import dispatch
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_layouts import (
    constant_panels,
    prefers_channels_last,
)
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_rule import CpuConv2d
from tvm_iree_ext.targets.names import make_target

WIDE, NARROW = make_target("llvm:znver4"), make_target("llvm:haswell")
CUDA = make_target({"kind": "cuda", "arch": "sm_80"})


def convolution(filters, channels=32, groups=1, dtype="float32", algorithm="im2col", last=False):
    image, taps = (1, channels, 14, 14), (filters, channels // groups, 3, 3)
    if last:
        image, taps = (1, 14, 14, channels), (3, 3, channels // groups, filters)
    return ops.conv_2d(
        image,
        taps,
        layout="NHWC" if last else "NCHW",
        padding=1,
        groups=groups,
        dtype=dtype,
        algorithm=algorithm,
    )


@pytest.mark.parametrize(
    ("filters", "groups", "dtype", "on_wide", "on_narrow"),
    [
        (64, 1, "float32", True, True),
        (8, 1, "float32", True, True),  # half a vector of 16
        (7, 1, "float32", False, True),
        (3, 1, "float32", False, False),
        (3, 1, "float64", False, True),
        (4, 1, "float64", True, True),
        (7, 1, "float16", False, True),  # its products are of float32
        (16, 4, "float32", False, True),
        (12, 4, "float32", False, False),
        (32, 32, "float32", True, True),  # depthwise: channels in the lanes
        (64, 32, "float32", True, True),
    ],
)
def test_channels_are_last_where_filters_or_channels_fill_vectors(
    filters, groups, dtype, on_wide, on_narrow
):
    op = convolution(filters, groups=groups, dtype=dtype)
    assert prefers_channels_last(op, WIDE) == on_wide
    assert prefers_channels_last(op, NARROW) == on_narrow
    assert not dispatch.prefers_channels_last(op, CUDA)


def test_a_single_channel_is_not_depthwise():
    assert not prefers_channels_last(convolution(1, channels=1), WIDE)


@pytest.mark.parametrize(
    ("filters", "groups", "dtype"),
    [(64, 1, "float32"), (128, 2, "float32"), (48, 1, "float32"), (32, 1, "float64")],
)
@pytest.mark.parametrize("target", [WIDE, NARROW], ids=["znver4", "haswell"])
def test_panels_are_those_of_the_register_tile(filters, groups, dtype, target):
    op = convolution(filters, groups=groups, dtype=dtype, last=True)
    width = constant_panels(op, target)
    assert width == CpuConv2d().usual(op, target).tile.width
    assert (filters // groups) % width == 0
    assert dispatch.constant_panels(op, "filter", target) == width
    assert dispatch.constant_panels(op, "filter", CUDA) is None


@pytest.mark.parametrize(
    "op",
    [
        convolution(96),  # with channels first
        convolution(96, algorithm="winograd", last=True),
        convolution(32, groups=32, last=True),  # depthwise
        convolution(50, last=True),  # no whole panels
        convolution(96, dtype="float16", last=True),  # converted first
        ops.conv_2d((1, 9, 9, 4), (6, 3, 3, 4, 16), algorithm="im2col", filter_panels=16),
    ],
    ids=["channels first", "winograd", "depthwise", "no whole panels", "float16", "is in panels"],
)
def test_other_filters_stay(op):
    assert constant_panels(op, WIDE) is None
