"""The references of map_load and map_store against what NumPy has for it."""

import numpy as np

from tvm_iree_ext import reference

X = np.arange(12).reshape(3, 4)


def test_map_load():
    got = reference.map_load(X, (4, 3), lambda i, j: (j, i, -1))
    np.testing.assert_array_equal(got, X.T)
    got = reference.map_load(X, (5, 6), lambda i, j: (i - 1, j - 1, -1))
    np.testing.assert_array_equal(got, np.pad(X, 1, constant_values=-1))


def test_map_store():
    init = np.full((3, 4), -1)
    got = reference.map_store(X, init, lambda i, j: (2 - i, j + 1, j != 1))
    want = init.copy()
    want[:, [1, 3]] = X[::-1, [0, 2]]
    np.testing.assert_array_equal(got, want)
    assert (init == -1).all()
