"""Convolutions of Relax modules by the registry's op."""

import itertools

import numpy as np
import pytest
from relax_modules import module_of
from relax_programs import normal
from tvm import relax

from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.programs.relax_import.from_relax import from_relax


def convolved(image, taps, strides, padding, dilation, groups):
    """The sums of a convolution of any rank: channels first, filters first."""
    rank = image.ndim - 2
    image = np.pad(image, [(0, 0), (0, 0), *padding])
    spans = [(t - 1) * d + 1 for t, d in zip(taps.shape[2:], dilation, strict=True)]
    sizes = [
        (e - span) // s + 1 for e, span, s in zip(image.shape[2:], spans, strides, strict=True)
    ]
    result = np.zeros((image.shape[0], taps.shape[0], *sizes))
    each = taps.shape[0] // groups
    for place in itertools.product(*map(range, taps.shape[2:])):
        window = tuple(
            slice(p * d, p * d + s * (n - 1) + 1, s)
            for p, d, s, n in zip(place, dilation, strides, sizes, strict=True)
        )
        seen = image[(slice(None), slice(None), *window)]
        for f in range(taps.shape[0]):
            first = f // each * taps.shape[1]
            here = seen[:, first : first + taps.shape[1]]
            weight = taps[(f, slice(None), *place)].reshape(1, -1, *[1] * rank)
            result[:, f] += (here * weight).sum(1)
    return result


def transposed(image, taps, strides, padding, output_padding):
    """The sums of a transposed convolution: channels first, taps by channels, then filters."""
    whole = [
        (e - 1) * s + t + o
        for e, s, t, o in zip(image.shape[2:], strides, taps.shape[2:], output_padding, strict=True)
    ]
    result = np.zeros((image.shape[0], taps.shape[1], *whole))
    for place in itertools.product(*map(range, taps.shape[2:])):
        window = tuple(
            slice(p, p + s * (e - 1) + 1, s)
            for p, s, e in zip(place, strides, image.shape[2:], strict=True)
        )
        weight = taps[(slice(None), slice(None), *place)]
        result[(slice(None), slice(None), *window)] += np.einsum("nc...,cf->nf...", image, weight)
    kept = [slice(p, n - p) for p, n in zip(padding, whole, strict=True)]
    return result[(slice(None), slice(None), *kept)]


CASES = {
    "1d": ((2, 6, 23), (8, 6, 5), {"strides": 2, "padding": (1, 3), "dilation": 2}),
    "1d_groups": ((2, 6, 23), (8, 3, 3), {"groups": 2, "padding": 1}),
    "2d": ((2, 5, 11, 14), (12, 5, 3, 3), {"strides": (2, 1), "padding": (1, 0, 2, 1)}),
    "2d_depthwise": ((1, 6, 9, 9), (6, 1, 3, 3), {"groups": 6, "padding": 1}),
    "3d": ((2, 3, 6, 8, 7), (4, 3, 3, 2, 3), {"strides": (2, 1, 1), "padding": (1, 0, 1, 1, 1, 1)}),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", CASES)
def test_a_convolution_is_the_registrys(name, tmp_path):
    shape, taps, how = CASES[name]
    rank = len(shape) - 2
    call = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}[rank]
    mod = module_of({"x": shape, "w": taps}, lambda x, w: call(x, w, **how))
    imported = from_relax(mod)
    assert [op.name for op in imported.ops.values()] == ["tvm_iree_ext.conv_2d"]
    x, w = normal(*shape), normal(*taps)
    got = build_program(imported, folder=tmp_path / "p")(x, w)

    def each(value, default):
        value = how.get(value, default)
        return (value,) * rank if isinstance(value, int) else tuple(value)

    pads = how.get("padding", 0)
    pads = (pads,) * 2 * rank if isinstance(pads, int) else pads
    sides = list(zip(pads[:rank], pads[rank:], strict=True))
    want = convolved(x, w, each("strides", 1), sides, each("dilation", 1), how.get("groups", 1))
    np.testing.assert_allclose(got, want, 1e-4, 1e-4)


def test_channels_may_be_last(tmp_path):
    mod = module_of(
        {"x": (2, 9, 10, 4), "w": (6, 4, 3, 3)},
        lambda x, w: relax.op.nn.conv2d(
            x, w, padding=1, data_layout="NHWC", kernel_layout="OIHW", out_layout="NHWC"
        ),
    )
    imported = from_relax(mod)
    assert len(imported.ops) == 1
    x, w = normal(2, 9, 10, 4), normal(6, 4, 3, 3)
    got = build_program(imported, folder=tmp_path / "p")(x, w)
    want = convolved(x.transpose(0, 3, 1, 2), w, (1, 1), [(1, 1)] * 2, (1, 1), 1)
    np.testing.assert_allclose(got, want.transpose(0, 2, 3, 1), 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("shape", "taps", "how"),
    [
        ((2, 5, 13), (5, 4, 4), {"strides": 3, "padding": 1, "output_padding": 1}),
        ((1, 4, 7, 8), (4, 6, 3, 4), {"strides": (2, 2), "padding": (1, 1)}),
        ((1, 4, 7, 8), (4, 6, 2, 3), {"strides": (3, 1), "padding": 0}),
    ],
)
def test_a_transposed_convolution_is_one_of_the_image_itself(shape, taps, how, tmp_path):
    rank = len(shape) - 2
    call = relax.op.nn.conv1d_transpose if rank == 1 else relax.op.nn.conv2d_transpose
    imported = from_relax(module_of({"x": shape, "w": taps}, lambda x, w: call(x, w, **how)))
    assert len(imported.ops) == 1
    x, w = normal(*shape), normal(*taps)
    got = build_program(imported, folder=tmp_path / "p")(x, w)

    def each(name):
        value = how.get(name, 0)
        return (value,) * rank if isinstance(value, int) else value

    want = transposed(x, w, each("strides"), each("padding"), each("output_padding"))
    np.testing.assert_allclose(got, want, 1e-4, 1e-4)
