"""Scatters and searches of Relax, on the CPU and on GPUs: TVM writes them as parallel loops."""

import numpy as np
import pytest
from tvm import relax
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.programs.relax_import.from_relax import from_relax
from tvm_iree_ext.schedules.dispatch import schedule_loops
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program
from tvm_iree_ext.targets.names import make_target

RNG = np.random.default_rng(0)
COMBINE = {"update": None, "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def module(compute, *arrays):
    builder = relax.BlockBuilder()
    names = [
        relax.Var(f"x{place}", relax.TensorType(array.shape, str(array.dtype)))
        for place, array in enumerate(arrays)
    ]
    with builder.function("main", names, attrs={"global_symbol": "main"}):
        with builder.dataflow():
            given = builder.emit_output(compute(*names))
        builder.emit_func_output(given)
    return from_relax(builder.get())


def check(imported, arrays, want, folder):
    """On the CPU, and on two simulated GPUs."""
    np.testing.assert_array_equal(build_program(imported, folder=folder)(*arrays), want)
    for target in ("cuda:sm_80", "rocm:gfx942"):
        (result,) = simulate_program(imported, target, list(arrays)).check().results
        np.testing.assert_array_equal(result, want)


@pytest.mark.costly
@pytest.mark.parametrize("reduction", COMBINE)
def test_slices_are_combined_in_order(reduction, tmp_path):
    data = RNG.integers(-9, 9, (7, 5, 4)).astype("float32")
    places = np.stack([RNG.integers(0, 7, 6), RNG.integers(0, 5, 6)], -1).astype("int64")
    updates = RNG.integers(-9, 9, (6, 4)).astype("float32")
    places[4] = places[1]
    want = data.copy()
    for at, update in zip(places, updates, strict=True):
        combine = COMBINE[reduction]
        want[tuple(at)] = update if combine is None else combine(want[tuple(at)], update)
    imported = module(
        lambda x, i, u: relax.op.scatter_nd(x, i, u, reduction), data, places, updates
    )
    assert [op.name for op in imported.ops.values()] == ["iree_linalg_ext.scatter"]
    check(imported, (data, places, updates), want, tmp_path / "p")


@pytest.mark.parametrize("axis", [0, 1])
def test_elements_are_added_where_they_are_told_to(axis, tmp_path):
    data = RNG.integers(-9, 9, (6, 70)).astype("float32")
    places = RNG.integers(0, data.shape[axis], (4, 50)).astype("int64")
    updates = RNG.integers(-9, 9, places.shape).astype("float32")
    want = data.copy()
    at = list(np.indices(places.shape))
    at[axis] = places
    np.add.at(want, tuple(at), updates)
    imported = module(
        lambda x, i, u: relax.op.scatter_elements(x, i, u, axis, "add"), data, places, updates
    )
    check(imported, (data, places, updates), want, tmp_path / "p")


def test_numbers_are_searched_by_a_lane_each(tmp_path):
    x, bounds = RNG.standard_normal((9, 40)).astype("float32"), np.array([-1, 0, 0.5], "float32")
    imported = module(relax.op.bucketize, x, bounds)
    check(imported, (x, bounds), np.searchsorted(bounds, x), tmp_path / "p")


def test_loops_in_order_outside_of_parallel_ones_are_refused_on_a_gpu():
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        x = I.arg("x", I.buffer((4, 8), "float32"))
        with I.sblock("root"), I.serial(0, 4) as i, I.parallel(0, 8) as j:
            I.buffer_store(x, x[i, j] + 1, [i, j])
    with pytest.raises(ScheduleError, match="neither nests of loops nor parallel loops"):
        schedule_loops(builder.get(), make_target("cuda:sm_80"), "in_order")
