"""What contraction and matmul accept and refuse, and their canonical TensorIR."""

import numpy as np
import pytest
import tvm
from tvm import tirx

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.layout import NestedLayout
from tvm_iree_ext.ops.base.maps import IndexingMap

MATMUL = ("(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)")


@pytest.mark.parametrize(
    ("lhs", "rhs", "attributes"),
    [
        ((3, 4), (4, 5), {}),
        ((4, 3), (4, 5), {"transpose_lhs": True}),
        ((3, 4), (5, 4), {"transpose_rhs": True}),
        ((4,), (4, 5), {}),
        ((3, 4), (4,), {}),
        ((4,), (4,), {}),
        ((2, 3, 4), (4, 5), {}),
        ((4,), (2, 4, 5), {}),
        ((2, 1, 3, 4), (7, 4, 5), {}),
        ((1, 7, 3, 4), (2, 1, 4, 5), {}),
        ((1, 3, 4), (1, 4, 5), {}),
    ],
)
def test_matmul_has_the_shape_and_value_of_numpys(lhs, rhs, attributes):
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape) for shape in (lhs, rhs)]
    op = ops.matmul(*values, **attributes)
    x, y = values
    want = np.matmul(
        x.T if "transpose_lhs" in attributes else x, y.T if "transpose_rhs" in attributes else y
    )
    assert op.signature.results[0].shape == want.shape
    got = registry.find(op.name).reference(op, dict(zip(("lhs", "rhs"), values, strict=True)))
    np.testing.assert_allclose(got["result"], want, atol=1e-12)


@pytest.mark.parametrize(
    ("lhs", "rhs", "result"),
    [
        (("m", 4), (4, "n"), ("m", "n")),
        (("b", "m", "k"), (1, "k", 5), ("b", "m", 5)),
        ((1, 3, 4), ("b", 4, 5), ("b", 3, 5)),
        (("b", 3, 4), (7, 4, 5), (7, 3, 5)),
        (("?", 3, "?"), (4, 5), ("d0", 3, 5)),
    ],
)
def test_extents_may_be_names(lhs, rhs, result):
    assert ops.matmul(lhs, rhs).signature.results[0].shape == result


@pytest.mark.parametrize(
    ("dtypes", "result", "sums", "stored"),
    [
        (("f32", "f32"), None, "float32", "float32"),
        (("f16", "f16"), None, "float32", "float16"),
        (("f16", "bf16"), None, "float32", "float32"),
        (("f16", "f64"), None, "float64", "float64"),
        (("f16", "f16"), "f64", "float64", "float64"),
        (("f32", "f32"), "bf16", "float32", "bfloat16"),
        (("i8", "i8"), None, "int32", "int32"),
        (("i8", "i8"), "i8", "int32", "int8"),
        (("i8", "i8"), "f32", "int32", "float32"),
        (("i4", "ui4"), None, "int32", "int32"),
        (("i8", "i4"), "f16", "int32", "float16"),
        (("f16", "ui4"), None, "float32", "float32"),
        (("f16", "i8"), None, "float32", "float32"),
        (("i8", "f64"), "f16", "float64", "float16"),
        (("f8E4M3FN", "f8E4M3FN"), None, "float32", "float32"),
        (("f8E5M2", "f16"), "bf16", "float32", "bfloat16"),
    ],
)
def test_dtypes(dtypes, result, sums, stored):
    kinds = [ops.TensorType((2, 2), dtype) for dtype in dtypes]
    op = ops.matmul(*kinds, result_dtype=result)
    assert (op.accumulator_dtype, op.signature.results[0].dtype) == (sums, stored)


def test_describes_itself():
    op = ops.matmul((2, 3), (3, 4), [(4,)], epilogue="arg0 + arg1", init=(2, 4))
    assert str(op) == (
        "tvm_iree_ext.contraction(lhs: float32[2, 3], rhs: float32[3, 4], init: float32[2, 4],"
        " operand0: float32[4]) -> (result: float32[2, 4])"
    )
    assert op.attributes == {
        "indexing_maps": {
            "lhs": "(d0, d1, d2) -> (d0, d2)",
            "rhs": "(d0, d1, d2) -> (d2, d1)",
            "init": "(d0, d1, d2) -> (d0, d1)",
            "operand0": "(d0, d1, d2) -> (d1)",
            "result": "(d0, d1, d2) -> (d0, d1)",
        },
        "extents": [2, 4, 3],
        "epilogue": "arg0 + arg1",
    }
    assert ops.matmul(("m", 3), (3, 4)).flops({"m": 5}) == 2 * 5 * 3 * 4
    assert op.bytes() == 4 * (6 + 12 + 8 + 4 + 8)


