"""A plan's launches as one graph of CUDA's, which the host starts by a single call.

A launch costs the host several microseconds, and a program of thirty kernels more of its time than
of the GPU's.  A graph is made once for the numbers of a call; of a further call only what lies at
another address is told to it again.
"""

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tvm_iree_ext.runtime.launch.driver import DriverError, Gpu, LaunchFrame
from tvm_iree_ext.runtime.launch.launcher import Kernels

_LEAST_LAUNCHES = 3  # of a plan that is worth a graph
_LINE = 256  # bytes: how the driver aligns memory


class Launches:
    """What a plan launches for some numbers: one by one at first, as a graph in further calls.

    What the plan allocates is one piece of memory, which the caller takes anew for each call.
    """

    def __init__(self, kernels: Kernels, numbers: Mapping[str, Any]) -> None:
        self._gpu, self._plan = kernels.gpu, kernels.prepared(numbers)
        self._offsets: list[int] = []
        self.bytes = 0
        """Of what the plan allocates, each in whole lines."""
        for size in self._plan.workspaces:
            self._offsets.append(self.bytes)
            self.bytes += -(-size // _LINE) * _LINE
        self._may_record = kernels.gpu.cuda and self._plan.launches >= _LEAST_LAUNCHES
        self._was_called = False
        self._graph: LaunchGraph | None = None
        self._lock = threading.Lock()

    def __call__(self, arrays: Sequence[int], workspace: int, stream: int) -> None:
        """Start all of them on a stream, and do not wait.  The GPU must be current.

        Args:
            arrays: addresses of the parameters that are arrays, in their order.
            workspace: address of :attr:`bytes` of memory that lives until all is done.
            stream: of the driver's; 0 is the default stream.
        """
        if self._offsets:
            arrays = [*arrays, *[workspace + offset for offset in self._offsets]]
        if not self._may_record:
            self._plan(arrays, stream)
            return
        if self._was_called and not self._gpu.is_recording(stream):
            with self._lock:
                if self._graph is None:
                    self._graph = LaunchGraph(self._gpu, self._plan.frame(), arrays)
                try:
                    self._graph(arrays, stream)
                except DriverError:
                    self._graph = None  # some of its launches may have old addresses
                    raise
            return
        self._plan(arrays, stream)
        self._was_called = True

    def close(self) -> None:
        """Give the graph back, after all that was started is done."""
        with self._lock:
            if self._graph is not None:
                self._gpu.wait()
                self._graph.close()
                self._graph = None


class LaunchGraph:
    """The launches of a frame, which is the graph's alone, as a graph: each after the one before.

    Raises:
        DriverError: where the driver refuses.
    """

    def __init__(self, gpu: Gpu, frame: LaunchFrame, addresses: Sequence[int]) -> None:
        self._gpu, self._frame, self._known = gpu, frame, list(addresses)
        self._users = [sorted(users) for users in frame.users.values()]
        frame.place(addresses)
        # What describes a launch says where its arguments lie, and is the same in every call.
        self._described = [
            ctypes.byref(
                _KernelNode(
                    launch.function, (ctypes.c_uint * 7)(*launch.extents),
                    ctypes.addressof(places), None,
                )
            )
            for launch, places in frame.launches
        ]  # fmt: skip
        self._nodes: list[ctypes.c_void_p] = []
        self._graph, self._executable = ctypes.c_void_p(), ctypes.c_void_p()
        gpu.named("cuGraphCreate", ctypes.byref(self._graph), 0)
        for described in self._described:
            self._append(described)
        gpu.named(
            "cuGraphInstantiateWithFlags", ctypes.byref(self._executable), self._graph,
            ctypes.c_uint64(0),
        )  # fmt: skip

    def __call__(self, addresses: Sequence[int], stream: int) -> None:
        """Start the graph, and do not wait."""
        if addresses != self._known:
            self._move(addresses)
        self._gpu.named("cuGraphLaunch", self._executable, ctypes.c_void_p(stream))

    def close(self) -> None:
        """Give the graph back."""
        self._gpu.named("cuGraphExecDestroy", self._executable)
        self._gpu.named("cuGraphDestroy", self._graph)

    def _append(self, described: Any) -> None:
        """One more launch, after the last."""
        node = ctypes.c_void_p()
        before = (ctypes.c_void_p * 1)(*[one.value for one in self._nodes[-1:]])
        self._gpu.named(
            "cuGraphAddKernelNode", ctypes.byref(node), self._graph, before,
            ctypes.c_size_t(len(self._nodes[-1:])), described,
        )  # fmt: skip
        self._nodes.append(node)

    def _move(self, addresses: Sequence[int]) -> None:
        """Tell the graph where arrays are now."""
        pairs = zip(self._users, addresses, self._known, strict=True)
        moved = {user for users, new, old in pairs if new != old for user in users}
        self._known = list(addresses)
        self._frame.place(addresses)
        for number in sorted(moved):
            self._gpu.named(
                "cuGraphExecKernelNodeSetParams", self._executable, self._nodes[number],
                self._described[number],
            )  # fmt: skip


class _KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS of CUDA's driver, in its first version."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("extents", ctypes.c_uint * 7),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
    )
