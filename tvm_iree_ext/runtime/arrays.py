"""Arrays of callers, as what a kernel takes: NumPy, PyTorch, and whatever speaks DLPack.

A kernel takes contiguous arrays of native byte order, aligned to their item size. An input that is
not so is copied; read-only memory is passed as it is, because a kernel never writes its inputs.
One for a GPU also takes arrays there, aligned to the widest access.
"""

import ctypes
import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm_ffi

from tvm_iree_ext.base.dtypes import INTEGERS, INTEGERS4, item_bytes, limits, numpy_dtype
from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.base.signature import Operand, shape_text
from tvm_iree_ext.runtime import cupy_arrays
from tvm_iree_ext.runtime.jax_arrays import as_jax, check_not_traced, is_jax
from tvm_iree_ext.runtime.torch_arrays import (
    address,
    check_no_gradient,
    check_plain,
    torch_module,
)

_CPU = 1  # kDLCPU
_GPU_ALIGNMENT = 16  # of an array on a GPU: its widest access
_JAX_ALIGNMENT = 64  # of memory that JAX takes without a copy
# What NumPy does not export goes as integers of its width; its DLDataType (code, bits, 1 lane) is
# put right.
_CODES = {
    "bfloat16": 4,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
}
_EXPORTED = {
    numpy_dtype(name): code | 8 * numpy_dtype(name).itemsize << 8 | 1 << 16
    for name, code in _CODES.items()
}
_HALF, _WRAP = 1 << 63, 1 << 64
_NO_DTYPE = np.dtype([("none", "V1")])  # equals no array's; None would equal float64
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

Shape = tuple[int, ...]
Allocator = Callable[[Sequence[Shape], Sequence["Port"]], tuple[list[Any], list[Any]]]


NUMBERS = (bool, int, float, complex)
"""Python's own, which stand for a tensor of rank 0."""


class _BorrowedMemory:
    """Memory of an ``owner``, which NumPy takes for a writable array of unsigned integers."""

    def __init__(
        self, owner: Any, address: int, shape: Shape, strides: Shape | None, item: int
    ) -> None:
        word = f"u{item}" if item <= 8 else f"V{item}"
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": shape,
            "strides": strides,
            "typestr": f"{'<' if sys.byteorder == 'little' else '>'}{word}",
        }