GROUPS = [
    "(m, n, g, i) -> (m, g, i)",
    "(m, n, g, i) -> (g, i, n)",
    "(m, n, g, i) -> (g, n)",
    "(m, n, g, i) -> (m, n)",
]


def in_groups(lhs="f16", rhs="ui8", maps=GROUPS, **attributes):
    return ops.contraction(
        ops.TensorType((2, 3, 4), lhs),
        ops.TensorType((3, 4, 5), rhs),
        indexing_maps=maps,
        prologue_operands=[ops.TensorType((3, 5), "f16")],
        **attributes,
    )


def test_a_prologue_makes_factors_of_rhs_and_what_is_beside_it():
    seen = []

    def region(*arguments):
        seen.extend(str(one.ty.dtype) for one in arguments)
        return arguments[0] * arguments[1]

    op = in_groups(prologue=region, init=(2, 5))
    assert seen == ["float32", "float32"]
    assert str(op) == (
        "tvm_iree_ext.contraction(lhs: float16[2, 3, 4], rhs: uint8[3, 4, 5],"
        " prologue0: float16[3, 5], init: float32[2, 5]) -> (result: float16[2, 5])"
    )
    assert op.attributes["prologue"] == in_groups(prologue="mul").attributes["prologue"]


def test_an_epilogue_sees_numbers_in_the_type_of_sums():
    kinds = [ops.TensorType((2, 2), one) for one in ("i8", "f16", "i8", "bool")]
    seen = []

    def region(*arguments):
        seen.extend(str(one.ty.dtype) for one in arguments)
        return tirx.Cast("float32", arguments[0])

    ops.matmul(kinds[0], kinds[0], kinds[1:], epilogue=region, result_dtype="f16")
    assert seen == ["int32", "float32", "int32", "bool"]


def tile(*shape):
    """A layout of a shape, whose last dim is a lane each."""
    ones = (1,) * len(shape)
    lanes = (*ones[1:], shape[-1])
    return NestedLayout(ones, ones, ones, lanes, (*shape[:-1], 1), ones, ones)


