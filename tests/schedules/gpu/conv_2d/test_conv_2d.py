"""Convolutions on GPUs, simulated, against the reference."""

from dataclasses import replace

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.catalog.conv_2d import CONV_2D
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.schedules.gpu.conv_2d.conv_2d_rule import GpuConv2d
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.names import make_target

RULE = GpuConv2d()
CHIPS = ["cuda:sm_80", "rocm:gfx942", "rocm:gfx1100"]
SHAPES = {
    "NHWC": ((2, 6, 7, 16), (3, 3, 16, 24)),
    "NCHW": ((2, 16, 6, 7), (24, 16, 3, 3)),
}


def check(op, chip, config=None, **extents):
    """Simulate, and compare with the reference: small integers, so that sums are exact."""
    rng = np.random.default_rng(0)
    arrays = {
        one.name: rng.integers(-2, 3, [extents.get(e, e) for e in one.shape]).astype(
            dtypes.numpy_dtype(one.dtype)
        )
        for one in op.signature.arguments
    }
    done = simulate_op(op, chip, arrays, config)
    assert [one.findings for one in done.simulations] == [[]] * len(done.simulations)
    want = CONV_2D.reference(op, arrays)["result"]
    np.testing.assert_array_equal(done.results["result"].astype("float64"), want)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("chip", "layout"), [*((chip, "NHWC") for chip in CHIPS), ("cuda:sm_80", "NCHW")]
)
def test_strides_dilations_padding_and_an_epilogue(chip, layout):
    image, taps = SHAPES[layout]
    bias = (24,) if layout == "NHWC" else (24, 1, 1)
    op = ops.conv_2d(
        image, taps, [bias], layout=layout, strides=(2, 1), dilations=(1, 2),
        padding=((1, 2), (2, 0)),
        epilogue="max(arg0 + arg1, 0)", dtype="f16", result_dtype="f32",
    )  # fmt: skip
    check(op, chip)


@pytest.mark.costly
@pytest.mark.parametrize("chip", [*CHIPS, "cuda:sm_90a"])
@pytest.mark.parametrize(("channels", "dtype"), [(3, "f16"), (11, "bf16"), (5, "int8")])
def test_an_image_is_copied_to_more_channels(chip, channels, dtype):
    op = ops.conv_2d(
        (2, 9, 11, channels), (3, 5, channels, 18), [(18,)], strides=(2, 1), padding=((1, 2), 2),
        epilogue="arg0 + arg1", dtype=dtype, result_dtype="f32" if dtype != "int8" else None,
    )  # fmt: skip
    check(op, chip, replace(RULE.heuristic(op, make_target(chip)), pad=("input",)))


def test_an_open_image_is_copied_to_more_channels():
    op = ops.conv_2d(("n", "h", 9, 3), (3, 3, 3, 8), padding=1, dtype="f16", result_dtype="f32")
    config = replace(RULE.heuristic(op, make_target("cuda:sm_80")), pad=("input",))
    check(op, "cuda:sm_80", config, n=2, h=5)


@pytest.mark.parametrize(
    ("image", "taps", "pad"),
    [
        ((32, 224, 224, 3), (7, 7, 3, 64), ("input",)),
        ((1, 32, 32, 3), (3, 3, 3, 16), ()),  # the copy would take longer
        ((32, 224, 224, 5), (5, 5, 5, 64), ("input",)),
        ((32, 56, 56, 32), (3, 3, 32, 64), ()),
    ],
)
def test_when_it_is(image, taps, pad):
    op = ops.conv_2d(image, taps, padding=1, strides=2, dtype="f16")
    for chip in CHIPS:
        assert RULE.heuristic(op, make_target(chip)).pad == pad


def test_only_channels_of_one_group_are_added_to():
    op = ops.conv_2d((1, 8, 8, 16), (3, 3, 16, 16), dtype="f16")
    config = replace(RULE.heuristic(op, make_target("cuda:sm_80")), pad=("input",))
    with pytest.raises(ScheduleError, match=r"pad is \['input'\]; expected \['input'\] by matrix"):
        RULE.lower(op, make_target("cuda:sm_80"), config)


def test_extents_known_at_call_time():
    op = ops.conv_2d(
        ("n", "h", "w", 16), (3, 3, 16, 8), strides=2, padding=1, dtype="f16", result_dtype="f32"
    )
    check(op, "rocm:gfx942", n=2, h=5, w=9)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
def test_types(dtype):
    check(ops.conv_2d((1, 5, 6, 20), (2, 2, 20, 9), padding=1, dtype=dtype), "rocm:gfx942")


@pytest.mark.costly
@pytest.mark.parametrize("layout", SHAPES)
@pytest.mark.parametrize(("groups", "filters", "algorithm"), [(2, 16, "mma"), (16, 32, "direct")])
def test_groups(layout, groups, filters, algorithm):
    image, _ = SHAPES[layout]
    seen = 16 // groups
    taps = (3, 3, seen, filters) if layout == "NHWC" else (filters, seen, 3, 3)
    op = ops.conv_2d(
        image, taps, layout=layout, groups=groups, padding=1, dtype="f16", result_dtype="f32"
    )
    assert RULE.heuristic(op, make_target("cuda:sm_80")).algorithm == algorithm
    check(op, "cuda:sm_80")


def test_k_in_parts():
    op = ops.conv_2d((1, 4, 4, 32), (3, 3, 32, 16), padding=1, dtype="f16", result_dtype="f32")
    config = LoweringConfig(
        algorithm="mma", workgroup_tile={"m": 16, "n": 16}, reduction_tile={"k": 32},
        subgroups={"m": 1, "n": 1}, mma_kind="VMFMA_F32_16x16x32_F16", promote=("lhs", "rhs"),
        splits=3,
    )  # fmt: skip
    check(op, "rocm:gfx942", config)


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_reads_past_the_image_take_no_branch(chip):
    target = make_target(f"rocm:{chip}")
    op = ops.conv_2d((4, 28, 28, 64), (3, 3, 64, 128), padding=1, dtype="f16")
    code = compile_device(RULE.lower(op, target, RULE.heuristic(op, target)), target)
    loop = code.instructions("conv_2d_kernel").hot_loop
    assert loop.mma > 0
    assert loop.control <= 3  # those of the loop itself
    assert loop.narrowest("global") == 16
    assert code.resources["conv_2d_kernel"].spills == 0


def test_filters_in_panels_are_refused():
    op = ops.conv_2d((1, 4, 4, 16), (2, 3, 3, 16, 8), algorithm="im2col", filter_panels=8)
    target = make_target("cuda:sm_80")
    assert RULE.applies(op, target) == f"{RULE.name}: filters in panels are for CPUs"
    with pytest.raises(ScheduleError, match="filters in panels are for CPUs"):
        choose(op, target)


def test_configs_that_do_not_fit_are_refused():
    op = ops.conv_2d((1, 4, 4, 16), (3, 3, 16, 16), dtype="f16")
    target = make_target("cuda:sm_80")
    for config, message in (
        (LoweringConfig(algorithm="im2col"), "algorithm is 'im2col'; expected one of mma, direct"),
        (
            LoweringConfig(algorithm="direct", workgroup_tile={"lanes": 40}),
            "workgroup_tile.'lanes'. is 40; expected a multiple of 32",
        ),
    ):
        with pytest.raises(ScheduleError, match=message):
            RULE.lower(op, target, config)
