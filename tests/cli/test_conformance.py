"""``tvm-iree-ext conformance``."""

import json

import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.conformance import conformance_report
from tvm_iree_ext.conformance.outcomes import Outcome, Verdict
from tvm_iree_ext.conformance.suite import SUITES


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(SUITES, "toy", "toy_suite")
    return ext.conformance.suite_named("toy")


def test_table_json_and_page(command, toy, tmp_path):
    begin, end = conformance_report.marks("toy")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    log = tmp_path / "log.jsonl"
    for case, kind in zip(toy.cases(), ("right", "wrong", "refused"), strict=False):
        verdict = Verdict(kind, "axis 3 of 'x' | <y>" if kind == "refused" else "", "TVM")
        with log.open("a") as lines:
            lines.write(Outcome("toy", 0, case, verdict, 0.0).to_json() + "\n")
    files = ("--output", log, "--json", tmp_path / "rows.json", "--page", page)
    done = command("conformance", "toy", "--only", "right", "wrong", "refused", *files)
    assert done.status == 1, done.err
    assert done.lines[-2].split() == ["all", "1", "1", "1"]
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["kind"] for row in rows] == ["right", "wrong", "refused"]
    text = page.read_text()
    assert "old" not in text
    assert "| Refused | int32 |  |  | 1 |" in text
    assert "| 1 | refused | TVM | axis N of '...' \\| &lt;y> | refused |" in text
    assert command("conformance", "toy", "--only", "right", *files[:2]).status == 0
