"""Interpreter of programs in NumPy: slow and literal."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.vector.ir.core import Block, Value


class _Interpreter:
    """The arrays of the values that have been computed; scalars are arrays of rank 0."""

    def __init__(self) -> None:
        self._arrays: dict[Value, np.ndarray] = {}

    def run(self, block: Block, arguments: Sequence[Any]) -> list[Any]:
        """Run a block; the values that its terminator takes."""
        self._arrays.update(zip(block.arguments, arguments, strict=True))
        for op in block.operations[:-1]:
            values = [self._arrays[value] for value in op._operands]
            results = op.definition.evaluate(op, values, self.run)
            self._arrays.update(zip(op.results, results, strict=True))
        return [self._arrays[value] for value in block.terminator._operands]


def evaluate(block: Block, arguments: Mapping[Value, np.ndarray]) -> list[np.ndarray]:
    """Results of a program's body for its arguments, of which buffers are written in place."""
    return _Interpreter().run(block, [arguments[one] for one in block.arguments])
