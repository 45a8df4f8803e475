"""Scales in tensor memory in the simulator: what a kernel may not forget, and may not do."""

import ml_dtypes
import numpy as np
import pytest
from tvm import tirx
from tvm.script import tirx as T

from tests.support.changed_calls import argument, changed, without
from tvm_iree_ext import ops
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.schedules.gpu.products.warpgroup_numbers import lowering_of
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import WarpgroupConfig
from tvm_iree_ext.simulator import TensorMap, device_functions, simulate
from tvm_iree_ext.targets import make_target

BLACKWELL = make_target("cuda:sm_100a")
BYTES = "NV_TCGEN05_SCALE_F32_128x64x32_B32_F8E4M3FN_F8E4M3FN"
PACKED = "NV_TCGEN05_SCALE_F32_128x64x64_B32_F4E2M1FN_F4E2M1FN"
M, N, STEPS = 128, 64, 3
MULTIPLY, COPY = "ptx.tcgen05_mma_block_scale_ss", "ptx.tcgen05_cp"


def kernel_of(kind, dtype, k):
    """The product's kernel, which the one stands before that packs and arranges."""
    sides = [ops.TensorType((rows, k // 32, 32), dtype) for rows in (M, N)]
    scales = [ops.TensorType((rows, k // 32), "f8E8M0FNU") for rows in (M, N)]
    op = ops.matmul(*sides, lhs_scales=scales[0], rhs_scales=scales[1], transpose_rhs=True)
    pad = ("lhs", "rhs") if kind == PACKED else ()
    config = lowering_of(WarpgroupConfig(kind, 1, stages=2, pad=pad))
    module = choose(op, BLACKWELL).lower(op, BLACKWELL, config)
    found = device_functions(lower_device(module, BLACKWELL))
    return next(one for one in found if any("lhs_map" in str(name) for name in one.params))


@pytest.fixture(scope="module")
def kernel():
    return kernel_of(BYTES, "f8E4M3FN", STEPS * 128)


def arranged(scales, words):
    """Scales [rows, blocks] in CUTLASS's chunks: byte 16 (r % 32) + 4 (r // 32) + b % 4."""
    rows, blocks = scales.shape
    made = np.zeros((blocks // 4, 512), np.uint8)
    for row, block in np.ndindex(rows, blocks):
        made[block // 4, row % 32 * 16 + row // 32 * 4 + block % 4] = scales[row, block]
    return TensorMap(made.view(np.uint64), (words, 64))


def outcome(kernel, bits=8):
    """The findings' kinds, and "wrong" where the product is; and the findings' text."""
    rng = np.random.default_rng(0)
    depth, words = STEPS * 128 * 8 // bits, 8 // bits
    dtype = {8: ml_dtypes.float8_e4m3fn, 4: ml_dtypes.float4_e2m1fn}[bits]
    a, b = (rng.integers(-3, 4, (rows, depth)).astype(dtype) for rows in (M, N))
    scales = [rng.integers(126, 129, (rows, depth // 32), np.uint8) for rows in (M, N)]
    factors = [np.repeat(np.exp2(one - 127.0), 32, axis=1) for one in scales]
    want = (a.astype(float) * factors[0]) @ (b.astype(float) * factors[1]).T
    raw = [one.view(np.uint8) for one in (a, b)]
    if bits == 4:
        raw = [one[:, ::2] | one[:, 1::2] << 4 for one in raw]
    given = {
        "lhs_map": TensorMap(raw[0], (M, 128), 128), "rhs_map": TensorMap(raw[1], (N, 128), 128),
        "lhs_scales_map": arranged(scales[0], words), "rhs_scales_map": arranged(scales[1], words),
        "result": np.zeros((M, N), "float32"),
    }  # fmt: skip
    names = [str(parameter.name).removesuffix("_ptr") for parameter in kernel.params]
    done = simulate(kernel, {name: given[name] for name in names})
    found = {finding.kind for finding in done.findings}
    messages = " ".join(finding.message for finding in done.findings)
    return found if np.array_equal(given["result"], want) else found | {"wrong"}, messages, done


def outcomes(kernel, name, change, which=None):
    return [outcome(made)[:2] for made in changed(kernel, name, change, which)]


def plus(number, dtype="uint32"):
    return lambda value: value + tirx.const(number, dtype)


def test_a_right_kernel_gives_no_finding(kernel):
    found, _, done = outcome(kernel)
    assert found == set()
    assert (done.counts[BYTES], done.counts["tcgen05.cp"]) == (4 * STEPS, 2 * STEPS)


def test_4_bit_floats_lie_two_to_a_byte():
    found, _, done = outcome(kernel_of(PACKED, "f4E2M1FN", STEPS * 256), bits=4)
    assert found == set()
    assert (done.counts[PACKED], done.counts["tcgen05.cp"]) == (4 * STEPS, 4 * STEPS)


def test_scales_that_are_not_copied(kernel):
    for found, _ in outcomes(kernel, COPY, without):
        assert "uninitialised" in found


def test_scales_are_not_overwritten_before_they_are_copied(kernel):
    """An arrival in the place of a commit; the kernel copies scales, and multiplies nothing."""
    copying = kernel
    for _ in range(4):
        (copying,) = changed(copying, MULTIPLY, without, 0)

    def arrives(node):
        barrier = node.value.args[0]
        return tirx.Evaluate(T.ptx["mbarrier.arrive.shared::cta.b64"](barrier))

    assert "unwaited copy" not in outcome(copying)[0]
    ((found, said),) = outcomes(copying, "ptx.tcgen05_commit", arrives, 0)
    assert "unwaited copy" in found
    assert "tcgen05.mma reads it, of whose end nothing is known" in said


def test_scales_of_others(kernel):
    """Of another byte of their word, of the other operand, and of no product's columns."""
    other_byte = argument(3, lambda code: code ^ tirx.const(1 << 29, "uint32"))
    assert outcomes(kernel, MULTIPLY, other_byte, 1)[0][0] == {"wrong"}
    assert outcomes(kernel, MULTIPLY, argument(4, plus(4)), 0)[0][0] >= {"wrong"}
    ((found, said),) = outcomes(kernel, MULTIPLY, argument(5, plus(-64 & 0xFFFFFFFF)), 1)
    assert "instruction" in found
    assert "are not the same for each subgroup's lanes" in said


def test_a_byte_at_which_no_scales_of_two_begin():
    kernel = kernel_of(PACKED, "f4E2M1FN", STEPS * 256)
    odd = argument(3, lambda code: code | tirx.const(1 << 29, "uint32"))
    (made,) = changed(kernel, MULTIPLY, odd, 0)
    assert "says no product of kind::mxf4" in outcome(made, bits=4)[1]


def test_columns_outside_of_the_allocation(kernel):
    for name, change in ((COPY, argument(0, plus(64))), (MULTIPLY, argument(4, plus(64)))):
        ((found, said),) = outcomes(kernel, name, change, 0)
        assert "out of bounds" in found
        assert "of tensor memory are not allocated" in said
    few = argument(1, lambda _: tirx.const(64, "uint32"))
    ((found, _),) = outcomes(kernel, "ptx.tcgen05_alloc", few)
    assert "out of bounds" in found


def test_what_is_copied_lies_elsewhere(kernel):
    moved = argument(1, plus(2, "uint64"))
    assert "wrong" in outcomes(kernel, COPY, moved, 0)[0][0]
    version = argument(1, plus(1 << 46, "uint64"))
    assert "is not of this version" in outcomes(kernel, COPY, version, 0)[0][1]
