"""The pages of JAX and PyTorch, and the example, as they stand."""

import doctest
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from optional_packages import needs


@pytest.mark.costly
@pytest.mark.parametrize(
    ("page", "module", "extra"),
    [("jax.md", "jax", "jax"), ("pytorch.md", "iree.turbine.aot", "pytorch")],
)
def test_the_snippets_of_its_page_run(root, tmp_path, monkeypatch, page, module, extra):
    needs(module, extra)
    monkeypatch.chdir(tmp_path)
    path = str(root / "docs" / page)
    result = doctest.testfile(path, module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
    assert result.attempted > 5


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_the_example_goes_from_pytorch_to_cpp(root, tmp_path, monkeypatch):
    """docs/examples/torch_to_cpp: its files, and what the tutorial quotes of them."""
    needs("iree.turbine.aot", "pytorch")
    example = root / "docs" / "examples" / "torch_to_cpp"
    place = shutil.copytree(example, tmp_path / "place")
    monkeypatch.chdir(place)
    runpy.run_path("export.py")
    compiled = re.sub("-O1", "-O0", (place / "compile.sh").read_text("utf-8"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", compiled], env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("5 x 4 results; largest difference from PyTorch ")
    page = (root / "docs" / "tutorials" / "torch_to_cpp.md").read_text("utf-8")
    for line in ("executable->ImportModule(", "dynamic_shapes=({0: batch},))", "./main\n"):
        assert line in page
        assert line in "".join(file.read_text("utf-8") for file in example.iterdir())
