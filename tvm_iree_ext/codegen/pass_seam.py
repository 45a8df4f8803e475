"""A seam for looking into our pipelines: builds with other passes than a pipeline's own."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeAlias

Passes: TypeAlias = list[Any]
"""TIR passes, in their order."""

_edit: ContextVar[Callable[[Passes], Passes] | None] = ContextVar("edit", default=None)


@contextlib.contextmanager
def edited(edit: Callable[[Passes], Passes]) -> Iterator[None]:
    """Have kernels lowered by the passes that ``edit`` makes of a pipeline's."""
    token = _edit.set(edit)
    try:
        yield
    finally:
        _edit.reset(token)


def chosen(passes: Passes) -> Passes:
    """The passes to lower with, of a pipeline whose own these are."""
    edit = _edit.get()
    return passes if edit is None else edit(passes)
