"""Random programs of fixed seeds at every door; ``tvm-iree-ext fuzz programs`` tries more."""

import overreach
import pytest

from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.processes import workers
from tvm_iree_ext.random_programs import TYPES
from tvm_iree_ext.random_programs.doors.doors import NEEDS, check_door, find_door
from tvm_iree_ext.random_programs.trials import trial
from tvm_iree_ext.random_programs.trials.reproduction import script
from tvm_iree_ext.random_programs.trials.task import ProgramTask, Recipe, Setting

LINALG = [((1, 3)[number % 2], dtype) for number, dtype in enumerate(TYPES)]
STABLEHLO = [(0, "float32"), (1, "float32"), (0, "int32"), (1, "bool")]

JAX = [(0, "int32"), (1, "bfloat16"), (1, "float64"), (0, "bool")]
TORCH = [(0, "float16"), (1, "int32"), (1, "uint8")]
RELAX = [(0, "int32"), (0, "uint8"), (0, "bool"), (1, "float64")]


def assert_right(door, seed, dtype, *target, **how):
    try:
        check_door(door)
    except ExtError as error:
        pytest.skip(str(error))
    task = ProgramTask(Recipe(seed, dtype, 16), Setting(door, *target, **how))
    outcome = trial.tried(task)
    assert (outcome.kind, outcome.message) == ("right", ""), outcome.web.to_json()


@pytest.mark.costly
@pytest.mark.parametrize(("seed", "dtype"), LINALG)
def test_linalg(seed, dtype):
    assert_right("linalg", seed, dtype)


@pytest.mark.costly
@pytest.mark.parametrize(("seed", "dtype"), STABLEHLO)
def test_stablehlo(seed, dtype):
    assert_right("stablehlo", seed, dtype)


@pytest.mark.costly
@pytest.mark.parametrize(("seed", "dtype"), JAX)
def test_jax(seed, dtype):
    assert_right("jax", seed, dtype)


@pytest.mark.costly
@pytest.mark.parametrize(("seed", "dtype"), TORCH)
def test_torch(seed, dtype):
    assert_right("torch", seed, dtype)


@pytest.mark.costly
@pytest.mark.parametrize(("seed", "dtype"), RELAX)
def test_relax(seed, dtype):
    assert_right("relax", seed, dtype)


@pytest.mark.costly
@pytest.mark.parametrize("door", NEEDS)
def test_what_is_printed_of_a_program_runs(door):
    try:
        check_door(door)
    except ExtError as error:
        pytest.skip(str(error))
    web = trial.web_of(ProgramTask(Recipe(0, "int32", 5), Setting(door)))
    text = script(web, find_door(door), "llvm", simulate=False)
    exec(compile(text, "script", "exec"), {})


@pytest.mark.parametrize(
    ("seed", "dtype", "target", "op"),
    [
        (6, "float32", "cuda:sm_80", "sort"),
        (20, "float32", "rocm:gfx942", "cond"),
        (23, "int32", "cuda:sm_80", "while"),
    ],
)
def test_a_simulated_gpu(seed, dtype, target, op):
    task = ProgramTask(Recipe(seed, dtype, 16), Setting("linalg", target, simulate=True))
    assert op in {node.op for node in trial.web_of(task).nodes}
    assert_right("linalg", seed, dtype, target, simulate=True)


@pytest.mark.costly
@pytest.mark.parametrize(("seed", "dtype"), [(2, "float32"), (4, "bfloat16"), (5, "int32")])
def test_arrays_beside_pages_that_cannot_be_touched(seed, dtype):
    assert_right("linalg", seed, dtype, guard=True)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("door", "seed", "dtype"), [("linalg", 1, "float32"), ("relax", 2, "int8")]
)
def test_stage_by_stage(door, seed, dtype):
    assert_right(door, seed, dtype, passes=True)


def test_a_simulated_gpu_stage_by_stage():
    assert_right("linalg", 6, "float32", "cuda:sm_80", simulate=True, passes=True)


def test_a_load_behind_the_end_of_an_array_ends_the_process(tmp_path):
    task = ProgramTask(Recipe(2, "float32", 16), Setting("linalg", guard=True))
    worker = workers.Worker(300.0, str(tmp_path))
    try:
        with pytest.raises(workers.WorkerDied, match="SIGSEGV"):
            worker.call(overreach.guarded, task)
    finally:
        worker.end()
