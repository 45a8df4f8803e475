"""Tensor memory in the simulator: what a kernel may not forget, and what it may not do."""

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

KIND = "NV_TCGEN05_F32_128x64x16_F16"
M, N, K = 3 * 128, 64, 3 * 64  # a workgroup's third tile is in the half that the first was in


def kernel_by(workgroups):
    config = WarpgroupConfig(KIND, consumers=1, stages=2, workgroups=workgroups)
    func = warpgroup_matmul(shape_of(KIND, M, N, K), BLACKWELL, config)
    (made,) = device_functions(lower_device(func, BLACKWELL))
    return made


@pytest.fixture(scope="module")
def kernel():
    return kernel_by(1)


def outcome(kernel):
    """The findings' kinds, and "wrong" where the product is; and the findings."""
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, (rows, K)).astype("float16") for rows in (M, N))
    c = np.zeros((M, N), "float32")
    given = {"lhs": a, "rhs": b, "lhs_map": TensorMap(a, (128, 64), 128),
             "rhs_map": TensorMap(b, (N, 64), 128), "result": c}  # fmt: skip
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
    assert (done.counts[KIND], done.counts["tcgen05.ld"]) == (3 * 3 * 4, 3 * 4)


def test_waits(kernel):
    """For a free slot, for a half whose sums were loaded, for a full slot, and for sums."""
    slot, half, full, sums = outcomes(kernel, "cuda.mbarrier_wait", without)
    for found, _ in (slot, full, sums):
        assert "unwaited copy" in found
    assert "column 0 of tensor memory is loaded by subgroup 4 while tcgen05.mma adds" in sums[1]
    assert {"divergent barrier", "wrong"} <= half[0]  # the third tile comes before the first goes


def test_an_arrival_in_the_place_of_a_commit_says_nothing_of_products(kernel):
    def arrives(node):
        barrier = node.value.args[0]
        return tirx.Evaluate(T.ptx["mbarrier.arrive.shared::cta.b64"](barrier))

    slot, sums = outcomes(kernel, "ptx.tcgen05_commit", arrives)
    assert "tcgen05.mma reads it, of whose end nothing is known" in slot[1]
    assert "column 0 of tensor memory is loaded by subgroup 4 while tcgen05.mma adds" in sums[1]


def test_without_a_commit_somebody_waits_for_ever(kernel):
    for found, _ in outcomes(kernel, "ptx.tcgen05_commit", without):
        assert "divergent barrier" in found


def test_loads_are_waited_for(kernel):
    ((found, message),) = outcomes(kernel, "ptx.tcgen05_wait", without)
    assert {"uninitialised", "unwaited copy"} <= found
    assert "a register before wait::ld" in message


def test_fences(kernel):
    """Around what all lanes wait for, and what some do; with turns two do what others do, too."""
    made = [outcomes(one, "ptx.tcgen05_fence", without) for one in (kernel, kernel_by(0))]
    caught = [[bool(found) for found, _ in each] for each in made]
    assert caught == [[True, False, True, True, True, False, True], [True] * 5]
    assert "multiplied into while subgroup 4 loads it" in made[0][4][1]


def test_allocations(kernel):
    """Columns that are never allocated, never freed, too few, too many, or freed in part."""
    ((never, _),) = outcomes(kernel, "ptx.tcgen05_alloc", without)
    assert never
    ((kept, said),) = outcomes(kernel, "ptx.tcgen05_dealloc", without)
    assert (kept, "columns of tensor memory from 0 on are never freed" in said) == (
        {"instruction"},
        True,
    )
    columns = {count: argument(1, lambda _, n=count: tirx.const(n, "uint32")) for count in (64, 96)}
    ((few, said),) = outcomes(kernel, "ptx.tcgen05_alloc", columns[64])
    assert "out of bounds" in few
    assert "columns 64..127 of tensor memory are not allocated" in said
    ((_, said),) = outcomes(kernel, "ptx.tcgen05_alloc", columns[96])
    assert "96 columns are allocated; expected a power of 2 from 32 to 512" in said
    ((_, said),) = outcomes(kernel, "ptx.tcgen05_dealloc", columns[64])
    assert "64 columns from 0 on are freed, which are no allocation" in said


def test_a_second_allocation_that_does_not_fit(kernel):
    def twice(node):
        more = argument(1, lambda _: tirx.const(512, "uint32"))(node)
        return tirx.SeqStmt([node, more])

    ((found, said),) = outcomes(kernel, "ptx.tcgen05_alloc", twice)
    assert "divergent barrier" in found
    assert "subgroup 4 waits for ever for 512 columns of tensor memory" in said


def test_columns_that_nothing_was_multiplied_into(kernel):
    """Sums that begin with what is there, which nobody wrote; and those of another column."""
    everything = argument(8, lambda _: tirx.const(1, "bool"))
    assert "uninitialised" in outcomes(kernel, "ptx.tcgen05_mma_ss", everything, 0)[0][0]
    nothing = argument(8, lambda _: tirx.const(0, "bool"))
    assert "wrong" in outcomes(kernel, "ptx.tcgen05_mma_ss", nothing, 2)[0][0]


def test_lanes_of_another_subgroup(kernel):
    count = 64
    other = argument(count, lambda at: at + tirx.const(32 << 16, "uint32"))
    ((found, said),) = outcomes(kernel, "ptx.tcgen05_ld", other)
    assert "instruction" in found
    assert "subgroup 4 loads lanes of tensor memory from 32 on; it reaches those from 0" in said


def test_descriptors(kernel):
    """Of another type, of other tiles, and of no version."""
    bfloat = argument(3, lambda code: code | tirx.const(1 << 7, "uint32"))
    assert "wrong" in outcomes(kernel, "ptx.tcgen05_mma_ss", bfloat, 1)[0][0]
    moved = argument(1, lambda word: word + tirx.const(2, "uint64"))
    assert "wrong" in outcomes(kernel, "ptx.tcgen05_mma_ss", moved, 1)[0][0]
    other = argument(1, lambda word: word + tirx.const(1 << 46, "uint64"))
    assert "is not of this version" in outcomes(kernel, "ptx.tcgen05_mma_ss", other, 1)[0][1]
    rows = argument(3, lambda code: code + tirx.const(1 << 24, "uint32"))
    assert "says no product of kind::f16" in outcomes(kernel, "ptx.tcgen05_mma_ss", rows, 1)[0][1]
