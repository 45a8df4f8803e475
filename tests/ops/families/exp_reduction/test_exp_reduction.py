"""What exp_reduction accepts, what it refuses, and in which words."""

import json

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.ops.base.maps import IndexingMap

MAPS = [
    "(b, m, n, k) -> (b, m, k)",
    "(b, m, n, k) -> (b, k, n)",
    "(b, m, n, k) -> (b, m)",
    "(b, m, n, k) -> (b, m)",
    "(b, m, n, k) -> (b, m, n)",
]
YIELDS = "arg2, arg0 + arg3, arg0 * arg1 + arg4"
ITERATORS = ("parallel", "parallel", "parallel", "reduction")


def attention(sizes=(2, 3, 4, 5), region=YIELDS, maps=MAPS, rescaled=(1, 2), **more):
    b, m, n, k = sizes
    shapes = ([(b, m, k), (b, k, n)], [(b, m), (b, m), (b, m, n)])
    keywords = {"iterator_types": ITERATORS, **more}
    return ops.exp_reduction(
        *shapes, indexing_maps=maps, exp_reduced_operands=rescaled, region=region, **keywords
    )


def rows(region="arg1, arg0 + arg2", shapes=([(3, 5)], [(3,), (3,)]), **more):
    keywords = {
        "indexing_maps": ["(m, k) -> (m, k)", "(m, k) -> (m)", "(m, k) -> (m)"],
        "iterator_types": ["parallel", "reduction"],
        "exp_reduced_operands": [1],
        **more,
    }
    return ops.exp_reduction(*shapes, region=region, **keywords)


def test_operands_are_inputs_then_inits_then_results():
    op = attention(sizes=("b", 3, 4, "?"), dtype="bf16")
    assert [str(one) for one in op.signature.operands] == [
        "input0: bfloat16[b, 3, d3]",
        "input1: bfloat16[b, d3, 4]",
        "init0: float32[b, 3]",
        "init1: float32[b, 3]",
        "init2: float32[b, 3, 4]",
        "result0: float32[b, 3]",
        "result1: float32[b, 3]",
        "result2: float32[b, 3, 4]",
    ]
    assert json.loads(json.dumps(op.attributes)) == op.attributes
    assert op.attributes["iterator_types"] == list(ITERATORS)


def test_maps_and_iterators_may_be_spelled_as_in_the_dialect():
    spelled = attention(
        maps=[f"affine_map<{one}>" for one in MAPS],
        iterator_types=[f"#iree_linalg_ext.iterator_type<{one}>" for one in ITERATORS],
    )
    assert spelled.describe() == attention().describe()


def test_outputs_of_bare_shapes_are_float32_or_what_is_asked_for():
    assert {one.dtype for one in attention(dtype="f16").outputs} == {"float32"}
    assert {one.dtype for one in attention(dtype="f64").outputs} == {"float64"}
    op = attention(dtype="f16", output_dtype="f16")
    assert {one.dtype for one in op.outputs} == {"float16"}
    assert op.compute_dtype == "float32"


def test_a_region_is_a_text_texts_or_a_callable():
    def region(p, v, m, s, a):
        return m, p + s, p * v + a

    texts = ["arg2", "arg0 + arg3", "arg0 * arg1 + arg4"]
    described = [attention(region=one).describe() for one in (YIELDS, texts, region)]
    assert described[0] == described[1] == described[2]
    assert described[0] != attention(score_domain="natural").describe()


def test_an_output_is_reduced_over_what_its_own_yield_reads():
    op = attention()
    assert [op.reads(j) for j in range(3)] == [(), (0,), (0, 1)]
    assert [op.reduced(j) for j in range(3)] == [(3,)] * 3
    assert (op.row_dims, op.key_dims) == ((0, 1), (3,))
    # Not once more for each column: the sum has no d2.
    assert op.visits(1) == 2 * 3 * 5
    assert op.flops() == 2 * 3 * 5 * (1 + 2 * 4)


def test_a_type_of_its_own_for_each_operand():
    op = ops.exp_reduction(
        [TensorType((3, 5), "f16"), TensorType((5,), "i8"), TensorType((3, 5), "i1")],
        [TensorType((3,), "f32"), TensorType((3,), "bf16"), TensorType((), "i32")],
        indexing_maps=[
            *["(m, k) -> (m, k)", "(m, k) -> (k)", "(m, k) -> (m, k)"],
            *["(m, k) -> (m)", "(m, k) -> (m)", "(m, k) -> ()"],
        ],
        iterator_types=["parallel", "reduction"],
        exp_reduced_operands=[1],
        region="arg3, arg4 + select(arg2, arg0, 0), arg1 + arg5",
    )
    assert [str(p.ty.dtype) for p in op.regions[0].parameters] == [
        "float32",
        "int8",
        "bool",
        "float32",
        "float32",
        "int32",
    ]


def test_a_rescaled_output_may_be_named_twice():
    assert attention(rescaled=(2, 1, 2)).exp_reduced_operands == (1, 2)


