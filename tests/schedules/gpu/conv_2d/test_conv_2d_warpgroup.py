"""Convolutions on warpgroups: boxes of pixels, taps past the image, and when they are chosen."""

import numpy as np
import pytest

from tvm_iree_ext import ops, verify
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.schedules.gpu.conv_2d.conv_2d_rule import GpuConv2d
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES
from tvm_iree_ext.schedules.gpu.products.warpgroup_windows import fitting_box
from tvm_iree_ext.targets.names import make_target

HOPPER = make_target("cuda:sm_90a")
RULE = GpuConv2d()
HALF = "float16"


def config(kind="NV_WGMMA_F32_64x64x16_F16", consumers=1, stages=2, workgroups=0, columns=1):
    return LoweringConfig(
        algorithm="warpgroup_tma",
        workgroup_tile={"m": 64 * consumers, "n": columns * int(kind.split("x")[1])},
        workgroups=workgroups,
        promote=SIDES,
        mma_kind=kind,
        subgroups={"m": 4 * consumers, "n": 1},
        stages=stages,
    )


def check(op, config, **extents):
    random = np.random.default_rng(0)
    operands = {
        one.name: random.standard_normal([extents.get(e, e) for e in one.shape]).astype(
            numpy_dtype(one.dtype)
        )
        for one in op.signature.arguments
    }
    outcome = verify.check_op(op, operands, HOPPER, config, simulate=True)
    assert outcome.status == "passed", outcome.message


@pytest.mark.costly
@pytest.mark.parametrize(
    ("image", "filters", "options"),
    [
        ((1, 8, 8, 64), (1, 1, 64, 64), {}),
        ((2, 9, 7, 72), (3, 3, 72, 40), {"padding": 1}),
        ((1, 11, 20, 64), (2, 3, 64, 64), {"padding": ((0, 2), (3, 1)), "dilations": (2, 1)}),
        ((3, 10, 10, 96), (1, 1, 96, 24), {"epilogue": "max(arg0, 0)"}),
        ((1, 5, 5, 8), (1, 1, 8, 16), {"padding": 1}),
        ((2, 15, 18, 64), (3, 3, 64, 40), {"padding": 1, "strides": 2}),
        ((1, 13, 40, 64), (2, 3, 64, 64),
         {"padding": ((1, 1), (2, 0)), "strides": (1, 3), "dilations": (2, 2)}),
        ((3, 11, 11, 96), (1, 1, 96, 24), {"strides": 2}),
    ],
    ids=str,
)  # fmt: skip
def test_any_windows(image, filters, options):
    check(ops.conv_2d(image, filters, dtype=HALF, **options), config())


@pytest.mark.costly
@pytest.mark.parametrize("workgroups", [0, 2])
def test_two_warpgroups_and_an_open_batch(workgroups):
    op = ops.conv_2d(("images", 6, 6, 64), (3, 3, 64, 96), padding=2, dtype="bfloat16")
    check(op, config("NV_WGMMA_F32_64x128x16_BF16", 2, 3, workgroups), images=5)


@pytest.mark.costly
@pytest.mark.parametrize("kernel", [1, pytest.param(3, marks=pytest.mark.long)])
def test_workgroups_take_boxes_in_turns(kernel):
    op = ops.conv_2d((1, 14, 20, 72), (kernel, kernel, 72, 136), padding=kernel // 2, dtype=HALF)
    check(op, config(stages=3, workgroups=3, columns=2))


@pytest.mark.parametrize(
    ("image", "filters", "options"),
    [
        ((32, 56, 56, 128), (3, 3, 32, 128), {"groups": 4}),
        ((32, 128, 56, 56), (128, 128, 3, 3), {"layout": "NCHW"}),
        ((32, "h", 56, 128), (3, 3, 128, 128), {}),
    ],
    ids=str,
)
def test_what_is_no_box_has_the_other_rule(image, filters, options):
    op = ops.conv_2d(image, filters, dtype=HALF, **options)
    assert RULE.heuristic(op, HOPPER).algorithm == "mma"
    with pytest.raises(ScheduleError, match="warpgroups take images in NHWC"):
        RULE.lower(op, HOPPER, config())


def test_strides_that_no_tensor_map_takes_have_the_other_rule():
    op = ops.conv_2d((32, 90, 90, 128), (9, 9, 128, 128), strides=9, dtype=HALF)
    assert RULE.heuristic(op, HOPPER).algorithm == "mma"
    with pytest.raises(ScheduleError, match=r"a box of .* by steps of \[1, 9, 9, 1\]"):
        RULE.lower(op, HOPPER, config())


@pytest.mark.parametrize("strides", [1, 2])
def test_large_convolutions_are_on_warpgroups(strides):
    op = ops.conv_2d((64, 56, 56, 128), (3, 3, 128, 128), padding=1, dtype=HALF, strides=strides)
    usual = RULE.heuristic(op, HOPPER)
    assert usual.algorithm == "warpgroup_tma"
    assert RULE.space(op, HOPPER).heuristic == usual
    assert RULE.heuristic(op, make_target("cuda:sm_80")).algorithm == "mma"


def test_a_box_covers_a_result_with_the_fewest():
    assert fitting_box(32, (56, 56), 64) == (1, 8, 8)
    assert fitting_box(8, (7, 7), 64)[0] > 1
    assert fitting_box(None, (7, 7), 64)[0] == 1