class Port:
    """One operand of a kernel: turns what a caller brings for it into what the kernel takes.

    ``gpu`` is DLPack's number of the kind of device, of a kernel that takes arrays there, too.
    """

    def __init__(self, op: str, operand: Operand, gpu: int | None = None) -> None:
        self.gpu = gpu
        self.operand = operand.name
        self.name = f"{op}: {operand.name}"  # as messages begin
        self.dtype = operand.dtype
        self.item = item_bytes(operand.dtype)
        self.numpy = numpy_dtype(operand.dtype)
        self.words = operand.words
        self.passed_item = self.item // 2 if operand.words == "uint64x2" else self.item
        whole = operand.dtype in (*INTEGERS, *INTEGERS4) and operand.dtype != "bool"
        self._limits = limits(operand.dtype) if whole else None
        self.is_scalar = operand.role == "scalar"
        self.has_one_element = not self.is_scalar and operand.shape == ()
        # What can be passed as it is: NumPy arrays that can be exported, and Python floats.
        self.is_exported = not (self.is_scalar or self.words or self.numpy in _EXPORTED)
        self.plain_array = self.numpy if self.is_exported else _NO_DTYPE
        is_float = operand.dtype.startswith("float") and not self.words
        self.plain_number = float if self.is_scalar and is_float else None

    def take(self, value: Any) -> tuple[Shape | None, Any]:
        """The shape of an input (None for a scalar), and what the kernel takes for it.

        Raises:
            CallError: for something that is no array, or of another dtype, byte order or device.
        """
        if self.is_scalar:
            number = self.number(value)
            if self.words:
                number = word_of(number, self.numpy, self.words)
            # Integers are passed as int64, whose bits a kernel takes for those of uint64.
            return None, number - _WRAP if isinstance(number, int) and number >= _HALF else number
        if isinstance(value, np.generic):  # as NumPy gives for an element
            value = np.asarray(value)
        elif self.has_one_element and type(value) in NUMBERS:
            value = np.array(self.number(value), self.numpy)
        if isinstance(value, np.ndarray):
            self.check_numpy(value)
            if not (value.flags.c_contiguous and self._is_aligned(value)):
                value = np.array(value, order="C")
            return value.shape, self.tensor(value)
        torch = torch_module()
        if torch is not None and isinstance(value, torch.Tensor):
            tensor = self._from_torch(value, torch)
            return tuple(value.shape), self.in_words(tensor, value)
        if cupy_arrays.is_cupy(value):
            self.check_cupy(value)
            plain = cupy_arrays.plain(value, _GPU_ALIGNMENT)
            return value.shape, self.in_words(plain, value)
        if self.numpy.kind == "c":  # which TVM does not know
            return self.take(self.read_dlpack(value, np.from_dlpack))
        tensor = self._from_dlpack(value)
        shape, alignment = tensor.shape, self._alignment(tensor)
        if tensor.is_contiguous() and tensor.data_ptr() % alignment == 0:
            return shape, self.in_words(tensor, value)
        if tensor.__dlpack_device__()[0] != _CPU:
            raise CallError(
                f"{self.name} is on {tensor.device}; expected it contiguous there, at a multiple"
                f" of {alignment} bytes"
            )
        strides = tuple(self.item * stride for stride in tensor.strides)
        memory = _BorrowedMemory(tensor, tensor.data_ptr(), shape, strides, self.item)
        return shape, self.tensor(np.array(memory, order="C").view(self.numpy))

    def tensor(self, array: np.ndarray) -> Any:
        """What the kernel takes for a NumPy array of the operand's type: of words, where it has."""
        if not self.words:
            return as_tensor(array)
        return as_tensor(words_in(array, self.words))

    def in_words(self, tensor: Any, owner: Any) -> Any:
        """A contiguous tensor of another library, or one of words over its memory."""
        if not self.words:
            return tensor
        device = owner.__dlpack_device__()
        where = None if device[0] == _CPU else (int(device[0]), int(device[1]))
        shape = tuple(tensor.shape)
        memory = _BorrowedMemory(tensor, tensor.data_ptr(), shape, None, self.item)
        words = words_in(np.asarray(memory), self.words)
        return as_tensor(words) if where is None else _exported(words, words.dtype, where)

    def _is_aligned(self, array: np.ndarray) -> bool:
        """Whether a kernel reads it as it lies: NumPy aligns a complex number as its parts."""
        is_numpys = bool(array.flags.aligned)
        return is_numpys and not (self.words and array.ctypes.data % self.passed_item)

    def _alignment(self, tensor: Any) -> int:
        return self.passed_item if tensor.__dlpack_device__()[0] == _CPU else _GPU_ALIGNMENT

    def take_out(self, value: Any) -> tuple[Shape, Any]:
        """The shape of an array that the caller wants filled, and what the kernel takes for it.

        Raises:
            CallError: for one that the kernel cannot write in place.
        """
        torch, alignment = torch_module(), self.passed_item
        if isinstance(value, np.ndarray):
            self.check_numpy(value)
            if not value.flags.writeable:
                raise CallError(f"{self.name} is read-only; expected an array to be written")
            contiguous, aligned = value.flags.c_contiguous, self._is_aligned(value)
            tensor = self.tensor(value) if contiguous and aligned else None
        elif torch is not None and isinstance(value, torch.Tensor):
            self.check_torch(value, torch)
            contiguous = value.is_contiguous() and not (value.is_neg() or value.is_conj())
            alignment = self.passed_item if value.is_cpu else _GPU_ALIGNMENT
            aligned = address(self.name, value, torch) % alignment == 0
            tensor = value.detach() if value.requires_grad else value
            tensor = self.in_words(tensor, value) if contiguous else None
        elif isinstance(value, tvm_ffi.Tensor) or cupy_arrays.is_cupy(value):
            if isinstance(value, tvm_ffi.Tensor):
                tensor = self._from_dlpack(value)
            else:
                self.check_cupy(value)
                tensor = cupy_arrays.CupyArray(value)
            alignment = self._alignment(tensor)
            contiguous, aligned = tensor.is_contiguous(), tensor.data_ptr() % alignment == 0
            tensor = self.in_words(tensor, value) if contiguous else None
        else:
            raise CallError(
                f"{self.name} is a {type(value).__name__}; expected a NumPy array, PyTorch tensor,"
                " CuPy array or TVM tensor: others may not be written to"
            )
        if not contiguous:
            raise CallError(f"{self.name} is not contiguous; expected row-major order")
        if not aligned:
            raise CallError(f"{self.name} is misaligned; expected a multiple of {alignment} bytes")
        return tuple(value.shape), tensor

    @property
    def _wanted(self) -> str:
        """Devices on which arrays are expected, for a message."""
        if self.gpu is None:
            return "this kernel runs on the CPU"
        return "this kernel takes arrays of the CPU and of the GPU that it is for"

    def number(self, value: Any) -> complex | bool:
        """A number for an operand that is one; CallError for what is none, or not of its type."""
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if isinstance(value, np.generic) and value.dtype == self.numpy:
            value = value.item()  # those of ml_dtypes are no numbers of NumPy's
        accepted: Any
        if self.numpy.kind == "b":
            accepted = (bool, np.bool_)
        elif self._limits is not None:
            accepted = (int, np.integer)
        elif self.numpy.kind == "c":
            accepted = (int, float, complex, np.integer, np.inexact)
        else:
            accepted = (int, float, np.integer, np.floating)
        if not isinstance(value, accepted) or (isinstance(value, bool) and self.numpy.kind != "b"):
            raise CallError(
                f"{self.name} is {value!r}, a {type(value).__name__};"
                f" expected a number for {self.dtype}"
            )
        if self.numpy.kind == "b":
            return bool(value)
        if self.numpy.kind == "c":
            return complex(value)
        if self._limits is None:
            return float(value)
        least, most = self._limits
        if not least <= value <= most:
            raise CallError(f"{self.name} is {value}; {self.dtype} holds {least}..{most}")
        return int(value)

    def check_numpy(self, array: np.ndarray) -> None:
        """Raise CallError for another dtype or byte order, and for a masked array."""
        if array.dtype != self.numpy:
            if array.dtype.newbyteorder("=") == self.numpy:
                raise CallError(
                    f"{self.name} is {self.dtype} in foreign byte order;"
                    f" expected {sys.byteorder}-endian"
                )
            raise CallError(f"{self.name} is {array.dtype}; expected {self.dtype}")
        if isinstance(array, np.ma.MaskedArray):
            raise CallError(f"{self.name} is a masked array; the kernel would ignore the mask")

    def check_shape(self, came: Shape, expected: Sequence[int | None]) -> None:
        """Raise CallError for an array of another shape; None is an extent that may be any."""
        fits = len(came) == len(expected)
        if fits and all(e in (None, c) for c, e in zip(came, expected, strict=True)):
            return
        wanted = shape_text(tuple("?" if one is None else one for one in expected))
        raise CallError(f"{self.name} has shape {shape_text(came)}; expected {wanted}")

    def check_torch(self, array: Any, torch: Any) -> None:
        """Raise CallError for another dtype, device or layout, and for what would be ignored."""
        if array.dtype is not getattr(torch, self.dtype, None):
            came = str(array.dtype).removeprefix("torch.")
            raise CallError(f"{self.name} is {came}; expected {self.dtype}")
        if str(array.device) == "meta" and type(array) is torch.Tensor:
            raise CallError(f"{self.name} is on meta, where tensors have no elements in memory")
        if not array.is_cpu and not (self.gpu and array.is_cuda):
            raise CallError(f"{self.name} is on {array.device}; {self._wanted}")
        if array.layout is not torch.strided:
            raise CallError(f"{self.name} is {array.layout}; expected a dense tensor")
        check_plain(self.name, array, torch)
        check_no_gradient(self.name, array, torch)

    def check_cupy(self, array: Any) -> None:
        """Raise CallError for another dtype or device."""
        if array.__dlpack_device__()[0] != self.gpu:
            raise CallError(f"{self.name} is on GPU {array.device.id}, CuPy's; {self._wanted}")
        if array.dtype != self.numpy:
            raise CallError(f"{self.name} is {array.dtype}; expected {self.dtype}")

    def _from_torch(self, array: Any, torch: Any) -> Any:
        self.check_torch(array, torch)
        if array.requires_grad:
            array = array.detach()
        if not array.is_contiguous() or array.is_neg() or array.is_conj():
            array = array.resolve_conj().resolve_neg().contiguous()
        alignment = self.passed_item if array.is_cpu else _GPU_ALIGNMENT
        return array.clone() if address(self.name, array, torch) % alignment else array

    def read_dlpack(self, value: Any, read: Callable[[Any], Any]) -> Any:
        """Read an array of any library with ``read``; CallError where that fails."""
        check_not_traced(self.name, value)
        if not hasattr(value, "__dlpack__"):
            raise CallError(
                f"{self.name} is a {type(value).__name__};"
                " expected an array: NumPy, PyTorch, or with DLPack"
            )
        try:
            return read(value)
        except (BufferError, TypeError, ValueError, RuntimeError) as error:  # libraries differ
            raise CallError(f"{self.name} cannot be read by DLPack: {error}") from error

    def _from_dlpack(self, value: Any) -> Any:
        tensor, dtype = self.read_dlpack(value, _read)
        if tensor.__dlpack_device__()[0] not in (_CPU, self.gpu):
            raise CallError(f"{self.name} is on {tensor.device}; {self._wanted}")
        if dtype != self.dtype:
            raise CallError(f"{self.name} is {dtype}; expected {self.dtype}")
        if not tensor.data_ptr() and tensor.numel():
            raise CallError(f"{self.name} has no elements in memory")
        return tensor


