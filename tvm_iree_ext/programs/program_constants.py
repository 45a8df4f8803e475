"""The constants of a program, and the file that they are mapped from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.runtime.manifest import Parameter
from tvm_iree_ext.runtime.program import ALIGNMENT

_PIECE = 16 << 20  # bytes that are written at once


class Constants:
    """The constants of a program, by name: each array once.

    An array may be a view of another, whose elements lie otherwise in the file.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        self._names: dict[tuple[Any, ...], str] = {}

    def add(self, name: str, array: np.ndarray) -> None:
        """Take a constant that has a name."""
        self._arrays[name] = array

    def name(self, array: np.ndarray) -> str:
        """The name of a constant of the module itself."""
        key = str(array.dtype), array.shape, array.tobytes()
        if key not in self._names:
            self._names[key] = f"constant.{len(self._names)}"
            self._arrays[self._names[key]] = array
        return self._names[key]

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def table(self) -> tuple[Parameter, ...]:
        """Where each lies in the file."""
        table, offset = [], 0
        for name, array in self._arrays.items():
            table.append(Parameter(name, str(array.dtype), array.shape, offset))
            offset += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return tuple(table)

    def write(self, path: Path) -> None:
        """Write the file, a piece of an array at a time: no array is in memory twice."""
        with path.open("wb") as file:
            for entry, array in zip(self.table(), self._arrays.values(), strict=True):
                file.seek(entry.offset)
                for piece in _pieces(array):
                    file.write(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)


def _pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """An array by runs along its first axis."""
    if not array.size:
        return
    if array.nbytes <= _PIECE or not array.ndim:
        yield array
        return
    rows = max(1, _PIECE * len(array) // array.nbytes)
    for start in range(0, len(array), rows):
        yield array[start : start + rows]
