"""Convolutions go to the registry's op, in every layout, and give what NumPy gives."""

import numpy as np
import pytest

# The axes of image, filter and result: images n, groups g, channels c, filters f of a group.
FORMS = {
    "conv_1d_ncw_fcw": ("ncw", "fcw", "nfw"),
    "conv_1d_nwc_wcf": ("nwc", "wcf", "nwf"),
    "conv_2d_nchw_fchw": ("nchw", "fchw", "nfhw"),
    "conv_2d_ngchw_fgchw": ("ngchw", "fgchw", "ngfhw"),
    "conv_2d_ngchw_gfchw": ("ngchw", "gfchw", "ngfhw"),
    "conv_2d_nhwc_fhwc": ("nhwc", "fhwc", "nhwf"),
    "conv_2d_nhwc_hwcf": ("nhwc", "hwcf", "nhwf"),
    "conv_2d_nhwgc_gfhwc": ("nhwgc", "gfhwc", "nhwgf"),
    "depthwise_conv_1d_ncw_cw": ("ngw", "gw", "ngw"),
    "depthwise_conv_1d_nwc_wc": ("nwg", "wg", "nwg"),
    "depthwise_conv_1d_nwc_wcm": ("nwg", "wgf", "nwgf"),
    "depthwise_conv_2d_nchw_chw": ("nghw", "ghw", "nghw"),
    "depthwise_conv_2d_nhwc_hwc": ("nhwg", "hwg", "nhwg"),
    "depthwise_conv_2d_nhwc_hwcm": ("nhwg", "hwgf", "nhwgf"),
}
IMAGE = {"n": 2, "g": 3, "c": 5, "h": 7, "w": 8}
TAPS = {"g": 3, "f": 4, "c": 5, "h": 3, "w": 2}
STRIDES, DILATIONS = {"h": 2, "w": 1}, {"h": 1, "w": 2}
PADS = {"h": (1, 0), "w": (1, 2)}

TEXT = """
func.func @f(%x: tensor<{x}>, %k: tensor<{k}>, %b: tensor<{b}>) -> tensor<{y}> {{
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[{low}] high[{high}] {{
  ^bb0({places}):
    tensor.yield %zero : f32
  }} : tensor<{x}> to tensor<{p}>
  {groups}
  %e = tensor.empty() : tensor<{y}>
  {begin}
  %0 = linalg.{name} {{strides = dense<[{strides}]> : tensor<{rank}xi64>,
                       dilations = dense<[{dilations}]> : tensor<{rank}xi64>}}
    ins(%image, %k : tensor<{i}>, tensor<{k}>) outs(%i : tensor<{y}>) -> tensor<{y}>
  return %0 : tensor<{y}>
}}
"""
ZERO = "%i = linalg.fill ins(%zero : f32) outs(%e : tensor<{y}>) -> tensor<{y}>"
BIAS = """%i = linalg.broadcast ins(%b : tensor<{b}>) outs(%e : tensor<{y}>)
    dimensions = [{added}]"""


def random(axes, extents):
    rng = np.random.default_rng(len(axes))
    return rng.standard_normal([extents[axis] for axis in axes]).astype("f4")


def expanded(array, axes, order):
    """The array with the axes of an order, of extent 1 where it has none."""
    kept = [axis for axis in order if axis in axes]
    extents = dict(zip(axes, array.shape, strict=True))
    moved = array.transpose([axes.index(axis) for axis in kept])
    return moved.reshape([extents.get(axis, 1) for axis in order])


def convolved(image, taps, result_axes, axes):
    """Literal: image n, g, c, h, w and taps g, f, c, h, w; already padded."""
    image, taps = expanded(image, axes[0], "ngchw"), expanded(taps, axes[1], "gfchw")
    strides = [STRIDES[one] if one in axes[0] else 1 for one in "hw"]
    rows, columns = (
        (image.shape[3 + d] - (taps.shape[3 + d] - 1) * DILATIONS[one] - 1) // strides[d] + 1
        for d, one in enumerate("hw")
    )
    result = np.zeros((image.shape[0], *taps.shape[:2], rows, columns), "f8")
    for y, x, i, j in np.ndindex(rows, columns, *taps.shape[3:]):
        pixel = image[..., y * strides[0] + i * DILATIONS["h"], x * strides[1] + j * DILATIONS["w"]]
        result[..., y, x] += np.einsum("ngc,gfc->ngf", pixel, taps[..., i, j])
    kept = list(result_axes)
    full = "ngfhw"
    result = result.transpose(
        [full.index(a) for a in kept] + [full.index(a) for a in full if a not in kept]
    )
    return result.reshape(result.shape[: len(kept)])


