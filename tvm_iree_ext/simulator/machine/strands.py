"""Divergent lanes as cooperative threads: sides of a branch that wait for one another.

Lanes that diverge are run one side after the other, which is enough until a side waits for what
the other does.  Sides that wait are *strands*: each runs, alone, until it waits for something that
has not come, and then another goes on.  A strand is a thread, of which one at a time has leave to
run, so what happens is the same every time.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Ready = Callable[[], bool]


class Stuck(Exception):
    """Nobody can go on: raised in every strand, and through the kernel."""


class _Strand:
    def __init__(self, body: Callable[[], None]) -> None:
        self.body = body
        self.ready: Ready = lambda: True
        self.turn, self.pause = threading.Semaphore(0), threading.Semaphore(0)
        self.done, self.stuck = False, False
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self.turn.acquire()
        try:
            if not self.stuck:
                with np.errstate(all="ignore"):
                    self.body()
        except Stuck:
            pass
        except BaseException as error:  # handed to the one that started the strands
            self.error = error
        self.done = True
        self.pause.release()

    def go_on(self) -> None:
        """Run it until it waits or ends."""
        self.turn.release()
        self.pause.acquire()

    def wait(self, ready: Ready) -> None:
        """In the strand: let others run until ``ready``."""
        self.ready = ready
        self.pause.release()
        self.turn.acquire()
        if self.stuck:
            raise Stuck


class Strands:
    """Strands of a workgroup; ``blocked`` is told when nobody can go on."""

    def __init__(self, blocked: Callable[[], None]) -> None:
        self._blocked = blocked
        self._running: list[_Strand] = []  # those that run, the innermost last

    def together(self, bodies: Sequence[Callable[[], None]]) -> None:
        """Run sides that may wait for one another."""
        if len(bodies) == 1:
            bodies[0]()
            return
        strands = [_Strand(body) for body in bodies]
        stuck = False
        while not all(strand.done for strand in strands):
            ready = [strand for strand in strands if not strand.done and strand.ready()]
            if not ready and not stuck:
                try:
                    self.wait(lambda: any(s.ready() for s in strands if not s.done))
                    continue
                except Stuck:
                    stuck = True
            for strand in strands if stuck else ready:
                if strand.done:
                    continue
                strand.stuck = stuck
                self._running.append(strand)
                strand.go_on()
                self._running.pop()
        for strand in strands:
            strand.thread.join()
            if strand.error is not None:
                raise strand.error
        if stuck:
            raise Stuck

    def wait(self, ready: Ready) -> None:
        """Until ``ready``, while other strands run.

        Raises:
            Stuck: where nobody can go on.
        """
        if ready():
            return
        if not self._running:
            self._blocked()
            raise Stuck
        self._running[-1].wait(ready)


def uniform(value: Any, active: np.ndarray, lanes: int) -> list[tuple[int, np.ndarray]]:
    """The distinct values of active lanes, and the lanes of each."""
    spelt = np.broadcast_to(np.asarray(value), (lanes,))
    return [(int(one), active & (spelt == one)) for one in np.unique(spelt[active])]
