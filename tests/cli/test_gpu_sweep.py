"""``tvm-iree-ext gpu-sweep``."""

import json

CASE = ("--case", "decode 32x1x8192", "--target", "rocm:gfx942", "--jobs", "0")


def test_json_is_a_line_for_each_kernel(command):
    done = command("gpu-sweep", *CASE, "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["kernel"] for row in rows] == ["attention_kernel", "attention_kernel_1"]
    assert all(row["resources"]["spills"] == 0 for row in rows)
    assert done.status == 0


def test_an_unknown_case_is_refused(command):
    assert "no case has 'fft'" in command("gpu-sweep", "--case", "fft").err
