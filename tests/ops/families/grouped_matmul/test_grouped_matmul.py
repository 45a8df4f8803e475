"""What grouped_matmul accepts and refuses, and its canonical TensorIR."""

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.codegen.cpu import cpu_pipeline

SHAPES = (("rows", 4), (3, 4, 5), (3,))


def test_has_the_offsets_behind_the_matrices_and_rows_in_the_result():
    op = ops.grouped_matmul(*SHAPES, [(5,)], epilogue="arg0 + arg1")
    shapes = {operand.name: operand.shape for operand in op.signature.operands}
    assert shapes == {
        "lhs": ("rows", 4),
        "rhs": (3, 4, 5),
        "offsets": (3,),
        "operand0": (5,),
        "result": ("rows", 5),
    }
    assert op.types["offsets"].dtype == "int32"


def test_counts_a_product_for_each_row_and_no_more():
    assert ops.grouped_matmul(*SHAPES).flops({"rows": 7}) == 2 * 7 * 4 * 5


def test_equal_ops_describe_themselves_equally():
    given = [(7, 4), (3, 4, 5), ops.TensorType((3,), "int64")]
    assert ops.grouped_matmul(*given).describe() == ops.grouped_matmul(*given).describe()
    assert ops.grouped_matmul(*given).describe() != ops.grouped_matmul(*given[:2], (3,)).describe()


@pytest.mark.parametrize("transpose_rhs", [False, True])
def test_the_canonical_function_is_the_op(transpose_rhs):
    """Groups without rows, offsets beyond them, and rows of no group."""
    rng, offsets = np.random.default_rng(0), np.array([2, 2, 6, 6], "int32")
    lhs, bias = (rng.standard_normal(shape).astype("float32") for shape in ((9, 3), (4, 1, 5)))
    rhs = rng.standard_normal((4, 5, 3) if transpose_rhs else (4, 3, 5)).astype("float32")
    op = ops.grouped_matmul(
        lhs, rhs, offsets, [bias], transpose_rhs=transpose_rhs, epilogue="arg0 + arg1"
    )
    cpu_pipeline.register()
    module = tvm.IRModule({op.entry: op.prim_func()})
    library = tvm.compile(module, target="llvm", tir_pipeline=cpu_pipeline.CPU_PIPELINE)
    operands = {"lhs": lhs, "rhs": rhs, "offsets": offsets, "operand0": bias}
    got = np.full((9, 5), np.nan, "float32")
    library[op.entry](*operands.values(), got)
    want = registry.find(op.name).reference(op, operands)["result"]
    np.testing.assert_allclose(got, want, atol=1e-6)
    np.testing.assert_array_equal(got[6:], 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((7,), (3, 4, 5), (3,)), "lhs has rank 1; expected 2"),
        (((7, 4), (4, 5), (3,)), "rhs has rank 2; expected 3"),
        (((7, 4), (3, 6, 5), (3,)), "has extent 6; expected 4"),
        (((7, 4), (3, 4, 5), (2,)), r"offsets has shape \[2\]; expected one for each of the 3"),
        (
            ((7, 4), (3, 4, 5), ops.TensorType((3,), "int8")),
            "offsets has dtype int8; supported are int32, int64",
        ),
        (((7, 4), (3, 4, 5), (3,), [(1, 3, 7, 5)]), "operand0 has rank 4; expected at most 3"),
        (((7, 4), (3, 4, 5), (3,), [(5,)]), "1 operands for an epilogue, and no epilogue"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(OpError, match=message):
        ops.grouped_matmul(*arguments)
