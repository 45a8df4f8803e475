"""Scratch folders: gone at the end, and with the next process where one was killed."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tvm_iree_ext
from tvm_iree_ext import schedules, tuning
from tvm_iree_ext.base import atomic_folder
from tvm_iree_ext.base.atomic_folder import scratch

KILLED = """
import os, signal
from tvm_iree_ext.base.atomic_folder import scratch
with scratch() as folder:
    (folder / "kernel.so").write_text("code")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder in which this process and those that it starts have their temporary ones."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    atomic_folder._sweep.cache_clear()
    return tmp_path


def kill_one():
    done = subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_scratch_folder_is_the_users_alone_and_ends(temporary):
    with scratch() as folder:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "inside").mkdir()
    assert not any(temporary.iterdir())


def test_the_next_process_removes_what_a_killed_one_left(temporary):
    kill_one()
    (left,) = temporary.iterdir()
    assert (left / "kernel.so").exists()
    with scratch() as folder:
        assert list(temporary.iterdir()) == [folder]


def test_scratch_folders_of_living_processes_stay(temporary):
    with scratch() as folder:
        other = "from tvm_iree_ext.base.atomic_folder import scratch\nwith scratch(): pass"
        subprocess.run([sys.executable, "-c", other], check=True)
        assert folder.exists()


def test_links_that_others_put_among_temporary_files_are_not_followed(temporary):
    kill_one()
    (left,) = temporary.iterdir()
    elsewhere = temporary / "elsewhere"
    left.rename(elsewhere)
    os.symlink(elsewhere, left)
    with scratch():
        assert (elsewhere / "kernel.so").exists()


def test_no_code_makes_temporary_folders_of_its_own():
    folders = [
        Path(package.__file__).resolve().parent for package in (tvm_iree_ext, schedules, tuning)
    ]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(paths) > 900  # a folder of links looks empty
    makers = [p for p in paths if re.search("mkdtemp|TemporaryDirectory", p.read_text())]
    # A pack for another machine holds the runtime alone, and what it leaves goes with the loan.
    assert [path for path in makers if path.parent.name != "on_gpu"] == []
