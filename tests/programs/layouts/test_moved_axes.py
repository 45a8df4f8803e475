"""Axes that lie last: what functions make of them, and how they lie after a reshape."""

import numpy as np
import pytest
import tvm
from relax_programs import Maker, normal
from tvm import tirx

from tvm_iree_ext.programs.base.move_functions import move_function
from tvm_iree_ext.programs.layouts.moved_axes import (
    MovedAxes,
    moved_operands,
    moved_result,
    with_moved_axes,
)

F32 = "float32"
IMAGE = (2, 6, 3, 4)
CHANNELS = MovedAxes(1)


def function(body, result, *inputs, **more):
    """A function of loops, the last parameter its result."""
    m = Maker(**{f"x{place}": (shape, F32) for place, shape in enumerate(inputs)})
    call = m.nest(m.vars, result, F32, body, **more)
    return m.builder.get()[call[1]]


def run(made, result, *arrays):
    """What a function computes."""
    library = tvm.compile(tvm.IRModule({"f": made.with_attr("global_symbol", "f")}), target="llvm")
    out = tvm.runtime.tensor(np.empty(result, F32))
    library["f"](*map(tvm.runtime.tensor, arrays), out)
    return out.numpy()


def test_order_and_items():
    assert CHANNELS.order(4) == (0, 2, 3, 1)
    assert CHANNELS.of("NCHW") == list("NHWC")
    assert MovedAxes(1, 2).order(5) == (0, 3, 4, 1, 2)
    assert MovedAxes(2, 2).range == (2, 3)
    assert MovedAxes(3).of("NHWC") == list("NHWC")


@pytest.mark.parametrize(
    ("axes", "before", "after", "moved"),
    [
        (CHANNELS, (2, 6, 3, 4), (2, 2, 3, 3, 4), MovedAxes(1, 2)),  # groups of channels
        (MovedAxes(1, 2), (2, 2, 3, 3, 4), (2, 6, 3, 4), CHANNELS),
        (CHANNELS, (2, 6, 3, 4), (2, 6, 12), CHANNELS),  # a line of pixels
        (CHANNELS, (2, 6, 12), (2, 6, 3, 4), CHANNELS),
        (CHANNELS, (2, 6, 1, 1), (2, 6), CHANNELS),
        (CHANNELS, (1, 6, 3, 4), (6, 3, 4), MovedAxes(0)),
        (MovedAxes(1, 2), (2, 1, 6, 5), (2, 6, 5), CHANNELS),  # one of 1 is moved with another
        (CHANNELS, (2, 6, 3, 4), (2, 2, 1, 3, 3, 4), MovedAxes(1, 3)),
        (CHANNELS, (2, 6, 3, 4), (2, 72), None),  # joined with others
        (CHANNELS, (2, 6, 3, 4), (12, 3, 4), None),
        (MovedAxes(1, 2), (2, 2, 3, 3, 4), (2, 2, 9, 4), None),
        (CHANNELS, (2, 1, 3, 4), (2, 3, 4), None),  # a single channel lies anywhere
        (CHANNELS, (2, 6, 3, 4), (2, 4, 3, 6), None),
    ],
)
def test_after_a_reshape(axes, before, after, moved):
    before, after = ([tirx.const(e, "int64") for e in one] for one in (before, after))
    assert axes.reshaped(before, after) == moved


def test_after_a_reshape_of_extents_known_at_the_call_only():
    n, h, w = (tirx.Var(name, "int64") for name in "nhw")
    six, two, three = (tirx.const(e, "int64") for e in (6, 2, 3))
    assert CHANNELS.reshaped([n, six, h, w], [n, two, three, h, w]) == MovedAxes(1, 2)
    assert CHANNELS.reshaped([n, six, h, w], [n, six, h * w]) == CHANNELS
    assert CHANNELS.reshaped([n, six, h, w], [n * six, h, w]) is None


def scaled():
    """Batch norm: an image, and a number for each channel."""
    return function(lambda r, *at: r[0](*at) * r[1](at[1]), IMAGE, IMAGE, (6,))


def summed():
    """The sum over an image's pixels."""
    return function(
        lambda o, r, n, c, h, w: o + r[0](n, c, h, w), (2, 6), IMAGE, reduced=(3, 4), init=0.0
    )


def pooled():
    """The largest of neighbours."""
    return function(
        lambda o, r, n, c, h, w, k: tirx.max(o, r[0](n, c, h, w + k)),
        (2, 6, 3, 3),
        IMAGE,
        reduced=(2,),
        init=float("-inf"),
    )


def turned():
    """The channels behind the rows."""
    return function(lambda r, n, h, c, w: r[0](n, c, h, w), (2, 3, 6, 4), IMAGE)


def split():
    """Channels as two axes, by division."""
    body = lambda r, n, g, c, h, w: r[0](n, g * 3 + c, h, w)  # noqa: E731
    return function(body, (2, 2, 3, 3, 4), IMAGE)


