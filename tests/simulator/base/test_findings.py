"""Each kind of finding: what it says, and that the kernel beside it without the fault is clean."""

import numpy as np
import pytest
from tvm.script import tirx as T

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator import KINDS, simulate


def found(kernel, *arguments, **options):
    return [finding.kind for finding in simulate(kernel, list(arguments), **options).findings]


def swapped(distance: int, size: int, barriers: int = 1):
    """Each lane reads from shared memory what a lane ``distance`` away wrote."""

    @T.prim_func(s_tir=True)
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for tx in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("swap"):
                v = T.axis.spatial(64, tx)
                T.reads(A[v])
                T.writes(B[v])
                S = T.sblock_alloc_buffer((size,), "float32", scope="shared")
                S[v] = A[v]
                B[v] = S[v ^ distance]

    return kernel


A64 = np.arange(64, dtype="float32")


def test_a_race_names_both_lanes_and_statements(lowered, without):
    b = np.zeros(64, "float32")
    right = lowered(swapped(33, 64))
    assert found(right, A64, b) == []
    (finding,) = simulate(without(right, "tvm_storage_sync", 0), [A64, b]).findings
    assert finding.kind == "race"
    assert finding.buffer == "S"
    assert finding.lanes == (33, 0)
    assert "written by lane 33 and read by lane 0 with no barrier between" in finding.message
    assert "S[threadIdx_x] = A[threadIdx_x]" in finding.message
    assert "B[threadIdx_x] = S[threadIdx_x ^ 33]" in finding.statement


def test_check_raises_with_every_finding(lowered, without):
    broken = without(lowered(swapped(33, 64)), "tvm_storage_sync", 0)
    with pytest.raises(SimulationError, match=r"1 found\nrace: 4-byte element"):
        simulate(broken, [A64, np.zeros(64, "float32")]).check()


def test_out_of_bounds(lowered):
    (finding,) = simulate(lowered(swapped(64, 64)), [A64, np.zeros(64, "float32")]).findings
    assert finding.kind == "out of bounds"
    assert finding.element == 64
    assert finding.message.startswith("lanes 0, 1, 2, 3, 4, 5 and 58 more: element 64 of S, which")


def test_memory_that_nobody_wrote(lowered):
    (finding,) = simulate(lowered(swapped(64, 128)), [A64, np.zeros(64, "float32")]).findings
    assert finding.kind == "uninitialised"
    assert "what is stored into element 0 of B depends on element 64 of S" in finding.message
    assert "which was not written, read at" in finding.message


def test_what_is_not_used_may_be_uninitialised(lowered):
    @T.prim_func(s_tir=True)
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for tx in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(64, tx)
                T.reads(A[v])
                T.writes(B[v])
                kept = T.sblock_alloc_buffer((1,), "float32", scope="local")
                if v < 32:
                    kept[0] = A[v]
                B[v] = T.Select(v < 32, kept[0] * T.float32(2), T.float32(0))

    b = np.zeros(64, "float32")
    assert found(lowered(kernel), A64, b) == []
    np.testing.assert_array_equal(b, np.where(A64 < 32, 2 * A64, 0))


def test_a_branch_on_memory_that_nobody_wrote(lowered):
    @T.prim_func(s_tir=True)
    def kernel(B: T.Buffer((64,), "float32")):
        for tx in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(64, tx)
                T.reads()
                T.writes(B[v])
                S = T.sblock_alloc_buffer((1,), "int32", scope="local")
                if v == 70:
                    S[0] = 1
                if S[0] > 0:
                    B[v] = T.float32(1)
                else:
                    B[v] = T.float32(2)

    (finding,) = simulate(lowered(kernel), [np.zeros(64, "float32")]).findings
    assert finding.kind == "uninitialised"
    assert "a condition depends on element 0 of S" in finding.message


def test_the_kernels_own_result_is_unwritten_at_first(lowered):
    @T.prim_func(s_tir=True)
    def add(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for tx in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(64, tx)
                T.reads(A[v], B[v])
                T.writes(B[v])
                B[v] = B[v] + A[v]

    b = np.ones(64, "float32")
    assert found(lowered(add), A64, b) == ["uninitialised"]
    b = np.ones(64, "float32")
    assert found(lowered(add), A64, b, written=[0, 1]) == []
    np.testing.assert_array_equal(b, A64 + 1)


def test_a_barrier_that_some_lanes_do_not_reach(lowered):
    @T.prim_func(s_tir=True)
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for tx in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(64, tx)
                T.reads(A[v])
                T.writes(B[v])
                if v < 40:
                    T.tvm_storage_sync("shared")
                B[v] = A[v]

    (finding,) = simulate(lowered(kernel), [A64, np.zeros(64, "float32")]).findings
    assert finding.kind == "divergent barrier"
    assert finding.lanes == tuple(range(40, 64))
    assert "lanes 40, 41, 42, 43, 44, 45 and 18 more of 64 do not reach" in finding.message


def shuffled(first: int):
    @T.prim_func(s_tir=True)
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for tx in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(64, tx)
                T.reads(A[v])
                T.writes(B[v])
                B[v] = A[v]
                if v >= first:
                    B[v] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), A[v], 1, 32, 32)

    return kernel


