"""Plans whose loops and branches the host decides, by numbers that kernels have computed.

    kernels ──> a number ──read──> the host: which kernels are next? ──> kernels ──> ...

Between two decisions lie stretches of steps that numbers alone say.  A stretch is prepared once for
the numbers that it takes, and then costs the host no more than launches of another plan.

An artifact's ``launch.py`` holds this module, too.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from tvm_iree_ext.runtime.launch.driver import Gpu
from tvm_iree_ext.runtime.launch.launch_contract import Step
from tvm_iree_ext.runtime.launch.plan_steps import (
    allocations,
    free_names,
    is_prepared,
    names_given,
    number,
)

_KEPT = 64  # other numbers, for which it is known what a stretch launches


class PreparedStretch(Protocol):
    """What a stretch launches for some numbers."""

    @property
    def arrays(self) -> Sequence[str]:
        """Whose addresses a call takes; those that it allocates come last."""

    @property
    def workspaces(self) -> Sequence[int]:
        """Bytes of each that it allocates."""

    def __call__(self, addresses: Sequence[int], stream: int) -> None:
        """Launch on a stream, and do not wait."""


Prepare = Callable[[Sequence[Step], dict[str, Any]], PreparedStretch]
"""Prepares steps for the values of names, and gives the names that the steps name their values."""


class ComputedArray(NamedTuple):
    """A result whose extents only the run told, in memory of the call's."""

    address: int
    dtype: str
    shape: tuple[int, ...]


class HostCall:
    """A call of a plan: what its names say by now, and where its arrays lie."""

    def __init__(
        self,
        gpu: Gpu,
        names: dict[str, Any],
        addresses: dict[str, int],
        allocate: Callable[[int], int],
        stream: int,
    ) -> None:
        self.gpu, self.names, self.addresses, self.stream = gpu, names, addresses, stream
        self._allocate = allocate
        self._sizes: dict[str, int] = {}

    def take(self, name: str, size: int) -> None:
        """Have memory of so many bytes for an array: what it has, if that is enough."""
        if self._sizes.get(name, -1) < size:
            self.addresses[name], self._sizes[name] = self._allocate(size), size

    def value(self, text: int | str) -> Any:
        """A number of the plan."""
        return number(text, self.names)

    def array(self, named: Mapping[str, Any]) -> ComputedArray:
        """An array of the plan, as it is now: its name, dtype and shape by texts."""
        shape = tuple(map(self.value, named["shape"]))
        return ComputedArray(self.addresses[named["name"]], named["dtype"], shape)


class Stretch:
    """Steps one after another that are prepared before they are launched."""

    def __init__(self, steps: Sequence[Step], prepare: Prepare) -> None:
        self._steps, self._prepare = steps, prepare
        self._free = sorted(free_names(steps))
        self._named = names_given(steps)
        self._known: dict[tuple[Any, ...], tuple[PreparedStretch, dict[str, Any]]] = {}

    def __call__(self, call: HostCall) -> None:
        """Launch them."""
        # Numbers by their text: 0.0 is equal to -0.0.
        key = tuple(repr(call.names.get(name)) for name in self._free)
        if key not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            names = dict(call.names)
            self._known[key] = self._prepare(self._steps, names), names
        prepared, names = self._known[key]
        for name in self._named:
            if name in names:
                call.names[name] = names[name]
        own = prepared.arrays[len(prepared.arrays) - len(prepared.workspaces) :]
        for name, size in zip(own, prepared.workspaces, strict=True):
            call.take(name, size)
        prepared([call.addresses[name] for name in prepared.arrays], call.stream)


class HostPlan:
    """A plan that is followed step by step.

    Args:
        steps: of the plan.
        prepare: see :data:`Prepare`.
    """

    def __init__(self, steps: Sequence[Step], prepare: Prepare) -> None:
        counts = Counter(allocations(steps))
        self._again = {name for name, count in counts.items() if count > 1}
        self._run = self._block(steps, prepare)

    def __call__(self, call: HostCall) -> None:
        """Launch what the plan says; waits for the GPU where a number of its is read.

        Raises:
            Unmet: where what the plan requires does not hold.
        """
        self._run(call)

    def _block(self, steps: Sequence[Step], prepare: Prepare) -> Callable[[HostCall], None]:
        actions: list[Callable[[HostCall], None]] = []
        for is_whole, group in itertools.groupby(steps, self._is_prepared):
            if is_whole:
                actions.append(Stretch(list(group), prepare))
            else:
                actions += [self._action(step, prepare) for step in group]

        def run(call: HostCall) -> None:
            for action in actions:
                action(call)

        return run

    def _is_prepared(self, step: Step) -> bool:
        """Whether a step may stand in a stretch, all memory of which is taken before it starts.

        Memory that is taken again may move, and steps before that use it where it was.
        """
        return is_prepared([step]) and self._again.isdisjoint(allocations([step]))

    def _action(self, step: Step, prepare: Prepare) -> Callable[[HostCall], None]:
        if "allocate" in step:
            return functools.partial(_allocate, step)
        if "read" in step:
            return functools.partial(_read, step)
        if "write" in step:
            return functools.partial(_write, step)
        if "copy" in step:
            return functools.partial(_copy, step)
        if "if" in step:
            yes, no = (self._block(step[key], prepare) for key in ("then", "else"))

            def choose(call: HostCall) -> None:
                (yes if call.value(step["if"]) else no)(call)

            return choose
        if "for" in step:
            inside = self._block(step["steps"], prepare)

            def repeat(call: HostCall) -> None:
                start = call.value(step["from"])
                for turn in range(start, start + call.value(step["count"])):
                    call.names[step["for"]] = turn
                    inside(call)

            return repeat
        before, after = (self._block(step[key], prepare) for key in ("before", "steps"))

        def loop(call: HostCall) -> None:
            before(call)
            while call.value(step["while"]):
                after(call)
                before(call)

        return loop


def _allocate(step: Step, call: HostCall) -> None:
    call.take(step["allocate"], call.value(step["bytes"]))


def _read(step: Step, call: HostCall) -> None:
    item = np.dtype(step["dtype"])
    host = np.empty(1, item)
    address = call.addresses[step["array"]] + call.value(step["at"]) * item.itemsize
    call.gpu.wait_for(call.stream)
    call.gpu.read(host.ctypes.data, address, item.itemsize)
    call.names[step["read"]] = int(host[0])


def _write(step: Step, call: HostCall) -> None:
    number = np.array(call.value(step["value"])).astype(step["dtype"])
    call.gpu.fill(call.addresses[step["write"]], number.tobytes(), call.stream)


def _copy(step: Step, call: HostCall) -> None:
    source, target = (call.addresses[step[key]] for key in ("array", "copy"))
    call.gpu.copy(target, source, call.value(step["bytes"]), call.stream)
