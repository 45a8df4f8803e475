"""CuPy with arrays on a GPU, of which this process is the driver: there is none with a GPU."""

import contextlib
from types import SimpleNamespace

import numpy as np
from torch_on_gpu import on_gpu

STREAM = 55
"""What CuPy launches on."""


class CupyNdarray:
    """An array on the GPU, of which ``array`` shows the elements here."""

    def __init__(self, gpu, array, skip=0):
        self.gpu = gpu
        self.held, there = on_gpu(gpu, np.ascontiguousarray(array), skip)
        self._show(there)

    def _show(self, array):
        self.array, self.shape, self.dtype, self.size = array, array.shape, array.dtype, array.size
        self.nbytes = array.nbytes
        self.flags = array.flags
        self.data = SimpleNamespace(ptr=array.ctypes.data, device_id=0)
        self.device = CupyDevice(0)

    @property
    def T(self):
        turned = CupyNdarray(self.gpu, self.array)
        turned._show(turned.array.T)
        return turned

    def copy(self):
        return CupyNdarray(self.gpu, self.array)

    def __setitem__(self, place, value):
        self.array[place] = value.array

    def __dlpack_device__(self):
        return 10, 0


class CupyDevice(contextlib.nullcontext):
    def __init__(self, ordinal):
        super().__init__()
        self.id = ordinal


class Cupy(SimpleNamespace):
    """What a call asks of CuPy; ``made`` are new arrays, ``taken`` is its memory."""

    def __init__(self, gpu):
        super().__init__(ndarray=CupyNdarray, gpu=gpu, made=[], taken=[])
        self.cuda = SimpleNamespace(
            Device=CupyDevice,
            alloc=self._alloc,
            get_current_stream=lambda: SimpleNamespace(ptr=STREAM),
        )

    def _alloc(self, size):
        self.taken.append(size)
        return SimpleNamespace(ptr=self.gpu.allocate(size))

    def empty(self, shape, dtype):
        self.made.append(CupyNdarray(self.gpu, np.zeros(shape, dtype)))
        return self.made[-1]

    def ascontiguousarray(self, array):
        return array if array.flags.c_contiguous else array.copy()
