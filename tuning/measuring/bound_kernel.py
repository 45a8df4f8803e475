"""A kernel bound to operands: called again and again where they are, without copies.

On a GPU they are copied there once, by its driver alone, and its events tell the time: of all
launches as one graph, with the L2 cache flushed before each run.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.signature import extent_value
from tvm_iree_ext.on_gpu.gpu_timer import gpu_timer
from tvm_iree_ext.on_gpu.resident_call import ResidentCall
from tvm_iree_ext.runtime.kernel import Kernel
from tvm_iree_ext.runtime.launch.gpu_targets import DLPACK_DEVICES
from tvm_iree_ext.runtime.launch.launcher import Kernels


class Resident:
    """A kernel with operands and results that are allocated once.

    Attributes:
        call: begins the kernel.
        wait: returns when all that was begun is done.
        times: microseconds of single runs for some seconds of them, by the GPU; None for a CPU.
    """

    call: Callable[[], object]
    wait: Callable[[], object]
    times: Callable[[float], Sequence[float]] | None = None

    def __init__(self, kernel: Kernel, operands: Mapping[str, Any]) -> None:
        signature = kernel.signature
        arguments = {one.name: operands[one.name] for one in signature.arguments}
        shapes = [getattr(value, "shape", None) for value in arguments.values()]
        bound = signature.bind(kernel.op, shapes)
        self._results = {
            one.name: np.zeros([extent_value(e, bound) for e in one.shape], numpy_dtype(one.dtype))
            for one in signature.results
        }
        self._stack = contextlib.ExitStack()
        self._read: Callable[[], object] = lambda: None
        if kernel.target.get("kind") in DLPACK_DEVICES:
            with contextlib.ExitStack() as stack:
                self._put_on_gpu(kernel, arguments, stack)
                self._stack = stack.pop_all()
            return
        several = tuple(self._results.values())
        out = several[0] if len(several) == 1 else several
        self.call = lambda: kernel(*arguments.values(), out=out)
        self.wait = lambda: None

    def results(self) -> dict[str, np.ndarray]:
        """Results of the last call."""
        self._read()
        return self._results

    def close(self) -> None:
        """Give memory of a GPU back."""
        self._stack.close()

    def _put_on_gpu(
        self, kernel: Kernel, arguments: Mapping[str, Any], stack: contextlib.ExitStack
    ) -> None:
        kernels = Kernels(kernel.folder)
        gpu = kernels.gpu
        stack.enter_context(gpu.current())
        allocate = stack.enter_context(kernels.memory())
        # By the plan's names, which are not the operands' where these are words of a language.
        names = [one["name"] for one in kernels.plan["parameters"]]
        values = {
            name: np.array(value, order="C") if isinstance(value, np.ndarray) else value
            for name, value in zip(
                names, [*arguments.values(), *self._results.values()], strict=True
            )
        }
        call = ResidentCall(kernels, values, allocate)

        def read() -> None:
            of_results = names[-len(self._results) :]
            for name, array in zip(of_results, self._results.values(), strict=True):
                call.read(name, array)

        def times(seconds: float) -> Sequence[float]:
            with gpu_timer(gpu) as timer:
                return timer.time(timer.recorded(call), seconds).times

        self.call, self.wait, self._read, self.times = call, gpu.wait, read, times
