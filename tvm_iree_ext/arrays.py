"""Arrays of callers, as what a kernel takes: NumPy, PyTorch, and whatever speaks DLPack.

A kernel takes contiguous arrays of native byte order, aligned to their item size. An input that is
not so is copied; read-only memory is passed as it is, because a kernel never writes its inputs.
"""

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm_ffi

from tvm_iree_ext.dtypes import item_bytes, numpy_dtype
from tvm_iree_ext.errors import CallError
from tvm_iree_ext.signature import Operand

_CPU = 1  # kDLCPU
_BFLOAT16 = 4 | 16 << 8 | 1 << 16  # DLDataType: code kDLBfloat, 16 bits, 1 lane
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

Shape = tuple[int, ...]


class _Memory:
    """Memory of an ``owner``, which NumPy takes for a writable array of these unsigned integers."""

    def __init__(self, owner: Any, address: int, shape: Shape, strides: Shape | None, item: int):
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": shape,
            "strides": strides,
            "typestr": f"{'<' if sys.byteorder == 'little' else '>'}u{item}",
        }


def torch_module() -> Any:
    """PyTorch where the caller has imported it, else None: no array is a tensor of it then."""
    return sys.modules.get("torch")


def take_input(op: str, operand: Operand, value: Any) -> tuple[Shape, Any]:
    """The shape of ``value``, and ``value`` as a kernel takes it, copied if it must be.

    Raises:
        CallError: for something that is no array, or of another dtype, byte order or device.
    """
    torch = torch_module()
    if isinstance(value, np.ndarray):
        return value.shape, _numpy_input(op, operand, value)
    if torch is not None and isinstance(value, torch.Tensor):
        return tuple(value.shape), _torch_input(op, operand, value, torch)
    tensor = _from_dlpack(op, operand, value)
    return tensor.shape, _dlpack_input(operand, tensor)


def take_output(op: str, operand: Operand, value: Any) -> tuple[Shape, Any]:
    """The shape of an array of the caller's to be written, and what a kernel takes for it.

    Raises:
        CallError: for one that a kernel cannot write in place.
    """
    torch = torch_module()
    name = f"{op}: out for {operand.name}"
    if isinstance(value, np.ndarray):
        _check_numpy(op, operand, value)
        flags = value.flags
        tensor = as_tensor(value) if flags.carray else None
        refusals = {"read-only": not flags.writeable, "misaligned": not flags.aligned}
        contiguous = flags.c_contiguous
    elif torch is not None and isinstance(value, torch.Tensor):
        _check_torch(op, operand, value, torch)
        contiguous = value.is_contiguous() and not value.is_neg()
        tensor = tvm_ffi.from_dlpack(value.detach()) if contiguous else None
        refusals = {}
    elif isinstance(value, tvm_ffi.Tensor):
        tensor = _from_dlpack(op, operand, value)
        contiguous, refusals = tensor.is_contiguous(), {}
    else:
        raise CallError(
            f"{name} is a {type(value).__name__}; expected a NumPy array, PyTorch tensor or TVM"
            " tensor: others may not be written to"
        )
    for refusal, holds in refusals.items():
        if holds:
            raise CallError(f"{name} is {refusal}; expected an array that can be written in place")
    if tensor is None or not contiguous:
        raise CallError(f"{name} is not contiguous; expected an array in row-major order")
    if tensor.data_ptr() % item_bytes(operand.dtype):
        raise CallError(f"{name} is misaligned; expected an array that can be written in place")
    return tensor.shape, tensor


def span(value: Any) -> tuple[int, int]:
    """The addresses of the first byte of a contiguous array, and of the first one behind it."""
    if isinstance(value, np.ndarray):
        start = value.__array_interface__["data"][0]
        return start, start + value.nbytes
    start = value.data_ptr()
    return start, start + value.numel() * item_bytes(str(value.dtype).removeprefix("torch."))


def take_scalar(op: str, operand: Operand, value: Any) -> int | float | bool:
    """``value`` as a number of the operand's dtype.

    Raises:
        CallError: for what is not a number, a fraction for an integer, or one out of range.
    """
    kind = numpy_dtype(operand.dtype)
    accepted: tuple[type, ...]
    if operand.dtype == "bool":
        accepted = (bool, np.bool_)
    elif kind.kind in "iu":
        accepted = (int, np.integer)
    else:
        accepted = (int, float, np.integer, np.floating)
    if not isinstance(value, accepted) or (isinstance(value, bool) and operand.dtype != "bool"):
        raise CallError(
            f"{op}: {operand.name} is {value!r}, a {type(value).__name__};"
            f" expected a number for {operand.dtype}"
        )
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        if not limits.min <= value <= limits.max:
            raise CallError(
                f"{op}: {operand.name} is {value}; {operand.dtype} holds {limits.min}..{limits.max}"
            )
        return int(value)
    return bool(value) if operand.dtype == "bool" else float(value)


Allocator = Callable[[Shape, str], tuple[Any, Any]]


