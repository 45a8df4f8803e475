"""What a driver refuses keeps its name, whichever call it is, and whatever fails after it."""

import ctypes
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tvm_iree_ext.codegen.gpu.cpp_export import export_device
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.runtime.launch import driver as gpu_driver
from tvm_iree_ext.runtime.launch.driver import DRIVERS, DriverError
from tvm_iree_ext.runtime.launch.launcher import Kernels
from tvm_iree_ext.simulator.runs.sample_mma import tile_product
from tvm_iree_ext.targets.names import make_target

REFUSED, FAULT = 2, 719
SAID = {REFUSED: "2, SOME_ERROR: refused", FAULT: "719, LAUNCH_FAILURE: unspecified launch failure"}


@pytest.fixture(scope="module")
def library(compiled, tmp_path_factory):
    place = tmp_path_factory.mktemp("driver")
    source = Path(__file__).with_name("failing_driver.c")
    compiled("c", "-shared", "-fPIC", "-w", source, "-o", place / "libamdhip64.so")
    return place / "libamdhip64.so"


@pytest.fixture
def driver(library, monkeypatch):
    """The driver of both vendors, in this process."""
    for kind in ("rocm", "cuda"):
        monkeypatch.setitem(DRIVERS[kind], "libraries", (str(library),))
    monkeypatch.setattr(gpu_driver, "_losses", [])
    driver = ctypes.CDLL(str(library))
    driver.driver_failed.restype = ctypes.c_char_p
    return driver


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """An artifact for ROCm, and the same for a driver of CUDA's."""
    place = tmp_path_factory.mktemp("export")
    code = compile_device(tile_product("MFMA_F32_16x16x16_F16"), make_target("rocm:gfx942"))
    rocm = export_device(code, place / "rocm", name="tile")
    shutil.copytree(rocm, place / "cuda")
    manifest = json.loads((rocm / "manifest.json").read_text())
    manifest["target"] = {"kind": "cuda", "arch": "sm_80"}
    (place / "cuda" / "manifest.json").write_text(json.dumps(manifest))
    (place / "cuda" / "kernel.hsaco").unlink()
    (place / "cuda" / "kernel.ptx").write_text(".version 8.0\n.target sm_80\n")
    return {"rocm": rocm, "cuda": place / "cuda"}


def call(folder):
    lhs, rhs = (np.zeros(shape, "float16") for shape in ((16, 32), (32, 16)))
    Kernels(folder)(lhs, rhs, np.zeros((16, 16), "float32"))


@pytest.mark.parametrize("status", [REFUSED, FAULT])
@pytest.mark.parametrize("kind", ["rocm", "cuda"])
def test_each_call_that_fails_is_named(driver, folders, kind, status):
    driver.driver_reset(-1, 0)
    call(folders[kind])
    count = driver.driver_calls()
    assert count > 15
    assert driver.driver_held() == 0
    for at in range(count):
        gpu_driver._losses.clear()
        driver.driver_reset(at, status)
        with pytest.raises(DriverError) as caught:
            call(folders[kind])
        name = driver.driver_failed().decode()
        assert str(caught.value) == f"{name} failed with status {SAID[status]}"
        assert gpu_driver.lost() == (str(caught.value) if status == FAULT else "")
        if status == REFUSED:  # all else is given back
            assert driver.driver_held() == ("Free" in name)


def test_after_a_fault_each_error_says_so(driver, folders):
    driver.driver_reset(-1, 0)
    call(folders["cuda"])
    driver.driver_reset(driver.driver_calls() // 2, FAULT)
    with pytest.raises(DriverError) as caught:
        call(folders["cuda"])
    with pytest.raises(
        DriverError, match=r"cuInit failed with status 719.*; the GPU was lost"
    ) as later:
        call(folders["cuda"])
    assert str(later.value).endswith(f"; the GPU was lost before: {caught.value}")


def test_a_driver_without_names_gives_the_number(driver, folders, monkeypatch):
    driver.driver_reset(0, REFUSED)
    monkeypatch.setattr(gpu_driver.Gpu, "_explained", lambda self, status: "")
    with pytest.raises(DriverError, match=r"^hipInit failed with status 2$"):
        call(folders["rocm"])


def test_cpp_names_each_call_that_fails(library, folders, compiled, tmp_path):
    compiled(
        "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", folders["rocm"] / "launch.cpp", "-ldl",
        "-o", tmp_path / "launch",
    )  # fmt: skip

    def run(at, status):
        environment = {
            **os.environ, "LD_LIBRARY_PATH": str(library.parent), "FAILS_AT": str(at),
            "FAILS_WITH": str(status),
        }  # fmt: skip
        return subprocess.run(
            [tmp_path / "launch"], capture_output=True, text=True, check=False,
            cwd=folders["rocm"], env=environment,
        )  # fmt: skip

    for status, said in SAID.items():
        for at in range(100):
            done = run(at, status)
            if not done.returncode:
                break
            name = re.search(r"driver: (\w+)\n", done.stderr)[1]
            assert done.stderr.endswith(f"\n{name} failed with status {said}\n")
        assert at > 10
