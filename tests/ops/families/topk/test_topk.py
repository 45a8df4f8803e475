"""What top-k accepts, what it refuses and in which words."""

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.ops import TensorType


def test_takes_k_or_the_inits():
    op = ops.topk((4, 100), k=3, dimension=1)
    assert [str(o) for o in op.signature.operands] == [
        "values: float32[4, 100]",
        "output_values_init: float32[4, 3]",
        "output_indices_init: int32[4, 3]",
        "output_values: float32[4, 3]",
        "output_indices: int32[4, 3]",
    ]
    assert ops.topk((4, 100), (4, 3), dimension=1).describe() == op.describe()


def test_indices_come_after_values():
    op = ops.topk((4, 100), k=3, indices=(4, 100), dimension=1)
    assert [o.name for o in op.signature.arguments][:2] == ["values", "indices"]
    assert op.has_indices


def test_names_agree_across_operands():
    op = ops.topk(("?", "?"), ("b", 3), ("?", "?"), indices=(4, "n"), dimension=1)
    assert op.types["values"].shape == op.types["indices"].shape == (4, "n")
    assert op.types["output_values"].shape == op.types["output_indices"].shape == (4, 3)


def test_question_marks_along_the_dim_are_two_extents():
    op = ops.topk(("?",), ("?",), dimension=0)
    assert op.signature.symbols == ("values_d0", "output_values_d0")


def test_k_may_exceed_the_candidates():
    op = ops.topk((2,), k=3, dimension=0)
    assert (op.candidates, op.k) == (2, 3)


def test_any_integer_holds_indices_that_are_numbered():
    op = ops.topk((9,), (3,), TensorType((3,), "i64"), dimension=0)
    assert op.types["output_indices"].dtype == "int64"


REFUSED = {
    "neither inits nor k": (
        lambda: ops.topk((9,), dimension=0),
        "topk: expected either output_values or k",
    ),
    "both": (lambda: ops.topk((9,), (3,), k=3, dimension=0), "either output_values or k"),
    "dimension": (
        lambda: ops.topk((9,), k=3, dimension=1),
        r"dimension is 1; expected 0 \.\. 0",
    ),
    "dtype of values": (
        lambda: ops.topk((9,), TensorType((3,), "f16"), dimension=0),
        "output_values has dtype float16; expected float32 as values",
    ),
    "dtype of indices": (
        lambda: ops.topk((9,), k=3, indices=TensorType((9,), "i64"), dimension=0),
        "indices has dtype int64; supported are int32",
    ),
    "dtype of output indices beside indices": (
        lambda: ops.topk((9,), (3,), TensorType((3,), "i64"), indices=(9,), dimension=0),
        "output_indices has dtype int64; supported are int32",
    ),
    "dtype of output indices": (
        lambda: ops.topk((9,), (3,), TensorType((3,), "f32"), dimension=0),
        "output_indices has dtype float32; supported are int8",
    ),
    "ranks": (
        lambda: ops.topk((4, 9), (3,), dimension=1),
        r"output_values \[3\] has rank 1; expected 2 as values \[4, 9\]",
    ),
    "shape of indices": (
        lambda: ops.topk((4, 9), k=3, indices=(4, 8), dimension=1),
        "indices axis 1 has extent 8; expected 9 as in values",
    ),
    "shape of output indices": (
        lambda: ops.topk((4, 9), (4, 3), (4, 2), dimension=1),
        "output_indices axis 1 has extent 2; expected 3 as in output_values",
    ),
    "extent of another dim": (
        lambda: ops.topk((4, 9), (5, 3), dimension=1),
        "output_values axis 0 has extent 5; expected 4 as in values",
    ),
    "region's type": (
        lambda: ops.topk((9,), k=3, dimension=0, region="arg0 + arg1"),
        "topk: region yields float32; expected bool",
    ),
    "region's arguments": (
        lambda: ops.topk((9,), k=3, dimension=0, region=lambda a: a > 0),
        "topk: region takes 2 arguments",
    ),
    "no slot": (
        lambda: ops.topk((9,), k=-1, dimension=0),
        "output_values axis 0 has extent -1; extents start at 0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case):
    make, message = REFUSED[case]
    with pytest.raises(OpError, match=message):
        make()


@pytest.mark.parametrize("region", [">", "<", ">=", "abs(arg0) > abs(arg1)"])
@pytest.mark.parametrize("has_indices", [False, True])
def test_canonical_func_agrees_with_the_reference(region, has_indices):
    rng = np.random.default_rng(1)
    operands = {"values": rng.integers(-9, 9, (13, 3)).astype("float32")}
    if has_indices:
        operands["indices"] = rng.integers(0, 99, (13, 3)).astype("int32")
    operands["output_values_init"] = rng.integers(-9, 9, (4, 3)).astype("float32")
    operands["output_indices_init"] = rng.integers(0, 99, (4, 3)).astype("int32")
    op = ops.topk(
        operands["values"], k=4, indices=operands.get("indices"), dimension=0, region=region
    )
    cpu_pipeline.register()
    module = tvm.IRModule({op.entry: op.prim_func()})
    function = tvm.compile(module, target="llvm", tir_pipeline=cpu_pipeline.CPU_PIPELINE)[op.entry]
    got = [tvm.runtime.tensor(np.zeros((4, 3), dtype)) for dtype in ("float32", "int32")]
    function(*map(tvm.runtime.tensor, operands.values()), *got)
    want = registry.find("topk").reference(op, operands).values()
    for array, right in zip(got, want, strict=True):
        np.testing.assert_array_equal(array.numpy(), right)
