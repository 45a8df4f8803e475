"""Barriers in shared memory, copies by tensor maps, and warpgroups that wait for one another."""

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi
from tvm import tirx

from tests.support.changed_calls import argument, changed, name_of, without
from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.products.warpgroup_kernel import warpgroup_matmul
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import WarpgroupConfig
from tvm_iree_ext.simulator import TensorMap, device_functions, simulate
from tvm_iree_ext.simulator.machine.strands import Strands, Stuck
from tvm_iree_ext.targets.names import make_target

KIND = "NV_WGMMA_F32_64x64x16_F16"
M, N, K = 64, 64, 7 * 64  # each of three slots is filled again


@pytest.fixture(scope="module", params=["tma", "async"])
def copies(request):
    return request.param


def kernel_by(copies, consumers=1):
    shape = MatmulShape(consumers * M, N, K, "float16", "float16", "float32", rhs_order=(1, 0))
    config = WarpgroupConfig(KIND, consumers=consumers, stages=3, copies=copies)
    target = make_target("cuda:sm_90a")
    (kernel,) = device_functions(lower_device(warpgroup_matmul(shape, target, config), target))
    return kernel


@pytest.fixture(scope="module")
def kernel(copies):
    return kernel_by(copies)


@pytest.fixture(scope="module")
def by_maps():
    return kernel_by("tma")


def outcome(kernel, rows=M):
    """The findings' kinds, and "wrong" where the product is."""
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, (rows, K)).astype("float16") for rows in (rows, N))
    c = np.zeros((rows, N), "float32")
    given = {"lhs": a, "rhs": b, "lhs_map": TensorMap(a, (rows, 64), 128),
             "rhs_map": TensorMap(b, (N, 64), 128), "result": c}  # fmt: skip
    names = [str(parameter.name).removesuffix("_ptr") for parameter in kernel.params]
    done = simulate(kernel, {name: given[name] for name in names})
    found = {finding.kind for finding in done.findings}
    right = np.array_equal(c, a.astype("float32") @ b.astype("float32").T)
    return found if right else found | {"wrong"}, done


def test_a_right_kernel_gives_no_finding(kernel, copies):
    found, done = outcome(kernel)
    assert found == set()
    assert done.counts[KIND] == 4 * 7
    assert done.counts.get("tensor map copy", 0) == (14 if copies == "tma" else 0)


def test_waits(kernel):
    """For a free slot, and for a full one."""
    free, full, _ = (outcome(made)[0] for made in changed(kernel, "cuda.mbarrier_wait", without))
    assert "unwaited copy" in free
    assert "unwaited copy" in full
    for made in changed(kernel, "cuda.mbarrier_wait", argument(1, lambda parity: 1 - parity)):
        assert outcome(made)[0] & {"unwaited copy", "divergent barrier"}


def test_the_wait_for_all_that_multiply():
    """Sums go through the slots, which another warpgroup may still read."""
    two = kernel_by("tma", consumers=2)
    assert outcome(two, 2 * M)[0] == set()
    *_, made = changed(two, "cuda.mbarrier_wait", without)
    assert "unwaited copy" in outcome(made, 2 * M)[0]


def test_arrivals(kernel):
    """Without any of them somebody waits for ever."""
    names = ("ptx.mbarrier_arrive_nocount", "ptx.mbarrier_arrive", "ptx.mbarrier_arrive_expect_tx",
             "ptx.cp_async_mbarrier_arrive")  # fmt: skip
    present = set()
    tvm_ffi.structural_walk(
        kernel.body, (tirx.Evaluate, lambda node: present.add(name_of(node.value)))
    )
    tried = present & set(names)
    assert len(tried) == 2
    for name in tried:
        for made in changed(kernel, name, without):
            assert "divergent barrier" in outcome(made)[0]


def test_counts_of_arrivals(kernel):
    for more in (1, -1):
        count = argument(1, lambda n, more=more: tirx.const(int(n.value) + more, "uint32"))
        for which in (0, 1):  # of a slot that is full, and free
            (made,) = changed(kernel, "ptx.mbarrier_init", count, which)
            assert outcome(made)[0] & {"divergent barrier", "instruction"}


def test_bytes_that_are_expected(by_maps):
    name = "ptx.mbarrier_arrive_expect_tx"
    (more,) = changed(by_maps, name, argument(1, lambda nbytes: nbytes + 16))
    assert "divergent barrier" in outcome(more)[0]
    (fewer,) = changed(by_maps, name, argument(1, lambda nbytes: nbytes - 8192))
    assert "unwaited copy" in outcome(fewer)[0]


def test_copies_of_boxes(by_maps):
    name = "ptx.cp_async_bulk_tensor_g2s_cluster"
    for made in changed(by_maps, name, without):
        assert "divergent barrier" in outcome(made)[0]
    for made in changed(by_maps, name, argument(2, lambda column: column + 8)):
        assert "wrong" in outcome(made)[0]


def test_what_wgmma_still_reads_is_not_overwritten(kernel):
    """One group more may be under way: the slot that is given back may be that one's."""
    later = argument(0, lambda groups: groups + 1)
    inside, after = (outcome(one)[0] for one in changed(kernel, "ptx.wgmma_wait_group", later))
    assert "unwaited copy" in inside
    assert after & {"unwaited copy", "uninitialised"}


def test_making_of_barriers(kernel):
    for which in (0, 1):
        (made,) = changed(kernel, "ptx.mbarrier_init", without, which)
        assert "instruction" in outcome(made)[0]
    assert "instruction" in outcome(next(changed(kernel, "tvm_storage_sync", without)))[0]


def test_fences(kernel, copies):
    fence = "ptx.fence_mbarrier_init" if copies == "tma" else "ptx.fence_proxy"
    for made in changed(kernel, fence, without):
        assert "instruction" in outcome(made)[0]


@pytest.mark.parametrize(
    ("array", "box", "first", "taken"),
    [
        (np.arange(6, dtype="int32").reshape(2, 3), (2, 2), (1, 2), [[5, 0], [0, 0]]),
        (np.arange(6, dtype="int32").reshape(2, 3), (2, 2), (-1, 0), [[0, 0], [0, 1]]),
        (np.ones((2, 3), ml_dtypes.bfloat16), (1, 4), (7, 7), [[0, 0, 0, 0]]),
    ],
)
def test_a_box_has_zeros_beyond_the_array(array, box, first, taken):
    raw, known = TensorMap(array, box).take(first)
    np.testing.assert_array_equal(raw.view(array.dtype).reshape(box), taken)
    assert known.all()


def test_a_parameter_that_is_a_tensor_map_takes_one(by_maps):
    names = [str(parameter.name).removesuffix("_ptr") for parameter in by_maps.params]
    with pytest.raises(SimulationError, match="lhs_map is ndarray; expected a simulator"):
        simulate(by_maps, dict.fromkeys(names, np.zeros((M, N), "float32")))


def test_strands_take_turns_in_one_order():
    said = []
    strands = Strands(lambda: said.append("blocked"))

    def side(name, before, after):
        def body():
            said.append(name)
            strands.wait(lambda: before in said)
            said.append(after)

        return body

    strands.together([side("a", "c", "b"), side("c", "b", "d")])
    assert said == ["a", "c", "b", "d"]
    with pytest.raises(Stuck):
        strands.together([side("e", "never", "f"), side("g", "b", "h")])
    assert said[4:] == ["e", "g", "h", "blocked"]


def test_an_error_in_a_strand_is_raised():
    def wrong():
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        Strands(lambda: None).together([wrong, lambda: None])
