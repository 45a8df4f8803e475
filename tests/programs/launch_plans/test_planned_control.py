"""Loops and branches that hang on what kernels compute, on GPUs: simulated, and from artifacts."""

import numpy as np
import pytest
from places import DATA

from tvm_iree_ext.base.errors import CallError, SimulationError
from tvm_iree_ext.emulator.runs.emulated_programs import emulated_program
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program


@pytest.fixture(scope="module")
def imported():
    return import_program(DATA / "mlir" / "control.mlir")


@pytest.fixture(scope="module", params=["rocm:gfx942", "cuda:sm_80"])
def on_gpu(imported, request, tmp_path_factory):
    """Calls of an artifact's functions, each by a launch plan, on an emulated GPU."""
    folder = tmp_path_factory.mktemp("control") / "program"
    build_program(imported, request.param, folder=folder, database=())
    return emulated_program(folder)


def row(*numbers):
    return np.array(numbers, "f4")


@pytest.mark.parametrize("count", [0, 1, 5, -3])
def test_a_loop_whose_end_data_decide(on_gpu, count):
    x = row(1, 2, -3, 0.5)
    result = on_gpu["powers"](x, np.array(count, "i4"))
    np.testing.assert_array_equal(result, x ** (max(count, 0) + 1))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_what_is_carried_on_in_another_order(on_gpu, count):
    a, b = row(1, 2, 3, 4), row(5, 6, 7, 8)
    results = on_gpu["swapped"](a, b, np.int64(count))
    steps = [*range(0, count, 2)]
    first, second = (a, b) if len(steps) % 2 == 0 else (b, a)
    for came, want in zip(results, (first, second, a, [0, *steps][-1]), strict=True):
        np.testing.assert_array_equal(came, want)


def test_a_loop_that_ends_when_data_say_so(on_gpu):
    last, steps = on_gpu["collatz"](np.array(6, "i8"))
    assert (last, steps) == (1, 8)
    x = row(1, 2, 3, 2)
    halved, total = on_gpu["halved"](x)
    np.testing.assert_array_equal(halved, x / 16)
    assert total == 1


def test_branches(on_gpu):
    a, b = row(1, 2, 3, 4), row(5, 6, 7, 9)
    np.testing.assert_array_equal(on_gpu["chosen"](np.bool_(True), a, b), a)
    np.testing.assert_array_equal(on_gpu["chosen"](np.bool_(False), a, b), b - a)
    for key, want in ((2, a + a), (5, a * a), (-1, a)):
        np.testing.assert_array_equal(on_gpu["switched"](np.int64(key), a), want)


def test_a_loop_in_a_loop(on_gpu):
    x = row(1, 1, 2)
    np.testing.assert_array_equal(on_gpu["rows"](x), x + x + row(4, 5, 6) + x)


@pytest.mark.parametrize("count", [0, 3])
def test_what_steps_insert(on_gpu, count):
    x, a = np.random.default_rng(0).integers(-9, 9, (2, 4, 3)).astype("f4")
    given = a.copy()
    inserted, added, checked, total = on_gpu["recorded"](x, a, np.int64(count))
    sums = np.cumsum(x[:count], axis=0)
    np.testing.assert_array_equal(inserted, np.vstack([sums, a[count:]]))
    np.testing.assert_array_equal(added, np.vstack([a[:count] + sums, a[count:]]))
    np.testing.assert_array_equal(checked, inserted)
    np.testing.assert_array_equal(total, sums[-1] if count else np.zeros(3))
    np.testing.assert_array_equal(a, given)


@pytest.mark.parametrize("count", [0, 2])
def test_results_that_are_as_long_as_a_loop_makes_them(on_gpu, count):
    x, y = row(1, 2, 3), row(4, 5, 6)
    grown, added = on_gpu["doubled"](x, y, np.int64(count))
    np.testing.assert_array_equal(grown, np.tile(x, 2**count))
    np.testing.assert_array_equal(added, x + count * y + x)


LOOP = """
func.func @f(%x: tensor<?xf32>, %n: index, %step: index) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %0 = scf.for %i = %c0 to %n step %step iter_args(%a = %x) -> (tensor<?xf32>) {
    %1 = arith.addf %a, %x : tensor<?xf32>
    scf.yield %1 : tensor<?xf32>
  }
  %1 = arith.mulf %0, %x : tensor<?xf32>
  return %1 : tensor<?xf32>
}
"""


def test_extents_that_a_call_tells(tmp_path):
    (tmp_path / "loop.mlir").write_text(LOOP)
    loop = import_program(tmp_path / "loop.mlir")
    x = row(1, -2, 3)

    def simulated(count, step):
        return simulate_program(loop, "cuda:sm_80", [x, np.int64(count), np.int64(step)]).check()

    np.testing.assert_array_equal(simulated(5, 2).results[0], 4 * x * x)
    with pytest.raises(SimulationError, match="step of a loop is below 1"):
        simulated(5, 0)
    program = build_program(loop, "rocm:gfx942", folder=tmp_path / "program", database=())
    program = emulated_program(program.folder)
    for count in (4, 0, 4):  # what a stretch launches is known the third time
        np.testing.assert_array_equal(program(x, np.int64(count), np.int64(1)), (count + 1) * x * x)
    with pytest.raises(CallError, match="step of a loop is below 1"):
        program(x, np.int64(1), np.int64(-1))


GROWN = """
func.func @grown(%x: tensor<?xf32>, %n: index) -> tensor<f32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> (tensor<?xf32>) {
    %1 = tensor.concat dim(0) %a, %a : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    scf.yield %1 : tensor<?xf32>
  }
  %e = tensor.empty() : tensor<f32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %s = linalg.reduce ins(%0 : tensor<?xf32>) outs(%z : tensor<f32>) dimensions = [0]
    (%in: f32, %sum: f32) {
      %1 = arith.addf %in, %sum : f32
      linalg.yield %1 : f32
    }
  return %s : tensor<f32>
}
"""


def test_what_grows_from_round_to_round(tmp_path):
    """Memory of a state that grows moves, while the round's kernels read it where it was."""
    (tmp_path / "grown.mlir").write_text(GROWN)
    grown = import_program(tmp_path / "grown.mlir")
    program = build_program(grown, "rocm:gfx942", folder=tmp_path / "program", database=())
    reads = [step for step in program.manifest.launch["grown"]["steps"] if "read" in step]
    assert len(reads) == 1  # where the loop ends: its start and its step are numbers
    program = emulated_program(program.folder)
    for count in (3, 0, 1):
        assert program(row(1, 2, 3), np.int64(count)) == 6 * 2**count
