"""A kernel called with arrays beside pages that cannot be touched; and which array it was.

Each operand lies so that one access behind its end, and in another call one before its beginning,
ends the process; inputs cannot be written, results are noise at first.  So is, in calls on one
thread, what a kernel takes from the heap.  Tiles on the stack are not guarded.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvm_iree_ext.access_checks import guard_pages
from tvm_iree_ext.access_checks.guard_pages import Side
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.base.signature import Signature
from tvm_iree_ext.runtime import tvm_runtime
from tvm_iree_ext.runtime.artifact import LIBRARY
from tvm_iree_ext.runtime.kernel import Kernel

WORKSPACE = "its workspace"

_OUTSIDE = {"end": "behind the end of", "beginning": "before the beginning of"}


@dataclass(frozen=True)
class Guard:
    """The operands that are guarded, and the sides; all, where none is named.

    Where the pages around are ``readable``, only writing them is caught.
    """

    only: str = ""
    sides: tuple[Side, ...] = ("end", "beginning")
    readable: bool = False

    def takes(self, name: str) -> bool:
        """Whether an operand is guarded."""
        return self.only in ("", name)


def guarded_results(
    kernel: Kernel, operands: Mapping[str, Any], guard: Guard
) -> Iterator[tuple[str, tuple[np.ndarray, ...]]]:
    """The results of calls with guarded arrays, each with what the call was."""
    arguments = [operands[one.name] for one in kernel.signature.arguments]
    # Not by a call: one into usual memory could spoil what the heap knows of itself.
    signature = kernel.signature
    given = [
        None if one.role == "scalar" else np.shape(value)
        for one, value in zip(signature.arguments, arguments, strict=True)
    ]
    shapes = signature.result_shapes(signature.bind(kernel.op, given))
    for side in guard.sides:
        placed = [
            guard_pages.copy(value, side, readable=guard.readable)
            if isinstance(value, np.ndarray) and one.role != "scalar" and guard.takes(one.name)
            else value
            for one, value in zip(kernel.signature.arguments, arguments, strict=True)
        ]
        yield f"arrays are at the {side} of a page", _into(kernel, placed, shapes, side, guard)
        library = kernel.folder / LIBRARY
        if not guard.takes(WORKSPACE) or not guard_pages.takes_workspaces(library):
            continue
        with (
            tvm_runtime.threads(1),
            guard_pages.workspaces(library, side, readable=guard.readable) as wrong,
        ):
            made = _into(kernel, arguments, shapes, side, replace(guard, only=WORKSPACE))
        if wrong:
            raise ExtError(wrong[0])
        yield f"workspaces are at the {side} of a page", made


def _into(
    kernel: Kernel,
    arguments: list[Any],
    shapes: Sequence[tuple[int, ...]],
    side: Side,
    guard: Guard,
) -> tuple[np.ndarray, ...]:
    """The results of a call into new arrays."""
    out = tuple(
        guard_pages.empty(
            shape,
            numpy_dtype(operand.dtype),
            side if guard.takes(operand.name) else "within",
            readable=guard.readable,
        )
        for shape, operand in zip(shapes, kernel.signature.results, strict=True)
    )
    kernel(*arguments, out=out if len(out) > 1 else out[0])
    return out


def culprit(signature: Signature, ends: Callable[[Guard], bool]) -> str:
    """Name the array that is accessed out of bounds; empty where that cannot be told.

    Args:
        signature: of the kernel.
        ends: whether a process ends that calls it with such a guard.
    """
    for one in signature.arguments:
        if ends(Guard(one.name, ("within",))):
            return f"writes {one.name}, an input"
    names = [one.name for one in signature.operands if one.role != "scalar"]
    for name, (side, where) in itertools.product([*names, WORKSPACE], _OUTSIDE.items()):
        guard = Guard(name, (side,))  # type: ignore[arg-type]
        if ends(guard):
            how = "writes" if ends(replace(guard, readable=True)) else "reads"
            return f"{how} {where} {name}"
    return ""
