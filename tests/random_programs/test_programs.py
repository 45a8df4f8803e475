"""Random programs of fixed seeds, each built and run: ``tvm-iree-ext fuzz programs`` tries more."""

import pytest

from tvm_iree_ext.errors import ExtError
from tvm_iree_ext.random_programs import TYPES, trial
from tvm_iree_ext.random_programs.doors.doors import check_door
from tvm_iree_ext.random_programs.task import Recipe, Setting, Task

LINALG = [(seed, dtype) for dtype in TYPES for seed in (1, 3)]
STABLEHLO = [(seed, dtype) for dtype in ("float32", "int32", "bool") for seed in (0, 1)]

JAX = [(0, "int32"), (1, "bfloat16"), (1, "float64"), (0, "bool")]
TORCH = [(0, "float16"), (1, "int32"), (1, "uint8")]
RELAX = [(0, "int32"), (0, "uint8"), (0, "bool"), (1, "float64")]


def assert_right(door, seed, dtype, *target, simulate=False):
    try:
        check_door(door)
    except ExtError as error:
        pytest.skip(str(error))
    task = Task(Recipe(seed, dtype, 16), Setting(door, *target, simulate=simulate))
    outcome = trial.tried(task)
    assert (outcome.kind, outcome.message) == ("right", ""), outcome.web.to_json()


@pytest.mark.parametrize(("seed", "dtype"), LINALG)
def test_linalg(seed, dtype):
    assert_right("linalg", seed, dtype)


@pytest.mark.parametrize(("seed", "dtype"), STABLEHLO)
def test_stablehlo(seed, dtype):
    assert_right("stablehlo", seed, dtype)


@pytest.mark.parametrize(("seed", "dtype"), JAX)
def test_jax(seed, dtype):
    assert_right("jax", seed, dtype)


@pytest.mark.parametrize(("seed", "dtype"), TORCH)
def test_torch(seed, dtype):
    assert_right("torch", seed, dtype)


@pytest.mark.parametrize(("seed", "dtype"), RELAX)
def test_relax(seed, dtype):
    assert_right("relax", seed, dtype)


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_a_simulated_gpu(target):
    assert_right("linalg", 6, "float32", target, simulate=True)
