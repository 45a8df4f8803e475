"""The site builds, strictly; the examples run; the chart is that of the tables."""

import re
import runpy
import subprocess
import sys

import pytest


def test_the_site_builds_strictly(root, tmp_path):
    """A link, an anchor or a name that leads nowhere, or a page that nobody leads to, fails."""
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    ops = (tmp_path / "api" / "ops.html").read_text("utf-8")
    assert 'id="tvm_iree_ext.ops.attention"' in ops
    assert not re.search(r":(?:func|class|meth|mod):`", ops)  # roles of Sphinx
    home = (tmp_path / "index.html").read_text("utf-8")
    assert 'href="CONTRIBUTING.html"' in home
    contributing = (tmp_path / "CONTRIBUTING.html").read_text("utf-8")
    assert 'href="design.html"' in contributing


@pytest.fixture
def chart(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts"))
    return pytest.importorskip("peer_chart")


def test_the_chart_is_that_of_the_tables(chart, root):
    """After new figures: scripts/peer_chart.py, and look at it."""
    picture = chart.PICTURE.read_text("utf-8")
    halves = chart.groups(chart.PAGE.read_text("utf-8"))
    assert [sum(map(len, rows.values())) for rows in halves.values()] == [57, 48]
    for half, rows in halves.items():
        every = [ratio for row in rows.values() for ratio in row.values()]
        assert re.search(
            rf">{len(every)} {half}, [^<]* {chart.geometric_mean(every):.2f}x<", picture
        )
        for name, row in rows.items():
            assert f">{name}<" in picture
            assert f">{chart.geometric_mean(list(row.values())):.2f}x<" in picture


@pytest.mark.parametrize("example", ["rms_norm", "read_layout"])
def test_an_example_runs(root, tmp_path, monkeypatch, capsys, example):
    monkeypatch.setenv("TVM_IREE_EXT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", [example])
    runpy.run_path(str(root / "docs" / "examples" / f"{example}.py"), run_name="__main__")
    assert capsys.readouterr().out