def allocator(like: Any) -> Allocator:
    """A function from shape and dtype to a new array of the kind of ``like``, and its tensor.

    NumPy for NumPy and for no array at all, PyTorch for PyTorch, else a tensor of TVM, which any
    library takes by DLPack.
    """
    torch = torch_module()
    if like is None or isinstance(like, np.ndarray):
        return numpy_result
    if torch is not None and isinstance(like, torch.Tensor):
        return _torch_result
    return _dlpack_result


def numpy_result(shape: Shape, dtype: str) -> tuple[Any, Any]:
    """A new NumPy array, and what a kernel takes for it."""
    array = np.empty(shape, numpy_dtype(dtype))
    return array, array if dtype != "bfloat16" else as_tensor(array)


def _torch_result(shape: Shape, dtype: str) -> tuple[Any, Any]:
    torch = torch_module()
    array = torch.empty(shape, dtype=getattr(torch, dtype))
    return array, array


def _dlpack_result(shape: Shape, dtype: str) -> tuple[Any, Any]:
    tensor = as_tensor(np.empty(shape, numpy_dtype(dtype)))
    return tensor, tensor


def as_tensor(array: np.ndarray) -> Any:
    """A DLPack tensor over the memory of a NumPy array, read-only and bfloat16 ones included."""
    if array.dtype.name == "bfloat16":
        array = array.view(np.uint16)
        dtype = _BFLOAT16
    else:
        dtype = 0
    if not array.flags.writeable:  # which NumPy does not export
        address = array.__array_interface__["data"][0]
        memory = _Memory(array, address, array.shape, array.strides, array.itemsize)
        array = np.asarray(memory).view(array.dtype)
    if not dtype:
        return tvm_ffi.from_dlpack(array)
    capsule = array.__dlpack__()
    # The capsule's DLTensor: data, device (8 bytes each), ndim (4), dtype.
    address = _capsule_pointer(capsule, b"dltensor")
    ctypes.c_uint32.from_address(address + 20).value = dtype
    return tvm_ffi.from_dlpack(capsule)


def _numpy_input(op: str, operand: Operand, array: np.ndarray) -> Any:
    _check_numpy(op, operand, array)
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        array = np.array(array, order="C", copy=True, subok=False)
    return array if array.flags.writeable and operand.dtype != "bfloat16" else as_tensor(array)


def _check_numpy(op: str, operand: Operand, array: np.ndarray) -> None:
    if array.dtype == numpy_dtype(operand.dtype):
        if isinstance(array, np.ma.MaskedArray):
            raise CallError(f"{op}: {operand.name} is a masked array; its mask would be ignored")
        return
    if array.dtype.newbyteorder() == numpy_dtype(operand.dtype):
        raise CallError(
            f"{op}: {operand.name} is {operand.dtype} in foreign byte order;"
            f" expected {sys.byteorder}-endian"
        )
    raise CallError(f"{op}: {operand.name} is {array.dtype}; expected {operand.dtype}")


def _torch_input(op: str, operand: Operand, array: Any, torch: Any) -> Any:
    _check_torch(op, operand, array, torch)
    array = array.detach()
    if array.is_contiguous() and not array.is_neg():
        if array.data_ptr() % item_bytes(operand.dtype) == 0:
            return array
        return array.clone()
    return array.resolve_neg().contiguous()


def _check_torch(op: str, operand: Operand, array: Any, torch: Any) -> None:
    if array.dtype is not getattr(torch, operand.dtype, None):
        came = str(array.dtype).removeprefix("torch.")
        raise CallError(f"{op}: {operand.name} is {came}; expected {operand.dtype}")
    if array.device.type != "cpu":
        raise CallError(f"{op}: {operand.name} is on {array.device}; this kernel runs on the CPU")
    if array.layout is not torch.strided:
        raise CallError(f"{op}: {operand.name} is {array.layout}; expected a dense tensor")
    if array.requires_grad and torch.is_grad_enabled():
        raise CallError(
            f"{op}: {operand.name} requires grad, and a kernel has no backward pass;"
            " detach() it, or call under torch.no_grad()"
        )


def _from_dlpack(op: str, operand: Operand, value: Any) -> Any:
    name = f"{op}: {operand.name}"
    if not hasattr(value, "__dlpack__"):
        raise CallError(
            f"{name} is a {type(value).__name__}; expected an array: NumPy, PyTorch, or with DLPack"
        )
    try:
        tensor = tvm_ffi.from_dlpack(value)
    except (BufferError, TypeError, ValueError, RuntimeError) as error:  # as its library likes
        raise CallError(f"{name} cannot be read by DLPack: {error}") from error
    if tensor.__dlpack_device__()[0] != _CPU:
        raise CallError(f"{name} is on {tensor.device}; this kernel runs on the CPU")
    if str(tensor.dtype) != operand.dtype:
        raise CallError(f"{name} is {tensor.dtype}; expected {operand.dtype}")
    return tensor


def _dlpack_input(operand: Operand, tensor: Any) -> Any:
    item = item_bytes(operand.dtype)
    if tensor.is_contiguous() and tensor.data_ptr() % item == 0:
        return tensor
    strides = tuple(item * stride for stride in tensor.strides)
    memory = _Memory(tensor, tensor.data_ptr(), tensor.shape, strides, item)
    return as_tensor(np.array(memory, order="C").view(numpy_dtype(operand.dtype)))