def two():
    """Images one of which has its channels elsewhere."""
    return function(
        lambda r, n, c, h, w: r[0](n, c, h, w) + r[1](n, w, h, c), (2, 4, 3, 4), *[(2, 4, 3, 4)] * 2
    )


@pytest.mark.parametrize(
    ("made", "result", "operands"),
    [
        (scaled(), CHANNELS, {0: CHANNELS, 1: MovedAxes(0)}),
        (summed(), CHANNELS, {0: CHANNELS}),
        (pooled(), CHANNELS, {0: CHANNELS}),
        (turned(), MovedAxes(2), None),
        (split(), MovedAxes(1, 2), {0: CHANNELS}),
    ],
    ids=["scaled", "summed", "pooled", "turned", "split"],
)
def test_axes_of_a_result_and_of_what_it_is_computed_of(made, result, operands):
    """From the first operand to the result, and back; the result is no operand of its own."""
    assert moved_result(made, {0: CHANNELS}) == result
    if operands is not None:
        assert moved_operands(made, result) == operands


def test_axes_of_several_operands_must_go_along_the_same():
    assert moved_result(two(), {0: CHANNELS, 1: MovedAxes(3)}) == CHANNELS
    assert moved_result(two(), {0: CHANNELS, 1: CHANNELS}) is None
    assert moved_operands(two(), CHANNELS) == {0: CHANNELS, 1: MovedAxes(3)}
    twice = function(lambda r, i, j: r[0](i, j) + r[0](j, i), (4, 4), (4, 4))
    assert moved_operands(twice, MovedAxes(0)) == {}


def test_a_tensor_that_lies_as_it_did_decides_only_where_no_other_does():
    """Such as a number for each group of channels, beside the image that it is of."""
    shape = (2, 2, 3, 3, 4)
    less = function(lambda r, n, g, *at: r[0](n, g, *at) - r[1](n, g), shape, shape, (2, 2))
    groups = MovedAxes(1, 2)
    assert moved_result(less, {0: groups, 1: MovedAxes(1)}) == groups
    assert moved_result(less, {1: MovedAxes(1)}) == MovedAxes(1)


def test_moved_axes_may_come_in_another_order_and_must_be_neighbours():
    shape = (2, 2, 5, 3)
    apart = function(lambda r, n, h, c, g: r[0](n, c, g, h), (2, 3, 2, 5), shape)
    assert moved_result(apart, {0: MovedAxes(1, 2)}) == MovedAxes(2, 2)
    swapped = function(lambda r, n, g, c, h: r[0](n, c, g, h), (2, 5, 2, 3), shape)
    assert moved_result(swapped, {0: MovedAxes(1, 2)}) == MovedAxes(1, 2)
    parted = function(lambda r, n, g, h, c: r[0](n, c, g, h), (2, 5, 3, 2), shape)
    assert moved_result(parted, {0: MovedAxes(1, 2)}) is None
    spread = function(lambda r, n, c, h, w: r[0](n, 0, h, w), IMAGE, (2, 1, 3, 4))
    assert moved_result(spread, {0: CHANNELS}) is None
    mixed = function(lambda r, n, c, h: r[0](n, c + h, h), (2, 4, 3), (2, 6, 3))
    assert moved_result(mixed, {0: CHANNELS}) == CHANNELS
    both = function(lambda r, n, c: r[0](n, c, c), (2, 4), (2, 4, 4))
    assert moved_result(both, {0: CHANNELS}) is None


@pytest.mark.parametrize("moved", [{0: CHANNELS}, {2: CHANNELS}, {0: CHANNELS, 2: MovedAxes(2, 2)}])
def test_a_function_of_moved_tensors_computes_the_same(moved):
    x, a = normal(*IMAGE), normal(6)
    want = x * a[:, None, None]
    if 0 in moved:
        x = np.ascontiguousarray(x.transpose(moved[0].order(4)))
    if 2 in moved:
        want = want.transpose(moved[2].order(4))
    got = run(with_moved_axes(scaled(), moved), want.shape, x, a)
    np.testing.assert_array_equal(got, want)


def test_sums_into_a_moved_result():
    x = normal(*IMAGE)
    moved = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    want = np.maximum(moved[:, :, :-1], moved[:, :, 1:])
    got = run(with_moved_axes(pooled(), {0: CHANNELS, 1: CHANNELS}), want.shape, moved)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 2, 0, 1), (0, 1, 2, 3)])
def test_a_tensor_is_moved(order):
    shape = [
        tirx.Var("n", "int64"),
        *(tirx.const(e, "int64") for e in (6, 3)),
        tirx.Var("m", "int64"),
    ]
    x = normal(*IMAGE)
    want = x.transpose(order)
    np.testing.assert_array_equal(run(move_function(shape, F32, order), want.shape, x), want)
