"""The table of modelled times."""

from tvm_iree_ext.inspection.hot_loop_times import shares_markdown, times_text
from tvm_iree_ext.inspection.hot_loops import TIMED_TARGETS, gpu_table


def test_a_row_has_the_model_of_the_compiled_loop():
    (row,) = gpu_table(["attention-f16-d64"], ["rocm:gfx942"], timed=True)
    time = row.timed.time
    assert 0.3 < time.share <= 1
    assert time.share + sum(time.idle.values()) < 1.01
    assert row.timed.slow_share <= time.share + 0.02
    assert time.subgroups <= row.resources.subgroups_per_simd
    header, _, line = times_text([row], markdown=True).splitlines()
    assert header.count("|") == line.count("|")
    assert f"{time.share:.0%}" in times_text([row])
    assert shares_markdown([row]).endswith(f"| {time.share:.0%} |")


def test_times_are_of_amd_and_only_on_demand():
    assert all(name.startswith("rocm") for name in TIMED_TARGETS)
    (row,) = gpu_table(["skinny-f16"], ["rocm:gfx950"], ["NxK"])
    assert row.timed is None
    assert "no loop, or no model" in times_text([row])