def shaped(extents):
    return "x".join([*map(str, extents), "f32"])


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "begins"),
    [
        *((name, "bias") for name in FORMS),
        ("conv_2d_nchw_fchw", "zero"),
        ("conv_1d_nwc_wcf", "zero"),
    ],
)
def test_a_convolution_takes_its_padding_its_groups_and_what_its_sums_begin_with(
    built, name, begins
):
    axes = FORMS[name]
    image, taps = random(axes[0], IMAGE), random(axes[1], TAPS)
    pads = [PADS.get(axis, (0, 0)) for axis in axes[0]]
    wide = np.pad(image, pads)
    want = convolved(wide, taps, axes[2], axes)
    along = [axis for axis in axes[2] if axis in "gf"]
    bias = random(along, {"g": 3, "f": 4})
    if begins == "bias":
        want = want + expanded(bias, along, axes[2])
    y, spatial = shaped(want.shape), [axis for axis in "hw" if axis in axes[0]]
    # Before a convolution in groups the image is padded as one of all channels.
    flat = axes[0].replace("gc", "c")
    joined = {**IMAGE, "c": 15} if "gc" in axes[0] else IMAGE
    given = image.reshape([joined[axis] for axis in flat])
    padded = [e + sum(PADS.get(axis, (0, 0))) for axis, e in zip(flat, given.shape, strict=True)]
    split, place = [], 0
    for axis in flat:
        count = 2 if axis == "c" and "gc" in axes[0] else 1
        split.append(list(range(place, place + count)))
        place += count
    expand = f"""%image = tensor.expand_shape %p {split} output_shape {list(wide.shape)}
      : tensor<{shaped(padded)}> into tensor<{shaped(wide.shape)}>"""
    if flat == axes[0]:
        expand = f"%image = tensor.cast %p : tensor<{shaped(padded)}> to tensor<{shaped(padded)}>"
    added = ", ".join(str(place) for place, axis in enumerate(axes[2]) if axis not in "gf")
    begin = (
        ZERO.format(y=y)
        if begins == "zero"
        else BIAS.format(b=shaped(bias.shape), y=y, added=added)
    )
    text = TEXT.format(
        name=name,
        x=shaped(given.shape),
        k=shaped(taps.shape),
        b=shaped(bias.shape),
        y=y,
        p=shaped(padded),
        i=shaped(wide.shape),
        low=", ".join(str(PADS.get(axis, (0, 0))[0]) for axis in flat),
        high=", ".join(str(PADS.get(axis, (0, 0))[1]) for axis in flat),
        places=", ".join(f"%p{n}: index" for n in range(len(flat))),
        groups=expand,
        begin=begin,
        rank=len(spatial),
        strides=", ".join(str(STRIDES[axis]) for axis in spatial),
        dilations=", ".join(str(DILATIONS[axis]) for axis in spatial),
    )
    program = built(text)
    ops = [op for op in program.program.ops.values() if op.name == "tvm_iree_ext.conv_2d"]
    assert len(ops) == 1
    assert any(sum(pair) for pair in ops[0].padding)
    (result,) = program(given, taps, bias)
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-5)


