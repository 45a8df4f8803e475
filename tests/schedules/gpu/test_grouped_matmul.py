import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError, ScheduleError
from tvm_iree_ext.catalog.grouped_matmul import GROUPED_MATMUL
from tvm_iree_ext.schedules.gpu.grouped_matmul_rule import GpuGroupedMatmul
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_function
from tvm_iree_ext.targets.names import make_target

RULE = GpuGroupedMatmul()
HALF = "float16"


def check(op, chip, offsets, **extents):
    """Lower by the rule, simulate, and compare with the reference, on exact products."""
    target, rng = make_target(chip), np.random.default_rng(0)
    operands = {
        name: rng.integers(-3, 4, [extents.get(e, e) for e in kind.shape]).astype(
            dtypes.numpy_dtype(kind.dtype)
        )
        for name, kind in op.types.items()
        if name != "result"
    }
    operands["offsets"] = np.array(offsets, op.offsets.dtype)
    module = RULE.lower(op, target, RULE.heuristic(op, target))
    want = GROUPED_MATMUL.reference(op, operands)["result"]
    result = np.full(want.shape, 77, dtypes.numpy_dtype(op.types["result"].dtype))
    for done in simulate_function(module[op.entry], target, {**operands, "result": result}):
        done.check()
    np.testing.assert_array_equal(result.astype("float64"), want)


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx942", "rocm:gfx1100"])
@pytest.mark.parametrize("transpose", [False, True])
def test_groups_of_any_size_and_rows_of_none(chip, transpose):
    rhs = (4, 20, 72) if transpose else (4, 72, 20)
    bias = ops.TensorType((4, 1, 20), "float32")
    op = ops.grouped_matmul(
        (50, 72), rhs, (4,), [bias],
        transpose_rhs=transpose, epilogue="arg0 * 0.5 + arg1", dtype=HALF, result_dtype="float32",
    )  # fmt: skip
    check(op, chip, [17, 17, 33, 44])


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx942"])
def test_rows_of_none_are_zeros_of_bfloat16(chip):
    op = ops.grouped_matmul((40, 32), (2, 32, 16), (2,), dtype="bfloat16")
    check(op, chip, [17, 21])


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx942"])
def test_offsets_of_any_size_reach_no_memory_beyond_the_rows(chip, dtype):
    op = ops.grouped_matmul((40, 16), (4, 16, 16), ops.TensorType((4,), dtype), dtype=HALF)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    for offsets in ([least, -1, 7, most], [least + 5, 13, 41, most - 5], [13, 13, most, most]):
        check(op, chip, offsets)


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx942"])
def test_extents_known_at_call_time(chip):
    op = ops.grouped_matmul(("m", "k"), ("g", "k", 16), ("g",), dtype=HALF)
    check(op, chip, [0, 5, 21], m=21, g=3, k=70)


def test_configs_that_share_k_are_refused():
    op, target = ops.grouped_matmul((8, 64), (2, 64, 8), (2,)), make_target("rocm:gfx942")
    config = RULE.heuristic(op, target)
    for field in ("splits", "workgroups"):
        with pytest.raises(ScheduleError, match=f"{field} is 3; expected"):
            RULE.lower(op, target, type(config)(**{**config.to_json(), field: 3}))


def test_operands_that_do_not_fit_are_refused():
    with pytest.raises(OpError, match="lhs has rank 1; expected 2"):
        ops.grouped_matmul((8,), (2, 8, 8), (2,))
    with pytest.raises(OpError, match=r"offsets has shape \[3\]; expected one for each of the 2"):
        ops.grouped_matmul((8, 8), (2, 8, 8), (3,))
