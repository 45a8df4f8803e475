"""Pairs of workgroups in the simulator: what a kernel may not forget."""

import numpy as np
import pytest
from tvm import tirx
from tvm.script import tirx as T

from tests.support.changed_calls import argument, changed, without
from tests.support.warpgroup_products import BLACKWELL, shape_of
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.schedules.gpu.products.warpgroup_kernel import warpgroup_matmul
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import WarpgroupConfig
from tvm_iree_ext.simulator import TensorMap, device_functions, simulate

KIND = "NV_TCGEN05_F32_256x64x16_F16"
M, N, K = 3 * 256, 64, 3 * 64  # a pair's third tile is in the half that the first was in


@pytest.fixture(scope="module")
def kernel():
    config = WarpgroupConfig(KIND, consumers=1, stages=2, workgroups=2)
    func = warpgroup_matmul(shape_of(KIND, M, N, K), BLACKWELL, config)
    (made,) = device_functions(lower_device(func, BLACKWELL))
    return made


def outcome(kernel):
    """The findings' kinds, and "wrong" where the product is; messages; and the simulation."""
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, (rows, K)).astype("float16") for rows in (M, N))
    c = np.zeros((M, N), "float32")
    given = {"lhs": a, "rhs": b, "lhs_map": TensorMap(a, (128, 64), 128),
             "rhs_map": TensorMap(b, (N // 2, 64), 128), "result": c}  # fmt: skip
    names = [str(parameter.name).removesuffix("_ptr") for parameter in kernel.params]
    done = simulate(kernel, {name: given[name] for name in names})
    found = {finding.kind for finding in done.findings}
    right = np.array_equal(c, a.astype("float32") @ b.astype("float32").T)
    messages = " ".join(finding.message for finding in done.findings)
    return found if right else found | {"wrong"}, messages, done


def outcomes(kernel, name, change, which=None):
    return [outcome(made)[:2] for made in changed(kernel, name, change, which)]


def test_a_right_kernel_gives_no_finding(kernel):
    found, _, done = outcome(kernel)
    assert found == set()
    assert (done.counts[KIND], done.counts["tcgen05.ld"]) == (3 * 3 * 4, 2 * 3 * 4)
    assert done.workgroups == 2


def test_one_workgroup_is_run_with_the_other(kernel):
    a, b, c = (np.zeros((rows, k), kind) for rows, k, kind in
               ((M, K, "float16"), (N, K, "float16"), (M, N, "float32")))  # fmt: skip
    given = {"lhs_map": TensorMap(a, (128, 64), 128), "rhs_map": TensorMap(b, (N // 2, 64), 128),
             "result": c}  # fmt: skip
    names = [str(parameter.name).removesuffix("_ptr") for parameter in kernel.params]
    done = simulate(kernel, [given[name] for name in names], workgroups=[(1, 0, 0)])
    assert (done.workgroups, done.findings) == (2, [])


def test_waits(kernel):
    """For a free slot, for the slots that were filled last, for a full one, and for sums."""
    slot, last, full, sums = outcomes(kernel, "cuda.mbarrier_wait", without)
    assert "unwaited copy" in slot[0]
    assert last[0] == {"unwaited copy"}
    assert "workgroup 1 of the pair may leave before products or copies of the other" in last[1]
    assert "unwaited copy" in full[0]
    assert "wrong" in sums[0]
    ((half, said),) = outcomes(kernel, "cuda.mbarrier_wait_acquire_cluster", without)
    assert half == {"unwaited copy"}
    assert "multiplied into while subgroup 4 loads it" in said


@pytest.mark.parametrize("half", ["arrive", "wait"])
def test_both_meet_at_the_beginning_and_at_the_end(kernel, half):
    """Before they use what the other makes, and before they leave it."""
    first, last = outcomes(kernel, f"ptx.barrier_cluster_{half}", without)
    assert {"instruction", "race"} <= first[0]
    assert "is freed while subgroup 5 loads it" in last[1]
    assert "workgroup 0 of the pair may leave before lanes of the other arrive" in last[1]


def test_products_end_in_both(kernel):
    """Of a slot, and of sums: the other one waits for ever where the end is told to one alone."""
    for rank in (0, 1):
        alone = argument(1, lambda _, rank=rank: tirx.const(1 << rank, "uint16"))
        for found, said in outcomes(kernel, "ptx.tcgen05_commit_multicast", alone):
            assert "divergent barrier" in found
            assert "wait for ever" in said


def test_a_commit_of_one_workgroup_in_a_kernel_of_pairs(kernel):
    def alone(node):
        name = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
        return tirx.Evaluate(T.ptx[name](node.value.args[0]))

    ((_, said),) = outcomes(kernel, "ptx.tcgen05_commit_multicast", alone, 0)
    assert "an instruction of cta_group::1 in a kernel of clusters of 2" in said


def test_the_first_ones_barriers_are_meant(kernel):
    """Copies and loads of both are counted there, and made known to copies before."""
    own = argument(2, lambda _: tirx.const(1, "uint32"))
    ((found, _),) = outcomes(kernel, "ptx.mapa_u32", own)
    assert {"divergent barrier", "wrong"} <= found
    ((found, said),) = outcomes(kernel, "ptx.fence_mbarrier_init", without)
    assert found == {"instruction"}
    assert "was made without fence.mbarrier_init before the cluster uses it" in said
    half = argument(1, lambda nbytes: tirx.const(int(nbytes.value) // 2, "uint32"))
    ((found, _),) = outcomes(kernel, "ptx.mbarrier_arrive_expect_tx", half)
    assert {"divergent barrier", "unwaited copy"} <= found
