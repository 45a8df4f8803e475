"""The CPU kernels of conv_2d: every form, its borders and tails, and configs that do not fit."""

from dataclasses import replace

import numpy as np
import pytest

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import CallError, ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_rule import CpuConv2d
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import kernel_checks

RNG = np.random.default_rng(11)
LAYOUTS = pytest.mark.parametrize("layout", ["NHWC", "NCHW"])


def numbers(shape, dtype="float32", largest=4):
    """Small integers: float32 sums of their products are exact."""
    return RNG.integers(-largest, largest, shape, endpoint=True).astype(numpy_dtype(dtype))


def operands(image, taps, layout="NHWC", dtype="float32"):
    """An image and a filter, given with channels last, in a layout."""
    values = numbers(image, dtype), numbers(taps, dtype)
    if layout == "NHWC":
        return values
    return values[0].transpose(0, 3, 1, 2).copy(), values[1].transpose(3, 2, 0, 1).copy()


def reference(op, image, taps):
    return registry.find(op.name).reference(op, {"input": image, "filter": taps})["result"]


def check(op, image, taps, kernel=None):
    """Run a kernel of ``op``; exactly right by im2col, for these operands."""
    got, want = (kernel or build(op))(image, taps), reference(op, image, taps)
    if op.algorithm == "im2col":
        np.testing.assert_array_equal(got, want)
        return
    allowed = registry.find(op.name).tolerance(op, {"input": image, "filter": taps}, {})["result"]
    np.testing.assert_allclose(got, want, rtol=allowed.relative, atol=allowed.absolute)


# Sides, channels and filters of 1, around a vector and a register tile, and more than a block.
@pytest.mark.costly
@LAYOUTS
@pytest.mark.parametrize(
    ("image", "taps", "attributes"),
    [
        ((1, 1, 1, 1), (1, 1, 1, 1), {}),
        ((2, 5, 7, 3), (3, 3, 3, 17), {"padding": 1}),
        ((1, 9, 70, 17), (2, 3, 17, 33), {"padding": ((1, 0), (2, 3)), "strides": (2, 3)}),
        ((3, 4, 3, 5), (1, 1, 5, 65), {"padding": 4}),
        ((1, 3, 211, 2), (3, 9, 2, 5), {"padding": (1, 4), "strides": (1, 2)}),
        ((1, 12, 9, 70), (4, 2, 35, 32), {"dilations": (2, 3), "groups": 2, "padding": (0, 1)}),
        ((1, 6, 6, 600), (2, 2, 600, 3), {}),
    ],
)
def test_im2col_of_any_shape(image, taps, attributes, layout):
    op = ops.conv_2d(
        *(values := operands(image, taps, layout)), layout=layout, algorithm="im2col", **attributes
    )
    check(op, *values)