def test_a_shuffle_without_some_of_the_lanes_it_names(lowered):
    b = np.zeros(64, "float32")
    assert found(lowered(shuffled(32)), A64, b) == []  # a whole subgroup
    kinds = found(lowered(shuffled(7)), A64, b)
    assert kinds == ["divergent shuffle", "uninitialised"]
    finding = simulate(lowered(shuffled(7)), [A64, b]).findings[1]
    assert finding.lanes == (7,)
    assert "depends on a lane that takes no part" in finding.message


def replicated(rows: int):
    """``rows`` lanes store into each element."""

    @T.prim_func(s_tir=True)
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((16,), "float32")):
        for tx in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(64, tx)
                T.reads(A[0:64])
                T.writes(B[0:16])
                B[v % 16] = A[v % rows]

    return kernel


def test_replicated_lanes_must_agree(lowered):
    b = np.zeros(16, "float32")
    assert found(lowered(replicated(16)), A64, b) == []
    (finding,) = simulate(lowered(replicated(32)), [A64, b]).findings
    assert finding.kind == "disagreement"
    assert "stores 0.0 and lane" in finding.message
    assert "stores 16.0 into element 0 of B" in finding.message


def test_workgroups_race_in_global_memory(lowered):
    def kernel_of(step: int):
        @T.prim_func(s_tir=True)
        def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((96,), "float32")):
            for bx in T.thread_binding(2, "blockIdx.x"):
                for tx in T.thread_binding(32, "threadIdx.x"):
                    with T.sblock("B"):
                        vb = T.axis.spatial(2, bx)
                        v = T.axis.spatial(32, tx)
                        T.reads(A[0:64])
                        T.writes(B[0:96])
                        B[vb * step + v] = A[v]

        return kernel

    b = np.zeros(96, "float32")
    assert found(lowered(kernel_of(32)), A64, b) == []
    (finding,) = simulate(lowered(kernel_of(31)), [A64, b]).findings
    assert finding.kind == "race"
    assert "another workgroup" in finding.message


def copied(pending: int, sync_first: bool = False):
    """One copy of 16 bytes by each lane, read after waiting for all groups but ``pending``."""

    @T.prim_func(s_tir=True)
    def kernel(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
        for tx in T.thread_binding(32, "threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(32, tx)
                T.reads(A[0:128])
                T.writes(B[0:128])
                S = T.sblock_alloc_buffer((128,), "float32", scope="shared")
                T.evaluate(
                    T.ptx["cp.async.cg.shared.global"](
                        S.access_ptr("w", offset=v * 4), A.access_ptr("r", offset=v * 4), 16
                    )
                )
                T.evaluate(T.ptx["cp.async.commit_group"]())
                if sync_first:
                    T.tvm_storage_sync("shared")
                T.evaluate(T.ptx["cp.async.wait_group"](pending))
                T.tvm_storage_sync("shared")
                for k in range(4):
                    B[v * 4 + k] = S[(v ^ 1) * 4 + k]

    return kernel


A128 = np.arange(128, dtype="float32")


def test_a_copy_is_used_before_it_is_waited_for(lowered, without):
    b = np.zeros(128, "float32")
    assert found(lowered(copied(0)), A128, b) == []
    kinds = found(lowered(copied(1)), A128, b)
    assert set(kinds) == {"uninitialised", "race", "unwaited copy"}
    # Waiting after the barrier makes a copy visible to the lane that started it alone.
    late = without(lowered(copied(0, sync_first=True)), "tvm_storage_sync", 1)
    assert found(late, A128, b) == ["race"]


def test_misaligned_vectors(lowered):
    def kernel_of(first: int):
        @T.prim_func(s_tir=True)
        def kernel(A: T.Buffer((132,), "float32"), B: T.Buffer((128,), "float32")):
            for tx in T.thread_binding(32, "threadIdx.x"):
                with T.sblock("B"):
                    v = T.axis.spatial(32, tx)
                    T.reads(A[0:132])
                    T.writes(B[0:128])
                    B[T.ramp(v * 4, 1, 4)] = A[T.ramp(v * 4 + first, 1, 4)]

        return kernel

    a, b = np.arange(132, dtype="float32"), np.zeros(128, "float32")
    assert found(lowered(kernel_of(0)), a, b) == []
    assert found(lowered(kernel_of(2)), a, b) == ["misaligned"]


def test_every_kind_is_explained():
    assert all(text[0].islower() for text in KINDS.values())
