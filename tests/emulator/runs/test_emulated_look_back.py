"""Workgroups that run at the same time and wait for one another's words, in compiled code."""

from dataclasses import replace

import numpy as np
import pytest
from cut_lines import cut_small

from tvm_iree_ext import ops
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.codegen.gpu import cuda
from tvm_iree_ext.emulator.runs.emulated_ops import emulate_op
from tvm_iree_ext.schedules.gpu.scan.scan_rule import GpuScan
from tvm_iree_ext.targets.names import make_target

OBSTACLE = cuda.nvrtc_obstacle()
TARGETS = [
    pytest.param("cuda:sm_80", marks=pytest.mark.skipif(bool(OBSTACLE), reason=str(OBSTACLE))),
    "rocm:gfx942",
    "rocm:gfx1100",
]


@pytest.fixture(autouse=True)
def executed(monkeypatch):
    pytest.importorskip("tinygrad")
    monkeypatch.setattr(cuda, "find_tool", lambda name: None)  # no cubin: it is not executed


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
def test_a_line_of_more_than_a_group_of_parts_is_scanned(target):
    x = np.random.default_rng(1).integers(-9, 9, 9000 if "gfx942" not in target else 17_000)
    x = x.astype("int64")
    op = ops.scan(x.shape, dtype="int64", dimension=0, inclusive=False)
    usual = replace(GpuScan().heuristic(op, make_target(target)), vector_lanes=1)
    given = {"input": x, "accumulator_init": np.array(7)}
    done = emulate_op(op, target, given, cut_small(usual, target, 2, 1, 0), order=1)
    np.testing.assert_array_equal(done["output"], 7 + np.cumsum(x) - x)


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
def test_lines_of_several_tiles_are_sorted_by_digits(target):
    keys = np.random.default_rng(2).integers(0, 300, (2, 1500)).astype(np.uint16)
    payload = np.arange(3000, dtype=np.int32).reshape(2, 1500)
    config = LoweringConfig("radix", workgroup_tile={"elements": 128, "lanes": 64})
    op = ops.sort(keys, payload, dimension=1)
    done = emulate_op(op, target, {"operand0": keys, "operand1": payload}, config, order=1)
    order = np.argsort(keys, axis=1, kind="stable")
    np.testing.assert_array_equal(done["result1"], np.take_along_axis(payload, order, 1))
