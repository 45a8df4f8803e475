import numpy as np
import pytest

from tvm_iree_ext.vector.analysis.op_counts import count
from tvm_iree_ext.vector.ir.vector_types import numpy_type


@pytest.fixture
def same():
    """``same(program, changed)``: both give the same, for small numbers, of which sums are exact.

    Inputs of type index are given by name.  Returns the op counts of the changed program.
    """

    def check(program, changed, **named):
        rng = np.random.default_rng(len(str(program)))
        arrays = {}
        for one in program.inputs:
            shape = [5 if isinstance(extent, str) else extent for extent in one.shape]
            drawn = rng.integers(
                0 if one.dtype == "bool" else -8, 2 if one.dtype == "bool" else 9, shape
            )
            arrays[one.hint] = np.asarray(named.get(one.hint, drawn)).astype(numpy_type(one.dtype))
        changed.verify()
        want, got = program.evaluate(**arrays), changed.evaluate(**arrays)
        assert want.keys() == got.keys()
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array, err_msg=f"{program}\n{changed}")
        return count(changed.body)

    return check
