"""Fourier transforms on GPUs: in one pass, in several, with large primes; stages."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.schedules.gpu.fft.fft_rule import GpuFftTransform
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.names import make_target

SMALL = LoweringConfig(
    algorithm="stockham",
    workgroup_tile={"elements": 16, "lanes": 64},
    register_tile={"radix": 4},
)


def check(op, target, seed, config=None, **sizes):
    rng = np.random.default_rng(seed)
    entry = ext.registry.find(op.name)
    operands = {}
    for one in op.signature.arguments:
        shape = [sizes.get(e, e) for e in one.shape]
        operands[one.name] = rng.standard_normal(shape).astype(one.dtype)
    done = simulate_op(op, target, operands, config).check()
    want = entry.reference(op, operands)
    allowed = entry.tolerance(op, operands, want)
    for name, array in want.items():
        limit = allowed[name].absolute + allowed[name].relative * np.abs(array)
        assert np.all(np.abs(done.results[name] - array) <= limit), name
    return done


@pytest.mark.costly
@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
@pytest.mark.parametrize(("length", "kernels"), [(16, 2), (120, 3), (17, 8)])
def test_lines_longer_than_shared_memory_take_several_passes(length, kernels, target):
    op = ops.fft_transform(TensorType((3, length), "float32"))
    assert len(check(op, target, length, SMALL).simulations) == kernels


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
@pytest.mark.parametrize("lines", [8, 7])
def test_stages_exchange_inside_one_part_of_shared_memory(lines, target):
    """Of both parts of a workgroup's lines; one that lacks lines has lanes at every barrier."""
    tiles = {"elements": 256, "lanes": 64}
    config = LoweringConfig("stockham", workgroup_tile=tiles, register_tile={"radix": 4})
    op = ops.fft_transform(TensorType((lines, 64), "float32"))
    check(op, target, lines, config)  # the simulator tells of races, too
    text = GpuFftTransform().lower(op, make_target(target), config).script()
    assert text.count('scope="shared') + text.count("alloc_shared") == 1


@pytest.mark.costly
@pytest.mark.parametrize("target", ["cuda:sm_90a", "rocm:gfx942", "rocm:gfx950"])
@pytest.mark.parametrize(
    ("shape", "axis", "kernels"),
    [((140, 16), 1, 1), ((9, 64), 1, 2), ((1, 2048), 1, 2), ((1, 4096), 1, 2), ((256, 33), 0, 2)],
)
def test_powers_of_two_take_one_pass_without_bank_conflicts(shape, axis, kernels, target):
    """A kernel fills a table of roots, where there are any; one transforms all."""
    op = ops.fft_transform(TensorType(shape, "float32"), axis=axis)
    done = check(op, target, 3)
    assert len(done.simulations) == kernels
    for simulation in done.simulations:
        assert simulation.bank_conflicts == 0
        if axis == 1:  # else lines begin anywhere
            sides = [one for one in simulation.accesses if one.space == "global"]
            assert all(one.total == one.ideal for one in sides)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_passes_of_a_long_row_move_whole_sectors(dtype):
    tiles = {"elements": 512, "longest": 256, "lanes": 64}
    config = LoweringConfig("stockham", workgroup_tile=tiles, register_tile={"radix": 8})
    op = ops.fft_transform(TensorType((1, 1024), dtype))
    _, *passes = check(op, "cuda:sm_90a", 4, config).simulations
    assert len(passes) == 2
    for simulation in passes:
        assert simulation.bank_conflicts == 0
        assert all(one.total == one.ideal for one in simulation.accesses)


@pytest.mark.costly
@pytest.mark.parametrize("target", ["cuda:sm_90a", "rocm:gfx942"])
def test_three_passes_along_an_axis_that_is_not_the_last(target):
    tiles = {"elements": 128, "longest": 128, "lanes": 64}
    config = LoweringConfig("stockham", workgroup_tile=tiles, register_tile={"radix": 4})
    op = ops.fft_transform(TensorType((1, 1728, 3), "float32"), axis=1, kind="inverse")
    assert len(check(op, target, 5, config).simulations) == 4


@pytest.mark.parametrize("kind", ["inverse", "real_to_complex", "complex_to_real"])
def test_kinds_along_any_axis(kind):
    op = ops.fft_transform(TensorType(("n", 9, 5), "float64"), kind=kind, axis=1, norm="ortho")
    check(op, "rocm:gfx1100", 1, SMALL, n=2)


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_stages(target):
    rng = np.random.default_rng(2)
    real, imag = (rng.standard_normal((3, 16), np.float32) for _ in range(2))
    for stage in range(1, 5):
        op = ops.fft((3, 16), (3, 16), stage=stage)
        given = {"real_init": real, "imag_init": imag}
        want = ext.registry.find("iree_linalg_ext.fft").reference(op, given)
        done = simulate_op(op, target, given).check()
        for name, array in want.items():
            np.testing.assert_allclose(done.results[name], array, rtol=1e-5, atol=1e-5)


@pytest.mark.costly
@pytest.mark.parametrize("stage", [0, 4, 5, 63])
def test_a_stage_that_a_line_does_not_have_is_not_computed(stage):
    op = ops.fft((2, 8), (2, 8), stage="operand")
    parts = {name: np.ones((2, 8), np.float32) for name in ("real_init", "imag_init")}
    done = simulate_op(op, "cuda:sm_80", {"stage": stage, **parts}).check()
    assert all(np.all(array == 77) for array in done.results.values())


def test_configs_that_do_not_fit_are_refused():
    op = ops.fft_transform((8, 64))
    for elements, lanes, message in (
        (1 << 15, 512, "262144 bytes;"),
        (4096, 32, "1024 bytes of reg"),
    ):
        config = {**SMALL.to_json(), "workgroup_tile": {"elements": elements, "lanes": lanes}}
        with pytest.raises(ScheduleError, match=message):
            ext.build(op, "cuda:sm_80", config)
    with pytest.raises(ScheduleError, match=r"radix.*is 6"):
        ext.build(op, "cuda:sm_80", {**SMALL.to_json(), "register_tile": {"radix": 6}})
