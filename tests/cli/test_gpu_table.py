"""``tvm-iree-ext gpu-table``."""

import json

CELL = ("--case", "skinny-f16", "--target", "rocm:gfx950", "--order", "NxK")


def test_json_is_a_line_for_each_row(command):
    done = command("gpu-table", *CELL, "--json")
    row = json.loads(done.out)
    hot = row["hot_loop"]
    assert (row["target"], row["bar"]["per_mma"]) == ("rocm:gfx950", 10.8)
    assert hot["per_mma"] == hot["total"] / hot["mma"]
    assert done.status == int(row["verdict"] == "behind")


def test_an_unknown_case_is_refused(command):
    assert "case matmul is unknown" in command("gpu-table", "--case", "matmul").err


def test_time_prints_shares_of_the_matrix_units(command):
    done = command("gpu-table", "--time", "--case", "skinny-f16", "--target", "rocm:gfx942",
                   "--order", "NxK", "--summary")  # fmt: skip
    assert done.out.splitlines()[-1].startswith("| `rocm:gfx942` |")
    assert done.out.strip().endswith("% |")
