"""Suites and programs as tasks."""

import pytest

from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.tuning.suites import SUITES, program_tasks, suite


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_has_ops_that_are_built_and_can_be_tuned(name):
    target = make_target("cuda:sm_90a" if name == "gpu" else "llvm:znver4")
    tasks = suite(name)
    assert len({task.name for task in tasks}) == len(tasks) >= 7
    for task in tasks:
        assert choose(task.op, target).space(task.op, target).size > 1
        assert not task.op.signature.symbols


def test_the_kernels_of_a_program_are_tasks_by_their_calls(root):
    pytest.importorskip("iree.compiler")
    tasks = program_tasks(root / "tests" / "data" / "ir" / "mha_block.mlir")
    kinds = [(task.op.name.rpartition(".")[2], task.calls) for task in tasks]
    assert sorted(kinds) == [("attention", 1), ("contraction", 1), ("contraction", 1)]


def test_an_unknown_suite_is_refused():
    with pytest.raises(TuningError, match="no suite 'all'; there are readme, common, gpu"):
        suite("all")
