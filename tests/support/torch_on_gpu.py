"""PyTorch with tensors on a GPU, of which this process is the driver: there is none with a GPU."""

import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import tvm_ffi

STREAM = 77
"""What PyTorch launches on."""


def on_gpu(device, array, skip=0):
    """A tensor over memory of the GPU, which here is this process's, too."""
    address = device.allocate(array.nbytes + skip) + skip
    place = (ctypes.c_char * array.nbytes).from_address(address)
    there = np.frombuffer(place, array.dtype).reshape(array.shape)
    there[...] = array
    capsule = there.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + 8).value = 10  # kDLROCM
    return tvm_ffi.from_dlpack(capsule), there


def stored_at(tensor):
    """The elements of a tensor over memory of the GPU."""
    count = tensor.numel() * tensor.dtype.itemsize
    memory = (ctypes.c_char * count).from_address(tensor.data_ptr())
    return np.frombuffer(memory, str(tensor.dtype)).reshape(tensor.shape)


class Torch(SimpleNamespace):
    """What a call asks of PyTorch, with tensors on the GPU alone; ``made`` are new ones."""

    def __init__(self, device):
        stream = SimpleNamespace(cuda_stream=STREAM)
        super().__init__(
            Tensor=TorchTensor, strided="strided", float32="float32", uint8="uint8", int64="int64",
            nn=SimpleNamespace(Parameter=TorchParameter),
            is_grad_enabled=lambda: self.grad, gpu=device, made=[], grad=True,
            cuda=SimpleNamespace(current_stream=lambda ordinal: stream),
            autograd=SimpleNamespace(forward_ad=SimpleNamespace(_current_level=-1)),
        )  # fmt: skip

    def empty(self, shape, dtype, device):
        assert str(device) == "cuda:0"
        self.made.append(TorchTensor(self.gpu, np.zeros(shape, dtype)))
        return self.made[-1]

    def empty_strided(self, shape, strides, dtype, device):
        made = self.empty(shape, dtype, device)
        assert tuple(one // made.array.itemsize for one in made.array.strides) == strides
        return made


class TorchDevice:
    index = 0

    def __str__(self):
        return "cuda:0"


class TorchTensor:
    """An array on the GPU, ``skip`` bytes behind where an array may lie."""

    is_cpu, is_cuda, layout, requires_grad = False, True, "strided", False
    is_nested = False
    device = TorchDevice()

    def __init__(self, gpu, array, skip=0):
        self.gpu = gpu
        self.held, self.array = on_gpu(gpu, array, skip)
        self.shape, self.dtype = array.shape, sys.intern(str(array.dtype))

    def is_contiguous(self):
        return True

    def is_neg(self):
        return False

    def is_conj(self):
        return False

    def data_ptr(self):
        return self.held.data_ptr()

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    @property
    def nbytes(self):
        return self.array.nbytes

    def clone(self):
        return TorchTensor(self.gpu, self.array)

    def detach(self):
        return self


class TorchParameter(TorchTensor):
    """One of a model."""

    requires_grad = True
    __torch_dispatch__ = TorchTensor.__torch_dispatch__ = None
