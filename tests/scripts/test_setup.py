"""scripts/setup where it fails, and where it has nothing to do: all without a network."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest


@pytest.fixture
def clone(root, tmp_path) -> Path:
    (tmp_path / "scripts").mkdir()
    for file in ("scripts/lib.sh", "scripts/setup", "scripts/source_tree.py", "pyproject.toml"):
        shutil.copy(root / file, tmp_path / file)
    for folder in ("tvm_iree_ext", "schedules", "tuning"):
        (tmp_path / folder).mkdir()
    return tmp_path


def setup(clone: Path, *extras: str, **environment: str) -> subprocess.CompletedProcess:
    command = [clone / "scripts" / "setup", *extras]
    environment = {**os.environ, "PYTHON": sys.executable, **environment}
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True)


def set_up(clone: Path, extras: str = "dev") -> None:
    """What a finished set-up leaves, but for the packages."""
    venv.create(clone / ".venv", symlinks=True)
    made_from = (clone / "pyproject.toml").read_bytes()
    checksum = subprocess.run(["cksum"], input=made_from, capture_output=True).stdout.decode()
    version = ".".join(map(str, sys.version_info[:3]))
    (clone / ".venv" / ".setup").write_text(f"{version}\n{clone}\n{checksum}{extras}\n")


def test_a_second_start_does_nothing(clone):
    set_up(clone, "bench dev")
    done = setup(clone, "dev")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(".venv is up to date\n")
    assert not (clone / ".cache").exists()


@pytest.mark.costly
@pytest.mark.parametrize("change", ["pyproject.toml", "extra", "clone moved"])
def test_a_start_after_a_change_does_something(clone, change):
    set_up(clone)
    if change == "pyproject.toml":
        (clone / "pyproject.toml").open("a").write("\n")
    elif change == "clone moved":
        clone = clone.rename(clone.with_name(clone.name + "-moved"))
    done = setup(clone, "tuning" if change == "extra" else "dev", PIP_NO_INDEX="1")
    assert "up to date" not in done.stdout


def test_without_a_network_says_so_and_leaves_nothing_that_looks_finished(clone):
    offline = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "1", "PIP_FIND_LINKS": ""}
    done = setup(clone, PIP_CONFIG_FILE=os.devnull, **offline)
    assert done.returncode == 1
    assert "setup: failed: install tvm-iree-ext [dev] and what it needs\n" in done.stderr
    assert "the package index did not answer: look at the network" in done.stderr
    assert (clone / ".venv" / ".setup").read_text() == ""


def test_says_which_python_will_not_do_and_why(clone):
    done = setup(clone, PYTHON="/bin/false")
    assert done.returncode == 1
    assert "setup: failed: choose a Python\n" in done.stderr
    assert "/bin/false does not run\n" in done.stderr
    assert "sudo apt install python3 python3-venv\n" in done.stderr
    assert not (clone / ".venv").exists()


def test_leaves_a_virtual_environment_that_is_not_its_own(clone):
    mine = clone / ".venv" / "mine"
    mine.parent.mkdir()
    mine.touch()
    done = setup(clone)
    assert done.returncode == 1
    assert ".venv stands already and was not made by this script" in done.stderr
    assert mine.exists()


def test_refuses_an_unknown_extra(clone, pyproject):
    extras = " ".join(pyproject["project"]["optional-dependencies"])
    done = setup(clone, "dve")
    assert done.returncode == 1
    assert f"no extra «dve» in pyproject.toml; there are: {extras}\n" in done.stderr
