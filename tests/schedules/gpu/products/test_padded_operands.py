"""Operands that are first copied to rows of whole accesses."""

import numpy as np
import pytest

from tests.support.warpgroup_products import KIND, multiplied, shape_of
from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.catalog.contraction import CONTRACTION
from tvm_iree_ext.schedules.gpu.contraction.contraction_rule import GpuContraction
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.schedules.gpu.products.padded_operands import sides_to_pad
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_function
from tvm_iree_ext.targets.names import make_target

RULE = GpuContraction()
CHIPS = ["cuda:sm_80", "cuda:sm_90a", "rocm:gfx90a", "rocm:gfx942", "rocm:gfx1100", "rocm:gfx1201"]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("kind", "k"),
    [(KIND, 133), (KIND, 134), (KIND, 132), ("NV_WGMMA_F32_64x64x32_F8E4M3FN", 131),
     ("NV_WGMMA_I32_64x64x32_I8", 139), ("NV_WGMMA_F32_64x128x16_BF16", 101)],
)  # fmt: skip
def test_rows_along_k_for_tensor_maps(kind, k):
    done = multiplied(shape_of(kind, 130, 70, k), kind, pad=SIDES, stages=2)
    assert done.counts["tensor map copy"]


@pytest.mark.costly
@pytest.mark.parametrize("lhs_order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("rhs_order", [(0, 1), (1, 0)])
def test_rows_in_any_order(lhs_order, rhs_order):
    multiplied(shape_of(KIND, 71, 91, 133, lhs_order, rhs_order), KIND, pad=SIDES, stages=2)


@pytest.mark.costly
@pytest.mark.parametrize("kind", ["NV_WGMMA_F32_64x64x32_F8E4M3FN", "NV_WGMMA_I32_64x64x32_I8"])
@pytest.mark.parametrize(("n", "k"), [(70, 139), (92, 144)])
@pytest.mark.parametrize("lhs_order", [(0, 1), (1, 0)])
def test_operands_of_8_bits_are_turned(kind, n, k, lhs_order):
    multiplied(shape_of(kind, 66, n, k, lhs_order, (0, 1)), kind, pad=SIDES, stages=2)


@pytest.mark.parametrize("side", SIDES)
def test_one_operand_alone(side):
    orders = {"lhs": ((0, 1), (0, 1)), "rhs": ((1, 0), (1, 0))}[side]
    multiplied(shape_of(KIND, 72, 88, 133, *orders), KIND, pad=(side,), stages=2)


def padded(op, chip, rows=71, **numbers):
    """Simulate an op by its heuristic's config, operands padded; the simulations."""
    target, random = make_target(chip), np.random.default_rng(0)
    operands = {
        name: random.integers(-3, 4, [rows if e == "rows" else e for e in kind.shape]).astype(
            dtypes.numpy_dtype(kind.dtype)
        )
        for name, kind in op.types.items()
        if name != "result"
    }
    config = RULE.heuristic(op, target)
    for name, value in {"pad": SIDES, **numbers}.items():
        config = config.with_value(name, value)
    want = CONTRACTION.reference(op, operands)["result"]
    result = np.zeros(want.shape, dtypes.numpy_dtype(op.types["result"].dtype))
    module = RULE.lower(op, target, config)
    done = simulate_function(module[op.entry], target, {**operands, "result": result})
    np.testing.assert_array_equal(result.astype("float64"), want.astype("float64"))
    for one in done:
        one.check()
    return done


@pytest.mark.costly
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("transposed", [False, True])
def test_matrix_instructions_of_every_chip(chip, transposed):
    rhs = (2, 51, 45) if transposed else (2, 45, 51)
    op = ops.matmul((2, 37, 45), rhs, dtype="float16", transpose_rhs=transposed, epilogue="arg0*2")
    assert len(padded(op, chip)) == 3  # two copies, and the product


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx942"])
@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float32", "float64"])
def test_other_types(chip, dtype):
    padded(ops.matmul((37, 45), (51, 45), dtype=dtype, transpose_rhs=True), chip)


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx1100"])
@pytest.mark.parametrize("numbers", [{"splits": 2}, {"workgroups": 3}, {"pad": ("rhs",)}], ids=str)
def test_parts_and_shares_of_k(chip, numbers):
    padded(ops.matmul((37, 205), (51, 205), dtype="float16", transpose_rhs=True), chip, **numbers)


@pytest.mark.costly
@pytest.mark.parametrize(  # for n = 51 TVM takes 25 s on CUDA, where workgroups share out tiles
    ("chip", "rows", "k", "n"),
    [("cuda:sm_80", 71, 52, 56), ("rocm:gfx942", 0, 45, 51), ("rocm:gfx942", 71, 45, 51)],
)
def test_open_rows(chip, rows, k, n):
    padded(ops.matmul(("rows", k), (k, n), dtype="float16"), chip, rows)


@pytest.mark.parametrize(
    ("m", "n", "k", "pad"),
    [
        (4095, 4097, 4093, SIDES),
        (4096, 4096, 4096, ()),
        (16, 4096, 4093, ()),  # each row of rhs is read once
        (128, 128, 129, ()),  # the copies would take longer
        (None, 4096, 4093, SIDES),
    ],
)
@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx942"])
def test_copies_that_pay(m, n, k, pad, chip):
    shape = MatmulShape(m, n, k, "float16", "float16", "float32", rhs_order=(1, 0))
    assert sides_to_pad(shape, make_target(chip), together=False) == pad


def test_an_operand_whose_rows_are_whole_accesses_stays():
    shape = MatmulShape(4096, 4096, 4093, "float16", "float16", "float32")
    assert sides_to_pad(shape, make_target("cuda:sm_90a"), together=True) == ("lhs",)
    assert shape.padded(("lhs",)).pitches == {"lhs": 4096}
    assert MatmulShape(64, 64, 33, "float16", "float16", "float32").padded(SIDES[:1]).pitches == {
        "lhs": 40
    }


def test_a_length_that_is_not_known_cannot_be_padded():
    shape = MatmulShape(4096, 4096, None, "float16", "float16", "float32", rhs_order=(1, 0))
    assert sides_to_pad(shape, make_target("cuda:sm_80"), together=False) == ()
