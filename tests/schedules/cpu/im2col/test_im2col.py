"""The CPU kernel of im2col: segments whole and cut, all layouts, what lies outside."""

from dataclasses import replace

import numpy as np
import pytest

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import CallError, ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.schedules.cpu.im2col.im2col_rule import CpuIm2col
from tvm_iree_ext.targets.names import make_target

RNG = np.random.default_rng(2)
NHWC = {"batch_pos": [0], "m_pos": [1, 2], "k_pos": [3], "kernel_size": [3, 3]}
NCHW = {"batch_pos": [0], "m_pos": [2, 3], "k_pos": [1], "kernel_size": [3, 3]}


def image(*shape):
    return RNG.standard_normal(shape).astype("float32")


def check(op, *arguments, **keywords):
    """Run a kernel of ``op``, compare with the reference."""
    operands = dict(zip((o.name for o in op.signature.arguments), arguments, strict=True))
    want = registry.find("im2col").reference(op, operands)["result"]
    got = build(op)(*arguments, **keywords)
    np.testing.assert_array_equal(got, want)
    return got


# Around vectors of 16 lanes: segments of kw * c elements, or of kw.
@pytest.mark.costly
@pytest.mark.parametrize("channels", [1, 5, 16, 17])
@pytest.mark.parametrize("window", [{}, {"strides": [2, 3]}, {"dilations": [2, 2]}])
def test_both_layouts(channels, window):
    check(ops.im2col(x := image(2, 9, 8, channels), **NHWC | window), x)
    check(ops.im2col(x := image(2, channels, 9, 8), **NCHW | window), x)


def test_the_windows_times_the_filter_are_the_convolution():
    x, f = image(1, 6, 7, 4), image(3, 3, 4, 5)
    matrix = check(ops.im2col(x, **NHWC), x)
    got = (matrix @ f.reshape(36, 5)).reshape(4, 5, 5)
    for row in range(4):
        for column in range(5):
            want = np.tensordot(x[0, row : row + 3, column : column + 3], f, 3)
            np.testing.assert_allclose(got[row, column], want, atol=1e-4)


@pytest.mark.parametrize(("begin", "count"), [(0, 12), (12, 24), (5, 1), (7, 20), (30, 6)])
def test_tiles_that_cut_segments(begin, count):
    x = image(2, 5, 5, 4)
    whole = check(ops.im2col(x, **NHWC), x)
    op = ops.im2col(x, (2, 4, count), **NHWC, m_offset=[3], k_offset=[begin])
    np.testing.assert_array_equal(check(op, x), whole[:, 3:7, begin : begin + count])


def test_expanded_dims():
    x = image(2, 6, 6, 8)
    whole = check(ops.im2col(x, **NHWC), x)
    op = ops.im2col(
        x,
        (2, 4, 4, 3, 24),
        **NHWC,
        m_offset=[0, 0],
        m_strides=[4, 1],
        k_offset=[0, 0],
        k_strides=[24, 1],
    )
    np.testing.assert_array_equal(check(op, x), whole.reshape(2, 4, 4, 3, 24))


def test_batch_dims_anywhere():
    x = image(3, 7, 2, 5)
    for positions in ([0, 2], [2, 0]):
        check(ops.im2col(x, batch_pos=positions, m_pos=[1], k_pos=[3], kernel_size=[2]), x)
    check(ops.im2col(x, batch_pos=[3], m_pos=[0, 1, 2], k_pos=[], kernel_size=[1, 3, 2]), x)


def test_offsets_and_strides_known_at_call_time():
    x = image(2, 6, 6, 8)
    whole = check(ops.im2col(x, **NHWC), x)
    op = ops.im2col(
        x, (2, 2, 4, 30), **NHWC, m_offset=["row", 0], m_strides=["width", 1], k_offset=["k"]
    )
    for row, k in ((0, 0), (2, 42), (1, 7)):
        want = whole.reshape(2, 4, 4, 72)[:, row : row + 2, :, k : k + 30]
        np.testing.assert_array_equal(check(op, x, row, 4, k), want)


def test_a_kernel_size_known_at_call_time():
    x = image(2, 7, 6, 3)
    kernel = build(ops.im2col(x, ("b", "m", "k"), **NHWC | {"kernel_size": ["kh", "kw"]}))
    for high, wide in ((3, 3), (1, 2), (7, 6), (8, 2), (0, 1)):
        m, k = max(8 - high, 0) * (7 - wide), high * wide * 3
        out = np.full((2, m + 1, k + 1), -1, "float32")
        got = kernel(x, high, wide, out=out)
        assert (got[:, m:] == 0).all()
        assert (got[:, :, k:] == 0).all()
        if m and k:
            whole = ops.im2col(x, **NHWC | {"kernel_size": [high, wide]})
            want = registry.find("im2col").reference(whole, {"input": x})["result"]
            np.testing.assert_array_equal(got[:, :m, :k], want)


