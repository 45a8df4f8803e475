"""The table of hot loops: the bar's figures, rows, and both forms of print."""

import pytest

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.inspection.hot_loop_kernels import CASES
from tvm_iree_ext.inspection.hot_loops import (
    TARGETS,
    bar,
    bars,
    gpu_table,
    summary_markdown,
    table_text,
)
from tvm_iree_ext.targets.names import make_target


def test_the_bar_is_of_known_cases_and_chips():
    chips = {name.partition(":")[2] for name in TARGETS}
    for case, chip, order in bars():
        assert (chip in chips, order in CASES[case].orders) == (True, True)
    assert all((one.per_mma or one.flops_per_instruction) > 1 for one in bars().values())


def test_the_bar_is_the_better_order():
    assert bar("matmul-f16", "gfx1100").per_mma == 3.75
    assert bar("matmul-i8", "sm_80") is None  # IREE has no matrix instructions there


def test_targets_are_targets():
    assert all(make_target(name).kind.name in ("rocm", "cuda") for name in TARGETS)


def test_a_row_counts_the_hot_loop():
    (row,) = gpu_table(["skinny-f16"], ["rocm:gfx942"], ["NxK"])
    assert row.hot_loop.mma > 0
    assert row.resources.spills == 0
    assert row.bar.per_mma == 4.8
    assert row.verdict in ("ahead", "equal", "behind")
    assert row.bound.limit == "bytes"  # 32 MB of B, and few operations on each
    header, _, line = table_text([row], markdown=True).splitlines()
    assert header.count("|") == line.count("|")
    assert f"{row.hot_loop.per_mma:.2f}" in table_text([row])
    ours = f"{row.hot_loop.per_mma:.2f} (4.80)"
    assert summary_markdown([row]).splitlines()[-1] == f"| `rocm:gfx942` | {ours} |"


def test_attention_is_compared_by_useful_operations():
    (row,) = gpu_table(["attention-f16-d64"], ["rocm:gfx1201"], ["NxK"])
    assert row.hot_loop.flops_per_instruction > row.bar.flops_per_instruction == 610
    assert (row.order, row.verdict, row.resources.spills) == ("any", "ahead", 0)
    assert row.bound.limit == "operations"
    assert summary_markdown([row]).endswith("(610) |")


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
    assert ("no loop" in table_text([row])) == row.whole
