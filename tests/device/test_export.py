"""The artifact of GPU kernels, and its launchers, against a driver that counts."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tvm_iree_ext import artifact
from tvm_iree_ext.device.code import compile_device
from tvm_iree_ext.device.export import export_device
from tvm_iree_ext.errors import ArtifactError
from tvm_iree_ext.intrin.sample import tile_product
from tvm_iree_ext.program import load
from tvm_iree_ext.target.names import make_target

# A HIP driver in memory: a launch writes the grid's and the block's extents into the last array.
DRIVER = r"""
#include <stdlib.h>
#include <string.h>
int hipInit(unsigned f) { return 0; }
int hipGetDeviceCount(int* n) { *n = 1; return 0; }
int hipGetDevice(int* n) { *n = 0; return 0; }
int hipSetDevice(int n) { return 0; }
int hipModuleLoadData(void** m, const void* image) {
  *m = (void*)1; return memcmp(image, "\177ELF", 4) ? 1 : 0;
}
int hipModuleGetFunction(void** f, void* m, const char* name) {
  *f = (void*)2; return strcmp(name, "main_kernel") ? 2 : 0;
}
int hipMalloc(void** p, size_t n) { *p = malloc(n); return 0; }
int hipFree(void* p) { free(p); return 0; }
int hipMemcpyHtoD(void* d, const void* s, size_t n) { memcpy(d, s, n); return 0; }
int hipMemcpyDtoH(void* d, const void* s, size_t n) { memcpy(d, s, n); return 0; }
int hipModuleLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, void* stream, void** p, void** extra) {
  float* c = *(float**)p[2];
  float extents[] = {gx, gy, gz, bx, by, bz};
  memcpy(c, extents, sizeof extents);
  return 0;
}
int hipDeviceSynchronize(void) { return 0; }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    code = compile_device(tile_product("MFMA_F32_16x16x16_BF16"), make_target("rocm:gfx942"))
    return export_device(code, tmp_path_factory.mktemp("export") / "tile", name="tile")


def compiled(language, *command):
    """By the system's compiler: that of ziglang builds its C++ library first, for minutes."""
    names = {"c": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++")}[language]
    compiler = next(filter(None, map(shutil.which, names)), None)
    if compiler is None:
        pytest.skip(f"no {language} compiler: {', '.join(names)}")
    done = subprocess.run([compiler, *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    place = tmp_path_factory.mktemp("driver")
    (place / "driver.c").write_text(DRIVER)
    compiled("c", "-shared", "-fPIC", place / "driver.c", "-o", place / "libamdhip64.so")
    return {**os.environ, "LD_LIBRARY_PATH": str(place)}


def test_the_manifest_says_how_to_launch(folder):
    manifest = artifact.read(folder)
    (step,) = manifest.launch["steps"]
    assert (step["launch"], step["grid"], step["block"]) == ("main_kernel", [1] * 3, [64, 1, 1])
    assert step["arguments"] == [{"array": name} for name in "ABC"]
    assert manifest.launch["parameters"] == [
        {"name": "A", "dtype": "bfloat16", "shape": [16, 32]},
        {"name": "B", "dtype": "bfloat16", "shape": [32, 16]},
        {"name": "C", "dtype": "float32", "shape": [16, 16]},
    ]
    assert manifest.resources["kernels"]["main_kernel"]["scratch_bytes"] == 0
    assert manifest.target["mcpu"] == "gfx942"
    assert (folder / "kernel.hsaco").read_bytes()[:4] == b"\x7fELF"
    assert {"kernel.s", "launch.py", "launch.cpp", "launch.h", "kernels.h"} <= set(manifest.files)


def test_it_is_no_kernel_of_the_cpu(folder):
    with pytest.raises(ArtifactError, match=r"holds GPU kernels; launch them with .*launch\.py"):
        load(folder)


def test_a_damaged_one_is_refused(folder, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    (copy / "kernel.hsaco").write_bytes(b"else")
    with pytest.raises(ArtifactError, match=r"is damaged: kernel\.hsaco"):
        artifact.read(copy)


def run(*command, **how):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **how)


def test_the_python_launcher_runs_without_tvm(folder, driver, tmp_path):
    listed = run(sys.executable, "-I", folder / "launch.py")
    assert listed.stdout.startswith("(A: bfloat16[16, 32], B: bfloat16[32, 16]")
    np.save(tmp_path / "A.npy", np.zeros((16, 32), "uint16"))
    done = run(sys.executable, folder / "launch.py", "A.npy", env=driver, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = np.load(tmp_path / "C.npy")
    assert result.ravel()[:6].tolist() == [1, 1, 1, 64, 1, 1]


def test_without_a_driver_the_launcher_says_so(folder, tmp_path):
    np.save(tmp_path / "A.npy", np.zeros((16, 32), "uint16"))
    done = run(sys.executable, folder / "launch.py", "A.npy", cwd=tmp_path)
    assert "DriverError: no GPU driver: looked for libamdhip64.so" in done.stderr


def test_the_cpp_launcher_compiles_and_runs(folder, driver, tmp_path):
    compiled("c++", "-std=c++17", folder / "launch.cpp", "-ldl", "-o", tmp_path / "launch")
    done = run(tmp_path / "launch", env=driver, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["A: 1024 bytes", "B: 1024 bytes", "C: 1024 bytes"]
    assert "no GPU driver" in run(tmp_path / "launch", cwd=folder).stderr


def test_cuda_source_is_exported_where_there_is_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setattr("tvm_iree_ext.device.code.nvrtc_obstacle", lambda: "no NVRTC here")
    code = compile_device(tile_product("NV_MMA_SYNC_F32_16x8x16_F16"), make_target("cuda:sm_80"))
    folder = export_device(code, tmp_path / "tile")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert "kernel.cu" in manifest["files"]
    assert "kernel.cubin" not in manifest["files"]
    assert "driver = cuda_driver;" in (folder / "kernels.h").read_text()
    np.save(tmp_path / "A.npy", np.zeros((16, 16), "float16"))
    done = run(sys.executable, folder / "launch.py", "A.npy", cwd=tmp_path)
    assert "has the source only; compile kernel.cu" in done.stderr
    compiled("c++", "-std=c++17", folder / "launch.cpp", "-ldl", "-o", tmp_path / "launch")
