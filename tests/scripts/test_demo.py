"""scripts/demo.py from end to end, and what it says where a result is wrong."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest


@pytest.fixture(scope="module")
def demo(root):
    spec = importlib.util.spec_from_file_location("demo", root / "scripts" / "demo.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["demo"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["demo"]


def test_runs_compares_exports_and_loads(root, tmp_path):
    environment = {**os.environ, "TVM_IREE_EXT_CACHE": str(tmp_path / "kernels")}
    command = [sys.executable, root / "scripts" / "demo.py", "--folder", tmp_path / "demo"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("demo:   0 s  import TVM\n")
    for name in ("sdpa", "sdpa_causal", "sdpa_f16", "sdpa_float_mask", "larger"):
        assert (tmp_path / "demo" / name / "kernel" / "manifest.json").is_file()
        (row,) = (line for line in done.stdout.splitlines() if line.startswith(f"{name}  "))
        assert "the same bits" in row
    assert "64x64 over 2 subgroups of 64 lanes" in done.stdout
    assert (tmp_path / "demo" / "layout.svg").read_text("utf-8").startswith("<svg")
    assert done.stdout.endswith("all results are right\n")


def test_says_what_is_wrong(demo):
    program = demo.Program("sdpa", None, {})
    program.got = np.array([1.0, 2.0], np.float32)
    program.judge("PyTorch", np.array([1.0, 2.0]), 1e-6)
    assert not program.failures
    program.judge("PyTorch", np.array([1.0, 2.5]), np.array([1e-6, 1e-6]))
    assert program.failures == ["sdpa: off PyTorch by 5.0e-01, not 1.0e-06"]
    program.judge("the reference", np.array([np.nan, 2.0]), 1e-6)
    assert len(program.failures) == 2


def test_a_kernel_that_does_not_load_is_a_failure(demo, tmp_path):
    program = demo.Program("sdpa", None, {})
    program.got = np.zeros(2, np.float32)
    demo.load_and_run_again([program], tmp_path)
    assert "sdpa: loaded in a fresh interpreter" in program.failures[0]
    assert "no artifact at" in program.failures[0]
