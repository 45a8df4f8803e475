"""The records that come with the package: whole, of these versions, and accepted by their rules."""

import warnings

import pytest

from tvm_iree_ext.records import record_choice
from tvm_iree_ext.records.record_files import read, shipped_records
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.names import make_target, target_json
from tvm_iree_ext.tuning.suites import suite

FILES = shipped_records()


def test_there_are_records_of_two_kinds_of_cpu():
    assert {"x86-64-v3", "x86-64-v4"} <= {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_record_serves_its_op(path):
    """Those that beat the heuristic are taken by the rule; the others say that nothing does."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        records = read(path)
    tasks = {str(task.op.describe()): task.op for task in suite("common")}
    known = {
        str({"op": one.op, "operands": one.operands, "attributes": one.attributes}): one
        for one in records
    }
    assert known.keys() <= tasks.keys()
    assert len(known) == len(records)
    for task, record in known.items():
        op, target = tasks[task], make_target(dict(record.target))
        assert (record.method, record.status) == ("measured", "ok")
        assert record.target == target_json(target)
        assert record.rule == choose(op, target).name
        _, provenance = record_choice.lowered(op, target, database=path)
        assert provenance == ("record exact" if record.beats_baseline else "heuristic")
