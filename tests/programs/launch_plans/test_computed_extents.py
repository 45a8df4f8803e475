"""Extents that a run computes, on GPUs: of tensors within a function, and of its results."""

import subprocess
import sys

import numpy as np
import pytest
from fake_gpu import compiled, driver_library, gpu, kernels_of_program
from torch_on_gpu import STREAM, Torch, TorchTensor

from tvm_iree_ext.base.errors import CallError, SimulationError
from tvm_iree_ext.emulator.runs.emulated_programs import emulated_program
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.runtime.launch.driver import Gpu
from tvm_iree_ext.runtime.launch.launcher import Kernels
from tvm_iree_ext.runtime.program import load
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program
from tvm_iree_ext.targets.names import make_target

__all__ = ["compiled", "driver_library", "gpu"]

TARGET = make_target("rocm:gfx942")
# A part that data tell, and its sum; a tensor of two such extents, another and its transpose; and
# what a branch makes longer.
PROGRAM = """
func.func @part(%x: tensor<8xf32>, %n: tensor<i64>) -> (tensor<?xf32>, tensor<f32>) {
  %zero = arith.constant 0.0 : f32
  %m = tensor.extract %n[] : tensor<i64>
  %k = arith.index_cast %m : i64 to index
  %0 = tensor.extract_slice %x[1] [%k] [1] : tensor<8xf32> to tensor<?xf32>
  %1 = arith.addf %0, %0 : tensor<?xf32>
  %e = tensor.empty() : tensor<f32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %s = linalg.reduce ins(%1 : tensor<?xf32>) outs(%z : tensor<f32>) dimensions = [0]
    (%in: f32, %sum: f32) {
      %2 = arith.addf %in, %sum : f32
      linalg.yield %2 : f32
    }
  return %1, %s : tensor<?xf32>, tensor<f32>
}

func.func @sum(%x: tensor<8xf32>, %n: tensor<i64>) -> tensor<f32> {
  %0:2 = func.call @part(%x, %n) : (tensor<8xf32>, tensor<i64>) -> (tensor<?xf32>, tensor<f32>)
  return %0#1 : tensor<f32>
}

func.func @filled(%a: tensor<f32>, %n: tensor<2xi64>)
    -> (tensor<?x?xf32>, tensor<4xi64>, tensor<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = tensor.extract %n[%c0] : tensor<2xi64>
  %l = tensor.extract %n[%c1] : tensor<2xi64>
  %rows = arith.index_cast %k : i64 to index
  %columns = arith.index_cast %l : i64 to index
  %v = tensor.extract %a[] : tensor<f32>
  %e = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %0 = linalg.fill ins(%v : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %1 = tensor.concat dim(0) %n, %n : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64>
  %t = tensor.empty(%columns, %rows) : tensor<?x?xf32>
  %2 = linalg.transpose ins(%0 : tensor<?x?xf32>) outs(%t : tensor<?x?xf32>) permutation = [1, 0]
  return %0, %1, %2 : tensor<?x?xf32>, tensor<4xi64>, tensor<?x?xf32>
}

func.func @branched(%c: i1, %x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = scf.if %c -> tensor<?xf32> {
    %1 = tensor.concat dim(0) %x, %x : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    scf.yield %1 : tensor<?xf32>
  } else {
    scf.yield %x : tensor<?xf32>
  }
  return %0 : tensor<?xf32>
}
"""
X = np.arange(8, dtype="f4")


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    file = tmp_path_factory.mktemp("extents") / "extents.mlir"
    file.write_text(PROGRAM)
    return import_program(file)


@pytest.fixture(scope="module")
def folder(imported, tmp_path_factory):
    place = tmp_path_factory.mktemp("extents") / "program"
    build_program(imported, TARGET, folder=place, database=())
    return place


