"""CuPy's arrays on a GPU: as a kernel takes them, and new ones for its results."""

import sys
from collections.abc import Callable
from typing import Any


def cupy_module() -> Any:
    """CuPy where the caller has imported it, else None: no array is one of its then."""
    return sys.modules.get("cupy")


def is_cupy(value: Any) -> bool:
    """Whether it is an array of CuPy's."""
    cupy = cupy_module()
    return cupy is not None and isinstance(value, cupy.ndarray)


class CupyArray:
    """An array of CuPy's with what is asked of tensors of other libraries."""

    __slots__ = ("array", "dtype", "shape")

    def __init__(self, array: Any) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def data_ptr(self) -> int:
        """Address of the first element."""
        return int(self.array.data.ptr)

    def numel(self) -> int:
        """How many elements there are."""
        return int(self.array.size)

    def is_contiguous(self) -> bool:
        """Whether the elements lie one after another, in row-major order."""
        return bool(self.array.flags.c_contiguous)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's number of the kind of device, and which one."""
        kind, ordinal = self.array.__dlpack_device__()
        return int(kind), int(ordinal)

    @property
    def device(self) -> str:
        """Where it is, for a message."""
        return f"GPU {self.array.device.id}"


def plain(value: Any, alignment: int) -> CupyArray:
    """An array, or a copy that is contiguous and lies at a multiple of ``alignment`` bytes."""
    with value.device:
        array = cupy_module().ascontiguousarray(value)
        return CupyArray(array.copy() if array.data.ptr % alignment else array)


def line(value: Any, count: int) -> Any:
    """So many elements from an array's first one on, one behind the other."""
    as_strided = cupy_module().lib.stride_tricks.as_strided
    with value.device:
        return as_strided(value, (count,), (value.itemsize,))


def new(shape: tuple[int, ...], dtype: Any, device: Any) -> CupyArray:
    """A new array."""
    with device:
        return CupyArray(cupy_module().empty(shape, dtype))


def stream(ordinal: int) -> int:
    """The driver's number of CuPy's current stream on a GPU."""
    cupy = cupy_module()
    with cupy.cuda.Device(ordinal):
        return int(cupy.cuda.get_current_stream().ptr)


def allocator(ordinal: int, taken: list[Any]) -> Callable[[int], int]:
    """What gives memory of CuPy's pool, which goes back with ``taken``, to the same stream."""
    cupy = cupy_module()

    def allocate(size: int) -> int:
        with cupy.cuda.Device(ordinal):
            taken.append(cupy.cuda.alloc(size))
        return int(taken[-1].ptr)

    return allocate
