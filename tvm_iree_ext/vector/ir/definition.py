"""What is known of an operation by its name: one description for every use.

A definition checks an operation and tells its results' types, computes it in NumPy, and prints it.
:data:`DEFINITIONS` finds it by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import Type

if TYPE_CHECKING:
    from tvm_iree_ext.vector.ir.core import Operation, Value
    from tvm_iree_ext.vector.ir.evaluation import Frame
    from tvm_iree_ext.vector.ir.printing import Names

D = TypeVar("D", bound="Definition")


class Definition(ABC):
    """Base of all; a subclass describes one op, or several that differ in a table's entry."""

    name: str
    operands: ClassVar[tuple[str, ...]] = ()
    """Their names in order; ``indices*`` are several, ``mask?`` may be absent."""

    is_terminator: ClassVar[bool] = False

    @abstractmethod
    def result_types(self, op: Operation) -> Sequence[Type]:
        """The types of the results.

        Raises:
            VectorError: when the operation breaks a rule.
        """

    @abstractmethod
    def evaluate(self, op: Operation, values: Sequence[Any], frame: Frame) -> Sequence[Any]:
        """The results in NumPy for the operands' values; buffers are written in place.

        A scalar is an array of rank 0.
        """

    def reads(self, op: Operation) -> Sequence[Value]:
        """The memory operands whose elements are read."""
        return ()

    def writes(self, op: Operation) -> Sequence[Value]:
        """The memory operands that are written, or of which a written copy is made."""
        return ()

    def text(self, op: Operation, names: Names) -> str:
        """What stands after the name when it is printed."""
        return names.plain(op)

    def spelling(self, op: Operation) -> str | None:
        """How :mod:`.op_counts` spells it, with the shapes that matter; None: it is not counted."""
        return None


DEFINITIONS: dict[str, Definition] = {}
"""All definitions by the ops' names."""


def register(kind: type[D]) -> type[D]:
    """Put a definition into the table."""
    DEFINITIONS[kind.name] = kind()
    return kind


def register_as(*names: str) -> Callable[[type[D]], type[D]]:
    """Put a definition into the table under several names."""

    def add(kind: type[D]) -> type[D]:
        for name in names:
            DEFINITIONS[name] = one = kind()
            one.name = name
        return kind

    return add


def definition(name: str) -> Definition:
    """The definition of a name.

    Raises:
        VectorError: for an op that does not exist.
    """
    if name not in DEFINITIONS:
        near = ", ".join(get_close_matches(name, DEFINITIONS, 3))
        raise VectorError(
            "E_STRUCTURE", f"there is no op {name!r}" + (f", but {near}" if near else "")
        )
    return DEFINITIONS[name]
