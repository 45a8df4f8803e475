"""A call of kernels whose arrays were copied to the GPU once, to be made again and again."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_iree_ext.runtime.launch.launcher import Kernels
from tvm_iree_ext.runtime.launch.plan_steps import bind


class ResidentCall:
    """Launches with the same arrays, on a stream.  The GPU must be current.

    Args:
        kernels: that are launched.
        values: of the plan's parameters, in their order: contiguous arrays, and numbers.
        allocate: what gives memory that lives as long as this.
    """

    def __init__(
        self, kernels: Kernels, values: Mapping[str, Any], allocate: Callable[[int], int]
    ) -> None:
        arrays = {name: one for name, one in values.items() if isinstance(one, np.ndarray)}
        numbers = {name: one for name, one in values.items() if name not in arrays}
        numbers |= bind(kernels.plan, {name: one.shape for name, one in arrays.items()}, numbers)
        self._gpu, self.numbers = kernels.gpu, numbers
        self.addresses = {name: allocate(max(one.nbytes, 1)) for name, one in arrays.items()}
        """Where each array lies."""
        for name, one in arrays.items():
            self._gpu.write(self.addresses[name], one.ctypes.data, one.nbytes)
        self._gpu.wait()
        self._plan = kernels.prepared(numbers)
        self.launches = self._plan.launches
        """How many kernels are launched."""
        self._all = [*self.addresses.values(), *map(allocate, self._plan.workspaces)]

    def __call__(self, stream: int = 0) -> None:
        """Launch, and do not wait."""
        self._plan(self._all, stream)

    def read(self, name: str, into: np.ndarray) -> None:
        """Copy an array back, after all that was launched is done."""
        self._gpu.wait()
        self._gpu.read(into.ctypes.data, self.addresses[name], into.nbytes)
