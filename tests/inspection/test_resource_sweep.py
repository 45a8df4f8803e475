"""The sweep over ops and chips: rows of kernels, what no rule takes, and both summaries."""

from dataclasses import replace

import pytest

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.bench.suites import SUITES, select_cases
from tvm_iree_ext.inspection import resource_sweep
from tvm_iree_ext.inspection.resource_sweep import (
    CASES,
    counts,
    named,
    summary_markdown,
    sweep,
    table_markdown,
)
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.verify.kernel_checks import random_cases

DECODE = "attention f16 decode 32x1x8192x128"


def test_every_case_is_an_op():
    ops = {name: make() for name, make in CASES.items()}
    assert {op.name for op in ops.values()} == {
        "tvm_iree_ext.contraction",
        "iree_linalg_ext.attention",
        "iree_linalg_ext.online_attention",
    }


def test_a_row_is_a_kernel_with_its_registers():
    rows = list(sweep([DECODE], ["rocm:gfx942"]))
    assert [row.kernel for row in rows] == ["attention_kernel", "attention_kernel_1"]
    first = rows[0]
    assert first.resources.registers > 0
    assert first.mma > 0
    assert not any(row.spilt or row.failed for row in rows)
    assert str(first).startswith(f"{DECODE} on rocm:gfx942: attention_kernel: ")
    assert counts(rows) == "2 kernels, 0 with spills or scratch; 0 not made; 0 that no rule takes"
    spills = replace(first.resources, spills=3)
    advised = replace(first, resources=replace(first.resources, advice=("(C7510) serialized",)))
    assert advised.advised
    assert str(advised).endswith(", ADVICE (C7510) serialized")
    assert counts([advised]).startswith("1 kernels, 0 with spills or scratch, 1 with advice of com")
    table = summary_markdown([replace(first, resources=spills), *rows[1:]])
    assert table.splitlines()[2].startswith("| `rocm:gfx942` | 2 | 1 | 0 |")
    shown = f"{first.resources.registers} / {first.resources.shared_memory_bytes} / "
    assert table_markdown([first]).splitlines()[2].startswith(f"| {DECODE} | {shown}")
    assert table_markdown([replace(first, resources=spills)]).endswith(", 3 spills, 0 B scratch |")


@pytest.mark.costly
@pytest.mark.parametrize(
    ("case", "target"),
    [
        ("online_attention f16 8x1000x512x64, value 65", "rocm:gfx1100"),  # read one by one
        ("online_attention f64 2x100x200x64", "rocm:gfx950"),  # conditions of exponentials
        ("matmul f64 2048x2048x2048", "rocm:gfx90a"),  # stores of tiles and of parts of them
        ("matmul f8 of AMD 4096x4096x4096", "rocm:gfx1201"),  # conversions of both operands
        ("matmul f16 bias, silu, residual 1000x1001x999", "rocm:gfx950"),  # limits of rows
    ],
)
def test_what_takes_many_registers_fits(case, target):
    rows = list(sweep([case], [target]))
    assert rows
    assert not any(row.spilt or row.failed for row in rows)


def test_what_no_rule_takes_is_no_failure():
    (row,) = sweep(["matmul f8 of AMD 4096x4096x4096"], ["cuda:sm_80"])
    assert (row.resources, row.failed) == (None, False)
    assert "CUDA's code has no such type" in row.obstacle
    assert table_markdown([row]).endswith("| no rule |")
    assert table_markdown([replace(row, failed=True)]).endswith("| not made |")


def test_random_ops_are_compiled():
    (case,) = random_cases(["contraction"], 1, seed=3)
    rows = list(sweep([case], ["rocm:gfx942"]))
    assert rows[0].case == case.id
    assert rows[0].resources is not None


def test_a_compiler_that_fails_is_a_row(monkeypatch):
    def broken(op, target):
        raise RuntimeError("no such pass\nmore")

    monkeypatch.setattr(resource_sweep, "inspect_op", broken)
    (row,) = sweep([DECODE], ["rocm:gfx942"])
    assert row.failed
    assert str(row) == f"FAILED {DECODE} on rocm:gfx942: RuntimeError: no such pass"


def test_names_are_found_by_their_parts():
    assert DECODE in named(["decode"])
    assert named() == list(CASES)
    with pytest.raises(OpError, match="no case has 'fft' in its name"):
        named(["fft"])
    with pytest.raises(OpError, match="case 'decode' is unknown"):
        list(sweep(["decode"]))


def test_suites_of_the_benchmarks_have_every_op():
    names = named(suites=SUITES)
    assert len(set(names)) == len(names)
    assert {case.op.name for case in select_cases("all")} >= set(ENTRIES)
    assert named(["4x8000", "kv_1M"], ["sort", "topk"]) == ["sort_4x8000_f32", "sort_kv_1M"]
    rows = list(sweep(["sort_4x8000_f32"], ["rocm:gfx1100"]))
    assert {row.resources.spills for row in rows} == {0}
    with pytest.raises(OpError, match="no suite 'sorts'; there are attention, "):
        named(suites=["sorts"])
