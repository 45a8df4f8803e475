import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import tvm_ffi
from tvm import s_tir, tirx
from tvm.script import tirx as T
from tvm.target import Target

from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.simulator import Simulation, device_functions, simulate
from tvm_iree_ext.targets.names import make_target


@functools.cache
def target_of(chip: str) -> Target:
    return make_target(f"{'rocm' if chip.startswith('gfx') else 'cuda'}:{chip}")


def lowered_for(func: tirx.PrimFunc, chip: str = "sm_80") -> tirx.PrimFunc:
    """The device function of ``func``, as code generation gets it."""
    (device,) = device_functions(lower_device(func, target_of(chip)))
    return device


@pytest.fixture(scope="session")
def lowered() -> Callable[..., tirx.PrimFunc]:
    return lowered_for


@dataclass(frozen=True)
class Case:
    """A right kernel, operands for it, and what it computes of them."""

    func: tirx.PrimFunc
    operands: list[np.ndarray]
    want: np.ndarray
    tolerance: float = 0

    def run(self, kernel: tirx.PrimFunc) -> tuple[Simulation, np.ndarray]:
        result = np.full(self.want.shape, -99, self.want.dtype)
        names = [*"AB"[: len(self.operands)], "ABC"[len(self.operands)]]
        return simulate(kernel, dict(zip(names, [*self.operands, result], strict=True))), result

    def check(self, kernel: tirx.PrimFunc) -> Simulation:
        done, result = self.run(kernel)
        np.testing.assert_allclose(result, self.want, rtol=self.tolerance)
        return done.check()

    def caught(self, kernel: tirx.PrimFunc) -> str:
        """What shows that a kernel is wrong: kinds of findings, or its result; empty if nothing."""
        done, result = self.run(kernel)
        kinds = dict.fromkeys(finding.kind for finding in done.findings)
        right = np.allclose(result, self.want, rtol=self.tolerance, equal_nan=True)
        return ", ".join([*kinds, *([] if right else ["wrong result"])])


@T.prim_func(s_tir=True)
def product(
    A: T.Buffer((64, 64), "float16"),
    B: T.Buffer((64, 64), "float16"),
    C: T.Buffer((64, 64), "float32"),
):
    for i, j, k in T.grid(64, 64, 64):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])


def tiled_product():
    """32 x 32 of the product by 256 lanes, 16 of the inner dimension at a time in shared memory."""
    schedule = s_tir.Schedule(product)
    block = schedule.get_sblock("C")
    staged = [schedule.cache_read(block, operand, "shared") for operand in (0, 1)]
    result = schedule.cache_write(block, 0, "local")
    i, j, k = schedule.get_loops(block)
    by, ti, ii = schedule.split(i, [2, 16, 2])
    bx, tj, jj = schedule.split(j, [2, 16, 2])
    outer, inner = schedule.split(k, [None, 16])
    schedule.reorder(by, bx, ti, tj, outer, inner, ii, jj)
    for loop, thread in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ti, "threadIdx.y")):
        schedule.bind(loop, thread)
    schedule.bind(tj, "threadIdx.x")
    schedule.reverse_compute_at(result, tj)
    schedule.unroll(ii)
    schedule.unroll(jj)
    for copy in staged:
        schedule.compute_at(copy, outer)
        fused = schedule.fuse(*schedule.get_loops(copy)[-2:])
        _, y, x, vector = schedule.split(fused, [None, 16, 16, 2])
        schedule.bind(y, "threadIdx.y")
        schedule.bind(x, "threadIdx.x")
        schedule.vectorize(vector)
    schedule.decompose_reduction(block, outer)
    return schedule.mod["main"]


@T.prim_func(s_tir=True)
def sums_of_exp(A: T.Buffer((8, 256), "float32"), B: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 256):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] += T.exp(A[vi, vk])


