"""What a driver refuses keeps its name, whichever call it is, and whatever fails after it."""

import json
import os
import re
import shutil
import subprocess

import numpy as np
import pytest
from failing_driver import FAULT, REFUSED, SAID, failing_driver, failing_library

from tvm_iree_ext.codegen.gpu.cpp_export import export_device
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.runtime.launch import driver as gpu_driver
from tvm_iree_ext.runtime.launch.driver import DriverError
from tvm_iree_ext.runtime.launch.launcher import Kernels
from tvm_iree_ext.simulator.runs.sample_mma import tile_product
from tvm_iree_ext.targets.names import make_target

__all__ = ["failing_driver", "failing_library"]


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
def test_each_call_that_fails_is_named(failing_driver, folders, kind, status):
    failing_driver.driver_reset(-1, 0)
    call(folders[kind])
    count = failing_driver.driver_calls()
    assert count > 15
    assert failing_driver.driver_held() == 0
    for at in range(count):
        gpu_driver._losses.clear()
        failing_driver.driver_reset(at, status)
        with pytest.raises(DriverError) as caught:
            call(folders[kind])
        name = failing_driver.driver_failed().decode()
        assert str(caught.value) == f"{name} failed with status {SAID[status]}"
        assert gpu_driver.lost() == (str(caught.value) if status == FAULT else "")
        if status == REFUSED:  # all else is given back
            assert failing_driver.driver_held() == ("Free" in name)


def test_after_a_fault_each_error_says_so(failing_driver, folders):
    failing_driver.driver_reset(-1, 0)
    call(folders["cuda"])
    failing_driver.driver_reset(failing_driver.driver_calls() // 2, FAULT)
    with pytest.raises(DriverError) as caught:
        call(folders["cuda"])
    with pytest.raises(
        DriverError, match=r"cuInit failed with status 719.*; the GPU was lost"
    ) as later:
        call(folders["cuda"])
    assert str(later.value).endswith(f"; the GPU was lost before: {caught.value}")


def test_a_driver_without_names_gives_the_number(failing_driver, folders, monkeypatch):
    failing_driver.driver_reset(0, REFUSED)
    monkeypatch.setattr(gpu_driver.Gpu, "_explained", lambda self, status: "")
    with pytest.raises(DriverError, match=r"^hipInit failed with status 2$"):
        call(folders["rocm"])


def test_cpp_names_each_call_that_fails(failing_library, folders, compiled, tmp_path):
    compiled(
        "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", folders["rocm"] / "launch.cpp", "-ldl",
        "-o", tmp_path / "launch",
    )  # fmt: skip

    def run(at, status):
        environment = {
            **os.environ, "LD_LIBRARY_PATH": str(failing_library.parent), "FAILS_AT": str(at),
            "FAILS_WITH": str(status),
        }  # fmt: skip
        return subprocess.run(
            [tmp_path / "launch"], capture_output=True, text=True, check=False,
            cwd=folders["rocm"], env=environment,
        )  # fmt: skip

    for status in (REFUSED, FAULT):
        for at in range(100):
            done = run(at, status)
            if not done.returncode:
                break
            name = re.search(r"driver: (\w+)\n", done.stderr)[1]
            assert done.stderr.endswith(f"\n{name} failed with status {SAID[status]}\n")
        assert at > 10
