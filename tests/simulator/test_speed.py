"""Kernels as large as those that the simulator must run quickly, and how long they take."""

import time

import numpy as np
from tvm import tirx
from tvm.script import tirx as T

from tvm_iree_ext.schedules.gpu.products.matmul import schedule_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_heuristic import matmul_config
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.simulator import simulate
from tvm_iree_ext.targets.names import make_target

ROW = 72  # elements of a row in shared memory: 64, and 16 bytes so that rows fall on all banks
SCALE = 0.125 * 1.4426950408889634  # 1 / sqrt(64), and exp as exp2


def test_a_workgroup_of_a_contraction(lowered):
    """128 x 128 x 64, f16: under 20 s."""
    shape = MatmulShape(128, 128, 64, "float16", "float16", "float32")
    target = make_target("cuda:sm_80")
    kernel = lowered(schedule_matmul(shape, target, matmul_config(shape, target)))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype("float16") for s in ((128, 64), (64, 128)))
    c = np.zeros((128, 128), "float32")
    started = time.process_time()  # others may use the machine
    done = simulate(kernel, {"lhs": a, "rhs": b, "result": c}).check()
    assert time.process_time() - started < 20
    np.testing.assert_array_equal(c, a.astype("float32") @ b.astype("float32"))
    assert done.counts["NV_MMA_SYNC_F32_16x8x16_F16"] == 128 * 128 * 64 // (16 * 8 * 16)
    assert done.bank_conflicts == 0


def half_bits(value):
    half = tirx.Cast("float16", value)
    return tirx.Cast("uint32", tirx.reinterpret("uint16", half))


