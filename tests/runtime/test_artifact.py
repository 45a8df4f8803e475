import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from odd_values import mutations

from tvm_iree_ext.base.errors import ArtifactError
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.runtime import artifact, machine
from tvm_iree_ext.runtime.artifact import LIBRARY, MANIFEST, read, write
from tvm_iree_ext.runtime.kernel import export, load
from tvm_iree_ext.runtime.manifest import Manifest, sealed

SIGNATURE = Signature((Operand("x", ("n", 2), "float32"), Operand("y", ("n",), "f32", "result")))
MAPS = Path("/proc/self/maps")
FILE = {"bytes": 0, "sha256": ""}
MANIFEST_OF_TWO = Manifest("toy.two", "two", SIGNATURE, {}, {"kind": "llvm"}, {}, "heuristic")


def fill(place):
    (place / LIBRARY).write_bytes(b"library")
    (place / "more").mkdir()
    (place / "more" / "code.bin").write_bytes(b"code")
    return {"code_bytes": 4}


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "two", MANIFEST_OF_TWO, fill)
    return tmp_path / "two"


@pytest.fixture
def copy(artifacts, tmp_path):
    """A copy of the artifact of ``scale`` that may be harmed."""
    return export(artifacts.scale, tmp_path / "scale")


def edit_manifest(folder, **changes):
    data = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(sealed({**data, **changes}))


def rewrite(folder, change=lambda library: library, **changes):
    """Write the artifact anew, with another library or manifest and right checksums."""
    library = change(bytearray((folder / LIBRARY).read_bytes()))
    manifest = read(folder)
    data = {name: getattr(manifest, name) for name in manifest.__dataclass_fields__} | changes
    write(folder, Manifest(**data), lambda place: (place / LIBRARY).write_bytes(library) and None)


# Writing


def test_what_was_written_is_read(folder):
    manifest = read(folder)
    assert manifest.signature == SIGNATURE
    assert manifest.provenance == "heuristic"
    assert manifest.resources == {"code_bytes": 4}
    assert sorted(manifest.files) == [LIBRARY, "more/code.bin"]
    assert manifest.versions.keys() == {"tvm-iree-ext", "apache-tvm", "apache-tvm-ffi"}


def test_nothing_but_the_artifact_is_left(folder):
    assert os.listdir(folder.parent) == [folder.name]
    assert sorted(os.listdir(folder)) == sorted([LIBRARY, MANIFEST, "more"])


def test_an_artifact_is_replaced(folder):
    inode = folder.stat().st_ino
    write(folder, MANIFEST_OF_TWO, lambda place: (place / "other").touch())
    assert sorted(os.listdir(folder)) == [MANIFEST, "other"]
    assert folder.stat().st_ino != inode
    assert os.listdir(folder.parent) == [folder.name]


def test_an_artifact_is_replaced_in_two_steps_where_one_will_not_do(folder, monkeypatch):
    monkeypatch.setattr("tvm_iree_ext.base.atomic_folder._exchange", lambda one, other: False)
    write(folder, MANIFEST_OF_TWO, lambda place: (place / "other").touch())
    assert sorted(os.listdir(folder)) == [MANIFEST, "other"]
    assert os.listdir(folder.parent) == [folder.name]


@pytest.mark.parametrize(
    "error", [RuntimeError("no"), KeyboardInterrupt()], ids=["error", "Ctrl-C"]
)
@pytest.mark.parametrize("stands", [False, True], ids=["new", "replaced"])
def test_a_failure_leaves_things_as_they_were(folder, error, stands):
    if not stands:
        shutil.rmtree(folder)

    def fail(place):
        fill(place)
        raise error

    with pytest.raises(type(error)):
        write(folder, MANIFEST_OF_TWO, fail)
    assert os.listdir(folder.parent) == [folder.name] * stands
    if stands:
        assert read(folder).resources == {"code_bytes": 4}


