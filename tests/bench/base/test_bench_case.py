"""Cases: what a result is held against."""

import numpy as np

from tvm_iree_ext.bench.cases.attention import numpy_attention


def test_the_check_finds_what_is_wrong(tiny):
    values = tiny.operands()
    check = tiny.check(values)
    good = numpy_attention(values, False)()
    assert check(good) is None
    bad = good.copy()
    bad[0, -1, -1, -1] += 1e-3
    assert "output of the checked rows" in check(bad)
    bad[0, -1, -1, -1] = np.nan
    assert "nan" in check(bad)
    assert "has shape (1, 2, 16, 15)" in check(good[..., :15])
