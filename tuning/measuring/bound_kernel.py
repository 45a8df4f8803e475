"""A kernel bound to operands: called again and again where they are, without copies.

On a GPU they are copied there once, by its driver alone; a call launches, and is waited for after
the last of several.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.signature import extent_value
from tvm_iree_ext.runtime.gpu_function import DLPACK_DEVICES
from tvm_iree_ext.runtime.kernel import Kernel
from tvm_iree_ext.runtime.launch.launcher import Kernels, bind


class Resident:
    """A kernel with operands and results that are allocated once.

    Attributes:
        call: begins the kernel.
        wait: returns when all that was begun is done.
    """

    call: Callable[[], object]
    wait: Callable[[], object]

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
        values = dict(zip(names, [*arguments.values(), *self._results.values()], strict=True))
        arrays = {
            name: np.array(value, order="C")
            for name, value in values.items()
            if isinstance(value, np.ndarray)
        }
        numbers = {name: value for name, value in values.items() if name not in arrays}
        numbers |= bind(kernels.plan, {name: a.shape for name, a in arrays.items()}, numbers)
        addresses = {name: allocate(max(array.nbytes, 1)) for name, array in arrays.items()}
        for name, array in arrays.items():
            gpu.write(addresses[name], array.ctypes.data, array.nbytes)
        scratch: list[int] = []  # what a call takes beside: the same in every call

        def call() -> None:
            taken = iter(tuple(scratch))

            def again(size: int) -> int:
                address = next(taken, None)
                if address is None:
                    scratch.append(address := allocate(size))
                return address

            kernels.enqueue(addresses, numbers, allocate=again)

        def read() -> None:
            gpu.wait()
            for name, array in zip(
                names[-len(self._results) :], self._results.values(), strict=True
            ):
                gpu.read(array.ctypes.data, addresses[name], array.nbytes)

        self.call, self.wait, self._read = call, gpu.wait, read
