"""What is tried, and what came of it: a line of JSON each."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tvm_iree_ext.base.errors import ExtError

Kind: TypeAlias = Literal["right", "wrong", "refused", "crashed", "slow", "skipped"]

KINDS: tuple[Kind, ...] = ("right", "wrong", "refused", "crashed", "slow", "skipped")
"""What may come of a case.

``right``: all results as the suite has them; ``wrong``: others; ``refused``: an exception;
``crashed``: the process ended; ``slow``: it took longer than the limit, or more memory;
``skipped``: not tried, for a reason.
"""


@dataclass(frozen=True)
class SuiteCase:
    """A case of a suite.

    ``name`` is its own in the suite, and all that says what it is: any process makes the same of
    it.  ``op`` and ``dtype`` are what tables go by.  ``skip`` is why it is not tried.
    """

    name: str
    op: str
    dtype: str
    skip: str = ""


@dataclass(frozen=True)
class Verdict:
    """What came of a case.

    ``by`` is who refused it: ``ours``, or a front end.  ``error`` is the largest difference of
    a wrong result, infinite where it is no number.  The message of a right one is how it was
    helped, such as by inputs that were made constants; mostly nothing.
    """

    kind: Kind
    message: str = ""
    by: str = ""
    error: float | None = None


RIGHT = Verdict("right")


@dataclass(frozen=True)
class Outcome:
    """A case of a suite, of its seed, and what came of it, in seconds."""

    suite: str
    seed: int
    case: SuiteCase
    verdict: Verdict
    seconds: float

    def to_json(self) -> str:
        """JSON of one line; an infinite error is a text."""
        verdict = asdict(self.verdict)
        error = self.verdict.error
        if error is not None and not math.isfinite(error):
            verdict["error"] = repr(error)
        data = {"suite": self.suite, "seed": self.seed, **asdict(self.case), **verdict}
        return json.dumps({**data, "seconds": round(self.seconds, 3)})


def outcome_from_json(line: str) -> Outcome:
    """The outcome of a line that ``to_json`` gave."""
    data: dict[str, Any] = json.loads(line)
    error = data["error"]
    return Outcome(
        data["suite"],
        data["seed"],
        SuiteCase(*(data[name] for name in ("name", "op", "dtype", "skip"))),
        Verdict(data["kind"], data["message"], data["by"], None if error is None else float(error)),
        data["seconds"],
    )


def logged(path: Path) -> Iterator[Outcome]:
    """The outcomes of a file, if it is there; a last line that a crash has cut is left out.

    Raises:
        ExtError: for a file of something else.
    """
    if not path.exists():
        return
    lines = path.read_text("utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            outcome = outcome_from_json(line)
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):  # without its end
                return
            raise ExtError(
                f"{path}:{number} is no outcome of conformance: {type(error).__name__}: {error}"
            ) from None
        yield outcome
