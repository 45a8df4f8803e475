"""Definitions of ops: types of the results, meaning in NumPy and printed text, found by name.

Operations have definitions, so they are ``Any`` here; the file of each op says ``Operation``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, TypeAlias, TypeVar

from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import Type, extents

RunBlock: TypeAlias = Callable[[Any, Sequence[Any]], list[Any]]
"""Computes a block for its arguments: the values that its terminator takes."""

D = TypeVar("D", bound="Definition")


class Definition(ABC):
    """An op by its name; a subclass describes one op, or several that differ in a table's entry."""

    name: str
    operands: ClassVar[tuple[str, ...]] = ()
    """Their names in order; ``indices*`` are several, ``mask?`` may be absent."""

    is_terminator: ClassVar[bool] = False

    read: ClassVar[str] = ""
    """The memory operand whose elements are read; empty for none."""

    written: ClassVar[str] = ""
    """The memory operand that is written, or of which a written copy is made."""

    counted: ClassVar[str] = ""
    """The operand, or ``result``, with whose shape :mod:`.op_counts` counts the op."""

    @abstractmethod
    def result_types(self, op: Any) -> Sequence[Type]:
        """The types of the results.

        Raises:
            VectorError: when the operation breaks a rule.
        """

    @abstractmethod
    def evaluate(self, op: Any, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        """The results in NumPy for the operands' values; buffers are written in place.

        A scalar is an array of rank 0.
        """

    def reads(self, op: Any) -> Sequence[Any]:
        """The memory operands whose elements are read."""
        return op.group(self.read) if self.read else ()

    def writes(self, op: Any) -> Sequence[Any]:
        """The memory operands that are written, or of which a written copy is made."""
        return op.group(self.written) if self.written else ()

    def text(self, op: Any, names: Any) -> str:
        """Text printed after the op's name."""
        return names.plain(op)

    def spelling(self, op: Any) -> str | None:
        """How :mod:`.op_counts` spells it, with the shapes that matter; None: it is not counted."""
        if not self.counted:
            return None
        value = op.result if self.counted == "result" else op.operand(self.counted)
        return f"{self.name.partition('.')[2]} {extents(value.shape)}"


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
