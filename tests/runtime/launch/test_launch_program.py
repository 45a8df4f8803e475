"""Programs for GPUs from their artifacts, on a driver whose launches the simulator runs."""

import math
import subprocess
import sys

import numpy as np
import pytest
from fake_gpu import kernels_of_program
from places import DATA

from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.program_checks import recorded_arrays
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.runtime.launch.driver import DriverError
from tvm_iree_ext.runtime.launch.launcher import Kernels, numpy_type
from tvm_iree_ext.runtime.program import load
from tvm_iree_ext.targets.names import make_target

PROGRAMS = DATA / "ir"
TARGET = make_target("rocm:gfx942")


@pytest.fixture(scope="module")
def imported():
    return import_program(PROGRAMS / "mha_block.mlir")


@pytest.fixture(scope="module")
def folder(imported, tmp_path_factory):
    place = tmp_path_factory.mktemp("export") / "mha"
    build_program(imported, TARGET, folder=place, database=())
    return place


@pytest.fixture
def device(imported, gpu):
    """A GPU that has the program's kernels."""
    gpu.kernels = kernels_of_program(imported, TARGET)
    return gpu


def arrays():
    found = recorded_arrays.read_arrays(PROGRAMS / "mha_block.npz")
    return found["in0"], found["out0"]


def test_a_program_is_called_like_one_of_a_cpu(device, folder):
    x, expected = arrays()
    program = load(folder)
    result = program(x)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    launches = device.calls.count("launch")
    # Constants are there before any stream reads them.
    assert device.calls[:8] == ["load", *["wait"] * 6, "launch"]
    out = np.zeros_like(expected)
    assert program(x, out=out) is out
    np.testing.assert_array_equal(out, result)
    assert device.calls.count("launch") == 2 * launches
    assert device.calls.count("load") == 1
    assert len(device.held) == 6  # the constants stay
    with pytest.raises(CallError, match="arg0"):
        program(x[0])


def test_constants_go_back_where_there_is_no_room_for_all(device, folder):
    x, expected = arrays()
    kernels, out = Kernels(folder), np.zeros_like(expected)
    constants = kernels.plan["constants"]
    sizes = [math.prod(one["shape"]) * numpy_type(one["dtype"]).itemsize for one in constants]
    device.room = x.nbytes + out.nbytes + sum(sizes) - 1
    with pytest.raises(DriverError, match="hipMalloc failed with status 2"):
        kernels(x, out)
    assert device.held == {}
    device.room, device.refuses = 8 * device.room, {"launch": [1]}
    with pytest.raises(DriverError, match="hipModuleLaunchKernel failed"):
        kernels(x, out)
    assert sorted(device.held.values()) == sorted(sizes)


def test_the_script_follows_the_plan_of_a_function(device, folder, tmp_path):
    x, expected = arrays()
    np.save(tmp_path / "in.npy", x)
    command = [sys.executable, str(folder / "launch.py"), "main", "in.npy"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=device.environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr + str(device.calls)
    np.testing.assert_allclose(np.load(tmp_path / "out0.npy"), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="no function 'other'; there are main"):
        Kernels(folder, function="other")
