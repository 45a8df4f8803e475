"""A plan's launches as one graph of CUDA's, which the host starts by a single call.

A launch costs the host several microseconds, and a program of thirty kernels more of its time than
of the GPU's.  A graph is made once for the numbers of a call; of a further call only what lies at
another address is told to it again.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tvm_iree_ext.runtime.launch.driver import DriverError, Gpu, PreparedLaunch, Step
from tvm_iree_ext.runtime.launch.launcher import Kernels

_LEAST_LAUNCHES = 3  # of a plan that is worth a graph
_LINE = 256  # bytes: how the driver aligns memory

Steps = Sequence[Step | PreparedLaunch]


class Launches:
    """What a plan launches for some numbers: one by one at first, as a graph in further calls.

    What the plan allocates is one piece of memory, which the caller takes anew for each call.
    """

    def __init__(self, kernels: Kernels, numbers: Mapping[str, Any]) -> None:
        self._kernels, self._steps = kernels, kernels.settled(numbers)
        self._workspaces = list(_workspaces(self._steps))
        self._bytes = sum(size for _, size in self._workspaces)
        self._may_record = kernels.gpu.cuda and _is_worth_a_graph(self._steps)
        self._was_called = False
        self._graph: LaunchGraph | None = None
        self._lock = threading.Lock()

    def __call__(
        self, arrays: Mapping[str, int], allocate: Callable[[int], int], stream: int
    ) -> None:
        """Start all of them on a stream, and do not wait.  The GPU must be current.

        Args:
            arrays: addresses of the parameters, in the same order in every call.
            allocate: what gives memory that lives until all is done.
            stream: of the driver's; 0 is the default stream.
        """
        workspace = allocate(self._bytes) if self._bytes else 0
        if self._may_record and self._was_called and not self._kernels.gpu.is_recording(stream):
            with self._lock:
                if self._graph is None:
                    addresses = self._addresses(arrays, workspace)
                    self._graph = LaunchGraph(self._kernels.gpu, self._steps, addresses)
                try:
                    self._graph(self._moving(arrays, workspace), stream)
                except DriverError:
                    self._graph = None  # some of its launches may have old addresses
                    raise
            return
        self._kernels.launch(self._steps, self._addresses(arrays, workspace), stream)
        self._was_called = True

    def close(self) -> None:
        """Give the graph back, after all that was started is done."""
        with self._lock:
            if self._graph is not None:
                self._kernels.gpu.wait()
                self._graph.close()
                self._graph = None

    def _addresses(self, arrays: Mapping[str, int], workspace: int) -> dict[str, int]:
        return {**self._kernels.constants(), **self._moving(arrays, workspace)}

    def _moving(self, arrays: Mapping[str, int], workspace: int) -> dict[str, int]:
        """What may lie elsewhere in the next call."""
        addresses = dict(arrays)
        for name, size in self._workspaces:
            addresses[name] = workspace
            workspace += size
        return addresses


class LaunchGraph:
    """The launches of steps as a graph: each after the one before.

    Raises:
        DriverError: where the driver refuses.
    """

    def __init__(self, gpu: Gpu, steps: Steps, addresses: Mapping[str, int]) -> None:
        self._gpu, self._known = gpu, dict(addresses)
        self._maps: dict[str, Any] = {}
        self._mapped: dict[str, list[Step]] = {}  # by the array
        self._users: dict[str, list[int]] = {}  # launches, by what is passed
        self._launches: list[PreparedLaunch] = []
        self._nodes: list[ctypes.c_void_p] = []
        self._graph, self._executable = ctypes.c_void_p(), ctypes.c_void_p()
        gpu.named("cuGraphCreate", ctypes.byref(self._graph), 0)
        for step in steps:
            if isinstance(step, PreparedLaunch):
                self._append(step)
            elif "tensor_map" in step:
                self._mapped.setdefault(step["array"], []).append(step)
                self._map(step)
        gpu.named(
            "cuGraphInstantiateWithFlags", ctypes.byref(self._executable), self._graph,
            ctypes.c_uint64(0),
        )  # fmt: skip

    def __call__(self, addresses: Mapping[str, int], stream: int) -> None:
        """Start the graph, and do not wait; addresses that are not given are those of before."""
        known = self._known
        moved = [name for name, address in addresses.items() if known[name] != address]
        if moved:
            known.update(addresses)
            self._move(moved)
        self._gpu.named("cuGraphLaunch", self._executable, ctypes.c_void_p(stream))

    def close(self) -> None:
        """Give the graph back."""
        self._gpu.named("cuGraphExecDestroy", self._executable)
        self._gpu.named("cuGraphDestroy", self._graph)

    def _append(self, launch: PreparedLaunch) -> None:
        """One more launch, after the last."""
        node = ctypes.c_void_p()
        described, _memory = self._described(launch)
        before = (ctypes.c_void_p * 1)(*[one.value for one in self._nodes[-1:]])
        self._gpu.named(
            "cuGraphAddKernelNode", ctypes.byref(node), self._graph, before,
            ctypes.c_size_t(len(self._nodes[-1:])), ctypes.byref(described),
        )  # fmt: skip
        for name in launch.names:
            self._users.setdefault(name, []).append(len(self._launches))
        self._launches.append(launch)
        self._nodes.append(node)

    def _described(self, launch: PreparedLaunch) -> tuple["_KernelNode", Any]:
        """A launch as the driver takes it, and the memory that it points to."""
        arguments = launch.arguments(self._known, self._maps)
        extents = (ctypes.c_uint * 7)(*launch.extents)
        places = ctypes.addressof(arguments[0])
        return _KernelNode(launch.function, extents, places, None), arguments

    def _map(self, step: Step) -> None:
        self._maps[step["tensor_map"]] = self._gpu.tensor_map(step, self._known[step["array"]])

    def _move(self, names: Sequence[str]) -> None:
        """Tell the graph where arrays are now."""
        changed = list(names)
        for step in (step for name in names for step in self._mapped.get(name, ())):
            self._map(step)
            changed.append(step["tensor_map"])
        for number in sorted({user for name in changed for user in self._users.get(name, ())}):
            described, _memory = self._described(self._launches[number])
            self._gpu.named(
                "cuGraphExecKernelNodeSetParams", self._executable, self._nodes[number],
                ctypes.byref(described),
            )  # fmt: skip


class _KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS of CUDA's driver, in its first version."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("extents", ctypes.c_uint * 7),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
    )


def _workspaces(steps: Steps) -> Iterator[tuple[str, int]]:
    """What a plan allocates, by name, in whole lines."""
    for step in steps:
        if not isinstance(step, PreparedLaunch) and "allocate" in step:
            yield step["allocate"], -(-step["bytes"] // _LINE) * _LINE


def _is_worth_a_graph(steps: Steps) -> bool:
    """Whether there are many launches; a tensor map that is made anew between them has no place."""
    maps = [
        step["tensor_map"]
        for step in steps
        if not isinstance(step, PreparedLaunch) and "tensor_map" in step
    ]
    launches = sum(isinstance(step, PreparedLaunch) for step in steps)
    return launches >= _LEAST_LAUNCHES and len(maps) == len(set(maps))
