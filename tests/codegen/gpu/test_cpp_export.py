"""The artifact of GPU kernels."""

import json
import subprocess
import sys

import numpy as np
import pytest
from native_compiler import compile_native

from tvm_iree_ext.base.errors import ArtifactError
from tvm_iree_ext.codegen.gpu.cpp_export import export_device
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.runtime import artifact
from tvm_iree_ext.runtime.program import load
from tvm_iree_ext.simulator.runs.sample_mma import tile_product
from tvm_iree_ext.targets.names import make_target


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    code = compile_device(tile_product("MFMA_F32_16x16x16_BF16"), make_target("rocm:gfx942"))
    return export_device(code, tmp_path_factory.mktemp("export") / "tile", name="tile")


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


def test_the_launcher_lists_what_it_takes(folder):
    listed = run(sys.executable, "-I", folder / "launch.py")
    assert listed.stdout.startswith("(A: bfloat16[16, 32], B: bfloat16[32, 16]")
    assert "tvm_iree_ext" not in (folder / "launch.py").read_text()


def test_without_a_driver_the_launcher_says_so(folder, tmp_path):
    np.save(tmp_path / "A.npy", np.zeros((16, 32), "uint16"))
    done = run(sys.executable, folder / "launch.py", "A.npy", cwd=tmp_path)
    assert "DriverError: no GPU driver: looked for libamdhip64.so" in done.stderr


def test_cuda_source_is_exported_where_there_is_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setattr("tvm_iree_ext.codegen.gpu.cuda.nvrtc_obstacle", lambda: "no NVRTC here")
    code = compile_device(tile_product("NV_MMA_SYNC_F32_16x8x16_F16"), make_target("cuda:sm_80"))
    folder = export_device(code, tmp_path / "tile")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert "kernel.cu" in manifest["files"]
    assert "kernel.cubin" not in manifest["files"]
    assert "driver = cuda_driver;" in (folder / "kernels.h").read_text()
    np.save(tmp_path / "A.npy", np.zeros((16, 16), "float16"))
    done = run(sys.executable, folder / "launch.py", "A.npy", cwd=tmp_path)
    assert "has the source only; compile kernel.cu" in done.stderr
    compile_native("c++", "-std=c++17", folder / "launch.cpp", "-ldl", "-o", tmp_path / "launch")