def _read(value: Any) -> tuple[Any, str]:
    tensor = tvm_ffi.from_dlpack(value)
    try:
        return tensor, str(tensor.dtype)
    except ValueError:  # complex numbers
        return tensor, "of a type that TVM does not know"


def allocator(like: Any) -> Allocator:
    """The allocator of results for a call whose first array is ``like``.

    NumPy for NumPy and for no array at all, PyTorch for PyTorch, CuPy for CuPy, else tensors of
    TVM, which any library takes by DLPack.
    """
    torch = torch_module()
    if _is_numpys(like):
        return numpy_results
    if torch is not None and isinstance(like, torch.Tensor):
        # Named, because what PyTorch takes without is a setting.
        return functools.partial(_torch_results, device=like.device)
    if cupy_arrays.is_cupy(like):
        return functools.partial(_cupy_results, device=like.device)
    return _aligned_results if is_jax(like) else dlpack_results


def _is_numpys(like: Any) -> bool:
    """Whether NumPy's arrays go with what came: nothing, its own, or a number of Python's."""
    return like is None or isinstance(like, np.ndarray | np.generic) or type(like) in NUMBERS


def filled(like: Any, shape: Shape, port: "Port", number: Any) -> Any:
    """A new array of one number: a tensor where ``like`` is PyTorch's, else NumPy's."""
    number = float(number) if isinstance(number, str) else number
    torch = torch_module()
    if torch is not None and isinstance(like, torch.Tensor):
        return torch.full(shape, number, dtype=getattr(torch, port.dtype), device=like.device)
    return np.full(shape, number, port.numpy)


