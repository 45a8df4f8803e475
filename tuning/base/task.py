"""A tuning task: an op, its weight and, where they cannot be made up, its operands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.ops.base.op import Op


@dataclass(frozen=True)
class Task:
    """An op to be tuned.

    Attributes:
        name: for a reader; unique in a session.
        op: what is computed.
        calls: how often a program runs it: what takes more of the program's time is tried more.
            None where it is one of several that count alike.
        operands: arrays by name, for an op whose extents are not known or whose indices matter.
    """

    name: str
    op: Op
    calls: int | None = None
    operands: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Effort:
    """How long to search.

    Attributes:
        trials: candidates of a task.
        seconds: for a task, where no time limit is given.
        finalists: how many of the best are measured again in turns with the heuristic's config.
        rounds: of such turns.
    """

    trials: int
    seconds: float
    finalists: int
    rounds: int

    @staticmethod
    def named(name: str) -> "Effort":
        """By name.

        Raises:
            TuningError: for an unknown one.
        """
        if name not in EFFORTS:
            raise TuningError(f"effort is {name!r}; expected one of {', '.join(EFFORTS)}")
        return EFFORTS[name]


EFFORTS = {
    "quick": Effort(trials=40, seconds=70, finalists=2, rounds=5),
    "normal": Effort(trials=200, seconds=600, finalists=3, rounds=8),
    "thorough": Effort(trials=1000, seconds=3600, finalists=5, rounds=12),
}
"""A quick session of one op ends within two minutes, with the start of workers and all."""