@pytest.mark.parametrize("name", ["results.npz", "notes/n.txt", "more/own.bin", "empty/"])
def test_a_folder_that_holds_files_of_the_users_is_not_replaced(folder, name):
    added = folder / name
    added.parent.mkdir(exist_ok=True)
    added.mkdir() if name.endswith("/") else added.write_text("precious")
    first = name.split("/")[0] if not name.startswith("more") else name
    with pytest.raises(ArtifactError, match=f"{first} in it is no file of the artifact that stand"):
        write(folder, MANIFEST_OF_TWO, fill)
    assert added.exists()
    assert read(folder).resources == {"code_bytes": 4}


def test_an_empty_folder_is_filled(tmp_path):
    write(tmp_path, MANIFEST_OF_TWO, fill)
    assert read(tmp_path).op == "toy.two"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: (p.mkdir(), (p / "thesis.tex").touch()), "the folder exists and holds other"),
        (lambda p: p.touch(), "a file of that name exists"),
        (lambda p: p.parent.joinpath("file").touch(), "File exists: .*file"),
        (lambda p: (p.mkdir(), (p / MANIFEST).write_text("{}")), "is not a manifest of tvm_iree"),
    ],
    ids=["other things", "a file", "below a file", "foreign"],
)
def test_refuses_to_write_where_it_must_not(tmp_path, make, message):
    target = tmp_path / "place"
    make(target)
    if "File" in message:
        target = tmp_path / "file" / "place"
    with pytest.raises(ArtifactError, match=message) as caught:
        write(target, MANIFEST_OF_TWO, fill)
    assert f"cannot write the artifact {target}: " in str(caught.value)


