"""What the arg_compare of vectors demands beyond that of tensors."""

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.ops.vector_ext import arg_compare

NAME = "iree_vector_ext.arg_compare"


def test_indices_are_of_type_index_unless_said_otherwise():
    op = arg_compare((2, 3), dimension=1)
    assert (op.name, op.index_dtype) == (NAME, "int64")
    assert arg_compare((2, 3), init_index=TensorType((3,), "i32")).index_dtype == "int32"
    assert arg_compare((2, 3), input_index=TensorType((2, 3), "index")).index_dtype == "int64"


def test_a_line_alone_gives_scalars():
    op = arg_compare((7,), init_value=(), value=(), index=())
    assert [o.shape for o in op.signature.results] == [(), ()]


def test_says_another_name_than_the_tensor_op_and_computes_the_same():
    tensor, vector = (f((4, 5), ">=", index_dtype="i32") for f in (ops.arg_compare, arg_compare))
    assert (tensor.name, vector.name) == ("iree_linalg_ext.arg_compare", NAME)
    one, other = tensor.describe(), vector.describe()
    assert one.pop("op") != other.pop("op")
    assert one == other


REFUSED = {
    "dynamic": (
        lambda: arg_compare((2, "n")),
        "input_value axis 1 has extent 'n'; a vector's extents are numbers",
    ),
    "dynamic init": (
        lambda: arg_compare((2, 3), init_value=("?",)),
        "init_value axis 0 has extent '\\?'; a vector's extents are numbers",
    ),
    "empty": (lambda: arg_compare((2, 0)), "input_value axis 1 has extent 0; extents start at 1"),
    "dimension": (lambda: arg_compare((2, 3), dimension=2), r"dimension is 2; expected 0 \.\. 1"),
    "scalar": (lambda: arg_compare(()), "dimension is 0; a scalar has none"),
    "rank": (
        lambda: arg_compare((2, 3), init_value=(2, 3)),
        r"init_value \[2, 3\] has rank 2; expected 1",
    ),
    "extent": (
        lambda: arg_compare((2, 3), init_index=(2,)),
        "init_index axis 0 has extent 2; expected 3",
    ),
    "value type": (
        lambda: arg_compare((2, 3), init_value=TensorType((3,), "f16")),
        "init_value has dtype float16; expected float32",
    ),
    "index type": (
        lambda: arg_compare((2, 3), init_index=TensorType((3,), "f32")),
        "init_index has dtype float32; supported are int8",
    ),
    "explicit shape": (
        lambda: arg_compare((2, 3), input_index=(2, 2)),
        "input_index axis 1 has extent 2; expected 3",
    ),
    "explicit type": (
        lambda: arg_compare(
            (2, 3), input_index=TensorType((2, 3), "i32"), init_index=TensorType((3,), "i64")
        ),
        "init_index has dtype int64; expected int32",
    ),
    "base beside indices": (
        lambda: arg_compare((2, 3), input_index=(2, 3), index_base=4),
        "index_base beside input_index",
    ),
    "result value": (
        lambda: arg_compare((2, 3), value=TensorType((3,), "f64")),
        r"value is float64\[3\]; expected float32\[3\] as init_value is",
    ),
    "result index": (
        lambda: arg_compare((2, 3), index=(2,)),
        r"index is int64\[2\]; expected int64\[3\] as init_index is",
    ),
    "arity": (lambda: arg_compare((2,), lambda a: a > 0), "region takes 2 arguments"),
    "yield": (lambda: arg_compare((2,), "arg0"), "region yields float32; expected bool"),
    "two yields": (
        lambda: arg_compare((2,), "arg0 > arg1, arg0 < arg1"),
        "region yields 2 values; expected one",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refuses(case):
    make, message = case
    with pytest.raises(OpError, match=f"{NAME}: {message}"):
        make()
