"""Lowering configs that were measured to be good: read from files of records, chosen for an op.

Looked at are the user's own file and those that come with the package, unless ``build`` is told
otherwise.  Writing them is :mod:`tvm_iree_ext.tuning.base.record_database`.
"""

import contextlib
import hashlib
import itertools
import warnings
from collections.abc import Iterable
from pathlib import Path

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.records.record import (
    Record,
    distance,
    family_key,
    shape_text,
    task_extents,
    task_key,
)
from tvm_iree_ext.records.record_files import DatabaseLike, by_family, looked_at
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.names import target_json

# A config for a shape four times as large, or as small, is hardly better than the rule's own.
_FAR = 2.0  # doublings
_MOST = 4  # choices that are tried before the heuristic


def choices(
    op: Op, target: Target, rule: str, database: DatabaseLike = None
) -> list[tuple[LoweringConfig, str]]:
    """Configs for an op from records, with where each comes from; the first that fits is best.

    That is the best of the records of exactly this task, or, where there is none, of tasks of the
    nearest shapes.  Where the nearest say that nothing beats the heuristic, there is no choice.
    Records of other versions of this package or TVM are left out, with a warning.

    Args:
        op: what is built.
        target: what for.
        rule: the name of the rule that builds it.
        database: files to look at.

    Raises:
        TuningError: for a file that is named and cannot be read.
    """
    described, data = op.describe(), target_json(target)
    identity = (op.name, described["operands"], described["attributes"], data)
    task, family = task_key(*identity), family_key(*identity)
    known: list[Record] = []
    for path in looked_at(database):
        found = (r for r in by_family(path).get(family, ()) if r.method != "trial")
        known += _current(path, [record for record in found if record.rule == rule])
    if same := [record for record in known if record.task == task]:
        best = sorted(filter(_is_better, same), key=_preference)
        return _configs((record, "record exact") for record in best)
    here = task_extents(described["operands"], described["attributes"])
    near: dict[str, Record] = {}
    for record in sorted((one for one in known if one.status == "ok"), key=_preference):
        near.setdefault(record.task, record)
    far = {task: distance(record.extents, here) for task, record in near.items()}
    order = sorted((task for task in near if far[task] <= _FAR), key=lambda task: far[task])
    # A shape of which the heuristic's config was the best says so for those that are near to it.
    better = itertools.takewhile(_is_better, (near[task] for task in order))
    return _configs((record, f"record nearest {shape_text(record)}") for record in better)


def lowered(
    op: Op,
    target: Target,
    config: LoweringConfig | None = None,
    database: DatabaseLike = None,
) -> tuple[ir.IRModule, str]:
    """The scheduled module of an op, and where its config comes from.

    Raises:
        ScheduleError: when no rule builds the op, or the config does not fit.
        TuningError: for a file of records that is named and cannot be read.
    """
    rule = choose(op, target)
    if config is not None:
        return rule.lower(op, target, config), "given"
    for choice, origin in choices(op, target, rule.name, database):
        with contextlib.suppress(ScheduleError):  # the rule may refuse another shape's config
            return rule.lower(op, target, choice), origin
    return rule.lower(op, target, rule.heuristic(op, target)), "heuristic"


def fingerprint(target: Target, database: DatabaseLike = None) -> str:
    """A hash of all that records say for a target: with others a program may be built otherwise."""
    data = target_json(target)
    lines = {
        record.to_line()
        for path in looked_at(database)
        for records in by_family(path).values()
        for record in records
        if record.target == data and record.method != "trial"
    }
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest() if lines else ""


def _current(path: Path, records: list[Record]) -> list[Record]:
    """Records of the installed versions; warns of others."""
    current = [record for record in records if record.is_current]
    if len(current) < len(records):
        stale = next(record for record in records if not record.is_current)
        made = ", ".join(f"{name} {version}" for name, version in stale.versions.items())
        warnings.warn(
            f"{path}: {len(records) - len(current)} records for {stale.op} are not used, since they"
            f" were made with {made}; tune again",
            RuntimeWarning,
            stacklevel=2,
        )
    return current


def _is_better(record: Record) -> bool:
    return record.beats_baseline


def _preference(record: Record) -> tuple[bool, bool, float]:
    return record.status != "ok", record.method != "measured", record.time_us


def _configs(found: Iterable[tuple[Record, str]]) -> list[tuple[LoweringConfig, str]]:
    """The configs, each once; those that this version cannot read are left out."""
    configs: list[tuple[LoweringConfig, str]] = []
    for record, origin in found:
        try:
            config = LoweringConfig.from_json(record.config)
        except ScheduleError:
            continue
        origin += ", static" if record.method == "static" else ""
        if config not in [other for other, _ in configs]:
            configs.append((config, origin))
    return configs[:_MOST]
