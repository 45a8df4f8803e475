"""The references of the transfers against NumPy's own indexing."""

import numpy as np

from tvm_iree_ext.reference import transfer_gather, transfer_scatter

BASE = np.arange(5 * 2 * 2 * 3).reshape(5, 2, 2, 3)
PAGES = [("s0", "d1", "0", "d2"), ("d0",)]


def test_pages_of_a_cache():
    table = np.array([4, 1, 2])
    got = transfer_gather(
        BASE, [table], None, shape=(3, 2, 3), maps=PAGES, offsets=(0, 0, 1, 0), padding=-1
    )
    np.testing.assert_array_equal(got, BASE[table][:, :, 1])


def test_masked_positions_take_the_padding_and_read_nothing():
    table, mask = np.array([4, 10**9, 2]), np.array([True, False, True])
    got = transfer_gather(
        BASE, [table], mask, shape=(3, 2, 3), maps=[*PAGES, ("d0",)], offsets=(0,) * 4, padding=-1
    )
    np.testing.assert_array_equal(got[1], -1)
    np.testing.assert_array_equal(got[::2], BASE[[4, 2], :, 0])


def test_two_symbols_and_a_transposed_index():
    rows, columns = np.array([[3, 0], [1, 1], [2, 3]]), np.array([1, 0, 2])
    base = np.arange(12).reshape(4, 3)
    got = transfer_gather(
        base,
        [rows, columns],
        None,
        shape=(2, 3),
        maps=[("s0", "s1"), ("d1", "d0"), ("d1",)],
        offsets=(0, 0),
        padding=0,
    )
    np.testing.assert_array_equal(got, base[rows.T, columns])


def test_a_scatter_is_the_mirror_image():
    table = np.array([4, 1, 2])
    vector = -np.arange(18).reshape(3, 2, 3)
    got = transfer_scatter(vector, BASE, [table], None, maps=PAGES, offsets=(0, 0, 1, 0))
    want = BASE.copy()
    want[table, :, 1] = vector
    np.testing.assert_array_equal(got, want)
    back = transfer_gather(
        got, [table], None, shape=(3, 2, 3), maps=PAGES, offsets=(0, 0, 1, 0), padding=0
    )
    np.testing.assert_array_equal(back, vector)
