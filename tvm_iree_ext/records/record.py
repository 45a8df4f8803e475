"""A record: a lowering config that was tried for an op on a target, and how it went.

One JSON object a line.  Its *task* is what it was tried for: op, operands, attributes, target with
the number of cores.  Its *family* is the task without the extents, so that a record may serve
another shape.
"""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from typing import Any, Literal, get_args

from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.base.lazy import method_from
from tvm_iree_ext.base.limited_reading import json_value, shown
from tvm_iree_ext.base.signature import is_shape
from tvm_iree_ext.runtime.manifest import installed_versions

FORMAT = 1

Status = Literal[
    "ok", "build_failed", "run_failed", "crashed", "timed_out", "out_of_memory", "wrong"
]
"""How a trial of a candidate may end."""

Method = Literal["measured", "trial", "static"]
"""How times were come by: measured in turns with the heuristic's config; once, in a search, whose
noise may flatter some candidate; or computed from what compilers say.  ``build`` takes no trial."""

# Attributes that follow from the shapes, or are numbers that no choice of tiles depends on.
_OF_SHAPE = frozenset({"extents", "length", "scale"})
_VERSIONS = ("tvm-iree-ext", "apache-tvm")  # with another one, the times may be others


@dataclass(frozen=True)
class Record:
    """One trial; what is not given in :meth:`of` is plain JSON.

    Attributes:
        operands, attributes: as :meth:`tvm_iree_ext.ops.base.op.Op.describe` has them.
        target: as JSON, with its architecture and, for a CPU, the number of cores.
        rule: the schedule rule that takes the config.
        config: the lowering config.
        times_us: of single calls; empty unless the status is ``ok``.
        baseline_us: the time of the rule's heuristic in the same session.
        decisions: what a search needs to continue from here.
        trial: its place in the session.
        date: in UTC, as ISO 8601 has it.
    """

    op: str
    operands: Sequence[Mapping[str, Any]]
    attributes: Mapping[str, Any]
    target: Mapping[str, Any]
    rule: str
    config: Mapping[str, Any]
    times_us: tuple[float, ...] = ()
    baseline_us: float | None = None
    method: Method = "measured"
    status: Status = "ok"
    message: str = ""
    decisions: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    trial: int = 0
    versions: Mapping[str, str] = field(default_factory=installed_versions)
    date: str = ""
    format: int = FORMAT

    @staticmethod
    def of(
        described: Mapping[str, Any],
        target: Mapping[str, Any],
        rule: str,
        config: Mapping[str, Any],
        **fields: Any,
    ) -> "Record":
        """The record of a trial that ends now.

        Args:
            described: the op, by its ``describe()``.
            target: as JSON.
            rule: its name.
            config: the lowering config as JSON.
            fields: others of the record.
        """
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return Record(
            described["op"],
            described["operands"],
            described["attributes"],
            target,
            rule,
            config,
            **{"date": now, **fields},
        )

    _repr_html_ = method_from("tvm_iree_ext.records.record_list", "record_html")

    @property
    def time_us(self) -> float:
        """The median time of a call; infinite where there is none."""
        return statistics.median(self.times_us) if self.times_us else math.inf

    @property
    def is_current(self) -> bool:
        """Whether it was made with the versions that are installed."""
        now = installed_versions()
        return all(self.versions.get(name) == now[name] for name in _VERSIONS)

    @property
    def beats_baseline(self) -> bool:
        """Whether it is faster than what an op gets that was never tuned."""
        return self.status == "ok" and self.time_us < (self.baseline_us or math.inf)

    @cached_property
    def task(self) -> str:
        """Key of what the record was tuned for: equal for equal tasks."""
        return task_key(self.op, self.operands, self.attributes, self.target)

    @cached_property
    def family(self) -> str:
        """The task without its extents."""
        return family_key(self.op, self.operands, self.attributes, self.target)

    @cached_property
    def extents(self) -> tuple[int | str, ...]:
        """Extents of the shapes."""
        return task_extents(self.operands, self.attributes)

    def to_line(self) -> str:
        """One line of JSON, with its end."""
        return json.dumps(asdict(self), separators=(",", ":"), allow_nan=False) + "\n"

    @staticmethod
    def from_line(line: str) -> "Record":
        """The inverse of :meth:`to_line`.

        Raises:
            TuningError: for what that does not write.
        """
        try:
            data = json_value(line)
        except json.JSONDecodeError:
            raise TuningError("is not JSON: was its end cut off?") from None
        except ValueError as error:
            raise TuningError(f"is no record: {error}") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise TuningError(f"is no record of format {FORMAT}")
        if sorted(data) != sorted(_SOUND):
            wrong = sorted(set(data) ^ set(_SOUND))
            raise TuningError(f"has other fields than a record: {', '.join(wrong)}")
        for name, is_sound in _SOUND.items():
            if not is_sound(data[name]):
                raise TuningError(f"has a malformed {name}: {shown(data[name])}")
        return Record(**{**data, "times_us": tuple(data["times_us"])})


