"""The reference of to_simt and to_simd against the specification's table and layout's arrays."""

from dataclasses import asdict

import numpy as np
import pytest

from tvm_iree_ext import layout as layouts
from tvm_iree_ext.catalog.distribution import random_to_simt
from tvm_iree_ext.layout import NestedLayout
from tvm_iree_ext.reference import to_simd, to_simt

SMALL = NestedLayout((2, 1), (1, 2), (1, 1), (2, 2), (1, 2), (1, 0), (1, 2))


def test_the_specifications_table():
    parts = to_simt(
        np.arange(32).reshape(4, 8), asdict(SMALL), 2, 4, packed=False, padding=0
    ).reshape(2, 4, 4)
    assert parts[0].tolist() == [[0, 1, 4, 5], [8, 9, 12, 13], [2, 3, 6, 7], [10, 11, 14, 15]]
    assert parts[1, 3].tolist() == [26, 27, 30, 31]


def test_owners_where_there_are_fewer_subgroups():
    """Tiles [4, 2], strides [1, 4]: in lexicographic order they are held by 0 0 1 1 2 2 3 3."""
    layout = NestedLayout((4, 2), (1, 1), (1, 1), (1, 1), (1, 1), (1, 4), (0, 0))
    parts = to_simt(np.arange(8).reshape(4, 2), asdict(layout), 4, 1, packed=False, padding=0)
    assert parts.reshape(4, 2).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_the_layouts_arrays_are_the_same(seed, packed):
    op, _ = random_to_simt(np.random.default_rng(seed))
    layout, hardware = op.layout, (op.num_subgroups, op.subgroup_size)
    whole = np.arange(np.prod(layout.undistributed_shape, dtype=int))
    whole = whole.reshape(layout.undistributed_shape)
    parts = to_simt(whole, asdict(layout), *hardware, packed=packed, padding=-1)
    np.testing.assert_array_equal(parts, layouts.to_simt(whole, layout, *hardware, packed=packed))
    back = to_simd(parts, asdict(layout), *hardware, packed=packed, shape=whole.shape)
    np.testing.assert_array_equal(back, whole)
    smaller = tuple(max(1, extent // 2) for extent in whole.shape)
    part = to_simd(parts, asdict(layout), *hardware, packed=packed, shape=smaller)
    np.testing.assert_array_equal(part, whole[tuple(map(slice, smaller))])
