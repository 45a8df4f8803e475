"""Programs whose launches are one graph of CUDA's from the second call on."""

import numpy as np
import pytest
from fake_gpu import compiled, driver_library, gpu, kernels_of_program

from tvm_iree_ext.mlir.importer import import_module
from tvm_iree_ext.mlir.reading.reader import read
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.runtime import launch_graph
from tvm_iree_ext.runtime.launch.driver import Gpu
from tvm_iree_ext.runtime.launch.launcher import Kernels
from tvm_iree_ext.runtime.launch_graph import Launches
from tvm_iree_ext.runtime.program import load
from tvm_iree_ext.targets.names import make_target

__all__ = ["compiled", "driver_library", "gpu"]

TARGET = make_target("cuda:sm_80")
T = "tensor<16x16xf32>"
# Four products in a row, each of which is a kernel.
PRODUCTS = f"""
func.func @main(%x: {T}) -> {T} {{
  %o = arith.constant dense<0.0> : {T}
  %0 = linalg.matmul ins(%x, %x : {T}, {T}) outs(%o : {T}) -> {T}
  %1 = linalg.matmul ins(%0, %x : {T}, {T}) outs(%o : {T}) -> {T}
  %2 = linalg.matmul ins(%1, %x : {T}, {T}) outs(%o : {T}) -> {T}
  %3 = linalg.matmul ins(%2, %x : {T}, {T}) outs(%o : {T}) -> {T}
  return %3 : {T}
}}"""


@pytest.fixture(scope="module")
def imported():
    return import_module(read(PRODUCTS))


@pytest.fixture(scope="module")
def folder(imported, tmp_path_factory):
    place = tmp_path_factory.mktemp("export") / "products"
    build_program(imported, TARGET, folder=place, database=())
    if not (place / "kernel.cubin").exists():  # the simulated driver reads none
        (place / "kernel.ptx").write_text(".version 8.0\n.target sm_80\n")
    return place


@pytest.fixture(scope="module")
def kernels(imported):
    """The program's kernels, as a simulated GPU runs them."""
    return kernels_of_program(imported, TARGET)


@pytest.fixture
def device(kernels, gpu):
    """A GPU that has the program's kernels."""
    gpu.kernels = dict(kernels)
    return gpu


def arrays():
    x = np.random.default_rng(0).standard_normal((16, 16)).astype("float32")
    return x, np.linalg.matrix_power(x.astype("float64"), 5)


def test_further_calls_start_a_graph(device, folder):
    x, expected = arrays()
    program = load(folder)
    first = program(x)
    np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-2)
    launches = device.calls.count("launch")
    assert launches >= 3
    assert not {"node", "graph"} & set(device.calls)
    for count in (1, 2):
        device.calls.clear()
        np.testing.assert_array_equal(program(x), first)
        assert device.calls.count("graph") == 1
        assert device.calls.count("launch") == launches
        assert device.calls.count("node") == (launches if count == 1 else 0)


def test_a_graph_follows_arrays_that_lie_elsewhere(device, folder):
    x, _ = arrays()
    kernels = Kernels(folder)
    names = [one["name"] for one in kernels.plan["parameters"]]
    other = np.flip(x, 0).copy()
    results = []
    with kernels.gpu.current():
        launches = Launches(kernels, {})
        for given in (x, x, other, other, x):
            with kernels.memory() as allocate:
                allocate(int(given[0, 0] > 0) + 256 * len(results))  # the rest lies elsewhere
                addresses = {name: allocate(given.nbytes) for name in names}
                kernels.gpu.write(addresses[names[0]], given.ctypes.data, given.nbytes)
                launches([*addresses.values()], allocate(launches.bytes), 0)
                out = np.empty_like(given)
                kernels.gpu.read(out.ctypes.data, addresses[names[1]], out.nbytes)
                results.append(out)
        assert device.calls.count("graph") == 4
        assert "move" in device.calls
        launches.close()
        launches.close()  # a second time there is nothing to do
    for place in (1, 4):
        np.testing.assert_array_equal(results[place], results[0])
    np.testing.assert_array_equal(results[2], results[3])
    assert not np.array_equal(results[2], results[0])


def test_only_what_moved_is_told_again(device, folder):
    x, _ = arrays()
    kernels = Kernels(folder)
    names = [one["name"] for one in kernels.plan["parameters"]]
    with kernels.gpu.current(), kernels.memory() as allocate:
        launches = Launches(kernels, {})
        addresses = {name: allocate(x.nbytes) for name in names}
        workspace = allocate(launches.bytes)
        for _ in range(3):
            launches([*addresses.values()], workspace, 0)
        assert "move" not in device.calls
        addresses[names[-1]] = allocate(x.nbytes)
        launches([*addresses.values()], workspace, 0)
        assert 1 <= device.calls.count("move") < device.calls.count("node")


def test_what_somebody_records_is_launched_one_by_one(device, folder, monkeypatch):
    x, _ = arrays()
    monkeypatch.setattr(Gpu, "is_recording", lambda _gpu, _stream: True)
    program = load(folder)
    for _ in range(3):
        program(x)
    assert "graph" not in device.calls


def test_few_launches_are_no_graph(device, folder, monkeypatch):
    x, _ = arrays()
    program = load(folder)
    monkeypatch.setattr(launch_graph, "_LEAST_LAUNCHES", 1000)
    for _ in range(3):
        program(x)
    assert "graph" not in device.calls
