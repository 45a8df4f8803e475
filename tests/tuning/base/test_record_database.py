"""Files of records: many writers, ends that were cut off, order put into them."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.records.record import Record
from tvm_iree_ext.tuning import Database


def record(shape=(8,), config=0, time_us=1.0, **fields):
    operand = {"name": "x", "shape": list(shape), "dtype": "float32", "role": "input"}
    described = {"op": "toy.op", "operands": [operand], "attributes": {}}
    fields = {"times_us": (time_us,), **fields}
    return Record.of(described, {"kind": "llvm"}, "toy", {"splits": config}, **fields)


@pytest.fixture
def database(tmp_path):
    return Database(tmp_path / "folder" / "records.jsonl")


def test_a_record_round_trips(database):
    one = record(decisions={"tile": [1, 2]}, seed=3, trial=4, baseline_us=2.5, message="µ\n")
    database.append(one)
    assert database.records() == [one]
    assert one.date.endswith("+00:00")
    assert database.path.read_text().count("\n") == 1


def test_a_torn_line_is_skipped_and_the_next_one_is_whole(database):
    database.append(record(config=1))
    with database.path.open("a") as file:
        file.write(record(config=2).to_line()[:-20])
    with pytest.warns(RuntimeWarning, match=r"line 2, is skipped: it is not JSON: was its end cut"):
        assert len(database.records()) == 1
    database.append(record(config=3))
    with pytest.warns(RuntimeWarning, match="line 2, is skipped"):
        assert [one.config["splits"] for one in database.records()] == [1, 3]
    with pytest.warns(RuntimeWarning, match="line 2, is skipped"):
        database.prune(2)
    assert [one.config["splits"] for one in database.records()] == [1, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is no record of format 1"),
        ('{"format": 2}', "is no record of format 1"),
        ('{"format": 1, "op": "x"}', "has other fields than a record: attributes"),
        (record(times_us=(-1.0,)).to_line(), r"has a malformed times_us: \[-1.0\]"),
        (record(status="odd").to_line(), "has a malformed status: 'odd'"),
    ],
)
def test_foreign_lines_are_skipped(database, text, message):
    database.path.write_text(text)
    with pytest.warns(RuntimeWarning, match=message):
        assert database.records() == []


SESSION = """
import sys
from tvm_iree_ext.records.record import Record
from tvm_iree_ext.tuning import Database
database, name = Database(sys.argv[1]), sys.argv[2]
operand = {"name": "x", "shape": [8], "dtype": "float32", "role": "input"}
described = {"op": "toy." + name, "operands": [operand], "attributes": {"text": name * 300}}
trial = 0
while trial < int(sys.argv[3]):
    trial += 1
    database.append(Record.of(described, {}, "toy", {}, times_us=(1.0,), trial=trial))
    print(trial, flush=True)
