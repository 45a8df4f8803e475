"""Products of bfloat16 and int8 by the instructions that multiply tiles (AMX)."""

from dataclasses import replace

import numpy as np
import pytest

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.runtime.machine import cpu_flags
from tvm_iree_ext.schedules.cpu.contraction.contraction_rule import CpuContraction
from tvm_iree_ext.targets.names import make_target

RULE = CpuContraction()
RNG = np.random.default_rng(23)
DTYPES = ("bfloat16", "int8")
FEATURES = ["+amx-tile", "+amx-bf16", "+amx-int8"]
TILES = make_target({"kind": "llvm", "mcpu": "cooperlake", "mattr": FEATURES, "num-cores": 2})
SUMS = {"bfloat16": "float32", "int8": "int32"}

runs = pytest.mark.skipif(
    not {"avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8"} <= cpu_flags(),
    reason="this CPU has no AMX for bfloat16 and int8, or the system withholds it",
)


def numbers(shape, dtype):
    """Any int8; of bfloat16 small integers, whose sums are exact."""
    low, high = (-128, 127) if dtype == "int8" else (-4, 4)
    return RNG.integers(low, high, shape, endpoint=True).astype(numpy_dtype(dtype))


def check(op, *arguments, kernel=None, **changes):
    """Run a kernel of this form; exactly right."""
    operands = dict(zip((o.name for o in op.signature.arguments), arguments, strict=True))
    want = registry.find(op.name).reference(op, operands)["result"]
    kernel = kernel or build(op, TILES, config=replace(RULE.heuristic(op, TILES), **changes))
    assert kernel.config.algorithm == "tiles"
    np.testing.assert_array_equal(kernel(*arguments).astype(want.dtype), want)


# A tile of rows, of columns and of words of depth, and one more; several blocks of depth.
@pytest.mark.costly
@runs
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ends", [(False, False), (True, True)])
def test_products_of_any_shape(dtype, ends):
    transpose_lhs, transpose_rhs = ends
    for m, n, k in ((33, 17, 65), (48, 64, 1100)):
        lhs = numbers((k, m) if transpose_lhs else (m, k), dtype)
        rhs = numbers((n, k) if transpose_rhs else (k, n), dtype)
        op = ops.matmul(
            lhs,
            rhs,
            transpose_lhs=transpose_lhs,
            transpose_rhs=transpose_rhs,
            result_dtype=SUMS[dtype],
        )
        check(op, lhs, rhs)


@runs
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_kernel_serves_every_extent(dtype):
    op = ops.matmul(("m", "k"), ("k", "n"), dtype=dtype, result_dtype=SUMS[dtype])
    kernel = build(op, TILES)
    for m, n, k in ((1, 1, 1), (17, 70, 3), (70, 33, 1030)):
        check(op, numbers((m, k), dtype), numbers((k, n), dtype), kernel=kernel)


@runs
@pytest.mark.parametrize(
    "changes",
    [
        {"register_tile": {"rows": 16, "vectors": 3}, "reduction_tile": {"k": 20}},
        {"register_tile": {"rows": 48, "vectors": 1}, "workgroup_tile": {"m": 48, "n": 32}},
    ],
)
def test_other_configs_compute_the_same(changes):
    lhs, rhs = numbers((100, 90), "int8"), numbers((90, 75), "int8")
    op = ops.matmul(lhs, rhs, result_dtype="int32")
    check(op, lhs, rhs, parallel=False, **changes)


@runs
def test_special_numbers_stay_in_their_row():
    lhs, rhs = numbers((40, 33), "bfloat16"), np.abs(numbers((33, 20), "bfloat16")) + 1
    rhs = rhs.astype(lhs.dtype)
    lhs[3, 7], lhs[5, 0], lhs[6, 32] = np.nan, np.inf, -np.inf
    got = build(ops.matmul(lhs, rhs), TILES)(lhs, rhs).astype(np.float32)
    assert np.isnan(got[3]).all()
    assert (got[5] == np.inf).all()
    assert (got[6] == -np.inf).all()
    assert np.isfinite(np.delete(got, (3, 5, 6), 0)).all()


@runs
def test_groups_of_rows():
    lhs, rhs = numbers((150, 40), "bfloat16"), numbers((3, 40, 50), "bfloat16")
    offsets = np.array([70, 70, 150])
    op = ops.grouped_matmul(lhs, rhs, offsets, result_dtype="float32")
    kernel = build(op, TILES)
    check(op, lhs, rhs, offsets, kernel=kernel)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vector_lanes": 8}, "vector_lanes is 8; expected a power of two from 16 up to 16"),
        (
            {"register_tile": {"rows": 8, "vectors": 2}},
            r"register_tile\['rows'\] is 8; expected a multiple of 16",
        ),
        (
            {"register_tile": {"rows": 48, "vectors": 2}},
            "3 by 2 tiles do not fit 8 registers of tiles",
        ),
        ({"promote": ("rhs",)}, "promote is .*; expected lhs among them"),
    ],
)
def test_configs_that_do_not_fit(changes, message):
    op = ops.matmul((40, 30), (30, 50), dtype="int8")
    with pytest.raises(ScheduleError, match=f"cpu.contraction: {message}"):
        RULE.lower(op, TILES, replace(RULE.heuristic(op, TILES), **changes))


def test_a_tuner_stays_with_tiles_that_fit():
    op = ops.matmul((256, 256), (256, 256), dtype="bfloat16")
    space = RULE.space(op, TILES)
    assert [form.base.algorithm for form in space.forms] == ["tiles"]
