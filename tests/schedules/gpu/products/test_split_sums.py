"""Products by warpgroups whose K is in parts, which a second kernel adds."""

import pytest

from tests.support.warpgroup_products import HOPPER, KIND, multiplied, shape_of
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES
from tvm_iree_ext.schedules.gpu.products.warpgroup_heuristic import warpgroup_config

STEPS = 13  # of 64


@pytest.mark.costly
@pytest.mark.parametrize("splits", [2, 3, 4, 13])
def test_parts_of_equal_and_of_unequal_length(splits):
    shape = shape_of(KIND, 70, 92, STEPS * 64 - 8)
    done = multiplied(shape, KIND, splits=splits, stages=2, consumers=1)
    assert done.grid[1] == splits
    assert done.counts[KIND] == 2 * 2 * STEPS * 4  # tiles, and parts of 16 of a step


@pytest.mark.costly
@pytest.mark.parametrize("columns", [1, 5, 90])
def test_rows_of_the_result_of_any_length(columns):
    multiplied(shape_of(KIND, 3, columns, 512), KIND, splits=8, stages=2, consumers=1)


@pytest.mark.costly
@pytest.mark.parametrize("kind", ["NV_WGMMA_F32_64x64x32_F8E4M3FN", "NV_WGMMA_I32_64x64x32_I8"])
def test_other_types(kind):
    multiplied(shape_of(kind, 70, 72, 9 * 128), kind, splits=9, stages=2, consumers=1)


@pytest.mark.costly
@pytest.mark.parametrize("splits", [70, 300])
def test_subgroups_share_many_parts(splits):
    multiplied(shape_of(KIND, 9, 12, splits * 64), KIND, splits=splits, stages=2, consumers=1)


def test_parts_of_padded_operands():
    multiplied(shape_of(KIND, 30, 33, 301), KIND, splits=5, stages=2, consumers=1, pad=SIDES)


@pytest.mark.parametrize(
    ("m", "n", "k", "splits"),
    [(64, 64, 65536, 128), (16, 4096, 4096, 8), (4096, 4096, 4096, 1), (64, 64, 256, 1)],
)
def test_when_k_is_in_parts(m, n, k, splits):
    assert warpgroup_config(shape_of(KIND, m, n, k), HOPPER).splits == splits
