"""Errors keep their class through TVM: Ctrl-C comes out as itself, nothing is half-written."""

import signal
import subprocess
import sys

import pytest
from relax_programs import Maker, program

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.codegen.gpu import gpu_pipeline as device_pipeline
from tvm_iree_ext.programs.base import relax_passes
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.runtime import cache


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))


def interrupt(*_args, **_keywords):
    """As a user does in the middle of a pass."""
    signal.raise_signal(signal.SIGINT)


def build_op(target):
    return lambda: ext.build(ops.matmul((16, 32), (32, 16)), target, database=())


def build_a_program():
    m = Maker(x=(("n",), "float32"))

    def make(emit):
        return [emit(m.nest(m.vars, ("n",), "float32", lambda r, i: r[0](i) * 2.0))]

    return build_program(program(m, make, [(("n",), "float32")]))


@pytest.mark.parametrize(
    ("module", "function", "build"),
    [
        (cpu_pipeline, "_allocates_by_variables", build_op("llvm")),
        (device_pipeline, "rewrite_memory", build_op("rocm:gfx942")),
        (cpu_pipeline, "_allocates_by_variables", build_a_program),
        (relax_passes, "_bounded", build_a_program),
    ],
    ids=["kernel", "GPU kernel", "program's kernels", "program"],
)
def test_an_interrupt_in_a_pass_is_no_error_of_a_build(monkeypatch, module, function, build):
    with monkeypatch.context() as patch:
        patch.setattr(module, function, interrupt)
        with pytest.raises(KeyboardInterrupt):
            build()
    assert cache.size()[0] == 0
    assert not [path for path in cache.root().rglob("*") if path.is_file()]
    build()


@pytest.mark.costly
@pytest.mark.parametrize(
    "first",
    [
        "from tvm_iree_ext import ops; ops.sort((4,), dimension=0).prim_func()",
        "import tvm_iree_ext.runtime.kernel",
        "import tvm_iree_ext.runtime.program",
        "import tvm_iree_ext.runtime.tvm_runtime",
        "import tvm_iree_ext.codegen.gpu.gpu_pipeline",
    ],
)
def test_whatever_brings_tvm_brings_the_names_of_errors(first):
    code = f"""
import signal
{first}
import tvm_ffi
from tvm_iree_ext.base.errors import KERNEL_ERROR
try:
    tvm_ffi.convert(lambda: signal.raise_signal(signal.SIGINT))()
except KeyboardInterrupt:
    print("interrupted")
for kind in (KERNEL_ERROR, "CallError"):
    print(type(tvm_ffi.core.Error(kind, "refused", "").py_error()))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    refused = "<class 'tvm_iree_ext.base.errors.CallError'>"
    assert done.stdout.splitlines() == ["interrupted", refused, refused]
