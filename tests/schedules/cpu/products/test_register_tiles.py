"""Which vectors and rows a register tile has."""

from dataclasses import replace

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.schedules.cpu.products.register_tiles import column_vectors, register_tile
from tvm_iree_ext.targets.cpu import cpu_features
from tvm_iree_ext.targets.names import make_target

ZEN_4 = {"kind": "llvm", "mcpu": "znver4", "num-cores": 1}
WHOLE, HALF = 16, 8


def features(**changes):
    return replace(cpu_features(make_target(ZEN_4)), **changes)


@pytest.mark.parametrize(
    ("columns", "lanes"),
    [
        *((columns, WHOLE) for columns in (None, 10, 16, 26, 32, 48)),
        *((columns, HALF) for columns in (5, 8, 20, 24, 40, 72, 1000)),
        *[(3, 4), (1, 1)],
    ],
)
def test_an_odd_number_of_halves_are_half_vectors(columns, lanes):
    assert features().in_halves
    assert column_vectors(features(), 4, columns).lanes == lanes
    whole = features(in_halves=False)
    narrow = columns is not None and columns <= HALF
    assert column_vectors(whole, 4, columns).lanes == (lanes if narrow else WHOLE)
    least = column_vectors(features(), 4, columns, least=WHOLE)
    assert least.lanes == WHOLE


def test_tiles_of_half_vectors():
    along = column_vectors(features(), 4, 40)
    tile = register_tile(features(), along, None, 40)
    assert (tile.rows, tile.vectors, tile.lanes) == (5, 5, HALF)


def test_at_most_so_many_rows():
    along = column_vectors(features(), 4, 16)
    assert register_tile(features(), along, None, 16).rows > 20
    assert register_tile(features(), along, None, 16, most_rows=8).rows == 8
    assert register_tile(features(), along, 9, 16, most_rows=8).rows == 5


@pytest.mark.parametrize(("depth", "rows"), [(1024, 8), (4096, 8), (512, 16), ("depth", 8)])
def test_rows_that_share_a_set_of_the_cache_fit_in_it(depth, rows):
    """They lie as far apart as its sets repeat: a line would be fetched for each of its numbers."""
    op = ops.matmul((512, depth), (depth, 16))
    config = ext.build(op, ZEN_4).manifest.config
    assert config["register_tile"]["rows"] == rows


@pytest.mark.costly
@pytest.mark.parametrize(("columns", "tile"), [(20, (8, 3)), (40, (5, 5)), (88, (6, 4))])
@pytest.mark.parametrize("rows", [7, 61, "rows"])
def test_products_in_tiles_of_half_vectors_are_right(rows, columns, tile):
    op = ops.matmul((rows, 37), (37, columns), epilogue="arg0 * 2.0")
    config = {"register_tile": {"rows": tile[0], "vectors": tile[1]}, "vector_lanes": HALF}
    block = {"workgroup_tile": {"m": 4 * tile[0], "n": columns}}
    kernel = ext.build(op, config={**ext.build(op).manifest.config, **config, **block})
    rng = np.random.default_rng(columns)
    a = rng.standard_normal((61 if rows == "rows" else rows, 37)).astype("float32")
    b = rng.standard_normal((37, columns)).astype("float32")
    want = 2 * (a.astype("f8") @ b.astype("f8"))
    np.testing.assert_allclose(kernel(a, b), want, rtol=1e-5, atol=1e-5)
