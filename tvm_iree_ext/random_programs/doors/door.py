"""A way into the package: how a web is written in a language, and how that is imported."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.random_programs.drawing.generate import Takes
from tvm_iree_ext.random_programs.drawing.web import Web


def quoted(text: str) -> str:
    """MLIR as a constant of Python."""
    return f'TEXT = """\n{text}"""'


def as_it_is(text: str) -> str:
    """Python."""
    return text


Beside = Callable[[str, Web], Sequence[np.ndarray]]


@dataclass(frozen=True)
class Door:
    """A language.

    ``ops`` and ``takes`` say which operations it has; ``text`` writes a web, of MLIR or of Python,
    and ``read`` imports what was written, as ``call`` does in a file of Python, after the line
    ``imports``, where it needs one, and those of ``written``.  ``beside`` gives the results of the
    framework's own execution, where it has one.  A program has ``least`` to ``most`` operations.
    """

    name: str
    ops: tuple[str, ...]
    takes: Takes
    text: Callable[[Web], str]
    read: Callable[[str, Web], Imported]
    call: str
    written: Callable[[str], str] = quoted
    beside: Beside | None = None
    least: int = 5
    most: int = 30
    imports: str = ""