def task_key(
    op: str,
    operands: Sequence[Mapping[str, Any]],
    attributes: Mapping[str, Any],
    target: Mapping[str, Any],
) -> str:
    """Key of what a config is tuned for."""
    return _text([op, operands, attributes, target])


def family_key(
    op: str,
    operands: Sequence[Mapping[str, Any]],
    attributes: Mapping[str, Any],
    target: Mapping[str, Any],
) -> str:
    """The task without extents: ranks, dtypes, all other attributes, target."""
    ranks = [[one["name"], one["dtype"], one["role"], len(one["shape"])] for one in operands]
    others = {name: value for name, value in attributes.items() if name not in _OF_SHAPE}
    return _text([op, ranks, others, target])


def task_extents(
    operands: Sequence[Mapping[str, Any]], attributes: Mapping[str, Any]
) -> tuple[int | str, ...]:
    """The extents of the iteration dims where the op has such, else those of all arguments."""
    if extents := attributes.get("extents"):
        return tuple(extents)
    return tuple(extent for one in operands if one["role"] == "input" for extent in one["shape"])


def distance(one: Sequence[int | str], other: Sequence[int | str]) -> float:
    """How far two shapes of a family are from each other, in doublings; infinite for strangers."""
    if len(one) != len(other):
        return math.inf
    doublings = []
    for a, b in zip(one, other, strict=True):
        if isinstance(a, str) and isinstance(b, str):
            continue  # both are known at call time only
        if isinstance(a, str) or isinstance(b, str) or min(a, b) < 1:
            if a != b:
                return math.inf
            continue
        doublings.append(math.log2(a / b))
    return math.hypot(*doublings)


def shape_text(record: Record) -> str:
    """The extents of a record's task, for a reader."""
    if "extents" in record.attributes:
        return "x".join(map(str, record.extents))
    inputs = [one for one in record.operands if one["role"] == "input"]
    return " ".join("x".join(map(str, one["shape"])) or "1" for one in inputs)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _is_operand(value: Any) -> bool:
    return (
        _is_object(value)
        and {"name", "shape", "dtype", "role"} <= value.keys()
        and is_shape(value["shape"])
        and all(isinstance(value[name], str) for name in ("name", "dtype", "role"))
    )


def _is_attributes(value: Any) -> bool:
    return _is_object(value) and is_shape(value.get("extents", []))


def _is_texts(value: Any) -> bool:
    return _is_object(value) and all(isinstance(one, str) for one in value.values())


_SOUND = {
    "op": lambda value: isinstance(value, str),
    "operands": lambda value: isinstance(value, list) and all(map(_is_operand, value)),
    "attributes": _is_attributes,
    "target": _is_object,
    "rule": lambda value: isinstance(value, str),
    "config": _is_object,
    "times_us": lambda value: isinstance(value, list) and all(map(_is_number, value)),
    "baseline_us": lambda value: value is None or _is_number(value),
    "method": lambda value: value in get_args(Method),
    "status": lambda value: value in get_args(Status),
    "message": lambda value: isinstance(value, str),
    "decisions": _is_object,
    "seed": lambda value: type(value) is int,
    "trial": lambda value: type(value) is int,
    "versions": _is_texts,
    "date": lambda value: isinstance(value, str),
    "format": lambda value: value == FORMAT,
}