"""


def session(database, name, count):
    command = [sys.executable, "-c", SESSION, database.path, name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_sessions_write_one_file_while_it_is_pruned(database):
    database.append(record(config=1))
    database.append(record(config=2))
    both = [session(database, name, 15) for name in "ab"]
    gone = 0
    while any(one.poll() is None for one in both):
        gone += database.prune(1)
        time.sleep(0.01)
    assert [one.wait() for one in both] == [0, 0]
    written = sum(len(one.stdout.read().split()) for one in both)
    for one in both:
        one.stdout.close()
    assert written == 30
    assert len(database.records()) == 32 - gone
    database.prune(1)
    assert sorted(one.op for one in database.records()) == ["toy.a", "toy.b", "toy.op"]


def test_killing_a_session_loses_no_record_that_it_has_told_of(database):
    with session(database, "a", 10**6) as process:
        for _ in range(20):
            told = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        told = max([told, *map(int, process.stdout.read().split())])
    found = [one.trial for one in database.records()]
    assert found == list(range(1, len(found) + 1))
    assert told <= len(found) <= told + 1


def test_merge_adds_what_is_new_once(database, tmp_path):
    other = Database(tmp_path / "other.jsonl")
    database.append(record(config=1))
    other.append(database.records()[0])
    other.append(record(config=2))
    other.append(other.records()[1])
    assert database.merge([other, other.path]) == 1
    assert [one.config["splits"] for one in database.records()] == [1, 2]


def test_prune_keeps_the_best_of_each_task(database):
    for shape in ((8,), (9,)):
        for config in (1, 2, 3):
            database.append(record(shape, config, time_us=float(config)))
            database.append(record(shape, config, time_us=float(config) + 1))
    database.append(record(status="crashed", times_us=()))
    database.append(record(time_us=9.0, method="static"))
    database.append(record(versions={"tvm-iree-ext": "0.0.1"}))
    assert database.prune(2) == 10
    kept = [(one.operands[0]["shape"], one.time_us, one.method) for one in database.records()]
    want = [([8], 1.0), ([8], 2.0), ([9], 1.0), ([9], 2.0)]
    assert sorted(kept) == [([8], 1.0, "measured"), ([8], 2.0, "measured"), ([8], 9.0, "static"),
                            *((shape, t, "measured") for shape, t in want[2:])]  # fmt: skip
    with pytest.raises(TuningError, match="keep is 0; expected at least 1"):
        database.prune(0)


def test_export_writes_another_file(database, tmp_path):
    for config in (1, 2):
        database.append(record(config=config, time_us=float(config)))
    assert database.export(tmp_path / "all.jsonl") == 2
    assert database.export(tmp_path / "best.jsonl", keep=1) == 1
    assert (tmp_path / "all.jsonl").read_text() == database.path.read_text()
    with pytest.raises(TuningError, match="is the file to be exported"):
        database.export(database.path)


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TuningError, match="cannot write records to"):
        Database(tmp_path / "file" / "records.jsonl")


def test_a_file_stays_what_it_was(database, tmp_path):
    """Its link, its mode, and lines that are somebody else's, whatever is done to the records."""
    link = tmp_path / "link.jsonl"
    link.symlink_to(database.path)
    for config in (1, 2):
        database.append(record(config=config, time_us=float(config)))
    lines = database.path.read_text().splitlines()
    foreign = ["# measured on the old machine", '{"format": 2}', '{"op": "µ"}', "\udc80 odd bytes"]
    text = "\n".join([foreign[0], lines[1], *foreign[1:3], lines[0], foreign[3], lines[1][:40]])
    database.path.write_bytes(text.encode(errors="surrogateescape"))
    database.path.chmod(0o600)
    with pytest.warns(RuntimeWarning, match="is skipped"):
        assert Database(link).prune(1) == 1
    assert link.is_symlink()
    assert database.path.stat().st_mode & 0o777 == 0o600
    after = database.path.read_bytes().decode(errors="surrogateescape").splitlines()
    assert after == [*foreign[:3], lines[0], foreign[3]]
    assert os.listdir(database.path.parent) == [database.path.name]
    other = tmp_path / "other.jsonl"
    other.touch(0o640)
    other.chmod(0o640)
    with pytest.warns(RuntimeWarning, match="is skipped"):
        database.export(other)
    assert other.stat().st_mode & 0o777 == 0o640


def test_what_a_killed_prune_left_is_used_up_by_the_next(database):
    database.append(record())
    database.path.with_name(f".{database.path.name}.new").write_text("half of it")
    assert database.prune(1) == 0
    assert len(database.records()) == 1
    assert os.listdir(database.path.parent) == [database.path.name]


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path, put):
    put(tmp_path / "records.jsonl")
    database = Database(tmp_path / "records.jsonl")
    with pytest.raises(TuningError, match=r"records\.jsonl: not a regular file"):
        database.append(record())
    with pytest.raises(TuningError, match=r"records\.jsonl: not a regular file"):
        database.records()
