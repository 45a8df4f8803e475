"""What im2col accepts and refuses, in which words, and its canonical TensorIR."""

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError

NHWC = {"batch_pos": [0], "m_pos": [1, 2], "k_pos": [3], "kernel_size": [3, 3]}
IMAGE = (2, 34, 34, 640)


def make(shape=IMAGE, output=None, **changed):
    return ops.im2col(shape, output, **NHWC | changed)


@pytest.mark.parametrize(
    ("shape", "changed", "result"),
    [
        (IMAGE, {}, (2, 1024, 5760)),
        (IMAGE, {"strides": [2, 1], "dilations": [1, 2]}, (2, 480, 5760)),
        ((2, 640, 34, 34), {"m_pos": [2, 3], "k_pos": [1]}, (2, 1024, 5760)),
        ((9, 4, 3), {"m_pos": [0], "k_pos": [2], "batch_pos": [1], "kernel_size": [2]}, (4, 8, 6)),
        (("n", "h", 34, 8), {}, ("n", "((h - 3) // 1 + 1) * 32", 72)),
        (("?", 34, 34, "c"), {"strides": [2, 2]}, ("d0", 256, "c * 9")),
    ],
)
def test_result_shapes(shape, changed, result):
    op = make(shape, **changed)
    assert op.signature.results[0].shape == result
    assert op.flops() == 0


def test_numbers_given_at_call_time_are_scalars_in_order_of_use():
    op = make(IMAGE, (2, 4, 5, 6), m_offset=["a", "b"], m_strides=["s", 1], k_offset=["a"])
    scalars = [str(o) for o in op.signature.arguments][1:]
    assert scalars == ["a: int64[]", "b: int64[]", "s: int64[]"]


REFUSED = {
    "no M": (lambda: make(m_offset=[], m_strides=[]), "m_offset is empty; expected at least one"),
    "no K": (lambda: make(k_offset=[], k_strides=[]), "k_offset is empty; expected at least one"),
    "lengths of M": (
        lambda: make(m_offset=[0, 0]),
        "m_offset has 2 entries and m_strides 1; expected as many",
    ),
    "lengths of K": (
        lambda: make(k_strides=[3, 1]),
        "k_offset has 1 entries and k_strides 2; expected as many",
    ),
    "last stride of M": (lambda: make(m_strides=[2]), "the last of m_strides is 2; expected 1"),
    "last stride of K": (lambda: make(k_strides=["s"]), "the last of k_strides is 's'; expected 1"),
    "negative offset": (lambda: make(m_offset=[-1]), "m_offset has -1; expected a number from 0"),
    "an extent's name": (
        lambda: make(("n", 8, 8, 1), m_offset=["n"]),
        "m_offset has 'n'; expected a number, or a name that no operand or extent has",
    ),
    "rank": (
        lambda: make((2, 34, 34, 6, 40)),
        "input has rank 5; expected 4: 1 batch_pos, 2 m_pos and 1 k_pos",
    ),
    "no such dim": (lambda: make(k_pos=[4]), "k_pos has 4; expected dims from 0 to 3"),
    "a shared dim": (lambda: make(k_pos=[2]), "batch_pos, m_pos and k_pos share a dim"),
    "order of m_pos": (lambda: make(m_pos=[2, 1]), r"m_pos \[2, 1\] is not in increasing order"),
    "no m_pos": (
        lambda: ops.im2col((3,), batch_pos=[], m_pos=[], k_pos=[0], kernel_size=[]),
        "m_pos is empty",
    ),
    "kernel_size": (
        lambda: make(kernel_size=[3]),
        "kernel_size has 1 extents; expected one for each of the 2 m_pos",
    ),
    "strides": (lambda: make(strides=[1]), "strides has 1 entries; expected 2 as kernel_size"),
    "dilations": (
        lambda: make(dilations=[1, 1, 1]),
        "dilations has 3 entries; expected 2 as kernel_size",
    ),
    "zero stride": (lambda: make(strides=[0, 1]), "strides has 0; expected numbers from 1"),
    "window": (
        lambda: make(dilations=[1, 17]),
        "input axis 2 has extent 34; the window spans 35",
    ),
    "output's rank": (
        lambda: make(IMAGE, (2, 4, 4, 4)),
        r"output_shape \[2, 4, 4, 4\] has rank 4; expected 3: 1 batch, 1 M and 1 K dims",
    ),
    "output's batch": (
        lambda: make(IMAGE, (3, 4, 4)),
        "output_shape axis 0 has extent 3; expected 2 as in input axis 0",
    ),
    "no default": (lambda: make(m_offset=[1]), "output_shape has no default"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_and_says_why(case):
    make_one, message = REFUSED[case]
    with pytest.raises(OpError, match=message):
        make_one()