REFUSED = {
    "no input": (lambda: rows(shapes=([], [(3,)])), "has no input; input0 are the scores"),
    "no output": (lambda: rows(shapes=([(3, 5)], [])), "has no output; output0 is the maximum"),
    "scores": (
        lambda: rows(dtype="i32"),
        "input0, the scores, has dtype int32; expected a float",
    ),
    "maximum": (
        lambda: rows(output_dtype="i32"),
        "output0, the maximum, has dtype int32; expected a float",
    ),
    "rescaled integer": (
        lambda: rows(shapes=([(3, 5)], [(3,), TensorType((3,), "i32")])),
        "output1 has dtype int32; what is rescaled must be a float",
    ),
    "maximum rescaled": (
        lambda: rows(exp_reduced_operands=[0]),
        "exp_reduced_operands has 0, which is the maximum; it is never rescaled",
    ),
    "index beyond": (
        lambda: rows(exp_reduced_operands=[2]),
        "exp_reduced_operands has 2; it must index the outputs, of which there are 2",
    ),
    "index below": (
        lambda: rows(exp_reduced_operands=[-1]),
        "exp_reduced_operands has -1; it must",
    ),
    "no index": (
        lambda: rows(exp_reduced_operands=["s"]),
        "exp_reduced_operands has 's'; expected indices of outputs",
    ),
    "number of maps": (
        lambda: rows(indexing_maps=["(m, k) -> (m, k)"]),
        "1 indexing maps; expected one for each of input0, output0, output1",
    ),
    "no projected permutation": (
        lambda: rows(indexing_maps=["(m, k) -> (m + k)", "(m, k) -> (m)", "(m, k) -> (m)"]),
        "results must be plain dims",
    ),
    "symbols": (
        lambda: rows(indexing_maps=["(m, k)[s0] -> (m, k)", "(m, k) -> (m)", "(m, k) -> (m)"]),
        r"expected the form \(d0, d1\) -> \(d1, d0\)",
    ),
    "collapsed": (
        lambda: rows(indexing_maps=[IndexingMap(2, ((0, 1),))] * 3),
        "the indexing map of input0 is no projected permutation",
    ),
    "rank": (
        lambda: rows(shapes=([(3, 5, 1)], [(3,), (3,)])),
        r"input0 \[3, 5, 1\] has rank 3; its indexing map has 2 results: rank mismatch",
    ),
    "scalar": (lambda: rows(shapes=([()], [(3,), (3,)])), r"input0 \[\] has rank 0"),
    "no tensor": (lambda: rows(shapes=([2.5], [(3,), (3,)])), "input0 is 2.5; expected a shape"),
    "extent": (
        lambda: rows(shapes=([(3, 5)], [(4,), (3,)])),
        r"output0 axis 0 \(d0\) has extent 4; expected 3 as in input0 axis 0",
    ),
    "unused dim": (
        lambda: rows(
            indexing_maps=["(m, k, n) -> (m, k)", *["(m, k, n) -> (m)"] * 2],
            iterator_types=["parallel", "reduction", "parallel"],
        ),
        "d2 appears in no indexing map of input0, output0, output1",
    ),
    "number of iterators": (
        lambda: rows(iterator_types=["parallel"]),
        "1 iterator types; expected one for each of 2 dims",
    ),
    "iterator": (
        lambda: rows(iterator_types=["parallel", "window"]),
        "iterator_type 'window': expected 'parallel' or 'reduction'",
    ),
    "domain": (lambda: rows(score_domain="e"), "score_domain is 'e'; expected 'natural' or 'log2'"),
    "dims of the maximum": (
        lambda: rows(iterator_types=["parallel", "parallel"]),
        r"output0, the maximum, uses {d0}; expected the parallel dims of input0, {d0, d1}",
    ),
    "reduction in an output": (
        lambda: attention(iterator_types=("parallel", "parallel", "reduction", "reduction")),
        "the indexing map of output2 has d2, a reduction dim",
    ),
    "rescaled without the rows": (
        lambda: rows(
            shapes=([(3, 5)], [(3,), ()]),
            indexing_maps=["(m, k) -> (m, k)", "(m, k) -> (m)", "(m, k) -> ()"],
        ),
        r"output1 uses {}; as it is rescaled with the maximum, it must have {d0}",
    ),
    "a sum over a parallel dim": (
        lambda: attention(region="arg2, arg0 * arg1 + arg3, arg4"),
        "yield 1 reads input1 along d2, a parallel dim that the indexing map of output1 lacks",
    ),
    "number of yields": (lambda: rows("arg1"), "region yields 1 values; expected 2"),
    "too many": (lambda: rows(["arg1"] * 3), "region yields 3 values; expected 2"),
    "maximum changed": (
        lambda: rows("arg1 + 1, arg2"),
        r"yield 0 is .*; expected arg1, the maximum unchanged",
    ),
    "another output": (
        lambda: rows("arg1, arg0 + arg1"),
        "yield 1 reads arg1, an element of output0; of the outputs it may read its own only, arg2",
    ),
    "yielded type": (
        lambda: rows("arg1, arg0 > arg2"),
        "region's yield 1 is bool; expected float32",
    ),
    "no expression": (
        lambda: rows(lambda p, m, s: (m, "p")),
        "region's yield 1 is 'p'; expected a TIR expression of float32",
    ),
    "arity": (lambda: rows(lambda p: p), "region takes 3 arguments"),
    "unknown name": (lambda: rows("arg1, arg7"), "'arg7' is unknown; arguments are arg0, arg1"),
    "syntax": (lambda: rows("arg1, +"), "region 'arg1, \\+': invalid syntax"),
    "no region": (lambda: rows(3), "region is 3; expected a text or a callable"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refuses(case):
    make, message = case
    with pytest.raises(OpError, match=message):
        make()