def test_the_newer_form_in_any_order():
    x = image(2, 6, 7, 4)
    plain = check(ops.im2col(x, **NHWC), x)
    sizes = [[2], [4], [5], [3, 3], [4]]
    spread = check(ops.im2col(x, **NHWC, output_sizes=sizes), x)
    np.testing.assert_array_equal(spread.reshape(plain.shape), plain)
    turned = check(ops.im2col(x, **NHWC, output_perm=[2, 0, 1]), x)
    np.testing.assert_array_equal(turned, plain.transpose(2, 0, 1))
    channels = check(ops.im2col(x, **NHWC, input_k_perm=[2, 0, 1]), x)
    want = plain.reshape(2, 20, 9, 4).swapaxes(2, 3).reshape(plain.shape)
    np.testing.assert_array_equal(channels, want)
    tile = ops.im2col(x, (1, 3, 7), **NHWC, offsets=[1, "m", 5])
    np.testing.assert_array_equal(check(tile, x, 4), plain[1:, 4:7, 5:12])


# Segments of 3 pixels, of rows, and of single elements.
@pytest.mark.parametrize("channels", [1, 16])
@pytest.mark.parametrize("layout", [NHWC, NCHW, NHWC | {"dilations": [1, 2]}])
def test_padding_around_the_image(channels, layout):
    first = layout["k_pos"] == [1]
    shape = (2, channels, 6, 7) if first else (2, 6, 7, channels)
    x = image(*shape)
    low, high = [0] * 4, [0] * 4
    (low[layout["m_pos"][0]], low[layout["m_pos"][1]]) = 1, 2
    high[layout["m_pos"][1]] = 1
    padded = np.pad(x, list(zip(low, high, strict=True)), constant_values=-2)
    want = check(ops.im2col(padded, **layout), padded)
    pads = {"input_pad_low": low, "input_pad_high": high}
    np.testing.assert_array_equal(check(ops.im2col(x, **layout, **pads, pad_value=-2), x), want)
    operand = ops.im2col(x, **layout, **pads, pad_value="operand")
    np.testing.assert_array_equal(check(operand, x, -2.0), want)


def test_padding_around_the_result():
    x = image(2, 6, 7, 4)
    plain = check(ops.im2col(x, **NHWC), x)
    ends = {"output_pad_low": [0, 1, 2], "output_pad_high": [1, 0, 4], "pad_value": 3}
    got = check(ops.im2col(x, **NHWC, **ends), x)
    np.testing.assert_array_equal(got, np.pad(plain, [(0, 1), (1, 0), (2, 4)], constant_values=3))


def test_what_lies_outside_is_zero():
    x = image(1, 4, 4, 2)
    got = check(ops.im2col(x, (1, 7, 25), **NHWC, m_offset=[1], k_offset=[4]), x)
    assert (got[:, 3:] == 0).all()
    assert (got[:, :, 14:] == 0).all()
    moved = ops.im2col(x, (1, 3, 4), **NHWC, m_offset=["m"], k_offset=["k"])
    assert (check(moved, x, -9, 0) == 0).all()
    assert (check(moved, x, 0, -4) == 0).all()


def test_one_kernel_serves_every_extent():
    op = ops.im2col(("n", "h", "w", "c"), **NHWC)
    kernel = build(op)
    for shape in ((1, 3, 3, 1), (2, 5, 4, 17), (1, 9, 30, 3)):
        x = image(*shape)
        want = registry.find("im2col").reference(op, {"input": x})["result"]
        np.testing.assert_array_equal(kernel(x), want)
    with pytest.raises(CallError, match="input axis 1 has extent 2; expected at least 3"):
        kernel(image(1, 2, 8, 4))


def test_tiles_whose_extents_come_with_the_result():
    x = image(1, 5, 5, 4)
    whole = check(ops.im2col(x, **NHWC), x)
    kernel = build(ops.im2col(x, (1, "m", "k"), **NHWC))
    for m, k in ((9, 36), (2, 5)):
        out = np.zeros((1, m, k), "float32")
        np.testing.assert_array_equal(kernel(x, out=out), whole[:, :m, :k])


@pytest.mark.costly
@pytest.mark.parametrize("dtype", [*dtypes.FLOATS, *dtypes.INTEGERS])
def test_every_type_bit_for_bit(dtype):
    kind = dtypes.numpy_dtype(dtype)
    bits = RNG.integers(0, 2 if dtype == "bool" else 256, (1, 4, 4, 5 * kind.itemsize), "uint8")
    x = bits.view(kind)
    op = ops.im2col(x, **NHWC)
    want = registry.find("im2col").reference(op, {"input": x})["result"]
    assert build(op)(x).tobytes() == want.tobytes()


def test_refuses_a_config_that_does_not_fit():
    op, target = ops.im2col((1, 5, 5, 4), **NHWC), make_target("llvm")
    config = CpuIm2col().heuristic(op, target)
    with pytest.raises(ScheduleError, match="vector_lanes is 3; expected a power of two"):
        CpuIm2col().lower(op, target, replace(config, vector_lanes=3))
    with pytest.raises(ScheduleError, match="algorithm is 'rows'; expected 'segments'"):
        CpuIm2col().lower(op, target, replace(config, algorithm="rows"))
