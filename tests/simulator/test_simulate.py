"""What kernels compute in the simulator, and that right ones give no finding."""

import math
import sys

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.s_tir.pipeline import default_s_tir_pipeline
from tvm.script import tirx as T
from tvm.target import Target

from tvm_iree_ext import ops, verify
from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator import device_functions, simulate
from tvm_iree_ext.simulator.translation.deep_expressions import room_for_depth
from tvm_iree_ext.targets.names import make_target

CHIPS = ["sm_80", "gfx942"]


@pytest.mark.parametrize("chip", CHIPS)
def test_a_tiled_product_is_right(lowered, cases, chip):
    done = cases["product"].check(lowered(cases["product"].func, chip))
    assert (done.workgroups, done.grid, done.block) == (4, (2, 2, 1), (16, 16, 1))
    lanes = 32 if chip == "sm_80" else 64
    assert done.counts["barrier"] == 4 * 8 * 256 // lanes


def test_chosen_workgroups_alone_are_run(lowered, cases):
    a = np.ones((64, 64), "float16")
    c = np.full((64, 64), np.nan, "float32")
    simulate(lowered(cases["product"].func), [a, a, c], workgroups=[(1, 0, 0)]).check()
    assert (c[:32, 32:] == 64).all()
    assert np.isnan(c[32:]).all()
    assert np.isnan(c[:32, :32]).all()


@pytest.mark.parametrize("chip", CHIPS)
def test_a_reduction_over_threads_is_right(lowered, cases, chip):
    """By shuffles on one chip, in shared memory with barriers of the subgroup on the other."""
    cases["reduction"].check(lowered(cases["reduction"].func, chip))


