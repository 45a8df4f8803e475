"""What scan accepts, what it refuses and in which words, and what it says of itself."""

import numpy as np
import pytest
from tvm import tirx

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops import TensorType


def test_the_accumulator_lacks_the_dimension():
    op = ops.scan((2, 3, 4), dimension=1, dtype="i16")
    assert [str(o) for o in op.signature.operands] == [
        "input: int16[2, 3, 4]",
        "accumulator_init: int16[2, 4]",
        "output: int16[2, 3, 4]",
        "accumulator: int16[2, 4]",
    ]


def test_output_and_accumulator_settle_dynamic_extents():
    op = ops.scan(("?", "?", "n"), dimension=1, accumulator=(2, "?"), output=("?", 5, "?"))
    assert op.type.shape == (2, 5, "n")


def test_question_marks_are_independent_extents():
    assert ops.scan(("?", "?")).signature.symbols == ("d0", "d1")
    assert ops.scan(("d1", "?")).signature.symbols == ("d1", "d1_")


@pytest.mark.parametrize(
    ("region", "dtype", "in_order"),
    [
        ("add", "int32", False),
        ("arg1 + arg0", "uint8", False),
        (lambda a, b: a * b, "int64", False),
        ("xor", "bool", False),
        ("max", "float32", False),
        ("min(arg1, arg0)", "bfloat16", False),
        ("add", "float32", True),
        ("mul", "float16", True),
        ("arg0 - arg1", "int32", True),
        # TVM's own maximum forgets a NaN, or not, by the bracketing.
        (lambda a, b: tirx.max(a, b), "float32", True),
        (lambda a, b: tirx.max(a, b), "int32", False),
    ],
)
def test_knows_which_regions_may_be_reassociated(region, dtype, in_order):
    assert ops.scan((4,), region, dtype=dtype).in_order is in_order
    assert ops.scan((4,), region, dtype=dtype, reassociate=True).in_order is False


def test_flops_count_applications_and_bytes_each_operand_once():
    op = ops.scan((2, 3, 4), dimension=1)
    assert op.flops() == 2 * 2 * 4
    assert op.bytes() == 4 * (24 + 8 + 24 + 8)
    assert ops.scan((2, "n"), dimension=1).flops({"n": 5}) == 8


def test_equal_ops_describe_themselves_equally():
    one, two = (ops.scan((2, 3), "max", dimension=1) for _ in "ab")
    assert one.describe() == two.describe()
    for other in ({"inclusive": False}, {"reassociate": True}, {"dimension": 0}):
        assert ops.scan((2, 3), "max", **{"dimension": 1, **other}).describe() != one.describe()


REFUSED = {
    "dimension": (
        lambda: ops.scan((2, 3), dimension=2),
        r"iree_linalg_ext.scan: dimension is 2; expected 0 \.\. 1",
    ),
    "negative dimension": (lambda: ops.scan((2, 3), dimension=-1), "dimension is -1; expected 0"),
    "dimension of a scalar": (lambda: ops.scan(()), "dimension is 0; a scalar has none"),
    "not a dimension": (lambda: ops.scan((2, 3), dimension=True), "dimension is True; expected"),
    "inclusive": (lambda: ops.scan((2,), inclusive=1), "inclusive is 1; expected True or False"),
    "reassociate": (lambda: ops.scan((2,), reassociate="no"), "reassociate is 'no'; expected True"),
    "accumulator rank": (
        lambda: ops.scan((2, 3), dimension=1, accumulator=(2, 3)),
        r"accumulator \[2, 3\] has rank 2; expected 1 \(input's shape without dimension 1, \[2\]\)",
    ),
    "accumulator extent": (
        lambda: ops.scan((2, 3), dimension=1, accumulator=(3,)),
        r"accumulator axis 0 has extent 3; expected 2 \(input's shape without dimension 1\)",
    ),
    "accumulator dtype": (
        lambda: ops.scan((2, 3), accumulator=TensorType((3,), "f64")),
        "accumulator has dtype float64; expected float32 as input has",
    ),
    "output rank": (
        lambda: ops.scan((2, 3), output=(6,)),
        r"output \[6\] has rank 1; expected 2 \(input's shape, \[2, 3\]\)",
    ),
    "output extent": (
        lambda: ops.scan((2, 3), output=(2, 4)),
        r"output axis 1 has extent 4; expected 3 \(input's shape\)",
    ),
    "output dtype": (
        lambda: ops.scan((2, 3), output=np.zeros((2, 3), "int32")),
        "output has dtype int32; expected float32 as input has",
    ),
    "negative extent": (lambda: ops.scan((-1,)), "input axis 0 has extent -1; extents start at 0"),
    "dtype": (lambda: ops.scan((2,), dtype="c64"), "input: dtype 'c64' is unknown"),
    "region's arity": (lambda: ops.scan((2,), lambda a: a), "region takes 2 arguments"),
    "region's yield": (
        lambda: ops.scan((2,), "arg0 > arg1"),
        "region yields bool; expected float32",
    ),
    "two yields": (lambda: ops.scan((2,), lambda a, b: (a, b)), "region yields 2 values; expected"),
    "unknown name": (lambda: ops.scan((2,), "sum"), "region 'sum': 'sum' is unknown"),
    "bits of a float": (
        lambda: ops.scan((2,), "xor"),
        r"region fails: Expected integer argument",
    ),
    "bits of a float, called": (
        lambda: ops.scan((2,), lambda a, b: a & b),
        "scan: region fails: Expected integer argument",
    ),
    "sum of bool": (
        lambda: ops.scan((2,), dtype="i1"),
        r"region 'arg0 \+ arg1' over bool; expected and, or, xor, min, max",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refuses(case):
    make, message = case
    with pytest.raises(OpError, match=message):
        make()
