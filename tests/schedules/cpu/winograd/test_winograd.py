"""The CPU kernels of the Winograd transforms: all layouts and edges, and a convolution of them."""

import itertools
from dataclasses import replace

import agreement
import numpy as np
import pytest

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import CallError, ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.schedules.cpu.winograd.winograd_rule import CpuWinograd
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import kernel_checks

RNG = np.random.default_rng(4)
INPUT, FILTER, OUTPUT = (
    ops.winograd_input_transform,
    ops.winograd_filter_transform,
    ops.winograd_output_transform,
)


def numbers(*shape):
    return RNG.standard_normal(shape).astype("float32")


def check(op, source):
    """Run a kernel of ``op`` and compare with the reference; returns the kernel's result."""
    (got,) = agreement.check(op, source)
    return got


# Vectors of 16 lanes; a last block that overlaps; fewer channels than lanes.
@pytest.mark.costly
@pytest.mark.parametrize(
    ("channels", "size"),
    [
        *itertools.product((3, 17), [(8, 8), (9, 7), (3, 64)]),
        (1, (8, 8)),
        (16, (9, 7)),
        (81, (3, 64)),
    ],
)
def test_any_image(channels, size):
    check(INPUT(x := numbers(2, *size, channels)), x)
    check(INPUT(x := numbers(2, channels, *size), image_dimensions=(2, 3)), x)


@pytest.mark.costly
@pytest.mark.parametrize(("channels", "filters"), [(1, 1), (5, 3), (17, 16), (3, 33)])
def test_any_filter(channels, filters):
    check(FILTER(x := numbers(3, 3, channels, filters)), x)
    check(FILTER(x := numbers(filters, channels, 3, 3), kernel_dimensions=(2, 3)), x)


@pytest.mark.parametrize("channels", [3, 17])
def test_one_dim(channels):
    check(INPUT(x := numbers(2, 21, channels), image_dimensions=(1,)), x)
    check(INPUT(x := numbers(2, channels, 9), image_dimensions=(2,), kernel_size=5), x)
    check(FILTER(x := numbers(3, channels, 18), kernel_dimensions=(0,)), x)
    check(FILTER(x := numbers(18, channels, 3), kernel_dimensions=(2,)), x)
    check(OUTPUT(x := numbers(8, 2, 3, channels), image_dimensions=(1,)), x)
    check(OUTPUT(x := numbers(8, 2, 3, channels), image_dimensions=(2,)), x)


def test_one_tile_of_one_dim_and_extents_of_a_call():
    check(INPUT(x := numbers(5), image_dimensions=(1,)), x)
    check(FILTER(x := numbers(3), kernel_dimensions=(0,)), x)
    check(OUTPUT(x := numbers(8), image_dimensions=(1,)), x)
    check(INPUT(("n", "w", "c"), image_dimensions=(1,)), numbers(3, 26, 5))
    with pytest.raises(CallError, match="input axis 1 has extent 2; expected at least 3"):
        build(INPUT(("n", "w", 4), image_dimensions=(1,)))(numbers(1, 2, 4))


def test_filters_are_right_wherever_the_result_begins():
    x = numbers(3, 3, 5, 16)
    kernel = build(FILTER(x))
    want = kernel(x)
    memory = np.zeros(want.size + 16, np.float32)
    for skew in range(16):
        out = memory[skew : skew + want.size].reshape(want.shape)
        out[:] = 0
        np.testing.assert_array_equal(kernel(x, out=out), want)


def test_filters_whose_places_crowd_the_first_cache_are_stored_in_whole_lines():
    """By vectors of half a line each would be fetched twice."""

    def lanes(mcpu, *channels, **how):
        target = make_target({"kind": "llvm", "mcpu": mcpu, "num-cores": 2})
        return CpuWinograd().heuristic(FILTER((3, 3, *channels), **how), target).vector_lanes

    assert lanes("znver3", 64, 64) == lanes("znver3", 48, 48) == 16
    assert lanes("znver3", 61, 67) == lanes("znver3", 72, 80) == 8
    assert lanes("znver3", "c", 64) == 8
    assert lanes("znver4", 64, 64) == lanes("znver4", 61, 67) == 16
    check(FILTER((3, 3, 16, 48)), numbers(3, 3, 16, 48))


@pytest.mark.costly
@pytest.mark.parametrize("channels", [1, 3, 16, 81])
def test_any_tiles(channels):
    x = numbers(8, 8, 2, 2, 11, channels)
    last, first = check(OUTPUT(x), x), check(OUTPUT(x, image_dimensions=(2, 3)), x)
    np.testing.assert_allclose(last.transpose(0, 3, 1, 2), first, rtol=1e-6, atol=1e-4)


