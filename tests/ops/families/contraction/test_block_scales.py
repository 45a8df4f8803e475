"""Products of elements in blocks with a scale each: what is taken and refused, and what comes."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops, reference, verify
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops.families.contraction.factors import SCALED

T = ops.TensorType
FORMS = list(reference.block_scaled.FORMATS)
BLOCKS = [
    "(m, n, b, i) -> (m, b, i)",
    "(m, n, b, i) -> (b, i, n)",
    "(m, n, b, i) -> (m, b)",
    "(m, n, b, i) -> (b, n)",
    "(m, n, b, i) -> (m, n)",
]


def quantized(rng, shape, form):
    return reference.block_scaled.quantized(rng.standard_normal(shape), form)[:2]


def checked(op, operands, target="llvm"):
    result = verify.check_op(op, operands, target, simulate=target != "llvm")
    assert result.status == "passed", result.message


def test_scales_are_operands_behind_lhs_and_rhs():
    op = ops.matmul(
        T((5, 4, 32), "f4E2M1FN"),
        T((4, 32, 7), "f8E4M3FN"),
        [(7,)],
        lhs_scales=(5, 4),
        rhs_scales=T((4, 7), "f8E8M0FNU"),
        epilogue="arg0 + arg1",
    )
    assert str(op) == (
        "tvm_iree_ext.contraction(lhs: float4_e2m1fn[5, 4, 32], rhs: float8_e4m3fn[4, 32, 7],"
        " lhs_scales: float8_e8m0fnu[5, 4], rhs_scales: float8_e8m0fnu[4, 7],"
        " operand0: float32[7]) -> (result: float32[5, 7])"
    )
    assert [str(one) for one in op.maps.values()][2:4] == [
        "(d0, d1, d2, d3) -> (d0, d2)",
        "(d0, d1, d2, d3) -> (d2, d1)",
    ]
    assert op.accumulator_dtype == op.in_words.accumulator_dtype == "float32"
    same = ops.contraction(
        op.types["lhs"], op.types["rhs"], indexing_maps=BLOCKS, lhs_scales=(5, 4), rhs_scales=(4, 7)
    )
    assert same.flops() == op.flops() == 2 * 5 * 7 * 128


@pytest.mark.parametrize("form", FORMS)
def test_is_the_product_of_what_the_format_says(form):
    rng = np.random.default_rng(3)
    (a, a_scales), (b, b_scales) = (quantized(rng, shape, form) for shape in ((5, 96), (7, 96)))
    op = ops.matmul(a, b, lhs_scales=a_scales, rhs_scales=b_scales, transpose_rhs=True)
    result = ext.build(op)(a, b, a_scales, b_scales)
    x, y = (
        reference.block_scaled.dequantized(a, a_scales),
        reference.block_scaled.dequantized(b, b_scales),
    )
    np.testing.assert_allclose(result, x @ y.T, rtol=1e-5, atol=1e-5 * np.max(np.abs(x @ y.T)))


@pytest.mark.parametrize("dtypes", list(itertools.product(SCALED[::2], SCALED[1::2])))
def test_any_two_types_and_one_scaled_alone(dtypes):
    rng = np.random.default_rng(4)
    x, y = (
        reference.block_scaled.encoded(rng.standard_normal(shape), kind)
        for shape, kind in zip(((3, 2, 4, 16), (2, 4, 16, 5)), dtypes, strict=True)
    )
    scales = rng.integers(120, 134, (3, 2, 4), np.uint8).view(ml_dtypes.float8_e8m0fnu)
    maps = [
        "(g, m, n, b, i) -> (m, g, b, i)",
        "(g, m, n, b, i) -> (g, b, i, n)",
        "(g, m, n, b, i) -> (m, g, b)",
        "(g, m, n, b, i) -> (g, m, n)",
    ]
    op = ops.contraction(x, y, indexing_maps=maps, lhs_scales=scales)
    checked(op, {"lhs": x, "rhs": y, "lhs_scales": scales})


@pytest.mark.parametrize("rows", [1, 8, 40])
@pytest.mark.parametrize("block", [16, 6])
def test_a_scaled_weight_in_runs_of_vectors_and_not(rows, block):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((rows, 10, block)).astype(np.float32)
    w = reference.block_scaled.encoded(rng.standard_normal((33, 10, block)), "float4_e2m1fn")
    scales = rng.uniform(0.5, 4, (33, 10)).astype(ml_dtypes.float8_e4m3fn)
    op = ops.matmul(x, w, rhs_scales=scales, transpose_rhs=True)
    checked(op, {"lhs": x, "rhs": w, "rhs_scales": scales})


def test_a_scale_that_is_nan_makes_its_rows_nan():
    x = np.ones((3, 2, 32), ml_dtypes.float4_e2m1fn)
    scales = np.full((3, 2), 127, np.uint8)
    scales[1, 1] = 255
    scales = scales.view(ml_dtypes.float8_e8m0fnu)
    y = np.ones((2, 32, 4), np.float32)
    for target in ("llvm", "rocm:gfx942"):
        op = ops.matmul(x, y, lhs_scales=scales)
        checked(op, {"lhs": x, "rhs": y, "lhs_scales": scales}, target)
    result = ext.build(op)(x, y, scales)
    assert np.isnan(result[1]).all()
    assert (result[[0, 2]] == 64).all()


def test_the_least_and_the_largest_scale():
    x = np.full((2, 1, 32), 1.5, ml_dtypes.float8_e4m3fn)
    scales = np.array([[0], [254]], np.uint8).view(ml_dtypes.float8_e8m0fnu)
    y = np.zeros((1, 32, 1), np.float32)
    y[0, 0] = 0.5
    result = ext.build(ops.matmul(x, y, lhs_scales=scales))(x, y, scales)
    assert result.ravel().tolist() == [1.5 * 2.0**-128, 1.5 * 2.0**126]


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
@pytest.mark.parametrize("form", ["mxfp8_e5m2", "nvfp4"])
def test_gpus_multiply_numbers_made_on_the_way(form, target):
    rng = np.random.default_rng(6)
    (a, a_scales), (b, b_scales) = (quantized(rng, shape, form) for shape in ((17, 64), (20, 64)))
    op = ops.matmul(a, b, lhs_scales=a_scales, rhs_scales=b_scales, transpose_rhs=True)
    operands = {"lhs": a, "rhs": b, "lhs_scales": a_scales, "rhs_scales": b_scales}
    checked(op, operands, target)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ops.matmul(T((5, 4, 32), "f32"), (4, 32, 7), lhs_scales=(5, 4)),
            "lhs has dtype float32, and lhs_scales; scaled are float8_e4m3fn, float8_e5m2,"
            " float6_e2m3fn, float6_e3m2fn, float4_e2m1fn",
        ),
        (
            lambda: ops.matmul(T((5, 4, 32), "f4E2M1FN"), (4, 32, 7), lhs_scales=T((5, 4), "f32")),
            "lhs_scales has dtype float32; supported are float8_e8m0fnu, float8_e4m3fn",
        ),
        (
            lambda: ops.matmul(T((5, 128), "f4E2M1FN"), (4, 32, 7), lhs_scales=(5, 4)),
            "lhs_scales has rank 2; expected 1, one less than lhs",
        ),
        (
            lambda: ops.matmul(T((5, 4, 32), "f4E2M1FN"), (4, 32, 7), lhs_scales=(5, 3)),
            "lhs_scales axis 1 (d2) has extent 3; expected 4 as in lhs axis 1 (d2)",
        ),
        (
            lambda: ops.matmul(T((5, 4, 24), "f4E2M1FN"), (4, 32, 7), lhs_scales=(5, 4)),
            "rhs axis 1 (d3) has extent 32; expected 24 as in lhs axis 2 (d3)",
        ),
        (
            lambda: ops.matmul(T((5,), "f4E2M1FN"), (4, 32, 7), lhs_scales=(4,)),
            "lhs has rank 1; expected blocks of k and places in them at least",
        ),
        (
            lambda: ops.contraction(
                T((5, 4, 32), "f4E2M1FN"),
                (4, 32, 7),
                indexing_maps=[*BLOCKS[:2], BLOCKS[3], BLOCKS[4]],
                lhs_scales=(4, 7),
            ),
            "the indexing map of lhs_scales has d1, which that of lhs has not",
        ),
        (
            lambda: ops.contraction(
                T((5, 4, 32), "f32"),
                T((4, 32, 7), "f4E2M1FN"),
                indexing_maps=BLOCKS[:4],
                rhs_scales=(4, 7),
                prologue="arg0",
            ),
            "has a prologue, and scales; expected one of these",
        ),
    ],
)
def test_refuses(call, message):
    with pytest.raises(OpError) as caught:
        call()
    assert str(caught.value) == f"tvm_iree_ext.contraction: {message}"