def test_layouts_are_over_dims_however_operands_lie():
    plain = ops.matmul((4, 8), (8, 2), layouts={"lhs": tile(4, 8), "acc": tile(4, 2)})
    turned = ops.matmul(
        (4, 8), (2, 8), transpose_rhs=True, layouts={"rhs": tile(2, 8), "acc": tile(4, 2)}
    )
    assert plain.layouts.given["lhs"] == tile(4, 8)
    assert turned.layouts.given["rhs"] == tile(2, 8)  # d1, d2
    assert turned.layouts.along("rhs", turned.maps) == tile(2, 8)
    assert plain.layouts.along("rhs", plain.maps) is None
    assert plain.attributes["layouts"]["acc"] == str(tile(4, 2))
    assert plain != ops.matmul((4, 8), (8, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.matmul((), (2,)), "lhs is a scalar; expected a vector, a matrix or more"),
        (lambda: ops.matmul((2, 3), (4, 5)), "rhs axis 0 (d2) has extent 4; expected 3"),
        (
            lambda: ops.matmul((2, 3, 4), (5, 4, 3)),
            "rhs axis 0 has extent 5; expected 2 as in lhs, or 1",
        ),
        (
            lambda: ops.matmul((2, 3), (3, 4), [(1, 2, 4)], epilogue="arg0 + arg1"),
            "operand0 has rank 3; expected at most 2 as the result has",
        ),
        (
            lambda: ops.matmul((2, 3), (3, 4), [(5,)], epilogue="arg0 + arg1"),
            "operand0 axis 0 (d1) has extent 5; expected 4",
        ),
        (
            lambda: ops.matmul((2, 3), (3, 4), [(4,)]),
            "has 1 operands for an epilogue, and no epilogue",
        ),
        (lambda: ops.matmul((2, 3), (3, 4), dtype="i32"), "lhs has dtype int32; supported are"),
        (
            lambda: ops.matmul((2, 3), (3, 4), result_dtype="i32"),
            "result has dtype int32; supported are float16",
        ),
        (
            lambda: ops.matmul((2, 3), (3, 4), init=ops.TensorType((2, 4), "i32")),
            "init has dtype int32; supported are float16",
        ),
        (
            lambda: ops.matmul((2, 3), (3, 4), init=(2, 5)),
            "init axis 1 (d1) has extent 5; expected 4",
        ),
        (
            lambda: ops.matmul((2, 3), (3, 4), epilogue=lambda total: total > 0),
            "region yields bool; expected float32",
        ),
        (
            lambda: ops.contraction((2, 3), (3, 4), indexing_maps=MATMUL[:2]),
            "2 indexing maps; expected one for each of lhs, rhs, result",
        ),
        (
            lambda: ops.contraction(
                (2, 3), (3, 4), indexing_maps=(*MATMUL[:2], "(m, n, k) -> (n)")
            ),
            "d0 is in the indexing map of lhs alone; expected two or all of lhs, rhs and result",
        ),
        (
            lambda: ops.contraction(
                (2,), (2,), indexing_maps=("(i, j) -> (i)", "(i, j) -> (i)", "(i, j) -> (i)")
            ),
            "d1 is in the indexing map of none; expected two or all",
        ),
        (
            lambda: ops.contraction(
                (2, 3),
                (3, 4),
                [(3,)],
                indexing_maps=(*MATMUL[:2], "(m, n, k) -> (k)", MATMUL[2]),
                epilogue="arg0 + arg1",
            ),
            "the indexing map of operand0 has d2, which is reduced",
        ),
        (
            lambda: in_groups(maps=[*GROUPS[:2], "(m, n, g, i) -> (m, n)", GROUPS[3]]),
            "has 1 operands for a prologue, and no prologue",
        ),
        (
            lambda: in_groups(
                maps=[*GROUPS[:2], "(m, n, g, i) -> (g, m)", GROUPS[3]], prologue="mul"
            ),
            "the indexing map of prologue0 has d0, which that of rhs has not",
        ),
        (
            lambda: in_groups(prologue="2 * arg1"),
            "has no arg0, the element of rhs",
        ),
        (
            lambda: in_groups(lhs="i8", rhs="i8", prologue="mul"),
            "lhs has dtype int8; supported are float16",
        ),
        (
            lambda: ops.matmul((2, 3), ops.TensorType((3, 4), "ui8")),
            "rhs has dtype uint8; supported",
        ),
        (
            lambda: ops.contraction(
                (6,),
                (6,),
                indexing_maps=[IndexingMap(2, ((0, 1),))] * 2 + [IndexingMap(2, ())],
            ),
            "the indexing map of lhs is no projected permutation",
        ),
        (
            lambda: ops.contraction(
                (2,),
                (2,),
                indexing_maps=[IndexingMap(1, ((0,),))] * 2 + [IndexingMap(1, ((),))],
            ),
            "the indexing map of result has an axis without a dim",
        ),
        (
            lambda: ops.matmul((4, 8), (8, 4), layouts={"lhs": tile(4, 8), "out": tile(4, 4)}),
            "layouts has 'out'; expected some of lhs, rhs, acc",
        ),
        (
            lambda: ops.matmul((4, 8), (8, 4), layouts={"lhs": tile(4, 8)}),
            "layouts has lhs; expected two or all of lhs, rhs, acc",
        ),
        (
            lambda: ops.matmul((4, 8), (8, 4), layouts={"lhs": tile(4), "rhs": tile(8, 4)}),
            "the layout of lhs has rank 1; expected 2 as lhs has",
        ),
        (
            lambda: ops.matmul((4, 8), (8, 4), layouts={"lhs": tile(4, 8), "rhs": tile(16, 4)}),
            "the layout of rhs has a tile of 16 along d2; expected 8 as that of lhs has",
        ),
        (
            lambda: ops.matmul((4, 8), (8, 4), mma_kind="MFMA_F32_16x16x16_F16"),
            "mma_kind is 'MFMA_F32_16x16x16_F16', and there are no layouts",
        ),
    ],
)
def test_refuses(call, message):
    with pytest.raises(OpError) as caught:
        call()
    assert message in str(caught.value)
    assert str(caught.value).startswith("tvm_iree_ext.contraction: ")


def test_the_canonical_function_can_be_scheduled():
    op = ops.matmul((32, 16), (16, 48), [(48,)], epilogue="max(arg0 + arg1, 0)", init=(32, 48))
    sch = tvm.s_tir.Schedule(op.prim_func())
    sums, result = sch.get_sblock("sums"), sch.get_sblock("result")
    i, j = sch.get_loops(result)
    outer, _ = sch.split(i, [None, 8])
    sch.bind(outer, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.compute_at(sums, j)
    sch.decompose_reduction(sums, sch.get_loops(sums)[-1])
