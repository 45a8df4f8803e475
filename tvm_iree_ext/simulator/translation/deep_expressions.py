"""Room for expressions as deep as regions may be: Python's recursion goes with their depth."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tvm_iree_ext.base.errors import SimulationError

# Some ten calls for each of the 1000 operations that a region may have.
_CALLS = 12_000


@contextmanager
def room_for_depth(kernel: str) -> Iterator[None]:
    """Let a kernel's expressions be walked however deep they are, within bounds.

    Raises:
        SimulationError: for one that is too deep still, naming the kernel.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _CALLS))
    try:
        yield
    except RecursionError:
        raise SimulationError(
            f"{kernel}: an expression takes more than {_CALLS} calls of Python to walk; regions"
            " of fewer operations are simulated"
        ) from None
    finally:
        sys.setrecursionlimit(before)
