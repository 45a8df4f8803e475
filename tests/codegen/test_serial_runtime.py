"""Kernels that are loaded where TVM's runtime is not, and where it is."""

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.codegen.serial_runtime import serial_runtime
from tvm_iree_ext.targets.names import make_target

ALONE = """
import sys
import numpy as np, tvm_ffi
entry, library, given, found = sys.argv[1:]
arrays = np.load(given)
arrays = [arrays[name] for name in sorted(arrays.files)]
tvm_ffi.load_module(library)[entry](*map(tvm_ffi.from_dlpack, arrays))
assert "tvm" not in sys.modules
assert "libtvm_runtime" not in open("/proc/self/maps").read()
np.save(found, arrays[-1])
"""


@pytest.mark.costly
@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        (ops.matmul((257, 300), (300, 260)), np.matmul),
        (ops.sort((90, 4099), dimension=0), lambda x: np.sort(x, 0)),  # with threads and workspaces
    ],
)
def test_a_library_works_without_tvms_runtime(op, wanted, tmp_path):
    kernel = ext.build(op, folder=tmp_path / "kernel")
    assert kernel.manifest.resources["needs_runtime"]
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(one.shape).astype("float32") for one in op.signature.arguments]
    result = np.zeros(op.signature.results[0].shape, "float32")
    np.savez(tmp_path / "given.npz", **{f"in{n}": x for n, x in enumerate([*given, result])})
    files = [tmp_path / name for name in ("kernel/kernel.so", "given.npz", "r.npy")]
    command = [sys.executable, "-c", ALONE, op.entry, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "r.npy"), wanted(*given), 1e-4, 1e-4)


def test_tvms_runtime_is_used_where_it_is(tmp_path):
    kernel = ext.build(ops.matmul((257, 300), (300, 260)), folder=tmp_path / "kernel")
    kernel(*(np.ones(one.shape, "float32") for one in kernel.signature.arguments))
    library = ctypes.CDLL(str(tmp_path / "kernel" / "kernel.so"))
    called = ctypes.c_void_p.in_dll(library, "__TVMBackendParallelLaunch").value
    mapped = Path("/proc/self/maps").read_text().splitlines()
    (runtime,) = {line.split()[-1] for line in mapped if "libtvm_runtime." in line}
    function = ctypes.CDLL(runtime).TVMBackendParallelLaunch
    assert called == ctypes.cast(function, ctypes.c_void_p).value


def test_what_a_kernel_does_not_call_is_not_there():
    assert serial_runtime([b"nothing"], make_target("llvm")) is None
    code = serial_runtime([b"__TVMBackendFreeWorkspace\0"], make_target("llvm"))
    assert code is not None
    assert b"__TVMBackendFreeWorkspace" in code
    assert b"__TVMBackendParallelLaunch" not in code
