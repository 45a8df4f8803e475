"""Records go through MetaSchedule's databases, and builds take them from there."""

import pytest
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.records.record import Record
from tvm_iree_ext.schedules import choose
from tvm_iree_ext.targets import make_target, target_json
from tvm_iree_ext.tuning import write_metaschedule

OP = ext.ops.scan((64, 512), dimension=1)
TARGET = make_target("llvm")


def record(microseconds, **fields):
    rule = choose(OP, TARGET)
    config = rule.heuristic(OP, TARGET).to_json() | {"parallel": microseconds > 20}
    times = (microseconds, microseconds + 1)
    return Record.of(
        OP.describe(), target_json(TARGET), rule.name, config,
        **{"times_us": times, "baseline_us": 99.0, **fields},
    )  # fmt: skip


def test_records_come_back_as_they_were(tmp_path):
    records = [record(9.0), record(30.0, message='a "quoted"\\ text, µ')]
    failed = record(1.0, status="crashed", times_us=())
    folder = tmp_path / "database"
    for _ in range(2):  # another database is replaced
        assert write_metaschedule([*records, failed], folder) == 2
        assert ext.records.record_files.read(folder) == records


def test_metaschedule_reads_it_and_adds_to_it(tmp_path):
    folder = tmp_path / "database"
    mine = record(30.0)
    write_metaschedule([mine], folder)
    database = ms.database.JSONDatabase(work_dir=str(folder), allow_missing=False)
    (found,) = database.get_all_tuning_records()
    assert [float(one) for one in found.run_secs] == pytest.approx([30e-6, 31e-6])
    # What is no record of ours says nothing.
    other = Schedule(found.workload.mod)
    other.annotate(other.get_sblock("choices"), "somebody.elses", "text")
    database.commit_tuning_record(
        ms.database.TuningRecord(other.trace, found.workload, [1.0], TARGET, found.args_info)
    )
    assert len(database.get_all_tuning_records()) == 2
    assert ext.records.record_files.read(folder) == [mine]


def test_a_build_takes_the_best_of_a_database(tmp_path):
    folder = tmp_path / "database"
    write_metaschedule([record(30.0), record(9.0)], folder)
    is_open = ms.database.JSONDatabase(work_dir=str(folder), allow_missing=False)
    for database in (folder, is_open, [is_open]):
        kernel = ext.build(OP, database=database)
        assert (kernel.provenance, kernel.config.parallel) == ("record exact", False)


def test_says_what_is_no_database():
    with pytest.raises(TuningError, match=r"7; expected a file of records, a database of MetaSch"):
        ext.build(OP, database=[7])


def test_a_folder_of_something_else_stays(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(TuningError, match="no database of MetaSchedule's"):
        write_metaschedule([record(9.0)], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