def reduced_over_threads():
    schedule = s_tir.Schedule(sums_of_exp)
    i, k = schedule.get_loops(schedule.get_sblock("B"))
    outer, inner = schedule.split(k, [None, 128])
    schedule.reorder(i, inner, outer)
    schedule.bind(i, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")
    return schedule.mod["main"]


@T.prim_func(s_tir=True)
def pipeline(A: T.Buffer((8, 32, 4), "float32"), B: T.Buffer((8, 32, 4), "float32")):
    for tx in T.thread_binding(32, "threadIdx.x"):
        with T.sblock("pipeline"):
            v = T.axis.spatial(32, tx)
            T.reads(A[0:8, 0:32, 0:4])
            T.writes(B[0:8, 0:32, 0:4])
            S = T.sblock_alloc_buffer((3, 32, 4), "float32", scope="shared")
            for stage in T.unroll(2):
                T.evaluate(
                    T.ptx["cp.async.cg.shared.global"](
                        S.access_ptr("w", offset=stage * 128 + v * 4),
                        A.access_ptr("r", offset=stage * 128 + v * 4),
                        16,
                    )
                )
                T.evaluate(T.ptx["cp.async.commit_group"]())
            for step in range(8):
                if step < 6:
                    T.evaluate(
                        T.ptx["cp.async.cg.shared.global"](
                            S.access_ptr("w", offset=(step + 2) % 3 * 128 + v * 4),
                            A.access_ptr("r", offset=(step + 2) * 128 + v * 4),
                            16,
                        )
                    )
                T.evaluate(T.ptx["cp.async.commit_group"]())
                T.evaluate(T.ptx["cp.async.wait_group"](2))
                T.tvm_storage_sync("shared")
                for k in range(4):
                    B[step, v, k] = S[step % 3, v ^ 1, k] + T.float32(1)
                T.tvm_storage_sync("shared")


@T.prim_func(s_tir=True)
def doubled(A: T.Buffer((150,), "float32"), B: T.Buffer((150,), "float32")):
    for bx in T.thread_binding(3, "blockIdx.x"):
        for tx in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(150, bx * 64 + tx)
                T.where(bx * 64 + tx < 150)
                B[v] = A[v] * T.float32(2)


def mma_sync(row_of_a: int = 4, unwritten: int = -1, first: int = 0):
    """One m16n8k16: A from shared memory by ldmatrix, B by its lane map from global memory."""

    @T.prim_func(s_tir=True)
    def kernel(
        A: T.Buffer((16, 16), "float16"),
        B: T.Buffer((16, 8), "float16"),
        C: T.Buffer((16, 8), "float32"),
    ):
        for tx in T.thread_binding(32, "threadIdx.x"):
            with T.sblock("product"):
                v = T.axis.spatial(32, tx)
                T.reads(A[0:16, 0:16], B[0:16, 0:8])
                T.writes(C[0:16, 0:8])
                S = T.sblock_alloc_buffer((16, 16), "float16", scope="shared")
                a = T.sblock_alloc_buffer((4,), "uint32", scope="local")
                b = T.sblock_alloc_buffer((4,), "float16", scope="local")
                c = T.sblock_alloc_buffer((4,), "float32", scope="local")
                words = T.decl_buffer((2,), "uint32", data=b.data, scope="local")
                for r in T.unroll(8):
                    if v // 2 != unwritten:
                        S[v // 2, v % 2 * 8 + r] = A[v // 2, v % 2 * 8 + r]
                T.tvm_storage_sync("shared")
                T.evaluate(
                    T.ptx["ldmatrix.sync.aligned.m8n8.x4.shared.b16"](
                        a[0], a[1], a[2], a[3],
                        S.access_ptr("r", offset=(v % 16) * 16 + v // 16 * 8),
                    )
                )  # fmt: skip
                for r in T.unroll(4):
                    b[r] = B[v % row_of_a * 2 + r % 2 + r // 2 * 8, v // row_of_a]
                    c[r] = T.float32(0)
                if v >= first:
                    T.evaluate(
                        T.ptx["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"](
                            c[0], c[1], c[2], c[3], a[0], a[1], a[2], a[3], words[0], words[1],
                            c[0], c[1], c[2], c[3],
                        )
                    )  # fmt: skip
                for r in T.unroll(4):
                    C[v // 4 + r // 2 * 8, v % 4 * 2 + r % 2] = c[r]

    return kernel


@pytest.fixture(scope="session", name="mma_sync")
def mma_sync_kernel() -> Callable[..., tirx.PrimFunc]:
    return mma_sync


@pytest.fixture(scope="session")
def cases() -> dict[str, Case]:
    rng = np.random.default_rng(0)

    def integers(*shape: int) -> np.ndarray:
        return rng.integers(-8, 8, shape).astype("float16")

    a, b, small, narrow = integers(64, 64), integers(64, 64), integers(16, 16), integers(16, 8)
    rows = rng.standard_normal((8, 256)).astype("float32")
    stages = rng.standard_normal((8, 32, 4)).astype("float32")
    line = rng.standard_normal(150).astype("float32")
    return {
        "product": Case(tiled_product(), [a, b], a.astype("float32") @ b.astype("float32")),
        "reduction": Case(reduced_over_threads(), [rows], np.exp(rows).sum(axis=1), 1e-5),
        "pipeline": Case(pipeline, [stages], stages[:, np.arange(32) ^ 1] + 1),
        "mma": Case(
            mma_sync(), [small, narrow], small.astype("float32") @ narrow.astype("float32")
        ),
        "tail": Case(doubled, [line], 2 * line),
    }


def _name(statement: tirx.Evaluate) -> str:
    return str(getattr(getattr(statement.value, "op", None), "name", ""))


def without_call(func: tirx.PrimFunc, name: str, number: int) -> tirx.PrimFunc | None:
    """``func`` less the ``number``-th statement that calls ``name``; None where there is none."""
    seen = []

    def drop(statement: tirx.Evaluate) -> tirx.Evaluate:
        if _name(statement) != f"tirx.{name}":
            return statement
        seen.append(statement)
        if len(seen) != number + 1:
            return statement
        return tirx.Evaluate(tirx.const(0, "int32"))

    body = tvm_ffi.structural_map(func.body, (tirx.Evaluate, drop))
    return func.with_body(body) if len(seen) > number else None


@pytest.fixture(scope="session")
def without() -> Callable[..., tirx.PrimFunc | None]:
    return without_call
