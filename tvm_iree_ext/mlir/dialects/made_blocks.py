"""Regions that are made up, for operations that mean loops and have no region."""

from collections.abc import Sequence
from typing import Any

from tvm_iree_ext.mlir.reading import form


class MadeBlock:
    """The block of a region, with an argument of each type."""

    def __init__(self, kinds: Sequence[form.ParsedScalarType]) -> None:
        self.arguments = [
            form.ParsedValue(kind, f"%arg{place}") for place, kind in enumerate(kinds)
        ]
        self._operations: list[form.ParsedOperation] = []

    def op(
        self,
        name: str,
        operands: list[form.ParsedValue],
        kind: form.ParsedScalarType,
        **attributes: Any,
    ) -> form.ParsedValue:
        """The result of an operation that is added."""
        result = form.ParsedValue(kind, f"%{len(self._operations)}")
        where = form.Location(0, 0)
        made = form.ParsedOperation(name, operands, [result], attributes, [], where)
        self._operations.append(made)
        return result

    def finish(self, value: form.ParsedValue) -> None:
        """Yield a value."""
        last = form.ParsedOperation("linalg.yield", [value], [], {}, [], form.Location(0, 0))
        self._operations.append(last)

    def made(self) -> form.ParsedBlock:
        """The region's block."""
        return form.ParsedBlock(self.arguments, self._operations)