TRANSPOSED = """
func.func @f(%x: tensor<2x3x{h}x{w}xf32>, %k: tensor<4x3x{kh}x{kw}xf32>, %b: tensor<4xf32>)
    -> tensor<2x4x{y}x{z}xf32> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3x{ph}x{pw}xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x{ph}x{pw}xf32>)
    -> tensor<2x3x{ph}x{pw}xf32>
  %p = tensor.insert_slice %x into %zeros[0, 0, {oh}, {ow}] [2, 3, {h}, {w}] [1, 1, {sh}, {sw}]
    : tensor<2x3x{h}x{w}xf32> into tensor<2x3x{ph}x{pw}xf32>
  %e1 = tensor.empty() : tensor<2x4x{y}x{z}xf32>
  %i = linalg.broadcast ins(%b : tensor<4xf32>) outs(%e1 : tensor<2x4x{y}x{z}xf32>)
    dimensions = [0, 2, 3]
  %0 = linalg.conv_2d_nchw_fchw {{strides = dense<1> : tensor<2xi64>,
                                 dilations = dense<1> : tensor<2xi64>}}
    ins(%p, %k : tensor<2x3x{ph}x{pw}xf32>, tensor<4x3x{kh}x{kw}xf32>)
    outs(%i : tensor<2x4x{y}x{z}xf32>) -> tensor<2x4x{y}x{z}xf32>
  return %0 : tensor<2x4x{y}x{z}xf32>
}}
"""


@pytest.mark.costly
@pytest.mark.parametrize(
    ("sizes", "taps", "first", "strides", "behind"),
    [
        ((5, 4), (4, 4), (2, 2), (2, 2), (2, 2)),
        ((5, 4), (2, 3), (1, 2), (2, 3), (1, 0)),
        ((3, 6), (5, 1), (0, 4), (3, 2), (4, 1)),
        ((4, 3), (2, 7), (5, 6), (4, 1), (0, 3)),
    ],
)
def test_an_image_in_zeros_is_convolved_without_them(built, sizes, taps, first, strides, behind):
    """A transposed convolution: the filter has as many filters as there are phases."""
    wide = [
        f + (n - 1) * s + 1 + b for n, f, s, b in zip(sizes, first, strides, behind, strict=True)
    ]
    rows, columns = (e - k + 1 for e, k in zip(wide, taps, strict=True))
    names = ["h", "w", "kh", "kw", "oh", "ow", "sh", "sw", "ph", "pw", "y", "z"]
    numbers = (*sizes, *taps, *first, *strides, *wide, rows, columns)
    program = built(TRANSPOSED.format(**dict(zip(names, numbers, strict=True))))
    (op,) = [op for op in program.program.ops.values() if op.name == "tvm_iree_ext.conv_2d"]
    assert op.filters == 4 * strides[0] * strides[1]
    rng = np.random.default_rng(7)
    x, k, b = (rng.standard_normal(s).astype("f4") for s in ((2, 3, *sizes), (4, 3, *taps), (4,)))
    spread = np.zeros((2, 3, *wide), "f4")
    spread[:, :, first[0] :: strides[0], first[1] :: strides[1]][..., : sizes[0], : sizes[1]] = x
    want = np.zeros((2, 4, rows, columns), "f8") + b[:, None, None]
    for i, j in np.ndindex(*taps):
        part = spread[:, :, i : i + rows, j : j + columns]
        want += np.einsum("nchw,fc->nfhw", part, k[:, :, i, j])
    np.testing.assert_allclose(program(x, k, b)[0], want, rtol=1e-4, atol=1e-5)


def test_a_depthwise_convolution_of_an_image_in_zeros_is_one_of_all_of_it(run):
    text = """
    func.func @f(%x: tensor<1x1x3x3xf32>, %k: tensor<1x2x2xf32>) -> tensor<1x1x5x5xf32> {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<1x1x6x6xf32>
      %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x1x6x6xf32>) -> tensor<1x1x6x6xf32>
      %p = tensor.insert_slice %x into %z[0, 0, 1, 1] [1, 1, 3, 3] [1, 1, 2, 2]
        : tensor<1x1x3x3xf32> into tensor<1x1x6x6xf32>
      %o = tensor.empty() : tensor<1x1x5x5xf32>
      %i = linalg.fill ins(%zero : f32) outs(%o : tensor<1x1x5x5xf32>) -> tensor<1x1x5x5xf32>
      %0 = linalg.depthwise_conv_2d_nchw_chw {strides = dense<1> : tensor<2xi64>,
                                              dilations = dense<1> : tensor<2xi64>}
        ins(%p, %k : tensor<1x1x6x6xf32>, tensor<1x2x2xf32>)
        outs(%i : tensor<1x1x5x5xf32>) -> tensor<1x1x5x5xf32>
      return %0 : tensor<1x1x5x5xf32>
    }
    """
    rng = np.random.default_rng(3)
    x, k = (rng.standard_normal(s).astype("f4") for s in ((1, 1, 3, 3), (1, 2, 2)))
    wide = np.zeros((6, 6), "f4")
    wide[1::2, 1::2] = x[0, 0]
    want = sum(k[0, i, j] * wide[i : i + 5, j : j + 5] for i in (0, 1) for j in (0, 1))
    np.testing.assert_allclose(run(text, x, k)[0][0, 0], want, rtol=1e-5, atol=1e-6)


