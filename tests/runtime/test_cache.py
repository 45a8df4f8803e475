import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.runtime import cache
from tvm_iree_ext.runtime.artifact import LIBRARY, MANIFEST, read, write
from tvm_iree_ext.runtime.manifest import Manifest

KEY = cache.key({"op": "toy"})
SIGNATURE = Signature((Operand("y", (4,), "float32", "result"),))


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def make(folder: Path, content: bytes = b"library") -> None:
    manifest = Manifest("toy.op", "op", SIGNATURE, {}, {"kind": "llvm"}, {}, "heuristic")
    write(folder, manifest, lambda place: (place / LIBRARY).write_bytes(content) and None)


def never(folder: Path) -> None:
    raise AssertionError("made again")


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


ENTRY = [f"{KEY[:2]}/{KEY}/{LIBRARY}", f"{KEY[:2]}/{KEY}/{MANIFEST}"]


def test_an_entry_is_made_once(root):
    entry = cache.get_or_make(KEY, make)
    assert cache.get_or_make(KEY, never) == entry
    assert read(entry).op == "toy.op"
    assert files(root) == ENTRY


def test_keys_depend_on_content_and_not_on_order():
    assert cache.key({"a": 1, "b": [2, "3"]}) == cache.key({"b": (2, "3"), "a": 1})
    assert cache.key({"a": 1}) != cache.key({"a": "1"})
    with pytest.raises(TypeError):
        cache.key({"a": object()})