@pytest.fixture
def unwritable():
    """A folder in which this process, even when root runs the tests, may not write."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # nobody
        yield folder
        os.seteuid(user)


def test_an_unwritable_folder_is_named(unwritable):
    message = rf"cannot write the artifact {unwritable}/place: Permission denied: {unwritable}/"
    with pytest.raises(ArtifactError, match=message):
        write(unwritable / "place", MANIFEST_OF_TWO, fill)


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    left = tmp_path / ".tvm_iree_ext-0123456789ab"
    (left / "artifact").mkdir(parents=True)
    (left / "tvm_iree_ext.lock").touch()
    write(tmp_path / "two", MANIFEST_OF_TWO, fill)
    assert os.listdir(tmp_path) == ["two"]


@pytest.mark.parametrize("name", ["two", "*", "[a-z]*", "?"])
def test_neighbours_of_an_artifact_are_left_alone(tmp_path, name):
    neighbours = [".two.backup", ".*.0123456789ab", ".tvm_iree_ext-0123456789ab", ".t.1", "thesis"]
    for neighbour in neighbours:
        (tmp_path / neighbour).mkdir()
        (tmp_path / neighbour / "work").touch()
    locked = tmp_path / ".tvm_iree_ext-notes"
    locked.mkdir()
    (locked / "tvm_iree_ext.lock").touch()
    write(tmp_path / name, MANIFEST_OF_TWO, fill)
    assert sorted(os.listdir(tmp_path)) == sorted([*neighbours, locked.name, name])
    assert all((tmp_path / neighbour / "work").exists() for neighbour in neighbours)


def test_of_two_writers_the_last_to_finish_wins(tmp_path):
    def slow(place):
        write(tmp_path / "two", MANIFEST_OF_TWO, fill)
        (place / "slow").touch()

    write(tmp_path / "two", MANIFEST_OF_TWO, slow)
    assert sorted(os.listdir(tmp_path / "two")) == [MANIFEST, "slow"]
    assert os.listdir(tmp_path) == ["two"]


def test_what_appears_while_an_artifact_is_written_is_left_alone(tmp_path):
    def slow(place):
        (tmp_path / "two").mkdir()
        (tmp_path / "two" / "thesis.tex").touch()

    with pytest.raises(ArtifactError, match="the folder exists and holds other things"):
        write(tmp_path / "two", MANIFEST_OF_TWO, slow)
    assert os.listdir(tmp_path / "two") == ["thesis.tex"]


def test_refuses_what_no_folder_can_be_called(copy, tmp_path):
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    for name in ("a\0b", tmp_path / "a\0b"):
        message = r"a\\x00b' cannot be the folder of an artifact: embedded null byte"
        with pytest.raises(ArtifactError, match=message):
            load(name)
        with pytest.raises(ArtifactError, match=message):
            read(name)
        with pytest.raises(ArtifactError, match=message):
            export(copy, name)
    with pytest.raises(ArtifactError, match="circle"):
        load(circle)


# Reading


def test_refuses_what_is_no_artifact(tmp_path):
    with pytest.raises(ArtifactError, match=r"no artifact at .*nowhere: there is no such folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(ArtifactError, match=rf"no artifact at {tmp_path}: it has no manifest.json"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "elsewhere"}, "is not a manifest of tvm_iree_ext: its kind is not"),
        ({"format": 1}, "has format 1; this version of tvm_iree_ext reads 2"),
        ({"op": None}, "has a malformed op: None"),
        ({"entry": None}, "has a malformed entry: None"),
        ({"attributes": []}, r"has a malformed attributes: \[\]"),
        ({"target": "llvm"}, "has a malformed target: 'llvm'"),
        ({"config": 3}, "has a malformed config: 3"),
        ({"provenance": "guess"}, "has a malformed provenance: 'guess'"),
        ({"provenance": []}, r"has a malformed provenance: \[\]"),
        ({"resources": None}, "has a malformed resources: None"),
        ({"resources": {"cpu_features": 3}}, "has a malformed resources: {'cpu_features': 3}"),
        ({"resources": {"cpu_features": [3]}}, "has a malformed resources: "),
        ({"versions": {"apache-tvm": 27}}, "has a malformed versions: {'apache-tvm': 27}"),
        ({"files": {"../../etc/passwd": FILE}}, "has a malformed files"),
        ({"files": {"/etc/passwd": FILE}}, "has a malformed files"),
        ({"files": {"a\0b": FILE}}, "has a malformed files"),
        ({"files": {"": FILE}}, "has a malformed files"),
        ({"files": ["kernel.so"]}, "has a malformed files"),
        ({"files": {"kernel.so": 3}}, "has a malformed files: {'kernel.so': 3}"),
        ({"files": {"kernel.so": {**FILE, "bytes": -1}}}, "has a malformed files"),
        ({"files": {"kernel.so": {**FILE, "mode": 1}}}, "has a malformed files"),
        ({"signature": None}, "has a malformed signature: None"),
        ({"signature": [3]}, "has a malformed signature: operand 0 is 3"),
        ({"signature": [{"name": "x"}]}, "has a malformed signature: operand 0 has no shape"),
        ({"signature": SIGNATURE.to_json()[:1]}, "malformed signature: no operand is a result"),
    ],
)
def test_refuses_foreign_and_malformed_manifests(folder, changes, message):
    edit_manifest(folder, **changes)
    with pytest.raises(ArtifactError, match=message) as caught:
        read(folder)
    assert str(folder / MANIFEST) in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 3}, "operand 1 has the name 3"),
        ({"shape": 3}, "operand 1 has the shape 3"),
        ({"shape": [32.0]}, r"operand 1 has the shape \[32.0\]"),
        ({"shape": [True]}, r"operand 1 has the shape \[True\]"),
        ({"shape": [-1]}, r"operand 1 has the shape \[-1\]"),
        ({"shape": ["2 * m"]}, r"y has the extent '2 \* m'"),
        ({"shape": ["2 n"]}, "y has the extent '2 n'"),
        ({"dtype": "flot"}, "operand 1 has the dtype 'flot'"),
        ({"dtype": ["f32"]}, r"operand 1 has the dtype \['f32'\]"),
        ({"role": "foo"}, "operand 1 has the role 'foo'"),
        ({"role": ["result"]}, r"operand 1 has the role \['result'\]"),
        ({"least": 3}, "operand 1 has the least 3"),
        ({"least": ["n +"]}, r"y has the extent 'n \+'"),
    ],
)
def test_refuses_malformed_operands(folder, changes, message):
    x, y = SIGNATURE.to_json()
    edit_manifest(folder, signature=[x, {**y, **changes}])
    with pytest.raises(ArtifactError, match=f"has a malformed signature: {message}") as caught:
        read(folder)
    assert str(folder / MANIFEST) in str(caught.value)


def test_a_signature_of_another_kernel_is_found_at_the_call(artifacts, tmp_path):
    folder = export(artifacts.shift, tmp_path / "shift")
    operands = json.loads((folder / MANIFEST).read_text())["signature"]
    arguments = np.zeros(3, "int32"), 1, False
    for other in (operands[:-1], [*operands[:-1], {**operands[-1], "dtype": "int64"}]):
        edit_manifest(folder, signature=other)
        with pytest.raises(ArtifactError, match=f"manifest of {folder} does not describe its lib"):
            load(folder)(*arguments)


def test_refuses_a_manifest_that_is_cut_off(folder):
    text = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(text[: len(text) // 2])
    with pytest.raises(ArtifactError, match=r"manifest.json is not valid JSON"):
        read(folder)


def test_refuses_a_manifest_with_a_field_missing(folder):
    data = json.loads((folder / MANIFEST).read_text())
    del data["entry"], data["target"]
    (folder / MANIFEST).write_text(json.dumps(data))
    with pytest.raises(ArtifactError, match=r"manifest.json lacks entry, target"):
        read(folder)


@pytest.mark.parametrize("number", range(8))
def test_a_changed_manifest_is_found_whatever_was_changed(folder, number):
    """A digit or letter that is another one leaves JSON valid and, often, the field sound."""
    text = (folder / MANIFEST).read_text()
    places = [place for place, sign in enumerate(text) if sign.isalnum() and sign != "z"]
    place = places[len(places) * number // 8]
    (folder / MANIFEST).write_text(text[:place] + "z" + text[place + 1 :])
    with pytest.raises(ArtifactError, match=r"manifest\.json (is|has|lacks) "):
        read(folder)


def test_a_manifest_may_be_formatted_anew(folder):
    data = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(dict(reversed(data.items()))))
    assert read(folder).op == "toy.two"


def test_a_manifest_that_says_otherwise_is_damaged(folder):
    data = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**data, "entry": "three"}))
    with pytest.raises(ArtifactError, match=r"is damaged: it has SHA-256 \w{16}\.\.\., and says '"):
        read(folder)


@pytest.mark.parametrize("count", [4096, 3 * 4096 + 5, (1 << 20) + 4097])
def test_a_large_file_is_checked_by_the_sums_of_its_pages(count, tmp_path, monkeypatch):
    monkeypatch.setattr(artifact, "_LARGE", 4096)
    content = np.random.default_rng(0).integers(0, 256, count, dtype=np.uint8)

    def fill(place):
        (place / LIBRARY).write_bytes(b"library")
        content.tofile(place / "weights.bin")

    folder = tmp_path / "large"
    manifest = write(folder, MANIFEST_OF_TWO, fill)
    assert read(folder) == manifest
    assert manifest.files["weights.bin"].sums
    assert manifest.files[LIBRARY].sha256
    path = folder / "weights.bin"
    harmed = [content.copy() for _ in range(3)]
    harmed[0][0] ^= 1
    harmed[1][-1] ^= 128
    harmed[2] = np.roll(content, 4096) if count > 4096 else content[::-1].copy()
    for one in harmed:
        one.tofile(path)
        with pytest.raises(ArtifactError, match=r"is damaged: weights\.bin has SHA-256 \w{16}"):
            read(folder)
    content[:-1].tofile(path)
    with pytest.raises(ArtifactError, match=rf"weights.bin has {count - 1} bytes"):
        read(folder)


@pytest.mark.parametrize("depth", [100, 5000, 10**6])
def test_refuses_a_manifest_that_is_nested_deeply(folder, depth):
    text = sealed({**json.loads((folder / MANIFEST).read_text()), "config": {"a": 31415}})
    (folder / MANIFEST).write_text(text.replace("31415", "[" * depth + "]" * depth))
    with pytest.raises(ArtifactError, match="is not valid JSON: it is nested more than 64 times"):
        read(folder)


@pytest.mark.parametrize("number", ["NaN", "1e999", "1" * 400, "1" * 5000])
def test_refuses_numbers_that_json_has_not(folder, number):
    text = sealed({**json.loads((folder / MANIFEST).read_text()), "config": {"a": 31415}})
    (folder / MANIFEST).write_text(text.replace("31415", number))
    with pytest.raises(ArtifactError, match=r"manifest\.json is not valid JSON: "):
        read(folder)


@pytest.mark.parametrize("name", [MANIFEST, LIBRARY])
@pytest.mark.parametrize(
    ("put", "message"),
    [
        (os.mkfifo, "cannot read .*: not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "cannot read .*: not a regular file"),
        (lambda path: path.mkdir(), "cannot read .*: Is a directory"),
        (lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 1 << 40), "bytes"),
        (lambda path: path.symlink_to("nowhere"), "no artifact|is missing"),
    ],
    ids=["FIFO", "device", "folder", "huge", "dangling"],
)
def test_what_is_no_file_is_refused_and_never_waited_for(folder, name, put, message):
    (folder / name).unlink()
    put(folder / name)
    with pytest.raises(ArtifactError, match=message):
        read(folder)


def test_a_missing_file_is_named(folder):
    (folder / "more" / "code.bin").unlink()
    with pytest.raises(ArtifactError, match=r"is incomplete: more/code.bin is missing"):
        read(folder)


def test_a_flipped_bit_is_found(copy):
    library = bytearray((copy / LIBRARY).read_bytes())
    library[len(library) // 2] ^= 1
    (copy / LIBRARY).write_bytes(library)
    with pytest.raises(ArtifactError, match=r"is damaged: kernel.so has SHA-256 \w{16}\.\.\.; the"):
        load(copy)


# Loading


def test_refuses_a_library_for_another_machine(copy):
    other, number = ("aarch64", 183) if machine.this_machine() != "aarch64" else ("x86_64", 62)

    def change(library):
        library[18] = number
        return library

    rewrite(copy, change)
    message = rf"kernel.so: built for {other}-linux-gnu; this machine is {machine.this_machine()}"
    with pytest.raises(ArtifactError, match=message):
        load(copy)


def test_refuses_a_library_for_another_system(copy):
    rewrite(copy, lambda _: b"MZ something", target={"kind": "llvm", "mtriple": "x86_64-windows"})
    with pytest.raises(ArtifactError, match=r"built for x86_64-windows; this machine runs Linux"):
        load(copy)


def test_refuses_a_library_that_uses_what_this_processor_lacks(copy):
    rewrite(copy, resources={"cpu_features": ["avx9000"]})
    with pytest.raises(ArtifactError, match="uses avx9000, which this processor lacks"):
        load(copy)


def test_refuses_a_library_that_the_loader_refuses(copy):
    rewrite(copy, lambda library: library[:64])
    with pytest.raises(ArtifactError, match=r"kernel.so does not load: "):
        load(copy)


def test_refuses_a_library_without_the_function(copy):
    rewrite(copy, entry="rescale")
    with pytest.raises(ArtifactError, match="has no function 'rescale'"):
        load(copy)


def test_refuses_targets_that_do_not_run_here(copy):
    rewrite(copy, target={"kind": "rocm"})
    with pytest.raises(ArtifactError, match=r"has no launch plan of toy\.scale"):
        load(copy)
    rewrite(copy, target={"kind": "opencl"})
    with pytest.raises(ArtifactError, match="is for opencl; kernels that run here are for llvm"):
        load(copy)


def test_a_lazy_kernel_opens_its_library_at_the_first_call(copy):
    assert load(copy, lazy=True)(np.ones((1, 4), "float32"), 2.0).tolist() == [[2] * 4]
    rewrite(copy, target={"kind": "rocm"})
    kernel = load(copy, lazy=True)
    assert kernel.target == {"kind": "rocm"}
    with pytest.raises(ArtifactError, match=r"has no launch plan of toy\.scale"):
        kernel(np.ones((1, 4), "float32"), 2.0)


def test_a_lazy_kernel_refuses_a_folder_that_is_gone_or_replaced(artifacts, tmp_path):
    folder, x = export(artifacts.scale, tmp_path / "kernel"), np.ones((1, 4), "float32")
    kernel = load(folder, lazy=True)
    export(artifacts.row_sums, folder)
    for use in (lambda: kernel(x, 2.0), lambda: kernel.export(tmp_path / "other")):
        with pytest.raises(ArtifactError, match="kernel was replaced since it was loaded"):
            use()
    shutil.rmtree(folder)
    with pytest.raises(ArtifactError, match="there is no such folder"):
        kernel(x, 2.0)
    export(artifacts.scale, folder)  # the same again
    assert kernel(x, 2.0).tolist() == [[2] * 4]


def test_a_folder_whose_kernel_changed_loads_the_new_one(artifacts, tmp_path):
    folder = tmp_path / "kernel"
    export(artifacts.scale, folder)
    x = np.ones((2, 4), "float32")
    first = load(folder)
    export(artifacts.row_sums, folder)
    second = load(folder)
    assert second(x).tolist() == [4, 4]
    assert first(x, 3.0).tolist() == [[3] * 4] * 2
    export(artifacts.scale, folder)
    assert load(folder)(x, 2.0).tolist() == [[2] * 4] * 2


@pytest.mark.skipif(not MAPS.exists(), reason="needs Linux's list of loaded libraries")
def test_a_library_goes_with_its_kernel(artifacts, tmp_path):
    folder = export(artifacts.scale, tmp_path / "kernel")
    kernel = load(folder)
    assert str(folder / LIBRARY) in MAPS.read_text()
    del kernel
    assert str(folder / LIBRARY) not in MAPS.read_text()


# Exporting


def test_an_exported_kernel_is_the_same(toys, tmp_path):
    folder = toys.shift.export(tmp_path / "deep" / "down" / "shift")
    assert read(folder) == toys.shift.manifest
    low, _ = load(folder)(np.array([1, 2, 3], "int32"), 1, False)
    assert low.tolist() == [0, 1, 2]


def test_a_damaged_kernel_is_not_exported(copy, tmp_path):
    (copy / LIBRARY).write_bytes(b"")
    with pytest.raises(ArtifactError, match=r"kernel.so has 0 bytes; the manifest says"):
        export(copy, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_runtime_goes_along(toys, tmp_path):
    folder = toys.row_sums.export(tmp_path / "bundle", runtime=True)
    names = sorted(read(folder).files)
    assert len(names) == 3
    assert [name.split(".")[0].removeprefix("lib") for name in names] == [
        "kernel",
        "tvm_ffi",
        "tvm_runtime",
    ]
    assert load(folder)(np.ones((2, 4), "float32")).tolist() == [4, 4]


def test_no_manifest_is_taken_amiss(artifacts, tmp_path):
    """Whatever one value is changed to: an ArtifactError, or a kernel that can be looked at."""
    folder = export(artifacts.shift, tmp_path / "shift")
    sound = json.loads((folder / MANIFEST).read_text())
    refused, taken = 0, 0
    for what, data in mutations(sound):
        (folder / MANIFEST).write_text(sealed(data))
        try:
            repr(load(folder, lazy=True))
            taken += 1
        except ArtifactError:
            refused += 1
        except Exception as error:
            raise AssertionError(what) from error
    assert refused > taken > 0