def attention(keys: int):
    """Flash attention of 64 queries by four subgroups, 64 keys at a time, head dimension 64.

    A subgroup has 16 rows.  Probabilities stay in the registers that the first product left them
    in, which are those that the second takes; row statistics cross the four lanes of a row.
    """
    product = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"

    @T.prim_func(s_tir=True)
    def kernel(
        Q: T.Buffer((64, 64), "float16"),
        K: T.Buffer((keys, 64), "float16"),
        V: T.Buffer((keys, 64), "float16"),
        O: T.Buffer((64, 64), "float32"),  # noqa: E741
    ):
        for ty in T.thread_binding(4, "threadIdx.y"):
            for tx in T.thread_binding(32, "threadIdx.x"):
                with T.sblock("attention"):
                    w = T.axis.spatial(4, ty)
                    v = T.axis.spatial(32, tx)
                    T.reads(Q[0:64, 0:64], K[0:keys, 0:64], V[0:keys, 0:64])
                    T.writes(O[0:64, 0:64])
                    SK = T.sblock_alloc_buffer((64, ROW), "float16", scope="shared")
                    SV = T.sblock_alloc_buffer((64, ROW), "float16", scope="shared")
                    q = T.sblock_alloc_buffer((16,), "uint32", scope="local")
                    p = T.sblock_alloc_buffer((16,), "uint32", scope="local")
                    b = T.sblock_alloc_buffer((2,), "uint32", scope="local")
                    s = T.sblock_alloc_buffer((32,), "float32", scope="local")
                    o = T.sblock_alloc_buffer((32,), "float32", scope="local")
                    top = T.sblock_alloc_buffer((2,), "float32", scope="local")
                    new = T.sblock_alloc_buffer((2,), "float32", scope="local")
                    total = T.sblock_alloc_buffer((2,), "float32", scope="local")
                    for kb in T.unroll(4):
                        for r in T.unroll(4):
                            q[kb * 4 + r] = T.reinterpret(
                                "uint32",
                                Q[
                                    w * 16 + v // 4 + r % 2 * 8,
                                    T.ramp(kb * 16 + v % 4 * 2 + r // 2 * 8, 1, 2),
                                ],
                            )
                    for i in T.unroll(32):
                        o[i] = T.float32(0)
                    for h in T.unroll(2):
                        top[h] = T.float32(-1e30)
                        total[h] = T.float32(0)
                    for tile in range(keys // 64):
                        for c in T.unroll(4):
                            for e in T.vectorized(8):
                                SK[c * 16 + w * 4 + v // 8, v % 8 * 8 + e] = K[
                                    tile * 64 + c * 16 + w * 4 + v // 8, v % 8 * 8 + e
                                ]
                            for e in T.vectorized(8):
                                SV[c * 16 + w * 4 + v // 8, v % 8 * 8 + e] = V[
                                    tile * 64 + c * 16 + w * 4 + v // 8, v % 8 * 8 + e
                                ]
                        T.tvm_storage_sync("shared")
                        for nb in T.unroll(8):
                            for r in T.unroll(4):
                                s[nb * 4 + r] = T.float32(0)
                            for kb in T.unroll(4):
                                T.evaluate(
                                    T.ptx["ldmatrix.sync.aligned.m8n8.x2.shared.b16"](
                                        b[0], b[1],
                                        SK.access_ptr(
                                            "r",
                                            offset=(nb * 8 + v % 8) * ROW
                                            + kb * 16 + v // 8 % 2 * 8,
                                        ),
                                    )
                                )  # fmt: skip
                                T.evaluate(
                                    T.ptx[product](
                                        s[nb * 4], s[nb * 4 + 1], s[nb * 4 + 2], s[nb * 4 + 3],
                                        q[kb * 4], q[kb * 4 + 1], q[kb * 4 + 2], q[kb * 4 + 3],
                                        b[0], b[1],
                                        s[nb * 4], s[nb * 4 + 1], s[nb * 4 + 2], s[nb * 4 + 3],
                                    )
                                )  # fmt: skip
                        for h in T.unroll(2):
                            new[h] = top[h]
                            for nb in T.unroll(8):
                                for e in T.unroll(2):
                                    new[h] = T.max(new[h], s[nb * 4 + h * 2 + e])
                            for step in T.unroll(2):
                                new[h] = T.max(
                                    new[h],
                                    T.tvm_warp_shuffle_xor(
                                        T.uint32(0xFFFFFFFF), new[h], step + 1, 32, 32
                                    ),
                                )
                            top[h] = T.exp2((top[h] - new[h]) * T.float32(SCALE))
                            total[h] = total[h] * top[h]
                            for nb in T.unroll(8):
                                for e in T.unroll(2):
                                    s[nb * 4 + h * 2 + e] = T.exp2(
                                        (s[nb * 4 + h * 2 + e] - new[h]) * T.float32(SCALE)
                                    )
                                    total[h] = total[h] + s[nb * 4 + h * 2 + e]
                                    o[nb * 4 + h * 2 + e] = o[nb * 4 + h * 2 + e] * top[h]
                                p[nb * 2 + h] = T.bitwise_or(
                                    half_bits(s[nb * 4 + h * 2]),
                                    T.shift_left(half_bits(s[nb * 4 + h * 2 + 1]), T.uint32(16)),
                                )
                            top[h] = new[h]
                        for nb in T.unroll(8):
                            for kb in T.unroll(4):
                                T.evaluate(
                                    T.ptx["ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16"](
                                        b[0], b[1],
                                        SV.access_ptr(
                                            "r", offset=(kb * 16 + v % 16) * ROW + nb * 8
                                        ),
                                    )
                                )  # fmt: skip
                                T.evaluate(
                                    T.ptx[product](
                                        o[nb * 4], o[nb * 4 + 1], o[nb * 4 + 2], o[nb * 4 + 3],
                                        p[kb * 4], p[kb * 4 + 1], p[kb * 4 + 2], p[kb * 4 + 3],
                                        b[0], b[1],
                                        o[nb * 4], o[nb * 4 + 1], o[nb * 4 + 2], o[nb * 4 + 3],
                                    )
                                )  # fmt: skip
                        T.tvm_storage_sync("shared")
                    for h in T.unroll(2):
                        for step in T.unroll(2):
                            total[h] = total[h] + T.tvm_warp_shuffle_xor(
                                T.uint32(0xFFFFFFFF), total[h], step + 1, 32, 32
                            )
                        for nb in T.unroll(8):
                            for e in T.unroll(2):
                                O[w * 16 + v // 4 + h * 8, nb * 8 + v % 4 * 2 + e] = (
                                    o[nb * 4 + h * 2 + e] / total[h]
                                )

    return kernel


def test_tiles_of_64_keys_of_attention(lowered):
    """Two tiles of 64 keys: each under 30 s."""
    keys = 128
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((n, 64)).astype("float16") for n in (64, keys, keys))
    out = np.zeros((64, 64), "float32")
    started = time.process_time()  # others may use the machine
    done = simulate(lowered(attention(keys)), {"Q": q, "K": k, "V": v, "O": out}).check()
    assert (time.process_time() - started) / 2 < 30
    scores = q.astype("float32") @ k.astype("float32").T / 8
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    want = weights @ v.astype("float32") / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(out, want, atol=2e-3)
    assert done.bank_conflicts == 0
    assert done.counts["NV_MMA_SYNC_F32_16x8x16_F16"] == 4 * 64 * 2