def numpy_results(shapes: Sequence[Shape], ports: Sequence[Port]) -> tuple[list[Any], list[Any]]:
    """New NumPy arrays, and what the kernel takes for them."""
    arrays = [np.empty(shape, port.numpy) for shape, port in zip(shapes, ports, strict=True)]
    tensors = [
        array if port.plain_array == port.numpy else port.tensor(array)
        for array, port in zip(arrays, ports, strict=True)
    ]
    return arrays, tensors


def _torch_results(
    shapes: Sequence[Shape], ports: Sequence[Port], device: Any
) -> tuple[list[Any], list[Any]]:
    torch = torch_module()
    arrays = []
    for shape, port in zip(shapes, ports, strict=True):
        array = torch.empty(shape, dtype=getattr(torch, port.dtype), device=device)
        check_plain(port.name, array, torch)  # it is a FakeTensor where a program is only traced
        arrays.append(array)
    return arrays, [port.in_words(one, one) for port, one in zip(ports, arrays, strict=True)]


def _cupy_results(
    shapes: Sequence[Shape], ports: Sequence[Port], device: Any
) -> tuple[list[Any], list[Any]]:
    tensors = [
        cupy_arrays.new(shape, port.numpy, device)
        for shape, port in zip(shapes, ports, strict=True)
    ]
    return [tensor.array for tensor in tensors], tensors


