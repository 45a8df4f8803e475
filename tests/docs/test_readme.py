"""README.md: its commands run, its example prints what it shows, what it says of ops is true."""

import doctest
import json
import os
import re
import shlex

import pytest

from tvm_iree_ext.cli.main import main
from tvm_iree_ext.runtime.machine import this_machine

README = "README.md"


@pytest.fixture(scope="module")
def text(root):
    return (root / README).read_text("utf-8")


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """An empty current folder and an empty cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TVM_IREE_EXT_CACHE", str(tmp_path / "cache"))


def shell_lines(text):
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = (line for block in blocks for line in block.splitlines())
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.usefixtures("elsewhere")
def test_the_example_prints_what_it_shows(root):
    result = doctest.testfile(str(root / README), module_relative=False)
    assert result.attempted > 10
    assert result.failed == 0


@pytest.mark.usefixtures("elsewhere")
def test_each_command_runs(text, capsys):
    commands = [words[1:] for words in shell_lines(text) if words[0] == "tvm-iree-ext"]
    assert {command[0] for command in commands} == {
        "doctor",
        "list",
        "build",
        "verify",
        "bench",
        "layout",
        "inspect",
        "simulate",
        "vector-stages",
    }
    for command in commands:
        assert main(command) == 0, (command, capsys.readouterr())


def test_each_script_is_there(text, root):
    scripts = [words[0] for words in shell_lines(text) if words[0] != "tvm-iree-ext"]
    assert scripts == ["scripts/demo", "scripts/test", "scripts/tune"]
    assert all(os.access(root / script, os.X_OK) for script in scripts)


@pytest.mark.skipif(this_machine() != "x86_64", reason="what is said is of an x86-64 machine")
def test_what_is_said_of_all_ops_is_what_list_says(text, root, capsys):
    assert main(["list", "--json"]) == 0
    ops = json.loads(capsys.readouterr().out)
    assert f"All [{len(ops)} ops]" in text
    assert {tuple(op["targets"].values()) for op in ops} == {
        ("runs", "compiles", "emulated", "emulated")
    }
    page = (root / "docs" / "ops.md").read_text("utf-8")
    rows = [f"| `{op['op']}` | {op['summary']} |" for op in ops]
    assert re.findall(r"^(\| `.*? \| .*? \|) \[", page, re.MULTILINE) == rows


def test_links_lead_somewhere(text, root):
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert [link for link in links if not (root / link).exists()] == []


def test_versions_are_those_that_are_required(text):
    from tvm_iree_ext.base.versions import PAIR

    numbers = {name: re.search(r"\d[\d.]*\d", wanted)[0] for name, wanted in PAIR.items()}
    for name, number in numbers.items():
        assert f"`{name}` {number}" in text
