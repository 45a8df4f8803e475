"""What pip installs: from the tree, from a wheel, from an sdist, editable."""

import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import tvm_iree_ext

PACKAGE = "tvm_iree_ext"


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def pip_install(*arguments: str | Path) -> None:
    """Install offline, and (--ignore-installed) without removing what these tests run on."""
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed")
    run(sys.executable, "-m", "pip", "install", *options, *arguments)


def fresh(site_packages: Path, code: str) -> str:
    """What an interpreter prints that finds this package in ``site_packages`` alone."""
    # The dependencies are on the path, but what an editable install put among them is not run.
    dependencies = sysconfig.get_path("purelib")
    start = f"import site, sys; site.addsitedir({str(site_packages)!r})"
    return run(
        sys.executable, "-I", "-S", "-c", f"{start}; sys.path.append({dependencies!r})\n{code}"
    )


@pytest.fixture(scope="module")
def dist(tree, tmp_path_factory) -> Path:
    """A folder with the sdist, and the wheel built from it."""
    dist = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, tree)
    return dist


@pytest.fixture(scope="module")
def wheel(dist) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


def files_in(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def test_every_folder_of_modules_is_a_package(sources):
    """One without ``__init__`` is absent from the wheel."""
    folders = {name.rpartition("/")[0] for name in sources if name.endswith(".py")}
    assert [folder for folder in sorted(folders) if f"{folder}/__init__.py" not in sources] == []


def test_what_is_published_passes_the_checks_of_an_index(dist, wheel):
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, dist.iterdir()))
    run(sys.executable, "-m", "check_wheel_contents", wheel)


def test_the_version_stands_in_one_place(wheel, pyproject):
    """A build reads it without importing the package."""
    assert wheel.name.split("-")[1] == tvm_iree_ext.__version__
    assert "version" not in pyproject["project"]


def test_the_wheel_holds_every_file(sources, wheel):
    metadata = {name for name in files_in(wheel) if name.split("/")[0].endswith(".dist-info")}
    assert files_in(wheel) - metadata == set(sources)
    assert any(name.endswith("licenses/LICENSE") for name in metadata)


def test_the_sdist_holds_every_file(sources, root, dist):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    here = {path.relative_to(root).as_posix() for path in sources.values()}
    assert here | {"pyproject.toml", "README.md", "LICENSE"} <= inside


def test_a_wheel_from_the_tree_is_that_from_the_sdist(tree, wheel, tmp_path):
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, tree)
    (direct,) = tmp_path.glob("*.whl")
    assert files_in(direct) == files_in(wheel)


def test_a_wheel_installs_one_name(wheel, tmp_path):
    pip_install("--target", tmp_path, wheel)
    names = {path.name for path in tmp_path.iterdir()} - {"bin"}
    assert {name for name in names if not name.endswith(".dist-info")} == {PACKAGE}
    code = "import tvm_iree_ext.schedules, tvm_iree_ext.tuning; print(tvm_iree_ext.tuning.__file__)"
    assert fresh(tmp_path, code).strip() == str(tmp_path / PACKAGE / "tuning" / "__init__.py")


def test_an_editable_install_has_the_modules_of_the_wheel(modules, root, tree, tmp_path):
    pip_install("--prefix", tmp_path, "--editable", tree)
    (metadata,) = tmp_path.rglob("*.dist-info")
    code = f"""
import importlib.util
for name in {sorted(modules)}:
    print(name, importlib.util.find_spec(name).origin)
print([name for name in ("schedules", "tuning") if importlib.util.find_spec(name)])
"""
    *found, top_level = fresh(metadata.parent, code).splitlines()
    assert dict(line.split(" ", 1) for line in found) == {
        name: str(tree / path.relative_to(root)) for name, path in modules.items()
    }
    assert top_level == "[]"


def test_xgboost_comes_with_tuning_alone(pyproject):
    project = pyproject["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    asking = {
        extra
        for extra, requirements in extras.items()
        if any(Requirement(text).name.startswith("xgboost") for text in requirements)
    }
    assert asking == {"tuning"}


def test_the_type_checker_sees_the_mapped_folders(root, tmp_path):
    """At the root of a clone, mypy skips them without a word."""
    (tmp_path / "pyproject.toml").write_bytes((root / "pyproject.toml").read_bytes())
    for folder in (PACKAGE, f"{PACKAGE}/base", "schedules", "schedules/cpu", "tuning", "scripts"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / PACKAGE / "base" / "errors.py").write_text("WHERE: str = 'here'\n")
    planted = "from tvm_iree_ext.base.errors import WHERE\nNUMBER: int = WHERE\n"
    for folder in ("schedules/cpu", "tuning"):
        (tmp_path / folder / "planted.py").write_text(planted)
    command = [sys.executable, root / "scripts" / "typecheck.py", "--root", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    for module in ("schedules/cpu/planted", "tuning/planted"):
        assert f"{PACKAGE}/{module}.py:2: error: Incompatible types" in done.stdout


MISTAKES = """\
import tvm_iree_ext as ext
from tvm_iree_ext.schedules.base.space import TuningSpace
from tvm_iree_ext.tuning import Task

op = ext.ops.attention((1, 8, 64, 64), (1, 8, 64, 64), (1, 8, 64, 64))
kernel: ext.Kernel = ext.build(op, "llvm", ext.LoweringConfig())
tasks: list[Task] = [Task("attention", op)]
number: int = kernel.target
ext.ops.attentoin((1, 8, 64, 64))
"""


@pytest.mark.parametrize("checker", ["mypy", "basedpyright"])
def test_editors_find_the_package(checker, root, tmp_path):
    """From what scripts/setup makes: a checker reports the mistakes of a script, and no more."""
    script = tmp_path / "script.py"
    script.write_text(MISTAKES)
    known = tmp_path / "known"  # what scripts/check has found out, which saves half a minute
    if (root / ".mypy_cache").is_dir():
        shutil.copytree(root / ".mypy_cache", known)
    found = [f"--python-executable={sys.executable}", f"--cache-dir={known}"]
    options = {
        "mypy": [*found, f"--config-file={root / 'pyproject.toml'}"],
        "basedpyright": ["--level=error", "--pythonpath", sys.executable],
    }
    command = [sys.executable, "-m", checker, *options[checker], script.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    lines = re.findall(r"script\.py:(\d+):.*error", done.stdout)
    assert lines == ["8", "9"], done.stdout + done.stderr
