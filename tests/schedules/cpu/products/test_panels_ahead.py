"""The next panel of a large factor is fetched beside products, and they stay what they are."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.schedules.cpu.products.panels_ahead import panels_ahead
from tvm_iree_ext.schedules.cpu.products.register_tiles import RegisterTile

TARGET = {"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2}  # vectors of 512 bits
MAPS = ["(m, o, w, k) -> (m, k)", "(m, o, w, k) -> (o, k, w)", "(m, o, w, k) -> (m, o, w)"]


def product(rows, depth, panels=9, width=64):
    """Rows times a factor that lies in panels of columns."""
    shapes = (rows, depth), (panels, depth, width)
    return ops.contraction(*shapes, indexing_maps=MAPS)


def windows(pixels, channels):
    filters = (channels // 64, 3, 3, channels, 64)
    image = (1, pixels, pixels, channels)
    return ops.conv_2d(image, filters, padding=1, filter_panels=64, algorithm="im2col")


def is_fetching(op):
    return "prefetch" in str(ext.lower(op, TARGET))


def test_beside_many_rows_of_a_factor_that_no_cache_keeps():
    assert is_fetching(windows(9, 256))
    assert is_fetching(product(40, 700))
    assert is_fetching(product("rows", 700))


def test_not_where_it_brings_nothing():
    assert not is_fetching(windows(9, 64))  # 144 KiB stay in the second cache
    assert not is_fetching(product(40, 100))
    tile, some = RegisterTile(6, 4, 16), 1 << 20
    assert panels_ahead(tile, some, "float32", 19, print) is not None
    assert panels_ahead(tile, some, "float32", 18, print) is None  # three tiles, four lines


def numbers(*shape):
    return np.random.default_rng(0).integers(-4, 5, shape).astype("float32")


@pytest.mark.parametrize("rows", [40, 133, "rows"])
def test_products_stay_what_they_are(rows):
    a, b = numbers(133 if rows == "rows" else rows, 700), numbers(9, 700, 64)
    expected = np.einsum("mk,okw->mow", a, b)
    np.testing.assert_array_equal(ext.build(product(rows, 700))(a, b), expected)


def test_windows_stay_what_they_are():
    x, panels = numbers(1, 9, 9, 256), numbers(4, 3, 3, 256, 64)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    taps = [
        np.einsum("nyxc,ocw->nyxow", padded[:, kh : kh + 9, kw : kw + 9], panels[:, kh, kw])
        for kh in range(3)
        for kw in range(3)
    ]
    expected = sum(taps).reshape(1, 9, 9, 256)
    np.testing.assert_array_equal(ext.build(windows(9, 256))(x, panels), expected)
