"""Tasks and outcomes of trials, as they go between processes."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from tvm_iree_ext.random_programs.drawing.web import Web

Kind = Literal["right", "refused", "wrong", "disputed", "foreign", "crashed", "slow"]
"""Outcome of a program.

``refused``: an error of ours that says why; ``foreign``: one that is not; ``disputed``: one of
these or a wrong result, and the framework itself gives no right one either.
"""

KINDS: tuple[Kind, ...] = get_args(Kind)
FAULTS: tuple[Kind, ...] = ("wrong", "foreign", "crashed", "slow")
"""Outcomes that trials look for."""

_VARIES = re.compile(r"/\S*|0x[0-9a-f]+|%\w+|-?\d+(\.\d+)?(e-?\d+)?|\[[\d, ]*\]")


@dataclass(frozen=True)
class Recipe:
    """A program by its seed, what its arrays are mostly of, and how many operations at most."""

    seed: int
    dtype: str
    most: int = 30


@dataclass(frozen=True)
class Setting:
    """Setting in which programs are tried: a door, and a target, which may be simulated.

    ``passes``: stage by stage of the passes; ``guard``: with arrays beside pages that cannot be
    touched.
    """

    door: str
    target: str = "llvm"
    simulate: bool = False
    passes: bool = False
    guard: bool = False


@dataclass(frozen=True)
class ProgramTask:
    """A program, and where it is tried."""

    program: Recipe | Web
    setting: Setting


@dataclass(frozen=True)
class TrialOutcome:
    """Outcome of a program, its message, and the program where the process did not end."""

    kind: Kind
    message: str = ""
    web: Web | None = None

    @property
    def is_fault(self) -> bool:
        """Whether it is one of what is looked for."""
        return self.kind in FAULTS

    @property
    def cause(self) -> str:
        """The message without the numbers and names of one program."""
        if self.kind == "wrong" and "result" in self.message:
            return "wrong"
        lines = [line for line in self.message.splitlines() if line.strip()]
        text = " ".join(lines[-1:] if self.kind == "foreign" else lines[:2])
        text = text[max(text.find("Check failed"), 0) :]  # what TVM checks, not of which kernels
        return f"{self.kind}: {_VARIES.sub('N', text)[:160]}"
