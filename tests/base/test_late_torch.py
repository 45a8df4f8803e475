"""TVM is imported without PyTorch, which works with TVM once somebody imports it."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")

LATER = """
import sys, threading
import tvm_iree_ext
import tvm
assert "torch" not in sys.modules, "TVM imported PyTorch"
import torch, tvm_ffi
assert str(tvm_ffi.convert(torch.float32)) == "float32"
assert tvm_ffi.core.torch is tvm_ffi._convert.torch is torch
assert tvm.relax.base_py_module.to_dlpack_legacy is torch.utils.dlpack.to_dlpack
tensor = torch.arange(6.0).reshape(2, 3)
echo = tvm_ffi.get_global_func("testing.echo")
assert echo(tensor).shape == (2, 3)
"""

BESIDE = """
import sys, threading
import tvm_iree_ext
failed = []
def other():
    try:
        import torch
    except ImportError as error:
        failed.append(error)
thread = threading.Thread(target=other)
thread.start()
import tvm
thread.join()
import torch, tvm_ffi
assert not failed and tvm_ffi.core.torch is torch
"""


@pytest.mark.costly
@needs_torch
@pytest.mark.parametrize("code", [LATER, BESIDE], ids=["later", "beside"])
def test_pytorch_works_whenever_it_is_imported(code):
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
