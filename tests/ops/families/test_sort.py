"""What sort and its comparators accept, what they refuse and in which words."""

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.ops.base.comparators import PlainOrder


def test_has_an_operand_and_a_result_for_each():
    op = ops.sort(TensorType((4, "n"), "f32"), TensorType(("?", 8), "i32"), dimension=1)
    assert [str(o) for o in op.signature.operands] == [
        "operand0: float32[4, 8]",
        "operand1: int32[4, 8]",
        "result0: float32[4, 8]",
        "result1: int32[4, 8]",
    ]


def test_question_marks_are_one_extent_along_an_axis():
    op = ops.sort(("?", "?"), ("?", "?"), dimension=0)
    assert op.shape == ("d0", "d1")


@pytest.mark.parametrize(
    ("region", "order"),
    [
        ("<", PlainOrder(0, "<")),
        (">=", PlainOrder(0, ">=")),
        ("arg1 < arg0", PlainOrder(0, ">")),
        ("arg3 >= arg2", PlainOrder(1, "<=")),
        (lambda a, b, c, d: c > d, PlainOrder(1, ">")),
        ("arg0 < arg2", None),
        ("arg0 < 1", None),
        ("arg0 == arg1", None),
        ("arg0 < arg1 or arg2 < arg3", None),
        ("abs(arg0) < abs(arg1)", None),
    ],
)
def test_recognises_plain_comparisons(region, order):
    assert ops.sort((4,), (4,), dimension=0, region=region).order == order


def test_comparators_see_narrow_floats_as_float32():
    op = ops.sort(TensorType((4,), "bf16"), TensorType((4,), "i1"), dimension=0, region="<")
    assert [str(p.ty.dtype) for p in op.region.parameters] == ["float32"] * 2 + ["int8"] * 2


def test_equal_ops_describe_themselves_equally():
    one, two = (ops.sort((3, 4), dimension=1, region="arg0 > arg1") for _ in "ab")
    assert one.describe() == two.describe()
    assert one.describe() != ops.sort((3, 4), dimension=0, region=">").describe()


def test_counts_bytes():
    op = ops.sort(("n", 4), TensorType(("n", 4), "i8"), dimension=0)
    assert op.bytes({"n": 3}) == 2 * 12 * (4 + 1)
    assert op.flops({"n": 3}) == 0


REFUSED = {
    "no operand": (lambda: ops.sort(dimension=0), "sort: there is no operand; expected one"),
    "negative dimension": (
        lambda: ops.sort((3, 4), dimension=-1),
        r"dimension is -1; expected 0 \.\. 1",
    ),
    "dimension of the rank": (
        lambda: ops.sort((3, 4), dimension=2),
        r"dimension is 2; expected 0 \.\. 1",
    ),
    "dimension of another kind": (
        lambda: ops.sort((3, 4), dimension="0"),
        "dimension is '0'; expected 0",
    ),
    "rank": (
        lambda: ops.sort((3, 4), (3,), dimension=0),
        r"operand1 \[3\] has rank 1; expected 2 as operand0 \[3, 4\]",
    ),
    "shape": (
        lambda: ops.sort((3, 4), (3, 5), dimension=0),
        "operand1 axis 1 has extent 5; expected 4 as in operand0",
    ),
    "dtype": (
        lambda: ops.sort((3,), dimension=0, dtype="complex32"),
        "operand0: dtype 'complex32' is unknown",
    ),
    "order of complex numbers": (
        lambda: ops.sort((3,), dimension=0, dtype="complex64"),
        r"region fails: complex numbers have no order; compare real\(arg0\)",
    ),
    "negative extent": (
        lambda: ops.sort((-1,), dimension=0),
        "operand0 axis 0 has extent -1; extents start at 0",
    ),
    "arguments of a callable": (
        lambda: ops.sort((3,), (3,), dimension=0, region=lambda a, b: a < b),
        "sort: region takes 4 arguments",
    ),
    "unknown argument": (
        lambda: ops.sort((3,), dimension=0, region="arg0 < arg2"),
        "'arg2' is unknown; arguments are arg0, arg1",
    ),
    "yields another type": (
        lambda: ops.sort((3,), dimension=0, region="arg0 - arg1"),
        "sort: region yields float32; expected bool",
    ),
    "yields several": (
        lambda: ops.sort((3,), dimension=0, region=lambda a, b: (a < b, b < a)),
        "sort: region yields 2 values; expected one",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case):
    make, message = REFUSED[case]
    with pytest.raises(OpError, match=message):
        make()


def canonical(op, arrays):
    """The results of an op's canonical PrimFunc."""
    cpu_pipeline.register()
    module = tvm.IRModule({op.entry: op.prim_func()})
    function = tvm.compile(module, target="llvm", tir_pipeline=cpu_pipeline.CPU_PIPELINE)[op.entry]
    shapes = op.signature.result_shapes(op.signature.bind(op.name, [a.shape for a in arrays]))
    results = [
        tvm.runtime.tensor(np.zeros(shape, operand.dtype))
        for shape, operand in zip(shapes, op.signature.results, strict=True)
    ]
    function(*map(tvm.runtime.tensor, arrays), *results)
    return [result.numpy() for result in results]


@pytest.mark.costly
@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
def test_canonical_func_agrees_with_the_reference(dtype, dimension):
    rng = np.random.default_rng(1)
    arrays = [rng.integers(-3, 3, ((5, 7))).astype(kind) for kind in (dtype, "int32")]
    for region in ("<", "arg0 > arg1 or (arg0 == arg1 and arg2 <= arg3)"):
        op = ops.sort(*arrays, dimension=dimension, region=region)
        operands = {f"operand{i}": array for i, array in enumerate(arrays)}
        want = registry.find("sort").reference(op, operands).values()
        for got, right in zip(canonical(op, arrays), want, strict=True):
            np.testing.assert_array_equal(got, right)