def test_the_root_is_chosen_by_the_environment(monkeypatch, tmp_path):
    assert cache.root() == tmp_path / "cache"
    monkeypatch.delenv(cache.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.root() == tmp_path / "tvm_iree_ext"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.root() == Path.home() / ".cache" / "tvm_iree_ext"


def test_clear_and_size(root):
    assert cache.size() == (0, 0)
    cache.clear()
    cache.get_or_make(KEY, make)
    cache.get_or_make(cache.key({"op": "other"}), make)
    (root / "notes.txt").touch()
    count, size = cache.size()
    assert count == 2
    assert size == sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    cache.clear()
    assert files(root) == ["notes.txt"]


@pytest.mark.parametrize("error", [BuildError("no"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_a_failed_build_leaves_nothing(root, error):
    def fail(folder):
        make(folder)
        raise error

    with pytest.raises(type(error)):
        cache.get_or_make(KEY, fail)
    assert files(root) == []
    cache.get_or_make(KEY, make)
    assert files(root) == ENTRY


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda entry: flip(entry / LIBRARY), "built again: .* is damaged: kernel.so has"),
        (lambda entry: (entry / LIBRARY).unlink(), "built again: .* kernel.so is missing"),
        (lambda entry: (entry / MANIFEST).unlink(), "built again: .* it has no manifest.json"),
        (lambda entry: (entry / MANIFEST).write_text("{"), "built again: .* is not valid JSON"),
    ],
    ids=["flipped", "lost", "no manifest", "torn manifest"],
)
def test_a_damaged_entry_is_built_again(root, damage, message):
    damage(cache.get_or_make(KEY, make))
    with pytest.warns(RuntimeWarning, match=message):
        entry = cache.get_or_make(KEY, make)
    assert read(entry).op == "toy.op"
    assert files(root) == ENTRY


@pytest.mark.parametrize(
    "put",
    [
        lambda path: path.symlink_to("nowhere"),
        lambda path: path.touch(),
        os.mkfifo,
        lambda path: (path.mkdir(), os.mkfifo(path / MANIFEST)),
    ],
    ids=["dangling", "file", "FIFO", "FIFO within"],
)
def test_what_stands_in_the_place_of_an_entry_makes_room(root, put):
    (root / KEY[:2]).mkdir(parents=True)
    put(root / KEY[:2] / KEY)
    with pytest.warns(RuntimeWarning, match="built again: "):
        assert cache.get_or_make(KEY, make) == cache.get_or_make(KEY, never)
    assert files(root) == ENTRY
    assert os.listdir(root) == [KEY[:2]]


def test_clear_takes_links_and_leaves_what_they_lead_to(root, tmp_path):
    (root / KEY[:2]).mkdir(parents=True)
    (tmp_path / "mine").mkdir()
    (root / KEY[:2] / KEY).symlink_to(tmp_path / "mine")
    (root / KEY[:2] / cache.key({})).symlink_to("nowhere")
    assert cache.size() == (0, 0)
    cache.clear()
    assert (tmp_path / "mine").is_dir()
    assert files(root) == []


@pytest.mark.parametrize("stage", ["before the lock", "while it is removed"])
def test_a_builder_killed_at_any_moment_leaves_nothing(root, stage):
    left = root / ".tvm_iree_ext-0123456789ab"
    left.mkdir(parents=True)
    if stage == "while it is removed":
        (left / "tvm_iree_ext.lock").touch()
    cache.get_or_make(KEY, make)
    assert os.listdir(root) == [KEY[:2]]


def test_the_first_to_finish_wins(root):
    def slow(folder):
        make(folder, b"slow")
        cache.get_or_make(KEY, lambda path: make(path, b"quick"))

    entry = cache.get_or_make(KEY, slow)
    assert (entry / LIBRARY).read_bytes() == b"quick"
    assert files(root) == ENTRY


def test_a_damaged_winner_does_not_win(root):
    def slow(folder):
        make(folder, b"slow")
        flip(cache.get_or_make(KEY, lambda path: make(path, b"quick")) / LIBRARY)

    entry = cache.get_or_make(KEY, slow)
    assert (entry / LIBRARY).read_bytes() == b"slow"
    assert files(root) == ENTRY


def test_an_unwritable_root_says_what_to_do(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file" / "cache"))
    message = rf"cannot write the kernel cache .*; set {cache.VARIABLE} to a folder that can be"
    with pytest.raises(BuildError, match=message):
        cache.get_or_make(KEY, make)


@pytest.fixture
def as_nobody():
    """Where root runs the tests: another user, for whom permissions count."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # nobody
    yield
    os.seteuid(user)


@pytest.mark.parametrize("place", [".", KEY[:2], f"{KEY[:2]}/{KEY}"], ids=["root", "two", "entry"])
@pytest.mark.filterwarnings("ignore:built again")  # an entry that cannot be read
def test_an_unreadable_cache_says_what_to_do(request, monkeypatch, place):
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "cache"
        monkeypatch.setenv(cache.VARIABLE, str(root))
        cache.get_or_make(KEY, make)
        for folder in (Path(name), root, root / KEY[:2]):
            folder.chmod(0o777)
        (root / place).chmod(0)
        request.getfixturevalue("as_nobody")
        message = rf"cannot write the kernel cache {root}: .* denied: .*; set {cache.VARIABLE}"
        with pytest.raises(BuildError, match=message):
            cache.get_or_make(KEY, make)
        os.seteuid(os.getuid())  # to remove it
        (root / place).chmod(0o700)


# Several processes

BUILDER = f"""
import sys
from pathlib import Path
from tvm_iree_ext.runtime import cache
from tvm_iree_ext.runtime.artifact import LIBRARY, read, write
from tvm_iree_ext.runtime.manifest import Manifest
from tvm_iree_ext.base.signature import Operand, Signature

def make(folder):
    signature = Signature((Operand("y", (4,), "float32", "result"),))
    manifest = Manifest("toy.op", "op", signature, {{}}, {{"kind": "llvm"}}, {{}}, "heuristic")
    write(folder, manifest, lambda place: (place / LIBRARY).write_bytes(b"library") and None)
    print("made", flush=True)
    sys.stdin.read()

try:
    print(read(cache.get_or_make({KEY!r}, make)).op)
except KeyboardInterrupt:
    print("interrupted")
"""


class Builder:
    """Another process that has filled its folder for the entry, and waits to be told to go on."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", BUILDER]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def wait_until_made(self) -> "Builder":
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "made\n"
        return self

    def go_on(self) -> str:
        return self.process.communicate(timeout=300)[0]


def test_processes_that_fill_it_at_once_agree(root):
    builders = [Builder() for _ in range(4)]
    for builder in builders:
        builder.wait_until_made()
    assert {builder.go_on() for builder in builders} == {"toy.op\n"}
    assert files(root) == ENTRY
    assert os.listdir(root / KEY[:2]) == [KEY]


def test_nobody_waits_for_another_builder(root):
    builder = Builder().wait_until_made()
    cache.get_or_make(KEY, make)
    assert builder.go_on() == "toy.op\n"
    assert files(root) == ENTRY


def test_ctrl_c_leaves_nothing(root):
    builder = Builder().wait_until_made()
    builder.process.send_signal(signal.SIGINT)
    assert builder.go_on() == "interrupted\n"
    assert files(root) == []
    assert os.listdir(root) == [KEY[:2]]


def test_what_a_killed_builder_left_is_removed_and_a_living_ones_is_not(root):
    killed = Builder().wait_until_made()
    killed.process.kill()
    killed.go_on()
    assert [Path(file).name for file in files(root)] == [LIBRARY, MANIFEST, "tvm_iree_ext.lock"]
    living = Builder().wait_until_made()
    other = cache.key({"op": "of another folder"})
    cache.get_or_make(other, make)
    assert len(os.listdir(root)) == 3, "folders of both keys, and what the living builds"
    assert living.go_on() == "toy.op\n"
    assert sorted(os.listdir(root)) == sorted([KEY[:2], other[:2]])
    assert os.listdir(root / KEY[:2]) == [KEY]
