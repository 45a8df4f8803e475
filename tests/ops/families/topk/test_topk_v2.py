"""What the second form of top-k accepts, what it refuses and in which words."""

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.ops import TensorType


def test_indices_are_handed_out_on_request():
    op = ops.topk_v2((4, 100), k=3, dimension=1)
    assert [str(o) for o in op.signature.operands] == [
        "values: float32[4, 100]",
        "output_values_init: float32[4, 3]",
        "output_values: float32[4, 3]",
    ]
    op = ops.topk_v2((4, 100), (4, 3), (4, 3), input_indices=(4, 100), dimension=1)
    assert [o.name for o in op.signature.arguments] == [
        "values",
        "input_indices",
        "output_values_init",
        "output_indices_init",
    ]
    assert [o.name for o in op.signature.results] == ["output_values", "output_indices"]


def test_the_order_is_an_attribute():
    op = ops.topk_v2((9,), k=3, dimension=0, region="<")
    assert op.attributes == {"dimension": 0, "region": "arg0 < arg1", "is_sorted": False}
    assert ops.topk_v2((9,), k=3, dimension=0, is_sorted=True).attributes["is_sorted"] is True


@pytest.mark.parametrize(("region", "sign"), [(">", ">"), (">=", ">"), ("arg1 >= arg0", "<")])
def test_ties_are_false_both_ways(region, sign):
    op = ops.topk_v2((9,), k=3, dimension=0, region=region)
    assert op.order.sign == sign


def test_input_indices_are_of_the_outputs_type():
    where = TensorType((3,), "i64")
    op = ops.topk_v2((9,), (3,), where, input_indices=TensorType((9,), "i64"), dimension=0)
    assert op.index_dtype == op.types["input_indices"].dtype == "int64"
    # A bare shape takes it over.
    op = ops.topk_v2((9,), (3,), where, input_indices=(9,), dimension=0)
    assert op.types["input_indices"].dtype == "int64"


REFUSED = {
    "neither inits nor k": (
        lambda: ops.topk_v2((9,), dimension=0),
        "topk_v2: expected either output_values or k",
    ),
    "dimension": (
        lambda: ops.topk_v2((9,), k=3, dimension=1),
        r"topk_v2: dimension is 1; expected 0 \.\. 0",
    ),
    "dtype of values": (
        lambda: ops.topk_v2((9,), TensorType((3,), "f16"), dimension=0),
        "output_values has dtype float16; expected float32 as values",
    ),
    "ranks": (
        lambda: ops.topk_v2((4, 9), (3,), dimension=1),
        r"output_values \[3\] has rank 1; expected 2 as values \[4, 9\]",
    ),
    "dtype of input indices": (
        lambda: ops.topk_v2((9,), (3,), (3,), input_indices=TensorType((9,), "f32"), dimension=0),
        "input_indices has dtype float32; supported are int8",
    ),
    "input indices alone": (
        lambda: ops.topk_v2((9,), (3,), input_indices=(9,), dimension=0),
        "topk_v2: there are input_indices; expected output_indices, too",
    ),
    "shape of input indices": (
        lambda: ops.topk_v2((4, 9), (4, 3), (4, 3), input_indices=(4, 8), dimension=1),
        "input_indices axis 1 has extent 8; expected 9 as in values",
    ),
    "two types of indices": (
        lambda: ops.topk_v2((9,), (3,), (3,), input_indices=TensorType((9,), "i64"), dimension=0),
        "output_indices has dtype int32; expected int64 as input_indices",
    ),
    "dtype of output indices": (
        lambda: ops.topk_v2((9,), (3,), TensorType((3,), "f32"), dimension=0),
        "output_indices has dtype float32; supported are int8",
    ),
    "shape of output indices": (
        lambda: ops.topk_v2((4, 9), (4, 3), (4, 2), dimension=1),
        "output_indices axis 1 has extent 2; expected 3 as in output_values",
    ),
    "extent of another dim": (
        lambda: ops.topk_v2((4, 9), (5, 3), dimension=1),
        "output_values axis 0 has extent 5; expected 4 as in values",
    ),
    "no slot": (
        lambda: ops.topk_v2((9,), k=-1, dimension=0),
        "output_values axis 0 has extent -1; extents start at 0",
    ),
    "more slots than values": (
        lambda: ops.topk_v2((4, 9), (4, 10), dimension=1),
        "output_values axis 1 has extent 10; expected at most 9 as in values",
    ),
    "is_sorted": (
        lambda: ops.topk_v2((9,), k=3, dimension=0, is_sorted="yes"),
        "is_sorted is 'yes'; expected True or False",
    ),
    "region's type": (
        lambda: ops.topk_v2((9,), k=3, dimension=0, region="arg0 + arg1"),
        "topk_v2: region yields float32; expected bool",
    ),
    "region's arguments": (
        lambda: ops.topk_v2((9,), k=3, dimension=0, region=lambda a: a > 0),
        "topk_v2: region takes 2 arguments",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case):
    make, message = REFUSED[case]
    with pytest.raises(OpError, match=message):
        make()


@pytest.mark.costly
@pytest.mark.parametrize("region", [">=", "<", "abs(arg0) > abs(arg1)"])
@pytest.mark.parametrize("indices", ["in and out", "none"])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_canonical_func_agrees_with_the_reference(region, indices, is_sorted):
    rng = np.random.default_rng(1)
    operands = {"values": rng.integers(-9, 9, (13, 3)).astype("float32")}
    operands["values"][4] = np.nan
    if indices != "none":
        operands["input_indices"] = rng.integers(0, 99, (13, 3)).astype("int64")
    operands["output_values_init"] = rng.integers(-9, 9, (4, 3)).astype("float32")
    if indices != "none":
        operands["output_indices_init"] = rng.integers(0, 99, (4, 3)).astype("int64")
    op = ops.topk_v2(
        operands["values"],
        operands["output_values_init"],
        operands.get("output_indices_init"),
        input_indices=operands.get("input_indices"),
        dimension=0,
        is_sorted=is_sorted,
        region=region,
    )
    cpu_pipeline.register()
    module = tvm.IRModule({op.entry: op.prim_func()})
    function = tvm.compile(module, target="llvm", tir_pipeline=cpu_pipeline.CPU_PIPELINE)[op.entry]
    got = [tvm.runtime.tensor(np.zeros((4, 3), o.dtype)) for o in op.signature.results]
    function(*map(tvm.runtime.tensor, operands.values()), *got)
    entry = registry.find("topk_v2")
    got = dict(zip((o.name for o in op.signature.results), (t.numpy() for t in got), strict=True))
    want = entry.reference(op, operands)
    for name, right in entry.settled(op, want).items():
        np.testing.assert_array_equal(entry.settled(op, got)[name], right)
