"""The notebooks run, and what their cells show has a picture or a table."""

import contextlib
import json

import numpy as np
import pytest
from computed_measurer import Computed

from tvm_iree_ext.runtime import cache
from tvm_iree_ext.tuning import session

NAMES = {"profile_program", "read_layout", "tune_kernel"}


@pytest.fixture
def notebooks(root, tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    # Measuring is tested elsewhere: starting its processes takes ten seconds.
    noise = np.random.default_rng(0)
    times = Computed(lambda config: float(noise.uniform(5, 15)))
    monkeypatch.setattr(session, "_here", lambda *_: lambda: contextlib.nullcontext(times))
    monkeypatch.syspath_prepend(str(root / "scripts"))
    return pytest.importorskip("notebooks")


def rich(data):
    return {"text/html", "image/svg+xml"} & {*data}


@pytest.mark.costly
@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_notebook_runs_and_shows_what_it_holds(notebooks, name):
    path = notebooks.NOTEBOOKS / f"{name}.ipynb"
    seen = 0
    for cell, outputs in notebooks.run(path):
        held = cell["outputs"]
        assert [one["output_type"] for one in held] == [one["output_type"] for one in outputs]
        for before, now in zip(held, outputs, strict=True):
            assert rich(before["data"]) == rich(now["data"])
            is_plain = now["data"]["text/plain"][0].startswith("(")  # a tuple of plain values
            assert bool(rich(now["data"])) != is_plain
            seen += not is_plain
    assert seen >= 3


def test_notebooks_are_small_and_say_nothing_of_the_machine_that_wrote_them(notebooks):
    paths = list(notebooks.NOTEBOOKS.glob("*.ipynb"))
    assert {path.stem for path in paths} == NAMES
    for path in paths:
        text = path.read_text("utf-8")
        assert len(text) < 250_000
        assert "/tmp" not in text
        assert "/home" not in text
        assert json.loads(text)["nbformat"] == 4


def test_outputs_are_written_as_the_format_has_them(notebooks, tmp_path):
    cells = ["x = 1", "print(x)\nx + 1", "None"]
    path = tmp_path / "one.ipynb"
    made = [
        {"cell_type": "code", "source": [one], "outputs": [], "execution_count": None}
        for one in cells
    ]
    path.write_text(json.dumps({"cells": made, "nbformat": 4}))
    notebooks.write(path)
    written = json.loads(path.read_text())["cells"]
    assert [len(cell["outputs"]) for cell in written] == [0, 2, 0]
    stream, result = written[1]["outputs"]
    assert stream == {"name": "stdout", "output_type": "stream", "text": ["1\n"]}
    assert result["data"] == {"text/plain": ["2"]}
    assert result["execution_count"] == written[1]["execution_count"] == 2
    assert list(tmp_path.glob(".*")) == []
