"""Regions: what TVM need not be asked, and how they travel."""

import pickle

import pytest

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.ops.base import regions


def test_a_plain_region_has_the_text_that_tvm_prints():
    """Which is part of an op's identity, and is known before TVM is asked."""
    for dtype in (*dtypes.FLOATS, *dtypes.INTEGERS):
        for yields in (dtype, "bool"):
            for text in regions._plain_texts((dtype, dtype), yields):
                traced = regions._trace_one("op", text, (dtype, dtype), yields)
                assert (traced.text, traced.source) == (text, text), dtype
                plain = regions.trace("op", text, (dtype, dtype), yields)
                assert plain.text == text
                assert plain.known_as == traced.known_as is not None


@pytest.mark.parametrize("region", ["add", "2 * arg0 + arg1", lambda a, b: a - b])
def test_a_region_is_pickled_with_its_parameters(region):
    traced = regions.trace("op", region, ("float32", "float32"), "float32")
    again = pickle.loads(pickle.dumps(traced))
    assert (again.text, again.source) == (traced.text, traced.source)
    assert again.known_as == traced.known_as
    assert again.body.a.same_as(again.parameters[0]) or again.body.b.same_as(again.parameters[1])