POINTWISE = """
func.func @f(%x: tensor<{x}>, %k: tensor<{k}>, %b: tensor<{b}>) -> tensor<{y}> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{y}>
  {begin}
  %0 = linalg.{name} {{strides = dense<{stride}> : tensor<{rank}xi64>,
                       dilations = dense<2> : tensor<{rank}xi64>}}
    ins(%x, %k : tensor<{x}>, tensor<{k}>) outs(%i : tensor<{y}>) -> tensor<{y}>
  return %0 : tensor<{y}>
}}
"""


@pytest.mark.costly
@pytest.mark.parametrize("begins", ["zero", "bias"])
@pytest.mark.parametrize(
    ("name", "stride"),
    [
        *((name, 1) for name in FORMS if name[:4] == "conv" and "g" not in FORMS[name][0]),
        ("conv_2d_nchw_fchw", 2),
        ("conv_2d_ngchw_gfchw", 1),
    ],
)
def test_a_filter_of_one_place_is_a_matrix(built, name, stride, begins):
    """Where it goes over each pixel, of all channels; else it stays a convolution."""
    axes = FORMS[name]
    extents = {**IMAGE, **TAPS, "h": 7, "w": 8}
    image = random(axes[0], extents)
    taps = random(axes[1], {**extents, "h": 1, "w": 1})
    seen = image[tuple(slice(None, None, stride if a in "hw" else 1) for a in axes[0])]
    letters = axes[1].replace("h", "").replace("w", "")
    matrix = taps.reshape([extents[axis] for axis in letters])
    want = np.einsum(f"{axes[0]},{letters}->{axes[2]}", seen.astype("f8"), matrix)
    along = [axis for axis in axes[2] if axis in "gf"]
    bias = random(along, extents)
    if begins == "bias":
        want = want + expanded(bias, along, axes[2])
    y = shaped(want.shape)
    added = ", ".join(str(place) for place, axis in enumerate(axes[2]) if axis not in "gf")
    text = POINTWISE.format(
        name=name,
        x=shaped(image.shape),
        k=shaped(taps.shape),
        b=shaped(bias.shape),
        y=y,
        begin=(ZERO if begins == "zero" else BIAS).format(b=shaped(bias.shape), y=y, added=added),
        stride=stride,
        rank=sum(axis in "hw" for axis in axes[0]),
    )
    program = built(text)
    is_matrix = stride == 1 and "g" not in axes[0]
    names = [op.name for op in program.program.ops.values()]
    assert names == ["tvm_iree_ext.contraction" if is_matrix else "tvm_iree_ext.conv_2d"]
    (result,) = program(image, taps, bias)
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-5)


def test_a_filter_of_one_place_over_more_than_the_result_needs_is_no_matrix(built):
    text = POINTWISE.format(
        name="conv_2d_nchw_fchw", x="1x5x7x8xf32", k="4x5x1x1xf32", b="4xf32", y="1x4x6x8xf32",
        begin=ZERO.format(y="1x4x6x8xf32"), stride=1, rank=2,
    )  # fmt: skip
    program = built(text)
    assert not program.program.ops
    image, taps = random("nchw", {**IMAGE, "n": 1}), random("fchw", {**TAPS, "h": 1, "w": 1})
    (result,) = program(image, taps, np.zeros(4, "f4"))
    want = np.einsum("nchw,fc->nfhw", image[:, :, :6], taps[..., 0, 0])
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-5)
