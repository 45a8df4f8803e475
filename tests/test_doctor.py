"""Whatever is missing or broken: a finding that says so, and what to do."""

import importlib.metadata
import json
import subprocess
import sys

import pytest

from tvm_iree_ext.doctor import InstallationFinding, examine, is_healthy


def by_name(findings):
    return {finding.name: finding for finding in findings}


@pytest.fixture
def packages(monkeypatch):
    """``packages(torch="2.6", xgboost=None)``: as if these, and not those, were installed."""
    real = importlib.metadata.version

    def pretend(**changed):
        found = {name.replace("_", "-"): version for name, version in changed.items()}

        def version(package):
            if found.get(package, "") is None:
                raise importlib.metadata.PackageNotFoundError(package)
            return found.get(package) or real(package)

        monkeypatch.setattr(importlib.metadata, "version", version)

    return pretend


def test_this_installation_is_healthy():
    found = examine()
    assert is_healthy(found), found
    names = by_name(found)
    assert "bit vectors" in names["CPU"].value
    assert "parallel kernels use" in names["threads"].value
    assert {"kernel cache", "linker", "cross linker", "tuning", "PyTorch", "CUDA"} <= names.keys()
    json.dumps([finding.to_json() for finding in found])


def test_only_what_is_needed_makes_it_ill():
    wanted = InstallationFinding("a", "ok", "here", needed=True)
    assert is_healthy([wanted, InstallationFinding("b", "missing", "no b", "pip install b")])
    assert not is_healthy(
        [wanted, InstallationFinding("b", "wrong", "no b", "pip install b", needed=True)]
    )


@pytest.mark.parametrize("version", ["0.1.15", None])
def test_another_tvm_ffi_or_none_is_named_with_the_cure(packages, version):
    packages(apache_tvm_ffi=version)
    pair = by_name(examine())["TVM packages"]
    assert pair.state == "wrong"
    assert f"apache-tvm-ffi {version or 'not installed'}" in pair.value
    assert "pip install" in pair.advice


def test_optional_packages_are_found_by_either_name(packages):
    packages(xgboost=None, xgboost_cpu=None, torch=None, iree_base_compiler=None)
    found = by_name(examine())
    assert (found["tuning"].state, found["PyTorch"].state) == ("missing", "missing")
    assert "pip install 'tvm-iree-ext[mlir]'" in found["IREE's bindings"].advice
    assert "pip install xgboost" in found["tuning"].advice
    packages(xgboost="3.1", xgboost_cpu=None, torch="2.6", iree_base_compiler="3.13.0")
    found = by_name(examine())
    assert found["tuning"].value == "xgboost 3.1"
    assert found["PyTorch"].state == "ok"
    assert found["IREE's bindings"].value == "iree-base-compiler 3.13.0"


def test_no_linker_is_named_with_the_cure(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("tvm_iree_ext.codegen.linker.importlib.util.find_spec", lambda name: None)
    found = examine()
    linker = by_name(found)["linker"]
    assert (linker.state, linker.needed) == ("missing", True)
    assert "pip install ziglang" in linker.advice
    assert not is_healthy(found)


@pytest.mark.parametrize("kind", ["file", "below a file"])
def test_a_cache_that_cannot_be_written_is_named_with_the_cure(monkeypatch, tmp_path, kind):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("TVM_IREE_EXT_CACHE", str(file if kind == "file" else file / "cache"))
    cache = by_name(examine())["kernel cache"]
    assert cache.state == "wrong"
    assert "TVM_IREE_EXT_CACHE" in cache.advice


def test_a_cache_that_is_not_there_yet_is_fine_and_is_not_made(monkeypatch, tmp_path):
    monkeypatch.setenv("TVM_IREE_EXT_CACHE", str(tmp_path / "a" / "b"))
    assert by_name(examine())["kernel cache"].value.endswith("b: 0 kernels, 0.0 MB")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["missing", "broken"])
def test_speaks_also_without_tvm(tmp_path, how):
    if how == "missing":
        start = "import sys; sys.modules['tvm'] = sys.modules['tvm_ffi'] = None"
    else:
        (tmp_path / "tvm").mkdir()
        (tmp_path / "tvm" / "__init__.py").write_text("raise OSError('libtvm.so: bad\\nELF')")
        start = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    code = "from tvm_iree_ext.cli.main import main; sys.exit(main(['doctor']))"
    done = subprocess.run(
        [sys.executable, "-c", f"{start}\n{code}"], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    (line,) = (line for line in lines if line.split()[1] == "TVM" and "load" in line)
    assert line.startswith("wrong")
    assert "reinstall: pip install" in line
    assert lines[-1] == "needed and not right: TVM"
