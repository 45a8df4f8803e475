"""A kernel that was built before is found again without TVM."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.building import kernel_build, known_builds
from tvm_iree_ext.records import record_files
from tvm_iree_ext.runtime import cache, machine

AGAIN = """
import sys
import numpy as np
import tvm_iree_ext as ext
OPS = (
    ext.ops.matmul((8, 8), (8, 8)),
    ext.ops.topk((4, 32), 3),
)
if sys.argv[1:] == ["build"]:
    for op in OPS:
        ext.build(op)
    ext.build(OPS[0], "rocm:gfx942")
else:
    kernels = [ext.build(op) for op in OPS]
    kernels += [ext.build(OPS[0], "rocm:gfx942"), ext.load(kernels[0].folder)]
    kernels[0](np.ones((8, 8), "float32"), np.ones((8, 8), "float32"))
    loaded = {name.split(".")[0] for name in sys.modules}
    assert "tvm_ffi" in loaded
    assert not {"tvm", "torch", "rich", "scipy"} & loaded, loaded
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_IREE_EXT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def refused(monkeypatch):
    """A build that asks TVM anything fails, from when this is called."""

    def refuse(*_args, **_keywords):
        raise AssertionError("asked TVM")

    return lambda: monkeypatch.setattr(kernel_build, "build", refuse)


def test_a_cached_build_and_a_load_need_neither_tvm_nor_pytorch():
    for what in ("build", "again"):
        command = [sys.executable, "-I", "-c", AGAIN, what]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
        assert done.returncode == 0, done.stderr


OP = ext.ops.matmul((8, 8), (8, 8))


def test_the_same_request_is_answered_by_the_same_kernel(refused):
    first = ext.build(OP)
    config = ext.build(OP, config=first.config)
    refused()
    for again in (ext.build(ext.ops.matmul((8, 8), (8, 8))), ext.build(OP, "llvm")):
        assert (again.folder, again.manifest) == (first.folder, first.manifest)
    assert ext.build(OP, "llvm", first.config.to_json()).folder == config.folder
    ones = np.ones((8, 8), "float32")
    assert again(ones, ones)[0, 0] == 8


def change_target(monkeypatch):
    return {"target": "llvm:x86-64-v3"}


def change_config(monkeypatch):
    return {"config": ext.LoweringConfig()}


def change_database(monkeypatch):
    return {"database": ()}


def change_processor(monkeypatch):
    monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset({"avx"}))
    return {}


def change_processors(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 4, 5, 6})
    return {}


def change_versions(monkeypatch):
    monkeypatch.setattr(known_builds, "installed_versions", lambda: {"apache-tvm": "9"})
    return {}


def change_tools(monkeypatch):
    monkeypatch.setattr(known_builds, "find_tool", lambda name: f"/elsewhere/{name}")
    return {}


def change_source(monkeypatch):
    monkeypatch.setattr(known_builds, "_source_files", lambda: [__file__])
    return {}


@pytest.mark.parametrize(
    "change",
    [
        change_target,
        change_config,
        change_database,
        change_processor,
        change_processors,
        change_versions,
        change_tools,
        change_source,
    ],
)
def test_what_decides_is_part_of_the_request(monkeypatch, change):
    asked = {"target": "llvm", "config": None, "database": None}
    before = known_builds.request_key(OP, **asked)
    assert before == known_builds.request_key(ext.ops.matmul((8, 8), (8, 8)), **asked)
    assert known_builds.request_key(OP, **{**asked, **change(monkeypatch)}) not in (before, None)


def test_a_record_that_is_added_is_looked_at(tmp_path):
    file = tmp_path / "records.jsonl"
    file.write_text("")
    before = known_builds.request_key(OP, "llvm", None, file)
    file.write_text("\n")
    assert known_builds.request_key(OP, "llvm", None, file) != before


@pytest.mark.parametrize("target", [{"kind": 3j}, {3: object()}])
def test_what_is_no_json_is_left_to_the_build(target):
    assert known_builds.request_key(OP, target, None, None) is None


def test_an_entry_that_is_gone_or_damaged_is_made_anew():
    first = ext.build(OP)
    library = first.folder / "kernel.so"  # a file of its own: the old one is in use
    library.unlink()
    library.write_bytes(b"")
    with pytest.warns(RuntimeWarning, match="built again"):
        assert ext.build(OP).folder == first.folder
    cache.clear()
    assert not (cache.root() / "notes").exists()
    assert ext.build(OP).folder == first.folder


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"entry": 3}', "null"])
def test_a_note_that_says_nothing_is_none(text):
    cache.note("00" * 32, text)
    assert known_builds.find("00" * 32) is None


def test_records_that_are_warned_of_are_warned_of_again(tmp_path):
    """So nothing is noted."""
    file = tmp_path / "records.jsonl"
    file.write_text('{"torn')
    for _ in range(2):
        record_files._read_contents.cache_clear()
        with pytest.warns(RuntimeWarning, match="is skipped"):
            ext.build(OP, database=file)


def test_a_kernel_that_is_opened_late_is_opened_late_again(refused):
    kernel = ext.build(OP, "llvm:neoverse-n1@aarch64-linux-gnu")
    refused()
    again = ext.build(OP, "llvm:neoverse-n1@aarch64-linux-gnu")
    assert (again.folder, again.is_opened, kernel.is_opened) == (kernel.folder, False, False)
    noted = [json.loads(path.read_text()) for path in (cache.root() / "notes").rglob("*/*")]
    assert noted == [{"entry": kernel.folder.name, "lazy": True}]