def dlpack_results(shapes: Sequence[Shape], ports: Sequence[Port]) -> tuple[list[Any], list[Any]]:
    """New tensors of TVM's in memory of the CPU."""
    arrays = [np.empty(shape, port.numpy) for shape, port in zip(shapes, ports, strict=True)]
    return _as_both(arrays, ports)


def _as_both(arrays: Sequence[np.ndarray], ports: Sequence[Port]) -> tuple[list[Any], list[Any]]:
    """Tensors over arrays, as results and as a kernel takes them."""
    tensors = [as_tensor(array) for array in arrays]
    passed = [
        port.tensor(array) if port.words else tensor
        for port, array, tensor in zip(ports, arrays, tensors, strict=True)
    ]
    return tensors, passed


def _aligned_results(shapes: Sequence[Shape], ports: Sequence[Port]) -> tuple[list[Any], list[Any]]:
    """New tensors of TVM's that JAX takes as they lie; it copies others, in ten times the time."""
    arrays = []
    for shape, port in zip(shapes, ports, strict=True):
        size = math.prod(shape) * port.item
        memory = np.empty(size + _JAX_ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % _JAX_ALIGNMENT
        arrays.append(memory[start : start + size].view(port.numpy).reshape(shape))
    return _as_both(arrays, ports)


def converted(tensors: Sequence[Any], ports: Sequence[Port], like: Any) -> list[Any]:
    """New tensors as arrays of the kind of ``like``, in the same memory; see :func:`allocator`."""
    torch = torch_module()
    if _is_numpys(like):
        return [as_numpy(tensor, port) for tensor, port in zip(tensors, ports, strict=True)]
    if torch is not None and isinstance(like, torch.Tensor):
        return [torch.from_dlpack(tensor) for tensor in tensors]
    return returned(tensors, like)


def returned(results: Sequence[Any], like: Any) -> list[Any]:
    """Results that an allocator made, as a caller gets them: JAX's arrays only once written."""
    return [as_jax(one) for one in results] if is_jax(like) else list(results)


def as_numpy(tensor: Any, port: Port) -> np.ndarray:
    """A tensor as an array over the same memory."""
    if port.numpy.kind in "iuf":
        array = np.from_dlpack(tensor)
        if array.flags.writeable:  # not so in all versions of NumPy
            return array
    strides = tuple(port.item * stride for stride in tensor.strides)
    memory = _BorrowedMemory(tensor, tensor.data_ptr(), tensor.shape, strides, port.item)
    return np.asarray(memory).view(port.numpy)


def word_of(number: Any, dtype: np.dtype, words: str) -> int:
    """The word of a number that is passed by value."""
    return int(np.array(number).astype(dtype).view(words))


def words_in(array: np.ndarray, words: str) -> np.ndarray:
    """The words of a contiguous array's elements; see :class:`~.signature.Operand`."""
    word, _, several = words.partition("x")
    if not several:
        return array.view(word)
    return array.reshape(*array.shape, 1).view(word)


def empty_tensor(shape: Shape, port: Port) -> Any:
    """An array without elements with the strides that TVM asks for; NumPy's are all 0."""
    word, _, several = port.words.partition("x")
    if several:
        shape = (*shape, int(several))
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    kind = np.dtype(word or port.numpy)
    memory = np.zeros(1, kind)
    steps = [kind.itemsize * stride for stride in strides]
    return as_tensor(np.lib.stride_tricks.as_strided(memory, shape, steps))


def as_tensor(array: np.ndarray) -> Any:
    """A DLPack tensor over the memory of a NumPy array, of any type, read-only or not."""
    dtype = array.dtype
    if not array.flags.writeable:  # which NumPy does not export
        address = array.__array_interface__["data"][0]
        memory = _BorrowedMemory(array, address, array.shape, array.strides, array.itemsize)
        array = np.asarray(memory)
        if dtype not in _EXPORTED:
            array = array.view(dtype)
    elif dtype in _EXPORTED:
        array = array.view(f"u{dtype.itemsize}")
    if dtype not in _EXPORTED:
        return tvm_ffi.from_dlpack(array)
    return _exported(array, dtype, None)


def gpu_tensor(
    owner: Any, address: int, shape: Shape, dtype: np.dtype, device: tuple[int, int]
) -> Any:
    """A DLPack tensor over memory of a GPU, which the ``owner`` holds; ``device`` is DLPack's."""
    strides = tuple(dtype.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    array = np.asarray(_BorrowedMemory(owner, address, shape, strides, dtype.itemsize))
    return _exported(array if dtype in _EXPORTED else array.view(dtype), dtype, device)


def _exported(array: np.ndarray, dtype: np.dtype, device: tuple[int, int] | None) -> Any:
    """A tensor over an array's memory, of another type or device than the array says."""
    capsule = array.__dlpack__()
    # The capsule points to a DLTensor: data and device (8 bytes each), ndim (4), dtype.
    address = _capsule_pointer(capsule, b"dltensor")
    if dtype in _EXPORTED:
        ctypes.c_uint32.from_address(address + 20).value = _EXPORTED[dtype]
    if device is not None:
        (ctypes.c_int32 * 2).from_address(address + 8)[:] = list(device)
    return tvm_ffi.from_dlpack(capsule)


def copy(source: Any, target: Any, item: int) -> None:
    """Copy all elements of an array of the CPU, which may be the target, as a port took both."""
    start, end = span(target, item)
    ctypes.memmove(start, span(source, item)[0], end - start)


def copied(value: Any, port: Port) -> Any:
    """A tensor of new memory with the elements of an array of the CPU, as a port took it."""
    tensor = tvm_ffi.from_dlpack(value) if isinstance(value, np.ndarray) else value
    made = as_tensor(np.empty(tuple(tensor.shape), port.numpy))
    copy(tensor, made, port.item)
    return made


def span(array: Any, item: int) -> tuple[int, int]:
    """The address of the first byte of a contiguous array, and of the first one behind it."""
    tensor = tvm_ffi.from_dlpack(array) if isinstance(array, np.ndarray) else array
    start = tensor.data_ptr()
    return start, start + tensor.numel() * item
