"""Python's collector of cycles at rest, while a program is imported or built."""

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_resting = 0
_was_on = False


@contextlib.contextmanager
def collector_at_rest() -> Iterator[None]:
    """Look for no cycles of objects within the block; what is released by its count is freed.

    A build makes millions of objects that live as long as it does, and the collector looks at all
    of them again and again: a tenth of the time of a build.  Blocks may nest, and run in several
    threads: the last that ends lets the collector go on, where it was on before.
    """
    global _resting, _was_on
    with _lock:
        if not _resting:
            _was_on = gc.isenabled()
            gc.disable()
        _resting += 1
    try:
        yield
    finally:
        with _lock:
            _resting -= 1
            if not _resting and _was_on:
                gc.enable()
