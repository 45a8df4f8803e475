"""``tvm-iree-ext records``."""

import json

import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.records.record import Record


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The user's file, with two records of an op and a failure."""
    monkeypatch.setenv(ext.records.record_files.VARIABLE, str(tmp_path / "mine.jsonl"))
    database = ext.tuning.Database(tmp_path / "mine.jsonl")
    op, target = ext.ops.scan((4, 64), dimension=1), {"kind": "llvm", "mcpu": "znver4"}
    for splits in (1, 2):
        config = ext.LoweringConfig(splits=splits).to_json()
        given = {"times_us": (10.0 / splits,), "baseline_us": 10.0}
        database.append(Record.of(op.describe(), target, "cpu", config, **given))
    failed = {"status": "crashed", "message": "ended by SIGSEGV"}
    database.append(Record.of(op.describe(), target, "cpu", {}, **failed))
    return database


def test_show_prints_the_best_of_each_op(command, mine):
    lines = command("records", "show").lines
    assert lines[0].startswith(
        "iree_linalg_ext.scan  4x64 4  llvm znver4: 5 µs, heuristic 10 µs, measured 20"
    )
    assert lines[1].strip() == '{"splits": 2}'
    assert lines[2] == f"1 of 3 records of {mine.path}"
    assert "crashed: ended by SIGSEGV" in command("records", "show", mine.path, "--all").out
    data = json.loads(command("records", "show", "--json").out)
    assert data["config"]["splits"] == 2
    assert command("records", "show", "--op", "sort").lines == [f"0 of 0 records of {mine.path}"]
    assert command("records", "show", "--shipped").status == 0


def test_files_are_put_in_order(command, mine, tmp_path):
    other = tmp_path / "other.jsonl"
    assert command("records", "export", other).out == f"3 records written to {other}\n"
    assert command("records", "prune", "--keep", "1").out.startswith("2 records removed from")
    assert command("records", "import", other).out == f"2 records added to {mine.path}\n"
    assert command("records", "merge", other, mine.path).out == f"0 records added to {other}\n"
    assert command("records", "export", other, "--best", "1").out.startswith("1 records")


def test_a_database_of_metaschedule_is_written_and_taken(command, mine, tmp_path, monkeypatch):
    folder = tmp_path / "database"
    done = command("records", "export", folder, "--metaschedule", "--best", 1)
    assert done.lines == [f"1 records written to {folder}"]
    assert "5 µs" in command("records", "show", folder).out
    monkeypatch.setenv(ext.records.record_files.VARIABLE, str(tmp_path / "others.jsonl"))
    assert command("records", "import", folder).status == 0
    assert ext.records.record_files.read(tmp_path / "others.jsonl") == [mine.records()[1]]


def test_what_is_not_there_is_said(command, tmp_path, monkeypatch):
    monkeypatch.setenv(ext.records.record_files.VARIABLE, str(tmp_path / "none"))
    assert "nothing was tuned yet" in command("records", "show").err
    assert "there is no" in command("records", "prune").err
    assert command("records", "show", "none_such").status == 1
    assert "is not shipped" in command("records", "show", "x", "--shipped").err
