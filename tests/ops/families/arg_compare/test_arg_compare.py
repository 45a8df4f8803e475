"""What arg_compare accepts, what it refuses and in which words, and what it says of itself."""

import pytest
from tvm import tirx

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops import TensorType


def test_inits_and_results_lack_the_dimension():
    op = ops.arg_compare((2, 3, 4), dimension=1, dtype="f16", index_base="operand")
    assert [str(o) for o in op.signature.operands] == [
        "input_value: float16[2, 3, 4]",
        "index_base: int64[]",
        "init_value: float16[2, 4]",
        "init_index: int32[2, 4]",
        "value: float16[2, 4]",
        "index: int32[2, 4]",
    ]


def test_explicit_indices_give_their_type():
    op = ops.arg_compare((2, 3), input_index=TensorType((2, 3), "ui16"))
    names = [o.name for o in op.signature.operands]
    assert names == ["input_value", "input_index", "init_value", "init_index", "value", "index"]
    assert op.index_dtype == "uint16"


def test_the_inits_settle_dynamic_extents_and_the_index_type():
    op = ops.arg_compare(
        ("?", "?", "n"), dimension=1, init_value=(2, "?"), init_index=TensorType(("?", 7), "i64")
    )
    assert (op.type.shape, op.index_dtype) == ((2, "d1", 7), "int64")


@pytest.mark.parametrize(
    ("region", "found"),
    [
        (">", ">"),
        ("arg1 < arg0", ">"),
        ("arg1 >= arg0", "<="),
        (lambda a, b: a >= b, ">="),
        (lambda a, b: b > a, "<"),
        ("arg0 != arg1", None),
        ("arg0 > 2 * arg1", None),
    ],
)
def test_recognises_comparisons(region, found):
    for dtype in ("float32", "bfloat16", "int8", "uint64", "bool"):
        if dtype != "bool" or not (isinstance(region, str) and "2" in region):
            assert ops.arg_compare((4,), region, dtype=dtype).comparison == found


def test_flops_count_comparisons_and_bytes_what_is_touched():
    op = ops.arg_compare((2, 3), dimension=1)
    assert op.flops() == 6
    assert op.bytes() == 4 * (6 + 4 * 2)
    explicit = ops.arg_compare((2, 3), dimension=1, input_index=(2, 3))
    assert explicit.bytes() == 4 * (6 + 5 * 2)


def test_equal_ops_describe_themselves_equally():
    one, two = (ops.arg_compare((2, 3), ">", dimension=1) for _ in "ab")
    assert one.describe() == two.describe()
    for other in ({"index_base": 1}, {"region": ">="}, {"dimension": 0}, {"index_dtype": "i64"}):
        changed = ops.arg_compare((2, 3), **{"region": ">", "dimension": 1, **other})
        assert changed.describe() != one.describe()


REFUSED = {
    "dimension": (
        lambda: ops.arg_compare((2, 3), dimension=2),
        r"iree_linalg_ext.arg_compare: dimension is 2; expected 0 \.\. 1",
    ),
    "scalar": (lambda: ops.arg_compare(()), "dimension is 0; a scalar has none"),
    "rank of init_value": (
        lambda: ops.arg_compare((2, 3), init_value=(2, 3)),
        r"init_value \[2, 3\] has rank 2; expected 1 \(input_value's shape without dimension 0",
    ),
    "rank of init_index": (
        lambda: ops.arg_compare((2, 3), init_index=()),
        r"init_index \[\] has rank 0; expected 1",
    ),
    "extent of init_value": (
        lambda: ops.arg_compare((2, 3), init_value=(2,)),
        "init_value axis 0 has extent 2; expected 3",
    ),
    "extent of init_index": (
        lambda: ops.arg_compare((2, 3), init_index=(2,)),
        "init_index axis 0 has extent 2; expected 3",
    ),
    "type of init_value": (
        lambda: ops.arg_compare((2, 3), init_value=TensorType((3,), "f16")),
        "init_value has dtype float16; expected float32 as input has",
    ),
    "type of init_index": (
        lambda: ops.arg_compare((2, 3), init_index=TensorType((3,), "f32")),
        "init_index has dtype float32; supported are int8",
    ),
    "shape of input_index": (
        lambda: ops.arg_compare((2, 3), input_index=(3, 2)),
        r"input_index axis 0 has extent 3; expected 2 \(input_value's shape\)",
    ),
    "type of input_index": (
        lambda: ops.arg_compare((2, 3), input_index=TensorType((2, 3), "i1")),
        "input_index has dtype bool; supported are int8",
    ),
    "two types of indices": (
        lambda: ops.arg_compare(
            (2, 3), input_index=TensorType((2, 3), "i64"), init_index=TensorType((3,), "i32")
        ),
        "init_index has dtype int32; expected int64",
    ),
    "base beside indices": (
        lambda: ops.arg_compare((2, 3), input_index=(2, 3), index_base=1),
        "index_base beside input_index; indices of elements have no base",
    ),
    "base": (
        lambda: ops.arg_compare((2,), index_base=1.5),
        "index_base is 1.5; expected an integer, 'operand' or None",
    ),
    "index dtype": (
        lambda: ops.arg_compare((2,), index_dtype="f32"),
        "index has dtype float32; supported are int8",
    ),
    "arity": (lambda: ops.arg_compare((2,), lambda a: a > 0), "region takes 2 arguments"),
    "yield": (lambda: ops.arg_compare((2,), "arg0 + arg1"), "region yields float32; expected bool"),
    "impure": (
        lambda: ops.arg_compare((2,), lambda a, b: tirx.call_extern("bool", "f", a)),
        "region calls tirx.call_extern, which is not pure",
    ),
    "reads memory": (
        lambda: ops.arg_compare((2,), lambda a, b: tirx.decl_buffer((1,), name="far")[0] < a),
        "region uses far, which is none of its arguments",
    ),
    "two yields": (
        lambda: ops.arg_compare((2,), lambda a, b: (a > b, a < b)),
        "region yields 2 values; expected one",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refuses(case):
    make, message = case
    with pytest.raises(OpError, match=message):
        make()
