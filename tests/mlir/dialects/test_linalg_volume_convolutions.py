"""Convolutions of volumes are convolutions of images, and give what NumPy gives."""

import itertools

import numpy as np
import pytest

FORMS = {
    "conv_3d_ncdhw_fcdhw": ("ncdhw", "fcdhw", "nfdhw"),
    "conv_3d_ndhwc_dhwcf": ("ndhwc", "dhwcf", "ndhwf"),
}
TEXT = """
func.func @f(%x: tensor<{x}>, %k: tensor<{k}>, %b: tensor<{b}>) -> tensor<{y}> {{
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[{low}] high[{high}] {{
  ^bb0(%0: index, %1: index, %2: index, %3: index, %4: index):
    tensor.yield %zero : f32
  }} : tensor<{x}> to tensor<{p}>
  %e = tensor.empty({extent}) : tensor<{y}>
  {begin}
  %r = linalg.{name} {{strides = dense<[{strides}]> : tensor<3xi64>,
                       dilations = dense<[{dilations}]> : tensor<3xi64>}}
    ins(%p, %k : tensor<{p}>, tensor<{k}>) outs(%i : tensor<{y}>) -> tensor<{y}>
  return %r : tensor<{y}>
}}
"""
ZERO = "%i = linalg.fill ins(%zero : f32) outs(%e : tensor<{y}>) -> tensor<{y}>"
BIAS = """%i = linalg.broadcast ins(%b : tensor<{b}>) outs(%e : tensor<{y}>)
    dimensions = [{added}]"""
DYNAMIC = """%zeroth = arith.constant 0 : index
  %n = tensor.dim %x, %zeroth : tensor<{x}>
  """


def shaped(extents):
    return "x".join(map(str, extents)) + "xf32"


def convolved(x, k, strides, dilations, pads):
    """Literal, of x (N, C, D, H, W) and k (F, C, D, H, W)."""
    x = np.pad(x, ((0, 0), (0, 0), *pads)).astype("f8")
    taps = k.shape[2:]
    out = [(x.shape[2 + a] - (taps[a] - 1) * dilations[a] - 1) // strides[a] + 1 for a in range(3)]
    result = np.zeros((x.shape[0], k.shape[0], *out))
    for at, tap in itertools.product(np.ndindex(*out), np.ndindex(*taps)):
        place = tuple(at[a] * strides[a] + tap[a] * dilations[a] for a in range(3))
        result[(..., *at)] += x[(..., *place)] @ k[(..., *tap)].astype("f8").T
    return result


@pytest.mark.costly
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    ("strides", "dilations", "pads"),
    [
        ((1, 1, 1), (1, 1, 1), ((1, 1), (1, 1), (1, 1))),
        ((2, 1, 2), (1, 2, 1), ((0, 0), (2, 1), (0, 0))),
        ((1, 2, 1), (2, 1, 1), ((2, 1), (0, 0), (1, 0))),
    ],
)
@pytest.mark.parametrize("begins", ["zero", "bias"])
@pytest.mark.parametrize("images", [2, "?"])
def test_a_convolution_of_volumes(built, name, strides, dilations, pads, begins, images):
    rng = np.random.default_rng(0)
    x, k = (rng.standard_normal(s).astype("f4") for s in ((2, 3, 6, 7, 8), (4, 3, 3, 2, 3)))
    bias = rng.standard_normal(4).astype("f4")
    want = convolved(x, k, strides, dilations, pads)
    want += bias[:, None, None, None] if begins == "bias" else 0
    of_image, of_taps, of_result = FORMS[name]
    moves = [[*map("ncdhw".index, of_image)], [*map("fcdhw".index, of_taps)]]
    given = x.transpose(moves[0]), k.transpose(moves[1])
    want = want.transpose([*map("nfdhw".index, of_result)])
    sides = dict(zip("dhw", pads, strict=True))
    ends = [sides.get(axis, (0, 0)) for axis in of_image]
    padded = [extent + sum(end) for extent, end in zip(given[0].shape, ends, strict=True)]
    types = {"x": [*given[0].shape], "k": given[1].shape, "b": (4,), "p": padded}
    types["y"] = [*want.shape]
    for one in "xpy":
        types[one][0] = images
    text = {one: shaped(shape) for one, shape in types.items()}
    begin = (ZERO if begins == "zero" else BIAS).format(
        added=", ".join(str(a) for a, axis in enumerate(of_result) if axis != "f"), **text
    )
    begin_at = TEXT.replace("%e = ", DYNAMIC.format(**text) + "%e = ") if images == "?" else TEXT
    program = built(
        begin_at.format(
            name=name,
            extent="%n" if images == "?" else "",
            low=", ".join(str(low) for low, _ in ends),
            high=", ".join(str(high) for _, high in ends),
            begin=begin,
            strides=", ".join(map(str, strides)),
            dilations=", ".join(map(str, dilations)),
            **text,
        )
    )
    (result,) = program(*map(np.ascontiguousarray, given), bias)
    np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-5)
    assert [op.name for op in program.program.ops.values()] == ["tvm_iree_ext.conv_2d"]
