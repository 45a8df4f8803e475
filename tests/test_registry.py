"""Each registered op has all that commands, tests, docs and the tuner take from the registry."""

import contextlib
import re

import numpy as np
import pytest
from tvm import ir

from tvm_iree_ext import support
from tvm_iree_ext.base.errors import OpError, ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.bench import SUBJECTS, SUITES
from tvm_iree_ext.registry import ENTRIES, find
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import kernel_checks

entries = pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)


@entries
def test_has_a_schedule_for_the_cpu(entry):
    op, _ = entry.random_case(np.random.default_rng(0))
    target = make_target("llvm")
    rule = choose(op, target)
    assert rule.lower(op, target, rule.heuristic(op, target)).functions


class Canonical:
    """A rule that leaves every op as its canonical PrimFunc."""

    name = "canonical"

    def applies(self, op, target):
        return None

    def heuristic(self, op, target):
        return LoweringConfig()

    def lower(self, op, target, config):
        return ir.IRModule({op.entry: op.prim_func()})


@pytest.mark.costly
@entries
def test_the_canonical_function_computes_the_op(entry, monkeypatch):
    monkeypatch.setattr("tvm_iree_ext.schedules.dispatch.RULES", (Canonical(),))
    report = kernel_checks.check_random([entry.name], count=3, seed=7)
    assert [result for result in report.results if result.status != "passed"] == []


@entries
def test_has_a_section_in_the_docs(entry, root):
    pages = [path.read_text("utf-8") for path in (root / "docs").glob("*.md")]
    name = re.escape(entry.name)
    assert any(re.search(rf"{name}\b", page) for page in pages), f"no page names {entry.name}"


LINALG_EXT = (
    *("arg_compare", "attention", "custom_op", "exp_reduction", "fft", "gather", "im2col"),
    *(
        "map_load",
        "map_store",
        "online_attention",
        "pack",
        "scan",
        "scatter",
        "sort",
        "topk",
        "unpack",
    ),
    *("winograd.filter_transform", "winograd.input_transform", "winograd.output_transform"),
)


def test_has_every_op_of_the_specification():
    """index, yield and iterator_type belong to custom_op; see its tests."""
    assert {f"iree_linalg_ext.{name}" for name in LINALG_EXT} <= ENTRIES.keys()


def test_every_op_is_timed():
    cases = [case for make in SUITES.values() for case in make()]
    assert ENTRIES.keys() - {case.op.name for case in cases} == set()
    assert all(case.peers for case in cases)
    assert ENTRIES.keys() == SUBJECTS.keys()
    for name, subject in SUBJECTS.items():
        assert subject.make(subject.smallest).name == name


def test_finds_ops_with_and_without_dialect():
    assert find("attention") is find("iree_linalg_ext.attention") is ENTRIES[find("attention").name]
    for name in ("", "softmax", "linalg_ext.attention", "attention "):
        with pytest.raises(OpError, match=r"no op .*; (registered are arg_compare|did you mean)"):
            find(name)


def test_a_name_that_two_dialects_have_needs_the_dialect():
    both = "iree_linalg_ext.arg_compare, iree_vector_ext.arg_compare"
    with pytest.raises(OpError, match=f"'arg_compare' is of several dialects; name one of {both}"):
        find("arg_compare")
    for name in both.split(", "):
        assert find(name).name == name


def has_rule(entry, target):
    """Whether a rule builds the op, of whose attributes it may leave out some."""
    for seed in range(8):
        op, _ = entry.random_case(np.random.default_rng(seed))
        with contextlib.suppress(ScheduleError):
            return choose(op, target)
    return None


@pytest.mark.parametrize("target", support.usual_targets())
def test_support_says_what_the_rules_build(target):
    made = make_target(target)
    none = {(name, target) for name, entry in ENTRIES.items() if has_rule(entry, made) is None}
    assert none == {one for one in support.NO_RULE if one[1] == target}


def test_support_says_what_runs_here(monkeypatch):
    here, foreign, *gpus = support.usual_targets()
    table = support.support()
    assert table.keys() == ENTRIES.keys()
    for name, targets in table.items():
        assert (targets[here], targets[foreign]) == ("runs", "compiles")
        on_gpus = {targets[gpu] for gpu in gpus}
        assert on_gpus in ({"no"}, {"emulated"}) or "runs" in on_gpus  # where there is a GPU
        assert on_gpus != {"no"} or name != "tvm_iree_ext.contraction"
    monkeypatch.setattr("tvm_iree_ext.support.emulated_obstacle", lambda *_, **__: "no tables")
    assert support.support()["tvm_iree_ext.contraction"][gpus[1]] in ("compiles", "runs")
    missing = {("tvm_iree_ext.contraction", here)}
    monkeypatch.setattr(support, "NO_RULE", missing)
    assert support.support()["tvm_iree_ext.contraction"][here] == "no"
