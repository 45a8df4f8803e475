"""The reference of custom_op: one tile that is everything."""

import numpy as np

from tvm_iree_ext import reference


def test_the_region_gets_whole_operands_and_yields_whole_results():
    a, b, c = np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2))
    (one,) = reference.custom_op(lambda x, y, z: x @ y + z, [a, b], [c])
    assert one.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    two = reference.custom_op(lambda x, y, z: (y, x), [a], [b, c])
    assert [array.tolist() for array in two] == [b.tolist(), a.tolist()]
