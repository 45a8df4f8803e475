"""How far long work is, on a terminal."""

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def bar(name: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal, and nothing elsewhere; yields what moves it on."""
    # Rich takes longer to import than most commands that show no bar.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    off = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=off) as progress:
        task = progress.add_task(name, total=total)
        yield lambda: progress.advance(task)