@pytest.fixture(params=["emulated", "simulated"])
def on_gpu(imported, folder, request):
    """Calls of the functions, by the artifact's plans or by those of another chip."""
    if request.param == "emulated":
        program = emulated_program(folder)
        return lambda name, *given: program[name](*given)

    def simulated(name, *given):
        done = simulate_program(imported, "cuda:sm_80", given, name, database=())
        results = done.check().results
        return results[0] if len(results) == 1 else results

    return simulated


@pytest.mark.parametrize("count", [3, 0])
def test_a_part_that_data_tell(on_gpu, count):
    part, total = on_gpu("part", X, np.array(count))
    np.testing.assert_array_equal(part, 2 * X[1 : 1 + count])
    assert total == 2 * X[1 : 1 + count].sum()
    assert on_gpu("sum", X, np.array(count)) == total


@pytest.mark.parametrize("extents", [(2, 3), (0, 3), (3, 0)])
def test_results_among_which_one_has_an_extent_that_is_known(on_gpu, extents):
    filled, doubled, turned = on_gpu("filled", np.array(1.5, "f4"), np.array(extents))
    np.testing.assert_array_equal(filled, np.full(extents, 1.5))
    np.testing.assert_array_equal(doubled, extents * 2)
    np.testing.assert_array_equal(turned, filled.T)


@pytest.mark.parametrize("count", [3, 0])
def test_what_a_branch_makes_longer(on_gpu, count):
    x = X[:count]
    np.testing.assert_array_equal(on_gpu("branched", np.bool_(True), x), np.tile(x, 2))
    np.testing.assert_array_equal(on_gpu("branched", np.bool_(False), x), x)


def test_an_extent_below_0(on_gpu):
    with pytest.raises((CallError, SimulationError), match="extent that is computed is below 0"):
        on_gpu("part", X, np.array(-1))


def test_arrays_of_the_caller_are_filled_where_they_are_as_long(folder):
    part, out = emulated_program(folder)["part"], (np.zeros(3, "f4"), np.zeros((), "f4"))
    assert part(X, np.array(3), out=out)[0] is out[0]
    np.testing.assert_array_equal(out[0], [2, 4, 6])
    assert out[1] == 12
    with pytest.raises(CallError, match=r"\[3\]; expected \[2\]"):
        part(X, np.array(2), out=out)


@pytest.fixture
def device(imported, gpu):
    """A GPU that has the program's kernels."""
    gpu.kernels = kernels_of_program(imported, TARGET)
    return gpu


def test_results_on_the_gpu_go_by_its_stream(device, folder, monkeypatch):
    torch = Torch(Gpu("rocm"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    part = load(folder)["part"]
    x, count = TorchTensor(torch.gpu, X), TorchTensor(torch.gpu, np.array(3))
    results = part(x, count)
    for came, want in zip(results, ([2, 4, 6], 12), strict=True):
        np.testing.assert_array_equal(came.array, want)
    assert device.streams == [STREAM] * len(device.streams)
    assert device.calls == ["load", "wait", "launch", "launch"]  # for the number that is read
    out = TorchTensor(torch.gpu, np.zeros(3, "f4")), TorchTensor(torch.gpu, np.zeros((), "f4"))
    assert part(x, count, out=out)[0] is out[0]
    np.testing.assert_array_equal(out[0].array, [2, 4, 6])
    on_host = np.zeros(3, "f4"), np.zeros((), "f4")
    part(x, count, out=on_host)
    np.testing.assert_array_equal(on_host[0], [2, 4, 6])
    part(X, np.array(3), out=out)


def test_the_script_writes_results(device, folder, tmp_path):
    np.testing.assert_array_equal(Kernels(folder, function="part")(X, np.array(3))[0], [2, 4, 6])
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "n.npy", np.array(3))
    command = [sys.executable, str(folder / "launch.py"), "part", "x.npy", "n.npy"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=device.environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr + str(device.calls)
    np.testing.assert_array_equal(np.load(tmp_path / "result0.npy"), [2, 4, 6])
    assert np.load(tmp_path / "result1.npy") == 12
