"""Which updates of an accumulator may be taken in any order, and what changes nothing."""

import pytest
from tvm import tirx

from tvm_iree_ext.schedules.shared.loops.loops_combiners import combiner_of

TOTAL = tirx.decl_buffer((1,), "float32", "total")
X = tirx.decl_buffer((9,), "float32", "x")
A, E = TOTAL[0], X[3]

COMBINED = {
    "a sum": (A + E, 0.0),
    "a sum, the element first": (E + A, 0.0),
    "a product": (A * E, 1.0),
    "a maximum": (tirx.max(A, E), None),
    "a maximum that keeps NaN": (tirx.Select(A > E, A, tirx.Select(E >= A, E, A + E)), None),
}
NOT_COMBINED = {
    "a difference": A - E,
    "a sum of its own double": A + A,
    "a fused multiply": A * E + E,
    "a maximum that forgets NaN": tirx.Select(A > E, A, E),
    "a choice by another number": tirx.Select(E > 0.0, A, E),
}


@pytest.mark.parametrize("name", COMBINED)
def test_sums_products_and_choices_combine(name):
    value, neutral = COMBINED[name]
    combiner = combiner_of(value, A.source)
    assert combiner is not None
    assert combiner.element.source.same_as(E.source)
    if neutral is None:
        assert combiner.neutral is None
    else:
        assert float(combiner.neutral("float32")) == neutral


@pytest.mark.parametrize("name", NOT_COMBINED)
def test_what_depends_on_the_order_does_not(name):
    assert combiner_of(NOT_COMBINED[name], A.source) is None
