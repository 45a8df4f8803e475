"""Operations of a web: how one is drawn, and what it means."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tvm_iree_ext.random_programs.drawing.values import BoundedArray, Unsuited
from tvm_iree_ext.random_programs.drawing.web import Attributes, Node, Type


class Draft(Protocol):
    """A web in the making, as operations see it when they are drawn."""

    rng: np.random.Generator

    def pick(self, accepts: Callable[[Type], bool] = ...) -> int:
        """The number of an array of such a type; raises Unsuited where there is none."""

    def like(self, type: Type) -> int:
        """An array of this type, made of one that is there by operations that are added."""

    def type(self, number: int) -> Type:
        """The type of an array."""

    def value(self, number: int) -> BoundedArray:
        """Value of a node."""

    def fresh(self, type: Type, fill: str, low: float, high: float) -> int:
        """One more input."""

    def nested(self, operands: Sequence[int], ops: Sequence[str]) -> "Draft":
        """A draft of a body that reads these, of these operations alone."""

    def grow(self, count: int) -> None:
        """Add so many operations, drawn at random."""

    @property
    def nodes(self) -> Sequence[Node]:
        """Nodes added so far."""

    def add(self, op: str, operands: Sequence[int], attributes: Attributes) -> int:
        """One more operation; the number of what it gives."""

    def chance(self, of: float) -> bool:
        """Whether something happens that has this chance."""

    def one_of(self, choices: Sequence[Any]) -> Any:
        """One of several, each as likely."""


Drawn = tuple[Sequence[int], Attributes]


@dataclass(frozen=True)
class WebOp:
    """An operation.

    ``draw`` takes operands and attributes of a draft; ``mean`` gives the result of values.  Both
    raise :class:`~.values.Unsuited` for what is not asked of a program.
    """

    name: str
    draw: Callable[[Draft], Drawn]
    mean: Callable[[Sequence[BoundedArray], Attributes], BoundedArray]
    weight: float = 1.0


TABLE: dict[str, WebOp] = {}
"""All operations by name; :mod:`~.vocabulary` fills it."""


def apply(name: str, values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    """Apply an operation.

    Raises:
        Unsuited: for what is not asked of a program, and for operands that do not fit.
    """
    try:
        with np.errstate(all="ignore"):
            return TABLE[name].mean(values, attributes)
    except (ValueError, IndexError, TypeError) as error:  # NumPy's, for what does not fit
        raise Unsuited(f"{name}: {error}") from None
