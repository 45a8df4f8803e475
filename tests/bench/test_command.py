"""The command ``bench``: what it prints, writes and refuses."""

import argparse
import dataclasses
import json
import re
import shlex

import pytest

from tvm_iree_ext import bench
from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.bench import suites
from tvm_iree_ext.bench.cases.attention import attention_case
from tvm_iree_ext.cli.bench import add_bench


def test_the_command_prints_the_table_and_writes_the_files(command, tiny, tmp_path):
    files = tmp_path / "a.json", tmp_path / "a.md"
    status, text = command(
        "attention", "--quick", "--threads", 1, "--json", files[0], "--markdown", files[1]
    )
    assert status == 0
    assert "1/1 attn_h2_s24_d16_f32: time, 1 thread" in text
    assert "PyTorch" in text
    assert "multiply-adds float32" in text
    assert json.loads(files[0].read_text())["rows"][0]["case"] == tiny.name
    assert tiny.name in files[1].read_text()


def test_the_command_draws_and_refuses_before_it_measures(command, tmp_path):
    pytest.importorskip("matplotlib", reason="draws the picture: scripts/setup dev bench")
    picture = tmp_path / "roofline.svg"
    status, text = command("attention", "--quick", "--threads", 1, "--roofline", picture)
    assert status == 0
    assert f"written: {picture}" in text
    assert picture.exists()
    with pytest.raises(ExtError, match="bench: roofline x: 'no suffix' is none of"):
        command("attention", "--roofline", "x")


def test_the_command_times_odd_sizes(command, monkeypatch, tiny, tmp_path):
    twin = dataclasses.replace(attention_case(2, 17, 23, 15, "float32"), name="twin")
    monkeypatch.setattr(suites, "listed_pairs", lambda: ((tiny, twin),))
    monkeypatch.setattr(suites, "listed_cases", lambda: (tiny,))
    page = tmp_path / "odd.md"
    status, text = command("peers", "--odd", "--quick", "--threads", 1, "--markdown", page)
    assert status == ("above 1.25x" in text)
    assert f"| {tiny.name} | 1 | " in page.read_text()


def test_the_command_times_programs(command, monkeypatch, tmp_path):
    asked = {}
    ours = bench.ContenderOutcome("tvm_iree_ext", "wrong", "off by 1")
    row = bench.ProgramRow("gru", "torch", 1, ours)

    def run(cases, **named):
        asked.update(named, cases=[case.name for case in cases])
        yield row

    monkeypatch.setattr(bench, "run_programs", run)
    page = tmp_path / "programs.md"
    options = ("--threads", 1, "--peers", "iree,PyTorch", "--quick", "--markdown", page)
    status, text = command("programs", "gru", "nms", *options)
    assert status == 1
    assert asked["cases"] == ["gru", "nms"]
    assert asked["peers"] == ("IREE", "PyTorch")
    assert (asked["threads"], asked["quick"], asked["log"]) == ([1], True, None)
    assert "gru, 1 thread: wrong: off by 1" in text
    assert "wrong: gru: tvm_iree_ext: off by 1" in text
    assert "| gru | wrong |" in page.read_text()
    with pytest.raises(ExtError, match="bench: no program 'gpt9'; there are gpt2_block"):
        command("programs", "gpt9")
    with pytest.raises(ExtError, match="bench: programs take --log, --markdown and --picture"):
        command("programs", "--json", page)
    with pytest.raises(
        ExtError, match="bench: names are for the suites programs and models, not attention"
    ):
        command("attention", "gru")


def test_the_command_prints_growth(command, monkeypatch, tmp_path):
    monkeypatch.setattr("tvm_iree_ext.bench.measure.growth.DOUBLINGS", 1)
    file = tmp_path / "growth.md"
    status, text = command(
        "growth", "--cases", "linalg_ext.scan", "--threads", 1, "--markdown", file
    )
    assert status == 0
    assert "exponent" in text
    assert "| iree_linalg_ext.scan |" in file.read_text()


def test_the_command_ends_with_1_where_something_is_wrong(command, monkeypatch, tiny):
    wrong = dataclasses.replace(tiny, check=lambda _: lambda _: "all wrong")
    monkeypatch.setitem(bench.SUITES, "attention", lambda: (wrong,))
    status, text = command("attention", "--quick", "--threads", 1)
    assert status == 1
    assert f"wrong: {tiny.name}: tvm_iree_ext: all wrong" in text


def test_the_page_has_commands_that_are_taken(root):
    parser = argparse.ArgumentParser()
    add_bench(parser.add_subparsers(required=True))
    page = (root / "docs" / "performance.md").read_text()
    lines = re.findall(r"^scripts/(bench .*?)\s*(?:#.*)?$", page, re.MULTILINE)
    assert len(lines) >= 3
    for line in lines:
        parser.parse_args(shlex.split(line))


def test_the_command_refuses_in_one_line(command):
    with pytest.raises(ExtError, match="bench: no suite 'sorting'; there are attention"):
        command("sorting")
    with pytest.raises(ExtError, match="bench: the number of threads is 99"):
        command("attention", "--threads", 99)
    with pytest.raises(ExtError, match="bench: --odd is for the suite peers, not attention"):
        command("attention", "--odd")
    with pytest.raises(SystemExit):
        command("attention", "--threads", "two")


def test_the_table_fits_a_terminal_of_80_columns(command, tiny, monkeypatch):
    monkeypatch.setattr("tvm_iree_ext.cli.bench.width_of", lambda stream: 80)
    status, text = command("attention", "--quick", "--threads", 1)
    assert status == 0
    assert "…" not in text
    start = text.splitlines().index(tiny.name)  # a block for the case
    block = text.splitlines()[start : start + 3]
    assert max(map(len, block)) <= 80
    assert "heuristic ms" in " ".join(block)