def test_lanes_diverge_and_meet(lowered):
    @T.prim_func(s_tir=True)
    def collatz(A: T.Buffer((70,), "int32"), B: T.Buffer((70,), "int32")):
        for bx in T.thread_binding(3, "blockIdx.x"):
            for tx in T.thread_binding(32, "threadIdx.x"):
                if bx * 32 + tx < 70:
                    with T.sblock("steps"):
                        v = T.axis.spatial(70, bx * 32 + tx)
                        T.reads(A[v])
                        T.writes(B[v])
                        value: T.int32 = A[v]
                        steps: T.int32 = 0
                        while value != 1:
                            if value % 2 == 0:  # noqa: SIM108
                                value = value // 2
                            else:
                                value = value * 3 + 1
                            steps = steps + 1
                        B[v] = steps

    def steps(value):
        count = 0
        while value != 1:
            value, count = (value // 2 if value % 2 == 0 else value * 3 + 1), count + 1
        return count

    a, b = np.arange(1, 71, dtype="int32"), np.zeros(70, "int32")
    simulate(lowered(collatz), [a, b]).check()
    assert b.tolist() == [steps(value) for value in range(1, 71)]


def test_lanes_leave_loops_at_different_times(lowered):
    @T.prim_func(s_tir=True)
    def first_negative(A: T.Buffer((32, 9), "float32"), B: T.Buffer((32,), "int32")):
        for tx in T.thread_binding(32, "threadIdx.x"):
            with T.sblock("look"):
                v = T.axis.spatial(32, tx)
                T.reads(A[v, 0:9])
                T.writes(B[v])
                B[v] = -1
                for k in range(9):
                    if A[v, k] == T.float32(0):
                        continue
                    if A[v, k] < T.float32(0):
                        B[v] = k
                        break

    rng = np.random.default_rng(0)
    a = rng.integers(-1, 12, (32, 9)).astype("float32")
    b = np.zeros(32, "int32")
    simulate(lowered(first_negative), [a, b]).check()
    want = [next((k for k, value in enumerate(row) if value < 0), -1) for row in a]
    assert b.tolist() == want


def test_extents_come_from_arguments(lowered):
    @T.prim_func(s_tir=True)
    def double(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for bx in T.thread_binding((n + 63) // 64, "blockIdx.x"):
            for tx in T.thread_binding(64, "threadIdx.x"):
                with T.sblock("B"):
                    v = T.axis.spatial(n, bx * 64 + tx)
                    T.where(bx * 64 + tx < n)
                    B[v] = A[v] * T.float32(2)

    kernel = lowered(double)
    for n in (1, 63, 64, 65, 200):
        a, b = np.arange(n, dtype="float32"), np.zeros(n, "float32")
        assert simulate(kernel, {"A": a, "B": b, "n": n}).check().grid == (-(-n // 64), 1, 1)
        np.testing.assert_array_equal(b, 2 * a)


def test_a_number_that_became_narrower_becomes_wider_again(lowered):
    """The same for all lanes: such integers are Python's between the operations."""

    @T.prim_func(s_tir=True)
    def shifted(a: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "int64")
        for bx in T.thread_binding(1, "blockIdx.x"):
            for tx in T.thread_binding(32, "threadIdx.x"):
                with T.sblock("A"):
                    v = T.axis.spatial(n, T.Cast("int64", bx * 32 + tx))
                    A[v] = T.Cast("int64", T.Cast("int32", n)) + T.int64(8589934608)

    a = np.zeros(32, "int64")
    simulate(lowered(shifted), {"A": a, "n": 32}).check()
    assert (a == 8589934608 + 32).all()


def lowered_by_tvm(func):
    """By TVM's pipeline, which does not ask what lanes do with their local buffers."""
    target = make_target("cuda:sm_80").with_host(Target("llvm"))
    module = tirx.transform.BindTarget(target)(tvm.IRModule({"main": func}))
    pipeline, _, _ = default_s_tir_pipeline()
    with target:
        (device,) = device_functions(pipeline(module))
    return device


def test_a_local_buffer_at_an_index_of_each_lane():
    @T.prim_func(s_tir=True)
    def gather(
        A: T.Buffer((32, 4), "int32"), P: T.Buffer((32, 4), "int32"), B: T.Buffer((32, 4), "int32")
    ):
        for tx in T.thread_binding(32, "threadIdx.x"):
            with T.sblock("gather"):
                v = T.axis.spatial(32, tx)
                T.reads(A[v, 0:4], P[v, 0:4])
                T.writes(B[v, 0:4])
                kept = T.sblock_alloc_buffer((4,), "int32", scope="local")
                for k in range(4):
                    kept[P[v, k]] = A[v, k]
                for k in range(4):
                    B[v, k] = kept[P[v, 3 - k]]

    rng = np.random.default_rng(0)
    a = np.arange(128, dtype="int32").reshape(32, 4)
    order = np.stack([rng.permutation(4) for _ in range(32)]).astype("int32")
    b = np.zeros_like(a)
    kernel = lowered_by_tvm(gather)
    simulate(kernel, {"A": a, "P": order, "B": b}).check()
    np.testing.assert_array_equal(b, a[:, ::-1])
    order[5, 1] = 4
    (first, *_) = simulate(kernel, {"A": a, "P": order, "B": b}).findings
    assert first.kind == "out of bounds"
    assert first.lanes == (5,)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint8", "float64", "int64"])
def test_arithmetic_rounds_and_wraps_as_the_type_does(lowered, dtype):
    @T.prim_func(s_tir=True)
    def polynomial(A: T.Buffer((64,), dtype), B: T.Buffer((64,), dtype)):
        for tx in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(64, tx)
                B[v] = A[v] * A[v] + A[v]

    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    a = np.random.default_rng(0).integers(0, 100, 64).astype(kind)
    b = np.zeros(64, kind)
    simulate(
        lowered(polynomial),
        [
            a.view("uint16") if dtype == "bfloat16" else a,
            b.view("uint16") if dtype == "bfloat16" else b,
        ],
    ).check()
    np.testing.assert_array_equal(b, a * a + a)


def test_functions_of_the_library(lowered):
    @T.prim_func(s_tir=True)
    def many(A: T.Buffer((32,), "float32"), B: T.Buffer((11, 32), "float32")):
        for tx in T.thread_binding(32, "threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(32, tx)
                T.reads(A[v])
                T.writes(B[0:11, v])
                B[0, v] = T.exp(A[v])
                B[1, v] = T.log(A[v])
                B[2, v] = T.tanh(A[v])
                B[3, v] = T.sqrt(A[v])
                B[4, v] = T.erf(A[v])
                B[5, v] = T.rsqrt(A[v])
                B[6, v] = T.floor(A[v]) + T.Cast("float32", T.popcount(T.Cast("int32", A[v])))
                B[8, v] = T.call_pure_extern("float32", "expm1f", A[v])
                B[9, v] = T.call_pure_extern("float32", "cbrtf", A[v])
                B[10, v] = T.call_pure_extern("float32", "erfcf", A[v])
                B[7, v] = T.pow(A[v], T.float32(0.5)) + T.max(A[v], T.float32(1))

    a = np.linspace(0.25, 9, 32).astype("float32")
    b = np.zeros((11, 32), "float32")
    simulate(lowered(many), [a, b]).check()
    np.testing.assert_allclose(b[0], np.exp(a), rtol=1e-6)
    np.testing.assert_allclose(b[1], np.log(a), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(b[2], np.tanh(a), rtol=1e-6)
    np.testing.assert_allclose(b[5], 1 / np.sqrt(a), rtol=1e-6)
    np.testing.assert_allclose(
        b[6], np.floor(a) + [int(value).bit_count() for value in a], rtol=1e-6
    )
    np.testing.assert_allclose(b[7], np.sqrt(a) + np.maximum(a, 1), rtol=1e-6)
    np.testing.assert_allclose(b[8], np.expm1(a), rtol=1e-6)
    np.testing.assert_allclose(b[9], np.cbrt(a), rtol=1e-6)
    np.testing.assert_allclose(b[10], np.vectorize(math.erfc)(a), rtol=1e-6)


def test_copies_in_flight_feed_a_pipeline(lowered, cases):
    """Three stages of cp.async, two under way while the third is read."""
    cases["pipeline"].check(lowered(cases["pipeline"].func))


def test_atomics_and_votes(lowered):
    @T.prim_func(s_tir=True)
    def histogram(
        A: T.Buffer((64,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((64,), "uint32")
    ):
        for tx in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("histogram"):
                v = T.axis.spatial(64, tx)
                T.reads(A[v])
                T.writes(B[0:4], C[v])
                T.evaluate(T.call_extern("int32", "atomicAdd", T.address_of(B[A[v] % 4]), 1))
                C[v] = T.cuda.ballot_sync(T.uint32(0xFFFFFFFF), A[v] % 4 == 1)

    a = np.random.default_rng(0).integers(0, 100, 64).astype("int32")
    b, c = np.zeros(4, "int32"), np.zeros(64, "uint32")
    simulate(lowered(histogram), [a, b, c], written=[0, 1]).check()
    assert b.tolist() == [(a % 4 == k).sum() for k in range(4)]
    for start in (0, 32):
        bits = sum(1 << lane for lane in range(32) if a[start + lane] % 4 == 1)
        assert set(c[start : start + 32].tolist()) == {bits}


def test_refuses_arguments_that_do_not_fit(lowered, cases):
    kernel = lowered(cases["product"].func)
    half, single = np.zeros((64, 64), "float16"), np.zeros((64, 64), "float32")
    with pytest.raises(SimulationError, match="2 arguments; it takes 3: A, B, C"):
        simulate(kernel, [half, half])
    with pytest.raises(SimulationError, match="arguments A, B; it takes A, B, C"):
        simulate(kernel, {"A": half, "B": half})
    with pytest.raises(SimulationError, match="A has 4095 elements; expected 4096"):
        simulate(kernel, [half.ravel()[1:], half, single])
    with pytest.raises(SimulationError, match="elements of float32; expected float16"):
        simulate(kernel, [single, half, single])
    with pytest.raises(SimulationError, match=r"workgroup \(2, 0, 0\) is outside the grid"):
        simulate(kernel, [half, half, single], workgroups=[(2, 0, 0)])


def test_says_what_it_does_not_know(lowered):
    @T.prim_func(s_tir=True)
    def clock(B: T.Buffer((32,), "float32")):
        for tx in T.thread_binding(32, "threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(32, tx)
                B[v] = T.call_extern("float32", "mystery", v)

    with pytest.raises(SimulationError, match="does not know the function mystery"):
        simulate(lowered(clock), [np.zeros(32, "float32")])


def test_regions_as_deep_as_they_may_be_are_simulated():
    def deep(x, y):
        for _ in range(240):  # 4 of 1000 operations and operands each
            x = tirx.sqrt(x) * y
        return x

    op = ops.scan(ops.TensorType((2, 3), "float32"), deep, dimension=1)
    limit = sys.getrecursionlimit()
    operands = {"input": np.ones((2, 3), "float32"), "accumulator_init": np.ones(2, "float32")}
    assert verify.check_op(op, operands, "rocm:gfx942", simulate=True).status == "passed"
    assert sys.getrecursionlimit() == limit


def test_expressions_deeper_than_there_is_room_are_refused_by_name():
    def walk(depth):
        return depth and walk(depth - 1)

    with (
        pytest.raises(SimulationError, match="kernel_0: an expression takes more than 12000 calls"),
        room_for_depth("kernel_0"),
    ):
        walk(13_000)
