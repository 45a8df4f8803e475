"""Peers that take the number of threads when something is set up, and not at a call."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tvm_iree_ext.bench.base.bench_case import Call


class Opening:
    """The number of threads for which a library's calls are set up now."""

    def __init__(self) -> None:
        self.threads = 1

    @contextmanager
    def limit(self, count: int) -> Iterator[None]:
        """Calls are set up for ``count`` threads meanwhile."""
        before, self.threads = self.threads, count
        try:
            yield
        finally:
            self.threads = before

    def call(self, set_up: Callable[[int], Call]) -> Call:
        """What ``set_up`` gives for the number of threads; anew only where that has changed."""
        opened: dict[int, Call] = {}

        def call() -> object:
            if self.threads not in opened:
                opened.clear()  # and with it what another number of threads holds
                opened[self.threads] = set_up(self.threads)
            return opened[self.threads]()

        return call
