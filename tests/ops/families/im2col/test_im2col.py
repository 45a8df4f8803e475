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


@pytest.mark.parametrize(
    ("changed", "result"),
    [
        ({"offsets": [0, 0, 0]}, (2, 1024, 5760)),
        ({"output_sizes": [[2], [32], [32], [3], [3, 640]]}, (2, 32, 32, 3, 1920)),
        ({"output_perm": [2, 0, 1]}, (5760, 2, 1024)),
        ({"input_pad_low": [0, 1, 1, 0], "input_pad_high": [0, 1, 0, 0]}, (2, 34 * 33, 5760)),
        ({"output_pad_high": [0, 0, 8], "pad_value": 1.0}, (2, 1024, 5768)),
    ],
)
def test_result_shapes_of_the_newer_form(changed, result):
    assert make(**changed).output.shape == result


def test_both_forms_are_the_same_lines():
    sizes = [[2], [32, 32], [3, 3, 640]]
    assert make().lines == make(output_sizes=sizes).lines
    assert list(make().attributes) != list(make(output_sizes=sizes).attributes)


def test_numbers_of_the_newer_form_are_scalars_and_the_padding_the_last_one():
    op = make(
        (2, "h", 34, 640),
        ("a", "b", "c"),
        kernel_size=["kh", 3],
        offsets=[0, "first", 0],
        output_sizes=[[2], ["rows", 32], ["kh", 3, 640]],
        input_pad_low=[0, "top", 0, 0],
        pad_value="operand",
    )
    scalars = [str(o) for o in op.signature.arguments][1:]
    names = ("kh", "first", "rows", "top")
    assert scalars == [*(f"{name}: int64[]" for name in names), "pad_value: float32[]"]


REFUSED = {
    "both forms": (
        lambda: make(m_offset=[1], offsets=[0, 1, 0]),
        "m_offset is of the older form, and offsets of the newer one; expected one of them",
    ),
    "a permutation": (
        lambda: make(input_k_perm=[0, 1, 1]),
        r"input_k_perm is \[0, 1, 1\]; expected a permutation of \[0, 1, 2\]",
    ),
    "another permutation": (
        lambda: make(output_perm=[0, 1]),
        r"output_perm is \[0, 1\]; expected a permutation of \[0, 1, 2\]",
    ),
    "no list": (lambda: make(output_sizes=[1, 2, 3]), "output_sizes is 1; expected a list"),
    "a word": (lambda: make(offsets="abc"), "offsets is 'abc'; expected a list"),
    "offsets": (lambda: make(offsets=[0, 0]), "offsets has 2 entries; expected 3, as output_sizes"),
    "batch sizes": (
        lambda: make(output_sizes=[[2, 1], [32, 32], [3, 3, 640]]),
        r"output_sizes\[0\] has 2 entries; expected 1, of a batch dim",
    ),
    "M and K": (
        lambda: make(output_sizes=[[2], [32, 32, 3], [3, 640]]),
        "has no dims after the 1 batch dims with the 2 coordinates of m_pos",
    ),
    "K": (
        lambda: make(output_sizes=[[2], [32, 32], [3, 640]]),
        "output_sizes has 2 coordinates of K; expected 3, those of m_pos and of k_pos",
    ),
    "a size": (
        lambda: make(output_sizes=[[2], [32, -1], [3, 3, 640]]),
        "output_sizes has -1; expected a number from 0 to 2147483647",
    ),
    "padding": (
        lambda: make(input_pad_low=[1, 1]),
        "input_pad_low has 2 entries; expected 4, one for each axis",
    ),
    "negative padding": (lambda: make(output_pad_high=[0, 0, -1]), "output_pad_high has -1"),
    "padding's type": (lambda: make(pad_value=True), "pad_value is True; expected a number"),
    "no default with a kernel of a call": (
        lambda: make(kernel_size=["kh", 3]),
        "output_shape has no default",
    ),
    "an extent that is a number, too": (
        lambda: make(IMAGE, (2, "m", 4), m_offset=["m"]),
        "output_shape has 'm', which a call gives as a number, too",
    ),
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
