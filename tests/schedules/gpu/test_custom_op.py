"""``custom_op`` on GPUs: tiles in shared memory, or kernels with memory between them."""

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.custom_op import custom_op_tiles
from tvm_iree_ext.schedules.gpu.custom_op_rule import GpuCustomOp
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import kernel_checks

TARGETS = ("cuda:sm_80", "rocm:gfx942", "rocm:gfx1100")
KERNELS = LoweringConfig(algorithm="kernels", subgroups={"workgroup": 2})


def two_products(lhs, rhs, rhs2, out, out2):
    first = custom_op_tiles.store(lhs @ rhs + out)
    return first, first @ rhs2 + out2


def products(rows, middle):
    maps = ("(d0, s0)", "(s0, s1)", "(s1, d1)", "(d0, s1)", "(d0, d1)")
    return ops.custom_op(
        [(rows, 8), (8, middle), (middle, 20)],
        [(rows, middle), (rows, 20)],
        indexing_maps=[f"(d0, d1)[s0, s1] -> {one}" for one in maps],
        iterator_types=["parallel", "parallel"],
        region=two_products,
        dtype="int32",
    )


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
def test_random_nests_agree_with_the_reference(target):
    names = ["iree_linalg_ext.custom_op"]
    report = kernel_checks.check_random(names, target, count=2, seed=2, simulate=True)
    assert [result for result in report.results if result.status != "passed"] == []


@pytest.mark.parametrize(
    ("rows", "middle", "algorithm", "launches"),
    [(37, 12, "tiles", 1), ("n", 12, "tiles", 1), ("n", "m", "kernels", 5)],
)
def test_tiles_are_in_shared_memory_where_their_extents_are_known(
    rows, middle, algorithm, launches
):
    op, target, rng = products(rows, middle), "rocm:gfx942", np.random.default_rng(0)
    assert GpuCustomOp().heuristic(op, make_target(target)).algorithm == algorithm
    x, y, z, a, b = (
        rng.integers(-3, 4, shape).astype("int32")
        for shape in ((37, 8), (8, 12), (12, 20), (37, 12), (37, 20))
    )
    names = [operand.name for operand in op.signature.arguments]
    done = simulate_op(op, target, dict(zip(names, (x, y, z, a, b), strict=True))).check()
    assert len(done.simulations) == launches
    np.testing.assert_array_equal(done.results["result0"], x @ y + a)
    np.testing.assert_array_equal(done.results["result1"], (x @ y + a) @ z + b)


def test_reduction_tiles_run_in_order_on_what_the_one_before_yielded():
    op = ops.custom_op(
        [(5, 70)],
        [(5,)],
        indexing_maps=["(d0, d1) -> (d0, d1)", "(d0, d1) -> (d0)"],
        iterator_types=["parallel", "reduction"],
        region=lambda x, out: custom_op_tiles.reduce(x, 1, lambda a, b: a + b, 0) + out,
    )
    x, out = np.arange(350, dtype="float32").reshape(5, 70), np.ones(5, "float32")
    config = LoweringConfig(
        algorithm="tiles",
        workgroup_tile={"d0": 2},
        reduction_tile={"d1": 32},
        subgroups={"workgroup": 1},
    )
    for one in (config, KERNELS):
        done = simulate_op(op, "cuda:sm_80", {"input0": x, "init0": out}, one).check()
        np.testing.assert_array_equal(done.results["result0"], x.sum(1) + 1)


def test_tiles_that_have_no_room_are_refused():
    op, target = products(4096, 4096), make_target("cuda:sm_80")
    config = LoweringConfig(
        algorithm="tiles", workgroup_tile={"d0": 32}, subgroups={"workgroup": 4}
    )
    with pytest.raises(ScheduleError, match=r"gpu\.custom_op: tiles of 524288 bytes in all"):
        GpuCustomOp().lower(op, target, config)
    assert GpuCustomOp().heuristic(op, target).algorithm == "kernels"
