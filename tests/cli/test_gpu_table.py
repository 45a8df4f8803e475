"""``tvm-iree-ext gpu-table``."""

import json

CELL = ("--target", "rocm:gfx942", "--order", "NxK")


def test_json_is_a_line_for_each_row(command):
    done = command("gpu-table", "--case", "matmul-i8", *CELL, "--json")
    row = json.loads(done.out)
    hot = row["hot_loop"]
    assert (row["target"], row["bar"]["per_mma"]) == ("rocm:gfx942", 1.92)
    assert hot["per_mma"] == hot["total"] / hot["mma"]
    assert 0.5 < row["timed"]["time"]["share"] <= 1
    assert (row["verdict"], done.status) == ("reached", 0)


def test_an_unknown_case_is_refused(command):
    assert "case matmul is unknown" in command("gpu-table", "--case", "matmul").err


def test_a_summary_has_shares_of_the_matrix_units(command):
    done = command("gpu-table", "--case", "skinny-f16", *CELL, "--summary")
    assert done.out.splitlines()[-1].startswith("| `rocm:gfx942` |")
    assert done.out.strip().endswith("% |")
    assert done.status == 0


def test_counts_have_no_bar(command):
    done = command("gpu-table", "--counts", "--case", "skinny-f16", *CELL)
    assert ("per MMA" in done.out, "matrix units" in done.out) == (True, False)
    assert done.status == 0


def test_a_cell_below_its_bar_ends_in_1(command, monkeypatch):
    from tvm_iree_ext.inspection import hot_loops
    from tvm_iree_ext.inspection.hot_loop_bars import ShareBar

    monkeypatch.setattr(hot_loops, "share_bar", lambda *_: ShareBar(1.01, None, None))
    assert command("gpu-table", "--case", "skinny-f16", *CELL, "--summary").status == 1
