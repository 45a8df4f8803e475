"""Arguments where none are recorded."""

import numpy as np
import pytest

from tvm_iree_ext.base.errors import RecordError
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.program_checks.noise_arguments import noise


def test_floats_are_noise_and_integers_zeros_and_what_is_unused_none():
    signature = Signature(
        (
            Operand("x", (3, 4), "float16"),
            Operand("i", (2,), "int64"),
            Operand("c", (), "complex64"),
            Operand("s", (), "float32", "scalar"),
            Operand("u", (), "bool", "unused"),
            Operand("r", (3,), "float32", "result"),
        )
    )
    x, i, c, s, u = noise("f", signature)
    assert (x.shape, x.dtype, len(np.unique(x))) == ((3, 4), np.float16, 12)
    assert (i.tolist(), i.dtype) == ([0, 0], np.int64)
    assert (c.shape, c.dtype, np.ndim(s), u) == ((), np.complex64, 0, None)
    np.testing.assert_array_equal(noise("f", signature)[0], x)


def test_refuses_an_extent_that_only_a_call_knows():
    signature = Signature((Operand("x", ("n", 4), "float32"), Operand("r", (3,), "int8", "result")))
    with pytest.raises(RecordError, match=r"f: the extent n of x: float32\[n, 4\] is known in a"):
        noise("f", signature)
