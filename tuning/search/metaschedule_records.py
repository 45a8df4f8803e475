"""Records as a database of MetaSchedule's, which merges, queries and keeps them as its own.

What a rule makes of a config is no sequence of schedule primitives: a trace carries the record, on
the block that stands for the op (:mod:`.trace_carrier`). Replayed by TVM alone it changes nothing.
"""

from collections.abc import Iterable
from pathlib import Path

from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from tvm_iree_ext.base.atomic_folder import move_over, staging, sync
from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.records.metaschedule_lines import RECORD, TUNING_RECORDS, WORKLOADS
from tvm_iree_ext.records.record import Record
from tvm_iree_ext.records.record_files import PathLike
from tvm_iree_ext.tuning.search.trace_carrier import BLOCK, carrier_module


def write_metaschedule(records: Iterable[Record], folder: PathLike) -> int:
    """Write the records of trials that ended well as a ``JSONDatabase``; returns how many.

    Args:
        records: of any ops and targets.
        folder: of the database; one that stands there is replaced.

    Raises:
        TuningError: where the folder holds anything else, or cannot be written.
    """
    folder = Path(folder)
    if folder.exists() and not _is_database(folder):
        raise TuningError(f"{folder} is there, and is no database of MetaSchedule's; name another")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with staging(folder.parent) as place:
            made = place / "database"
            made.mkdir()
            count = _fill(made, records)
            sync(made)
            if folder.exists():
                move_over(made, folder)
            else:
                made.rename(folder)
    except OSError as error:
        raise TuningError(f"cannot write to {folder}: {error.strerror or error}") from error
    return count


def _is_database(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    return {path.name for path in folder.iterdir()} <= {TUNING_RECORDS, WORKLOADS}


def _fill(folder: Path, records: Iterable[Record]) -> int:
    database = ms.database.JSONDatabase(
        str(folder / WORKLOADS), str(folder / TUNING_RECORDS), allow_missing=True
    )
    count = 0
    for record in records:
        if record.status != "ok":
            continue
        described = {"op": record.op, "operands": record.operands, "attributes": record.attributes}
        module = carrier_module({**described, "target": record.target})
        schedule = Schedule(module)
        schedule.annotate(schedule.get_sblock(BLOCK), RECORD, record.to_line().rstrip("\n"))
        database.commit_tuning_record(
            ms.database.TuningRecord(
                schedule.trace,
                database.commit_workload(module),
                [time / 1e6 for time in record.times_us],
                Target(dict(record.target)),
                ms.arg_info.ArgInfo.from_entry_func(module, False),
            )
        )
        count += 1
    return count
