"""How often ops that memory bounds read and write it: counted by the simulator."""

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op

TARGETS = ("cuda:sm_80", "rocm:gfx942")


def moved(done, *buffers):
    """Bytes that lanes read and write in global memory: of some buffers, or of all."""
    return sum(
        one.ideal * simulation.hardware.segment_bytes
        for simulation in done.simulations
        for one in simulation.accesses
        if one.space == "global" and (not buffers or one.buffer.startswith(buffers))
    )


@pytest.mark.costly
@pytest.mark.parametrize(
    ("target", "dtype"),
    [("cuda:sm_80", "float32"), ("rocm:gfx942", "bfloat16"), ("rocm:gfx1100", "int64")],
)
def test_a_scan_moves_each_element_twice(dtype, target):
    n = 1 << (18 if target == "rocm:gfx942" else 17)
    op = ops.scan((n,), dtype=dtype, dimension=0, reassociate=True)
    x = np.ones(n, "float32").astype(numpy_dtype(dtype))
    init = np.zeros((), x.dtype)
    done = simulate_op(op, target, {"input": x, "accumulator_init": init}).check()
    assert 2 <= moved(done) / x.nbytes <= 2.1


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
def test_a_sort_reads_its_keys_five_times_and_writes_them_four(target):
    keys = np.random.default_rng(0).integers(0, 1 << 32, 1 << 14, dtype=np.uint32)
    lanes = 512 if target.startswith("cuda") else 1024
    config = LoweringConfig("radix", workgroup_tile={"elements": 8192, "lanes": lanes})
    op = ops.sort(keys, dimension=0)
    done = simulate_op(op, target, {"operand0": keys}, config).check()
    np.testing.assert_array_equal(done.results["result0"], np.sort(keys))
    of_keys = moved(done, "operand", "result", "column")
    assert of_keys == 9 * keys.nbytes
    # What workgroups tell one another, which stays in the cache: a tile's count of a digit, that of
    # all up to it, which the next one reads, and the word that is cleared for the next pass.
    told = 4 * keys.size // 8192 * 256 * 4
    assert moved(done, "words") <= 4.1 * told
    assert told == keys.nbytes / 8


def test_the_best_of_a_line_are_found_in_one_pass():
    n, k = 20_000, 8
    config = LoweringConfig("filter", workgroup_tile={"elements": 128, "lanes": 64}, splits=2)
    values = np.random.default_rng(1).standard_normal(n).astype(np.float32)
    inits, places = np.full(k, -np.inf, np.float32), np.full(k, 2**31 - 1, np.int32)
    op = ops.topk(values, inits, dimension=0)
    given = {"values": values, "output_values_init": inits, "output_indices_init": places}
    done = simulate_op(op, "rocm:gfx942", given, config).check()
    np.testing.assert_array_equal(done.results["output_values"], -np.sort(-values)[:k])
    assert 1 <= moved(done) / values.nbytes <= 1.2