@pytest.mark.costly
@pytest.mark.parametrize("r", [2, 4, 6])
@pytest.mark.parametrize("wide", [1, 2, 3, 9])
def test_any_number_of_tiles(r, wide):
    x = numbers(r + 2, r + 2, 1, 1, wide, 16)
    check(OUTPUT(x, output_tile_size=r), x)
    check(OUTPUT(x, output_tile_size=r, image_dimensions=(2, 3)), x)


@pytest.mark.costly
@pytest.mark.parametrize("r", [2, 4, 6])
@pytest.mark.parametrize("size", [(3, 3), (13, 8), (20, 21)])
def test_the_kernels_together_are_a_convolution(r, size):
    image, kernels = numbers(1, *size, 5), numbers(3, 3, 5, 4)
    keywords = {"output_tile_size": r}
    tiles = check(INPUT(image, **keywords), image)
    weights = check(FILTER(kernels, **keywords), kernels)
    products = np.einsum("abnhwc,abcf->abnhwf", tiles, weights)
    rows, columns = (extent - 2 for extent in size)
    got = check(OUTPUT(products, **keywords), products)[:, :rows, :columns]
    view = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (1, 2))
    want = np.einsum("nhwcab,abcf->nhwf", view, kernels, dtype=np.float64)
    np.testing.assert_allclose(got, want, atol=2e-3)


@pytest.mark.parametrize("shape", [(8, 8), (1, 1), (6, 3)])
def test_one_tile(shape):
    check(INPUT(x := numbers(*shape)), x)
    check(FILTER(x := numbers(3, 3)), x)
    check(OUTPUT(x := numbers(8, 8)), x)


def test_nan_stays_in_its_channel_and_its_windows():
    image = numbers(1, 20, 20, 20)
    image[0, 0, 0, 3] = np.nan
    got = build(INPUT(image))(image)
    assert np.isnan(got[..., 0, 0, 0, 3]).any()
    assert np.isfinite(np.delete(got, 3, axis=-1)).all()
    assert np.isfinite(got[:, :, :, 1:]).all()


def test_one_kernel_serves_every_extent():
    op = INPUT(("n", "h", "w", "c"))
    kernel = build(op)
    for shape in ((1, 3, 3, 1), (2, 8, 15, 16), (1, 20, 9, 21)):
        source = numbers(*shape)
        want = registry.find(op.name).reference(op, {"input": source})["result"]
        np.testing.assert_allclose(kernel(source), want, atol=1e-3)
    with pytest.raises(CallError, match="input axis 1 has extent 2; expected at least 3"):
        kernel(numbers(1, 2, 8, 4))


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_narrow_types_are_rounded_once(dtype):
    shapes = {INPUT: (1, 9, 9, 18), FILTER: (3, 3, 2, 9), OUTPUT: (8, 8, 1, 1, 2, 18)}
    for make, shape in shapes.items():
        op = make(shape, dtype=dtype)
        source = numbers(*shape).astype(numpy_dtype(dtype))
        assert kernel_checks.check_op(op, {"input": source}).message == ""


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"algorithm": "rows"}, "algorithm is 'rows'; expected 'channels'"),
        ({"vector_lanes": 32}, "vector_lanes is 32; expected a power of two up to 16"),
        ({"workgroup_tile": {}}, r"workgroup_tile\['tiles'\] is None; expected a number from 1"),
    ],
)
def test_refuses_a_config_that_does_not_fit(changed, message):
    op, target = INPUT((1, 8, 8, 16)), make_target("llvm")
    config = replace(CpuWinograd().heuristic(op, target), **changed)
    with pytest.raises(ScheduleError, match=message):
        CpuWinograd().lower(op, target, config)


@pytest.mark.costly
@pytest.mark.parametrize(("r", "m"), [*itertools.product((2, 4, 6), (5, 7))])
def test_larger_kernels_are_a_convolution(r, m):
    image, kernels = numbers(1, 14, 15, 3), numbers(m, m, 3, 4)
    sizes = {"output_tile_size": r, "kernel_size": m}
    tiles = check(INPUT(image.shape, **sizes), image)
    products = np.einsum(
        "abnhwc,abcf->abnhwf", tiles, check(FILTER(kernels.shape, **sizes), kernels)
    )
    came = check(OUTPUT(products.shape, **sizes), products)
    windows = np.lib.stride_tricks.sliding_window_view(image.astype("f8"), (m, m), (1, 2))
    want = np.einsum("nhwcij,ijcf->nhwf", windows, kernels)
    came = came[:, : want.shape[1], : want.shape[2]]
    assert np.abs(came - want).max() < 1e-3 * np.abs(want).max()