# In place and in a band of its own; apart in the sets of a cache; the last vector overlapping;
# lines of two images in a task; edges that no window reaches.
@pytest.mark.costly
@pytest.mark.parametrize(
    ("image", "taps", "attributes"),
    [
        ((1, 9, 33, 3), (3, 3, 3, 31), {"strides": 2}),
        ((3, 5, 17, 3), (7, 7, 3, 40), {"strides": 2, "padding": 3}),
        ((2, 4, 9, 256), (1, 1, 256, 20), {}),
        ((1, 5, 12, 128), (1, 2, 128, 5), {"strides": (1, 2)}),
        ((1, 3, 16, 5), (1, 3, 5, 120), {}),
        ((2, 7, 30, 6), (3, 2, 3, 38), {"groups": 2, "dilations": (2, 3), "padding": (2, 1)}),
        ((1, 6, 29, 4), (2, 2, 4, 100), {"strides": (3, 4), "padding": ((0, 2), (1, 0))}),
        ((2, 3, 1, 2), (1, 1, 2, 3), {"padding": ((0, 0), (4, 0)), "strides": (1, 9)}),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_windows_are_read_where_they_lie(image, taps, attributes, dtype):
    values = operands(image, taps, dtype=dtype)
    op = ops.conv_2d(*values, algorithm="im2col", **attributes)
    usual = CpuConv2d().heuristic(op, make_target("llvm"))
    wide = op.output[2]
    tile = {"pixels": 3 * wide, "columns": wide}
    config = replace(usual, algorithm="direct", workgroup_tile=tile, reduction_tile={})
    check(op, *values, kernel=build(op, config=config))


def test_long_lines_of_few_channels_are_read_directly():
    def form(image, taps, **attributes):
        op = ops.conv_2d(image, taps, algorithm="im2col", **attributes)
        return CpuConv2d().heuristic(op, make_target("llvm")).algorithm

    assert form((1, 224, 224, 3), (7, 7, 3, 64), strides=2, padding=3) == "direct"
    assert form((1, 1, 1, 64), (1, 1, 64, 64)) == "im2col"  # a register tile of one row
    assert form((1, 224, "w", 3), (7, 7, 3, 64)) == "im2col"
    assert form((1, 56, 56, 64), (3, 3, 64, 64)) == "im2col"  # sums of more than one block


@pytest.mark.costly
@pytest.mark.parametrize(
    ("image", "taps", "attributes", "forms"),
    [
        ((2, 3, 4, 1), (3, 3, 1, 1), {}, [(2, "NHWC"), (4, "NCHW")]),
        (
            (1, 14, 19, 17),
            (3, 3, 17, 35),
            {"padding": ((0, 1), (2, 3))},
            [(2, "NHWC"), (4, "NHWC"), (4, "NCHW"), (6, "NHWC")],
        ),
        ((1, 6, 9, 13), (3, 3, 13, 6), {}, [(6, "NHWC")]),
        ((1, 6, 5, 81), (3, 3, 81, 70), {}, [(4, "NHWC"), (2, "NCHW")]),
    ],
)
def test_winograd_of_any_shape(image, taps, attributes, forms):
    for r, layout in forms:
        check_winograd(image, taps, attributes, r, layout)


def check_winograd(image, taps, attributes, r, layout):
    op = ops.conv_2d(
        *(values := operands(image, taps, layout)), layout=layout, output_tile_size=r, **attributes
    )
    assert op.algorithm == "winograd"
    check(op, *values)


def test_winograd_with_groups_and_parts_of_rows():
    values = operands((1, 3, 211, 6), (3, 3, 3, 40))
    check(ops.conv_2d(*values, groups=2, padding=1, output_tile_size=2), *values)


def in_panels(taps, width):
    """A filter (KH, KW, C, F) as panels of so many columns."""
    split = taps.reshape(*taps.shape[:3], -1, width)
    return np.ascontiguousarray(np.moveaxis(split, 3, 0))


# Panels as wide as the usual tile, narrower and wider ones; directly and by columns.
@pytest.mark.costly
@pytest.mark.parametrize(
    ("image", "taps", "attributes", "widths"),
    [
        ((2, 5, 7, 3), (3, 3, 3, 48), {"padding": 1}, (48, 1, 6, 24)),
        ((1, 9, 70, 17), (2, 3, 17, 32), {"padding": ((1, 0), (2, 3)), "strides": (2, 3)}, (16,)),
        ((1, 12, 9, 70), (4, 2, 35, 32), {"dilations": (2, 3), "groups": 2}, (16, 4)),
        ((1, 12, 9, 8), (3, 3, 1, 16), {"groups": 8}, (2,)),
        ((1, 6, 6, 600), (2, 2, 600, 5), {}, (5,)),
        ((1, 6, 6, 3), (2, 2, 3, 128), {}, (128,)),
        (("n", "h", "w", 5), (3, 3, 5, 32), {"padding": 1}, (32, 8)),
    ],
)
def test_filters_in_panels(image, taps, attributes, widths):
    plain = ops.conv_2d(image, taps, algorithm="im2col", **attributes)
    values = numbers([e if isinstance(e, int) else 6 for e in image]), numbers(taps)
    want = reference(plain, *values)
    for width in widths:
        packed = in_panels(values[1], width)
        op = ops.conv_2d(image, packed.shape, algorithm="im2col", filter_panels=width, **attributes)
        np.testing.assert_array_equal(build(op)(values[0], packed), want)
        np.testing.assert_array_equal(reference(op, values[0], packed), want)


def test_panels_that_fit_the_usual_tile_are_read_by_it():
    target = make_target("llvm:znver4")
    plain = ops.conv_2d((1, 28, 28, 64), (3, 3, 64, 96), padding=1, algorithm="im2col")
    width = CpuConv2d().usual(plain, target).tile.width
    op = replace(plain, filter_panels=width)
    assert CpuConv2d().usual(op, target) == CpuConv2d().usual(plain, target)
    narrow = CpuConv2d().usual(replace(plain, filter_panels=12), target)
    assert (narrow.tile.width, narrow.tile.lanes) == (12, 4)


def test_refuses_a_tile_that_is_no_panel():
    target = make_target("llvm:znver4")
    op = ops.conv_2d((1, 8, 8, 16), (4, 3, 3, 16, 16), algorithm="im2col", filter_panels=16)
    usual = CpuConv2d().heuristic(op, target)
    config = replace(usual, register_tile={**usual.register_tile, "vectors": 2})
    with pytest.raises(ScheduleError, match="panels of 16 columns, as the filter has"):
        CpuConv2d().lower(op, target, config)


@pytest.mark.costly
@LAYOUTS
@pytest.mark.parametrize("filters", [1, 2])
def test_depthwise(layout, filters):
    values = operands((2, 7, 29, 19), (3, 2, 1, 19 * filters), layout)
    check(ops.conv_2d(*values, layout=layout, groups=19, padding=(2, 1), strides=(1, 2)), *values)


@pytest.mark.costly
@LAYOUTS
@pytest.mark.parametrize("algorithm", ["im2col", "winograd"])
def test_one_kernel_serves_every_extent(layout, algorithm):
    taps = operands((1, 1, 1, 5), (3, 3, 5, 6), layout)[1]
    shape = ("n", "h", "w", 5) if layout == "NHWC" else ("n", 5, "h", "w")
    op = ops.conv_2d(
        shape, taps.shape, layout=layout, padding=((1, 0), (0, 1)), algorithm=algorithm
    )
    kernel = build(op)
    for n, h, w in ((1, 2, 2), (3, 4, 19), (1, 3, 211)):
        check(op, operands((n, h, w, 5), (1, 1, 1, 1), layout)[0], taps, kernel)
    with pytest.raises(CallError, match=r"input axis \d has extent 1; expected at least 2"):
        kernel(operands((1, 1, 4, 5), (1, 1, 1, 1), layout)[0], taps)


FORMS = {
    "im2col": ((2, 6, 21, 5), (3, 2, 5, 19), {"strides": (1, 2), "algorithm": "im2col"}),
    "winograd": ((2, 6, 21, 5), (3, 3, 5, 19), {"algorithm": "winograd"}),
    "winograd's parts": ((1, 5, 70, 6), (3, 3, 3, 40), {"output_tile_size": 2, "groups": 2}),
    "depthwise": ((2, 6, 21, 19), (3, 3, 1, 19), {"groups": 19, "algorithm": "im2col"}),
    "a pixel": ((1, 1, 1, 3), (1, 1, 3, 1), {}),
}


@pytest.mark.costly
@LAYOUTS
@pytest.mark.parametrize("form", FORMS)
def test_every_form_puts_each_sum_through_the_epilogue(form, layout):
    image, taps, attributes = FORMS[form]
    attributes = {**attributes, "layout": layout, "padding": (taps[0] // 2, taps[1] // 2)}
    values = operands(image, taps, layout)
    result = ops.conv_2d(*values, **attributes).signature.results[0].shape
    filters = taps[3]
    bias = numbers((filters,) if layout == "NHWC" else (filters, 1, 1))
    others = [bias, numbers(result), numbers((1, *result[1:3], 1)), numbers(())]
    epilogue = "max(arg0 + arg1, 0) - arg2 * arg3 + arg4"
    op = ops.conv_2d(*values, others, epilogue=epilogue, **attributes)
    got = build(op)(*values, *others)
    given = dict(zip((o.name for o in op.signature.arguments), (*values, *others), strict=True))
    entry = registry.find(op.name)
    want = entry.reference(op, given)["result"]
    allowed = entry.tolerance(op, given, {})["result"]
    exact = op.algorithm == "im2col"
    np.testing.assert_allclose(got, want, rtol=0, atol=0 if exact else allowed.absolute)


@LAYOUTS
def test_an_operand_of_extents_that_the_kernel_computes(layout):
    taps = operands((1, 1, 1, 5), (3, 3, 5, 6), layout)[1]
    shape = ("n", "h", "?", 5) if layout == "NHWC" else ("n", 5, "h", "?")
    sub = ("?", "?", "?", 6) if layout == "NHWC" else ("?", 6, "?", "?")
    attributes = {"layout": layout, "strides": 2, "epilogue": "arg0 - arg1"}
    kernel = build(ops.conv_2d(shape, taps.shape, [sub], **attributes))
    for n, h, w in ((1, 3, 3), (2, 4, 21)):
        image = operands((n, h, w, 5), (1, 1, 1, 1), layout)[0]
        plain = ops.conv_2d(image, taps, layout=layout, strides=2)
        other = numbers(plain.signature.results[0].shape)
        want = reference(plain, image, taps) - other
        np.testing.assert_array_equal(kernel(image, taps, other), want)
    with pytest.raises(CallError, match=r"operand0 axis . has extent 9; expected 10 \(\(.* - 3\)"):
        kernel(image, taps, np.take(other, range(9), 2 if layout == "NHWC" else 3))


@LAYOUTS
def test_sums_of_int8_become_floats(layout):
    values = operands((1, 7, 9, 4), (3, 3, 4, 5), layout, "int8")
    scale = RNG.standard_normal((5,) if layout == "NHWC" else (5, 1, 1)).astype(np.float32)
    op = ops.conv_2d(
        *values, [scale], layout=layout, epilogue=lambda s, f: s * f, result_dtype="f16"
    )
    sums = reference(ops.conv_2d(*values, layout=layout), *values)
    got = build(op)(*values, scale)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, (sums.astype(np.float32) * scale).astype(np.float16))


def test_an_epilogue_of_bools_and_functions_is_vectors():
    values = operands((1, 8, 8, 16), (1, 1, 16, 48))
    keep = RNG.integers(0, 2, (8, 8, 1)).astype(bool)
    op = ops.conv_2d(*values, [keep], epilogue="select(arg1, tanh(arg0), 0.5)")
    got, sums = build(op)(*values, keep), reference(ops.conv_2d(*values), *values)
    np.testing.assert_allclose(got, np.where(keep, np.tanh(sums), 0.5), atol=1e-6)


@pytest.mark.costly
@LAYOUTS
@pytest.mark.parametrize("channels", [3, 600])
def test_int8_is_exact_at_its_limits(layout, channels):
    shapes = ((1, 5, 5, channels), (3, 3, channels, 2))
    values = [np.full(one.shape, -128, np.int8) for one in operands(*shapes, layout)]
    op = ops.conv_2d(*values, layout=layout, padding=1)
    check(op, *values)
    assert build(op)(*values).max() == 9 * channels * 128**2


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
@pytest.mark.parametrize("algorithm", ["im2col", "winograd"])
def test_narrow_types_are_rounded_once(dtype, algorithm):
    image = RNG.standard_normal((1, 9, 8, 20)).astype(numpy_dtype(dtype))
    taps = RNG.standard_normal((3, 3, 20, 18)).astype(numpy_dtype(dtype))
    op = ops.conv_2d(image, taps, algorithm=algorithm)
    assert kernel_checks.check_op(op, {"input": image, "filter": taps}).message == ""


def test_what_is_infinite_or_large_is_no_nan_by_default():
    image, taps = operands((1, 14, 14, 8), (3, 3, 8, 8))
    image, taps = np.abs(image), np.abs(taps) + 1
    image[0, 6, 6, 3] = np.inf
    kernel = build(ops.conv_2d(image, taps))
    assert np.isinf(kernel(image, taps)).sum() == 3 * 3 * 8
    image[0, 6, 6, 3] = 1
    assert np.isfinite(kernel(image * np.float32(1e35), taps)).all()


@pytest.mark.parametrize("algorithm", ["im2col", "winograd"])
def test_nan_stays_in_its_windows(algorithm):
    image, taps = operands((1, 30, 30, 4), (3, 3, 4, 3))
    image[0, 0, 0, 1] = np.nan
    got = build(ops.conv_2d(image, taps, padding=1, algorithm=algorithm))(image, taps)
    assert np.isnan(got[0, 0, 0]).all()
    # A tile of Winograd spreads it over its at most 6 x 6 results.
    reach = 2 if algorithm == "im2col" else 6
    assert np.isfinite(got[0, reach:]).all()
    assert np.isfinite(got[0, :, reach:]).all()


@LAYOUTS
@pytest.mark.parametrize("algorithm", ["im2col", "winograd"])
def test_parts_of_the_filters(layout, algorithm):
    values = operands((1, 6, 6, 8), (3, 3, 8, 64), layout)
    op = ops.conv_2d(*values, layout=layout, algorithm=algorithm)
    config = CpuConv2d().heuristic(op, make_target("llvm"))
    config = replace(config, register_tile={"rows": 4, "vectors": 1}, vector_lanes=8, splits=4)
    check(op, *values, kernel=build(op, config=config))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"algorithm": "winograd"}, "algorithm is 'winograd'; expected one of im2col, direct"),
        ({"algorithm": "direct"}, r"workgroup_tile\['columns'\] is 3; expected a line of 6"),
        ({"vector_lanes": 3}, "vector_lanes is 3; expected a power of two"),
        ({"workgroup_tile": {"pixels": 0}}, r"workgroup_tile\['pixels'\] is 0; expected a number"),
        (
            {"workgroup_tile": {"pixels": 8, "columns": 9}},
            r"workgroup_tile\['columns'\] is 9; expected 1 to 8",
        ),
        ({"reduction_tile": {}}, r"reduction_tile\['k'\] is None; expected 1 to 1024"),
        ({"reduction_tile": {"k": 2048}}, r"reduction_tile\['k'\] is 2048; expected 1 to 1024"),
        ({"splits": 5}, "splits is 5; expected 1, or a number of parts of the 64 filters"),
        (
            {"workgroup_tile": {"pixels": 1 << 20, "columns": 8}},
            "blocks of 1048576 pixels take .* bytes a thread; expected at most 67108864",
        ),
    ],
)
def test_refuses_a_config_that_does_not_fit(changed, message):
    op, target = ops.conv_2d((1, 8, 8, 16), (3, 3, 16, 64), dtype="i8"), make_target("llvm")
    usual = replace(
        CpuConv2d().heuristic(op, target),
        algorithm="im2col",
        workgroup_tile={"pixels": 9, "columns": 3},
        reduction_tile={"k": 256},
    )
    config = replace(usual, **changed)
    with pytest.raises(ScheduleError, match=message):
        CpuConv2d().lower(op, target, config)


def test_blocks_share_out_evenly():
    op = ops.conv_2d((1, 56, 56, 64), (3, 3, 64, 64), padding=1, algorithm="im2col")
    target = make_target({"kind": "llvm", "mcpu": "znver4", "num-cores": 2})
    tile = CpuConv2d().heuristic(op, target).workgroup_tile
    lines = tile["pixels"] // tile["columns"]
    assert tile["columns"] == 56
    assert -(-56 // lines) % 2 == 0
