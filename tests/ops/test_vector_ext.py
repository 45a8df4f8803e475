"""The dialects' ops, by the names that the dialects give them."""

from tvm_iree_ext import ops
from tvm_iree_ext.ops import vector_ext


def test_two_dialects_have_an_arg_compare():
    assert ops.arg_compare((4, 2)).name == "iree_linalg_ext.arg_compare"
    assert vector_ext.arg_compare((4, 2)).name == "iree_vector_ext.arg_compare"
    assert ops.vector_ext is vector_ext


def test_every_name_is_that_of_a_documented_function():
    for module in (ops, vector_ext):
        for name in module.__all__:
            assert getattr(module, name).__doc__, name


def test_an_op_of_vectors_has_extents_that_are_numbers():
    arg_compare = vector_ext.arg_compare((4, 2), init_index=ops.TensorType((2,), "int64"))
    assert [str(result) for result in arg_compare.signature.results] == [
        "value: float32[2]",
        "index: int64[2]",
    ]
