"""``tvm-iree-ext accuracy``."""

import json

from tvm_iree_ext.accuracy.accuracy_report import BEGIN, END


def test_table_json_pictures_and_page(command, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    files = ("--json", tmp_path / "rows.json", "--svg", tmp_path / "svg", "--page", page)
    done = command("accuracy", "exp", "--type", "f16", *files)
    assert done.status == 0, done.err
    assert done.lines[-1].split()[:4] == ["exp", "f16", "0.501", "0.5"]
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert (row["function"], row["samples"], row["keeps_bound"]) == ("exp", 1 << 16, True)
    assert set(row["libraries"]) == {"ours", "NumPy", "PyTorch", "JAX"}
    assert "</svg>" in (tmp_path / "svg" / "exp_float16.svg").read_text()
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| `exp` f16 | 0.5 |" in text
    assert "old" not in text


def test_an_unknown_function_is_refused(command):
    assert "did you mean 'tanh'" in command("accuracy", "tanhh").err


def test_a_broken_promise_ends_in_1(command, monkeypatch):
    from tvm_iree_ext.accuracy.functions import named

    monkeypatch.setitem(named(["exp"])[0].bounds, "float16", 0.4)
    assert command("accuracy", "exp", "--type", "f16").status == 1
