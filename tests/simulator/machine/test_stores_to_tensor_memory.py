"""Tensor memory that lanes store to, and that is multiplied: what attention may not forget."""

import math

import numpy as np
import pytest
from tvm import tirx
from tvm.script import tirx as T

from tests.support.changed_calls import argument, changed, without
from tests.support.warpgroup_products import BLACKWELL
from tvm_iree_ext import ops
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.schedules.gpu.attention.attention_config import (
    WARPGROUP_ALGORITHM,
    GpuAttentionConfig,
)
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup import plan_warpgroups
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup_kernel import warpgroup_attention
from tvm_iree_ext.simulator import TensorMap, device_functions, simulate

KIND, ROWS, KEYS, STEP, HEAD = "NV_TCGEN05_F32_128x64x16_F16", 128, 4 * 64, 64, 64
OP = ops.attention(
    (1, 1, ROWS, HEAD), (1, 1, KEYS, HEAD), (1, 1, KEYS, HEAD), dtype="float16"
)  # fmt: skip


@pytest.fixture(scope="module")
def kernel():
    config = GpuAttentionConfig(
        WARPGROUP_ALGORITHM, rows=ROWS, columns=HEAD, keys=STEP, subgroups=4,
        promote=("query", "key", "value"), mma_kind=KIND, stages=2,
    )  # fmt: skip
    func = warpgroup_attention(plan_warpgroups(OP, BLACKWELL, config))
    (made,) = device_functions(lower_device(func, BLACKWELL))
    return made


def outcome(kernel):
    """The findings' kinds, and "wrong" where the result is; and what they say."""
    random = np.random.default_rng(0)
    query, key, value = (
        random.standard_normal((1, 1, count, HEAD)).astype("float16")
        for count in (ROWS, KEYS, KEYS)
    )
    # Maxima grow by more than weights may, so that the last steps rescale outputs.
    key *= np.repeat(8.0 ** np.arange(4) / 32, STEP)[:, None].astype("float16")
    output = np.zeros((1, 1, ROWS, HEAD), "float16")
    given = {
        "query_map": TensorMap(query, (1, 1, ROWS, 64), 128),
        "key_map": TensorMap(key, (1, 1, STEP, 64), 128),
        "value_map": TensorMap(value, (1, 1, STEP, 64), 128),
        "query": query, "key": key, "value": value, "output": output,
    }  # fmt: skip
    names = [str(parameter.name).removesuffix("_ptr") for parameter in kernel.params]
    done = simulate(kernel, {name: given[name] for name in names})
    scores = query[0, 0].astype(float) @ key[0, 0].astype(float).T / math.sqrt(HEAD)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    want = weights @ value[0, 0].astype(float) / weights.sum(axis=1, keepdims=True)
    found = {finding.kind for finding in done.findings}
    said = " ".join(finding.message for finding in done.findings)
    return found if np.allclose(output[0, 0], want, 2e-2, 2e-2) else found | {"wrong"}, said, done


def outcomes(kernel, name, change, which=None):
    return [outcome(made)[:2] for made in changed(kernel, name, change, which)]


def test_a_right_kernel_gives_no_finding(kernel):
    found, _, done = outcome(kernel)
    assert found == set()
    steps, chunks, rescaled = KEYS // STEP, HEAD // 32, 2  # no growth of the second is so large
    loads = steps * STEP // 32 + (rescaled + 1) * chunks
    stores = steps + rescaled * chunks
    assert (done.counts["tcgen05.ld"], done.counts["tcgen05.st"]) == (4 * loads, 4 * stores)
    assert done.counts[KIND] == 2 * 4 * steps


def test_waits(kernel):
    """For slots and tiles; for weights, for a step's scores, and for the last outputs."""
    made = outcomes(kernel, "cuda.mbarrier_wait", without)
    assert all("unwaited copy" in found for found, _ in made)
    weights, scores, outputs = (said for _, said in (made[5], made[7], made[8]))
    assert "column 0 of tensor memory is multiplied by subgroup 1 while tcgen05.mma adds" in weights
    assert "column 0 of tensor memory is loaded by subgroup 4 while tcgen05.mma adds" in scores
    assert "column 64 of tensor memory is multiplied into while subgroup 4 loads it" in outputs


def test_weights_are_not_overwritten_while_they_are_multiplied(kernel):
    """What arrives in the place of a commit says nothing of the products of the step before."""

    def arrives(node):
        barrier = node.value.args[0]
        return tirx.Evaluate(T.ptx["mbarrier.arrive.shared::cta.b64"](barrier))

    said = [said for _, said in outcomes(kernel, "ptx.tcgen05_commit", arrives)]
    assert "column 0 of tensor memory is stored to by subgroup 4 while tcgen05.mma reads" in said[3]
    assert "column 64 of tensor memory is stored to by subgroup 4 while tcgen05.mma adds" in said[3]


def test_without_a_commit_somebody_waits_for_ever(kernel):
    for found, _ in outcomes(kernel, "ptx.tcgen05_commit", without):
        assert "divergent barrier" in found


def test_loads_and_stores_are_waited_for(kernel):
    scores, rescaled, stored, results = outcomes(kernel, "ptx.tcgen05_wait", without)
    for found, _ in (scores, rescaled, results):
        assert {"uninitialised", "unwaited copy"} <= found
    assert "column 0 of tensor memory is stored to while subgroup 4 loads it" in scores[1]
    assert "column 64 of tensor memory is stored to while subgroup 4 loads it" in rescaled[1]
    assert "depends on a register before wait::ld" in results[1]
    assert "column 0 of tensor memory is multiplied while subgroup 4 stores to it" in stored[1]


def test_fences(kernel):
    made = outcomes(kernel, "ptx.tcgen05_fence", without)
    assert all(found for found, _ in made)
    assert "column 0 of tensor memory is multiplied while subgroup 4 stores to it" in made[4][1]
    assert "column 0 of tensor memory is freed while subgroup 5 stores to it" in made[7][1]


def test_stores(kernel):
    """Those that are left out, that reach other lanes, or columns that nobody allocated."""
    for found, _ in outcomes(kernel, "ptx.tcgen05_st", without):
        assert "wrong" in found
    lanes = argument(0, lambda at: at + tirx.const(32 << 16, "uint32"))
    columns = argument(0, lambda at: at + tirx.const(128, "uint32"))
    for which in (0, 1):
        ((found, said),) = outcomes(kernel, "ptx.tcgen05_st", lanes, which)
        assert "instruction" in found
        assert "subgroup 4 stores to lanes of tensor memory from 32 on; it reaches" in said
        ((found, said),) = outcomes(kernel, "ptx.tcgen05_st", columns, which)
        assert "out of bounds" in found


def test_weights_elsewhere(kernel):
    """A from another column, from columns that nobody allocated, from lanes in the middle."""
    said = []
    for more in (8, 128, 32 << 16):
        moved = argument(1, lambda at, more=more: at + tirx.const(more, "uint32"))
        ((found, message),) = outcomes(kernel, "ptx.tcgen05_mma_ts", moved, 0)
        assert "wrong" in found
        said.append(message)
    assert "columns 128..135 of tensor memory are not allocated" in said[1]
    assert "A begins in lane 32 of tensor memory; expected 0" in said[2]


def test_weights_along_m(kernel):
    """A in tensor memory has no other order."""
    along_m = argument(3, lambda code: code | tirx.const(1 << 15, "uint32"))
    ((found, said),) = outcomes(kernel, "ptx.tcgen05_mma_ts", along_m, 0)
    assert "instruction" in found
    assert "A in tensor memory has K contiguous" in said
