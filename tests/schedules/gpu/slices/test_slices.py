"""Slices that indices address, elements at mapped places, windows of convolutions: on GPUs."""

import numpy as np
import pytest
from tvm import s_tir

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.ops import TensorType, vector_ext
from tvm_iree_ext.registry import find
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.schedules.gpu.sblocks.access_runs import widest_run
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import kernel_checks

TARGETS = ("cuda:sm_80", "rocm:gfx942", "rocm:gfx1100")
MOVES = (
    *(f"iree_linalg_ext.{name}" for name in ("gather", "map_load", "map_store", "im2col")),
    *(f"iree_vector_ext.transfer_{name}" for name in ("gather", "scatter")),
)


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
def test_random_moves_agree_with_the_references(target):
    report = kernel_checks.check_random(MOVES, target, count=1, seed=21, simulate=True)
    assert [result for result in report.results if result.status != "passed"] == []


@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_an_embedding_are_read_in_16_bytes(target):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((50, 64)).astype("float16")
    operands = {"source": table, "indices": rng.integers(-1, 51, 37).astype("int64")}
    op = ops.gather((50, 64), ("n",), dtype="float16", index_dtype="int64")
    done = simulate_op(op, target, operands).check()
    want = find(op.name).reference(op, operands)["output"]
    np.testing.assert_array_equal(done.results["output"], want)
    (launch,) = done.simulations
    assert launch.uncoalesced == 0
    wide = {one.access_bytes for one in launch.accesses if one.buffer != "indices"}
    assert wide == {16}


def runs(op):
    """The widest access of each block."""
    sch = s_tir.Schedule(op.prim_func())
    return [widest_run(sch, block) for block in sch.get_child_blocks(sch.get_sblock("root"))]


def windows(channels, dtype="float16", **form):
    how = {"kernel_size": [3, 3], "batch_pos": [0], "m_pos": [1, 2], "k_pos": [3]}
    return ops.im2col((2, 16, 16, channels), dtype=dtype, **how, **form)


@pytest.mark.parametrize(
    ("op", "want"),
    [
        (ops.gather((9, 64), (5,), dtype="float16"), [8]),
        (ops.gather((9, 12), ("n",), dtype="float16"), [4]),
        (ops.gather((9, "d"), (5,)), [1]),  # a row may begin anywhere
        (ops.gather((9, 64), (5,), dtype="bool"), [1]),  # CUDA has no vectors of bool
        (ops.scatter((5, 64), (5,), (9, 64)), [4, 4]),
        (ops.scatter((5, 64), (5,), (9, 64), region="add"), [4, 1]),  # computed, not moved
        (windows(32), [8]),
        (windows(3), [1]),
        (windows(32, output_sizes=[[2], [14], [14], [3, 3, 32]]), [8]),
        (windows(32, input_pad_low=[0, 1, 1, 0], input_pad_high=[0, 1, 1, 0]), [8]),
        (ops.map_load((64, 64), (64, 64), "arg0 + 1, arg1 + 4, 0.0"), [4]),
        (ops.map_load((64, 64), (64, 64), "arg0 + 1, arg1 + 2, 0.0"), [2]),
        (ops.map_load((64, 64), (64, 64), "arg1, arg0, 0.0"), [1]),
        (ops.map_store((64, 64), (64, 80), "arg0, arg1 + 8, arg1 < 33"), [4, 1]),
    ],
    ids=lambda value: value.name.split(".")[1] if hasattr(value, "name") else "",
)
def test_accesses_are_as_wide_as_the_indices_allow(op, want):
    assert runs(op) == want


@pytest.mark.costly
@pytest.mark.parametrize(("dtype", "padding"), [("int8", 3), ("uint16", "operand")])
def test_a_padding_of_a_few_bits_fills_wide_accesses(dtype, padding):
    maps = ["(d0, d1)[s0] -> (s0, d1)", "(d0, d1)[s0] -> (d0)", "(d0, d1)[s0] -> (d0)"]
    op = vector_ext.transfer_gather(
        (8, 32), (4,), result=(4, 32), indexing_maps=maps, mask=(4,), padding=padding, dtype=dtype
    )
    target = make_target("cuda:sm_80")
    rule = choose(op, target)
    code = compile_device(rule.lower(op, target, rule.heuristic(op, target)), target)
    if code.ptx is None:
        pytest.skip(f"no PTX: {code.missing}")
    assert "st.global.v4" in code.ptx


def test_an_index_out_of_range_cannot_be_an_error():
    op = ops.gather((8, 4), (3,), out_of_range="error")
    with pytest.raises(ScheduleError, match=r"gpu\.gather: out_of_range is 'error'"):
        choose(op, make_target("cuda:sm_80"))


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("offset", [0, 1, -(2**63), 2**62, -1])
def test_transfers_touch_nothing_outside(target, offset):
    index = np.array([5, -1, 6, -(2**63), 2**63 - 1, 0])
    base = np.arange(24, dtype="float32").reshape(6, 4)
    vector = -np.arange(24, dtype="float32").reshape(6, 4)
    given = {
        "indexing_maps": ["(d0, d1)[s0] -> (s0, d1)", "(d0, d1)[s0] -> (d0)"],
        "offsets": ("operand", 0),
    }
    operands = {"base": base, "index0": index, "offset0": offset}
    gather = vector_ext.transfer_gather(
        ("n", 4), TensorType((6,), "int64"), result=(6, 4), padding=-1, **given
    )
    scatter = vector_ext.transfer_scatter((6, 4), ("n", 4), TensorType((6,), "int64"), **given)
    for op, rest in ((gather, {}), (scatter, {"vector": vector})):
        done = simulate_op(op, target, operands | rest).check()
        want = find(op.name).reference(op, operands | rest)["result"]
        np.testing.assert_array_equal(done.results["result"], want)
