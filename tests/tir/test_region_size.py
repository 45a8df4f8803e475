"""Regions beyond a stated size are refused at once, however they are given."""

import functools
import operator
import time

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.scalar_text import MOST_PARTS


def chain(count):
    return lambda a, b: functools.reduce(operator.add, [a] * count) < b


def shared(depth):
    """Little to write, and its value twice as often used with each step."""
    return lambda a, b: functools.reduce(lambda x, _: x + x, range(depth), a) < b


def balanced(depth):
    half = "arg0" if not depth else f"({balanced(depth - 1)})"
    return f"{half} + {half}" if depth else half


NESTED = {"parentheses": ("(", ")"), "calls": ("abs(", ")"), "signs": ("-", "")}
PARTS = rf"{MOST_PARTS} operations and operands"
# Python's parser refuses what nests beyond the recursion limit, which other packages set higher;
# there the tree is read, and counted.
TOO_DEEP = rf"nests too deep|too many nested|operations and operands; expected {MOST_PARTS} at most"


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (" + ".join(["arg0"] * 3001) + " < arg1", TOO_DEEP),
        (f"{balanced(9)} < arg1", rf"has 1025 operations and operands; expected {MOST_PARTS}"),
        (chain(3001), PARTS),
        (chain(100_000), PARTS),
        (shared(60), PARTS),
        *((f"{a * 5000}arg0{b * 5000} < arg1", TOO_DEEP) for a, b in NESTED.values()),
    ],
    ids=["long text", "wide text", "terms", "many terms", "shared", *NESTED],
)
def test_a_region_that_is_too_large_is_refused_at_once(region, message):
    start = time.perf_counter()
    with pytest.raises(OpError, match=message) as caught:
        ops.sort((8,), dimension=0, region=region)
    assert time.perf_counter() - start < 10
    assert len(str(caught.value)) < 400


def test_a_map_of_indices_that_is_too_large_is_refused():
    def region(i):
        return functools.reduce(operator.add, [i] * 3001), 0.0

    with pytest.raises(OpError, match=PARTS):
        ops.map_load((8,), (8,), region)


def test_regions_up_to_the_size_are_taken():
    assert ops.sort((8,), dimension=0, region=chain((MOST_PARTS - 1) // 2 - 1)) is not None
    assert ops.sort((8,), dimension=0, region=" + ".join(["arg0"] * 300) + " < arg1") is not None
