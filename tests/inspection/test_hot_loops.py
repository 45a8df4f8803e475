"""The table of hot loops: what is asked, rows, and all forms of print."""

from dataclasses import replace

import pytest

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.inspection.hot_loop_bars import (
    BELOW,
    NAMED,
    REACHED,
    NamedException,
    ShareBar,
    bars,
    exceptions,
    share_bar,
)
from tvm_iree_ext.inspection.hot_loop_counts import counts_markdown, counts_text
from tvm_iree_ext.inspection.hot_loop_kernels import CASES
from tvm_iree_ext.inspection.hot_loop_times import reasons_text, shares_markdown, times_text
from tvm_iree_ext.inspection.hot_loops import CHIPS, TARGETS, bar, gpu_table
from tvm_iree_ext.targets.names import make_target


@pytest.fixture(scope="module")
def skinny():
    """A row of counts alone."""
    (row,) = gpu_table(["skinny-f16"], ["rocm:gfx942"], ["NxK"], timed=False)
    return row


@pytest.fixture(scope="module")
def attention():
    (row,) = gpu_table(["attention-f16-d64"], ["rocm:gfx942"])
    return row


def test_figures_are_of_known_cases_and_chips():
    chips = {name.partition(":")[2] for name in TARGETS}
    for case, chip, order in (*bars(), *exceptions()):
        assert (chip in chips, order in CASES[case].orders) == (True, True)
    assert all((one.per_mma or one.flops_per_instruction) > 1 for one in bars().values())
    assert len(CHIPS) == 10


def test_an_exception_is_below_the_bar_and_has_a_reason():
    for (case, chip, order), one in exceptions().items():
        asked = share_bar(case, chip, order)
        assert one.spills or one.share < max(asked.wanted, asked.iree or 0)
        assert asked.verdict(one.share, one.spills) == NAMED
        assert len(one.reason.split()) > 3


def test_the_better_order_of_iree_is_shown():
    assert bar("matmul-f16", "gfx1100").per_mma == 3.75
    assert bar("matmul-i8", "sm_80") is None  # IREE has no matrix instructions there


def test_targets_are_targets():
    assert all(make_target(name).kind.name in ("rocm", "cuda") for name in TARGETS)


def test_a_share_is_held_against_the_bar_and_iree():
    asked = ShareBar(0.9, None, None)
    assert [asked.verdict(share) for share in (0.9, 0.896, 0.89)] == [REACHED, REACHED, BELOW]
    assert replace(asked, iree=0.97).verdict(0.95) == BELOW
    known = replace(asked, exception=NamedException(0.7, "few registers"))
    assert [known.verdict(share) for share in (0.91, 0.7, 0.69, 0.66)] == [
        REACHED, NAMED, NAMED, BELOW,
    ]  # fmt: skip
    assert (asked.verdict(1.0, spills=4), known.verdict(0.95, spills=4)) == (BELOW, BELOW)
    spilling = replace(asked, exception=NamedException(0.7, "few registers", spills=4))
    assert [spilling.verdict(0.7, spills) for spills in (0, 4, 5)] == [NAMED, NAMED, BELOW]
    assert share_bar("matmul-f16", "gfx90a", "NxK").iree == 1
    assert share_bar("skinny-f16", "gfx90a", "NxK") is None


def test_a_row_counts_the_hot_loop(skinny):
    assert skinny.hot_loop.mma > 0
    assert (skinny.resources.spills, skinny.timed, skinny.verdict) == (0, None, "")
    assert skinny.bar.per_mma == 4.8
    assert skinny.bound.limit == "bytes"  # 32 MB of B, and few operations on each
    assert "no loop" in times_text([skinny])
    header, _, line = counts_text([skinny], markdown=True).splitlines()
    assert header.count("|") == line.count("|")
    assert f"{skinny.hot_loop.per_mma:.2f}" in counts_text([skinny])
    ours = f"{skinny.hot_loop.per_mma:.2f} (4.80)"
    assert counts_markdown([skinny]).splitlines()[-1] == f"| `rocm:gfx942` | {ours} |"


def test_a_row_has_the_model_of_the_compiled_loop(attention):
    time = attention.timed.time
    assert 0.3 < time.share <= 1
    assert time.share + sum(time.idle.values()) < 1.01
    assert attention.timed.slow_share <= time.share + 0.02
    assert time.subgroups <= attention.resources.subgroups_per_simd
    header, _, line = times_text([attention], markdown=True).splitlines()
    assert header.count("|") == line.count("|")
    assert f"{time.share:.0%}" in times_text([attention])
    assert shares_markdown([attention]).endswith(f"| {time.share:.0%} |")


def test_a_row_is_judged_by_its_share(attention):
    assert attention.verdict == attention.share_bar.verdict(attention.timed.time.share)
    spilling = replace(attention, resources=replace(attention.resources, spills=1))
    assert spilling.verdict == BELOW
    share = attention.timed.time.share
    named = ShareBar(1.0, None, NamedException(share, "a reason of four words"))
    row = replace(attention, share_bar=named)
    assert row.verdict == NAMED
    assert reasons_text([row]) == "attention-f16-d64 on rocm:gfx942, any: a reason of four words"
    assert replace(attention, share_bar=replace(named, exception=None)).verdict == BELOW


def test_attention_is_compared_by_useful_operations(attention):
    assert attention.hot_loop.flops_per_instruction > attention.bar.flops_per_instruction == 982
    assert attention.bound.limit == "operations"
    assert counts_markdown([attention]).endswith("(982) |")


def test_a_type_that_the_chip_lacks_is_a_row_with_the_reason():
    (row,) = gpu_table(["matmul-fp8"], ["rocm:gfx1100"], ["NxK"])
    assert (row.hot_loop, row.verdict) == (None, "")
    assert "gfx1100 has no instruction for float8_e4m3fn" in row.obstacle


def test_unknown_names_are_refused():
    with pytest.raises(ScheduleError, match="case gemm is unknown; one of matmul-f16, "):
        list(gpu_table(["gemm"]))
    with pytest.raises(ScheduleError, match="order MxN is unknown; one of NxK, KxN"):
        list(gpu_table(orders=["MxN"]))


def test_a_loop_that_was_unrolled_counts_as_the_kernel():
    """16 parts of K leave four steps to a workgroup."""
    (row,) = gpu_table(["skinny-f16"], ["rocm:gfx950"], ["NxK"])
    assert row.hot_loop.mma > 0
    assert ("no loop" in counts_text([row])) == row.whole
