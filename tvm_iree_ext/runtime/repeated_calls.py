"""Calls with arrays on the GPU that are like earlier ones: launched with no more ado.

All that a call is checked for follows from its arrays' shapes, types and devices, but for what is
asked here anew: where they lie, whether they are contiguous, what autograd would want of them.
So a call like one that went through costs the host little more than its launches.
"""

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from tvm_iree_ext.runtime import cupy_arrays
from tvm_iree_ext.runtime.launch.driver import DriverError, Gpu
from tvm_iree_ext.runtime.launch_graph import Launches
from tvm_iree_ext.runtime.torch_arrays import torch_module

_KEPT = 64  # kinds of calls
_LINE = 16  # bytes: how arrays on a GPU are aligned, as other calls are checked for
_NUMBERS = (float, int, bool)

Key = tuple[Any, ...]


class _ArrayLibrary(NamedTuple):
    """What is asked of PyTorch or CuPy in each call."""

    kind: Any
    """Of an array."""
    key: Callable[[Sequence[Any], Sequence[Any], list[int]], Key | None]
    address: Callable[[Any], int]
    stream: Callable[[int], int]
    names_devices: bool
    """Whether new arrays are made where it is said, and not on the thread's GPU."""


class _RepeatedCall(NamedTuple):
    """A call with arrays of which only the addresses are new."""

    gpu: Gpu
    launches: Launches
    made: Sequence[Callable[[], Any]]
    """What makes each new result."""
    sizes: Sequence[int]
    """Bytes of all arrays, where results are not new."""
    memory: Callable[[], Any]
    """Gives an array of the bytes that the launches take."""


class RepeatedCalls:
    """The calls of a function that went through once; anything else is None and begins nothing.

    Args:
        refused: what to raise for an error of the driver's.
    """

    def __init__(self, refused: Callable[[DriverError], Exception]) -> None:
        self._refused = refused
        self._libraries: list[_ArrayLibrary] = []  # that such a call had arrays of
        self._known: dict[Key, _RepeatedCall] = {}

    def again(self, arguments: tuple[Any, ...], out: Any) -> Any:
        """The results, of a call that is like an earlier one; else None.

        Raises:
            Exception: what ``refused`` makes of an error of the driver's.
        """
        out = () if out is None else out if type(out) is tuple else (out,)
        for library in self._libraries:
            addresses: list[int] = []
            key = library.key(arguments, out, addresses)
            if key is not None and (known := self._known.get(key)) is not None:
                try:
                    return _called(library, known, addresses, out)
                except DriverError as error:
                    raise self._refused(error) from error
        return None

    def remember(
        self, name: str, arguments: Sequence[Any], results: Sequence[Any], is_out: bool
    ) -> Callable[[Gpu, Launches], None] | None:
        """What is told of the launches of a call that went through, to know it from now on.

        None for one of which more must be asked each time.

        Args:
            name: of the library that the arrays on the GPU are of, ``torch`` or ``cupy``.
            arguments: that came for the operands which are not results.
            results: that were returned.
            is_out: whether these were the caller's.
        """
        out = results if is_out else ()
        library = _torch() if name == "torch" else _cupy()
        if (key := library.key(arguments, out, [])) is None:
            return None
        if library.kind not in [one.kind for one in self._libraries]:
            self._libraries.append(library)
        arrays = [one for one in (*arguments, *out) if type(one) not in _NUMBERS]
        return functools.partial(self._remember, key, () if is_out else results, arrays)

    def _remember(
        self, key: Key, made: Sequence[Any], arrays: Sequence[Any], gpu: Gpu, launches: Launches
    ) -> None:
        if len(self._known) >= _KEPT:
            self._known.clear()
        memory = _bytes_like(arrays[0], launches.bytes) if launches.bytes else lambda: None
        sizes = [] if made else [int(one.nbytes) for one in arrays]
        makers = [_maker(one) for one in made]
        self._known[key] = _RepeatedCall(gpu, launches, makers, sizes, memory)

    def forget(self) -> None:
        """Know no calls any more."""
        self._known.clear()


def _called(
    library: _ArrayLibrary, known: _RepeatedCall, addresses: list[int], out: tuple[Any, ...]
) -> Any:
    """The results of a call, or None where it is another after all; then nothing has begun."""
    kind, _, address, stream, names_devices = library
    gpu, launches, made, sizes, memory = known
    is_current = gpu.is_current()
    if not (is_current or names_devices):
        return None
    results: Sequence[Any] = out
    if made:
        results = [make() for make in made]
        for one in results:
            if type(one) is not kind:  # of a program that is only traced
                return None
            addresses.append(address(one))
    elif _overlap(addresses, sizes, len(out)):
        return None
    workspace = 0
    if launches.bytes:
        # The library gives what is freed to others only after what the stream has now.
        taken = memory()
        workspace = address(taken)
    if is_current:
        launches(addresses, workspace, stream(gpu.ordinal))
    else:
        with gpu.current():
            launches(addresses, workspace, stream(gpu.ordinal))
    return results[0] if len(results) == 1 else tuple(results)


def _torch() -> _ArrayLibrary:
    torch = torch_module()
    plain, parameter = torch.Tensor, torch.nn.Parameter
    forward, is_grad_enabled = torch.autograd.forward_ad, torch.is_grad_enabled

    def key(arguments: Sequence[Any], out: Sequence[Any], addresses: list[int]) -> Key | None:
        """What says which call it is, its addresses aside; None where more must be asked.

        A tensor without storage, such as a sparse or nested one or one within a transform of
        torch.func, says so by an error or by address 0.
        """
        if forward._current_level >= 0:  # there may be tangents
            return None
        found: list[Any] = [len(out)]
        try:
            for value in (*arguments, *out) if out else arguments:
                kind = type(value)
                if kind is plain or kind is parameter:
                    address = value.data_ptr()
                    if (
                        not address
                        or address % _LINE
                        or not value.is_contiguous()
                        or value.is_neg()
                        or (value.requires_grad and is_grad_enabled())
                    ):
                        return None
                    found += value.shape, value.dtype, value.device
                    addresses.append(address)
                elif kind in _NUMBERS:
                    found.append(repr(value))  # 0.0 is equal to -0.0, 1 to True
                else:
                    return None
        except RuntimeError:
            return None
        return tuple(found) if addresses else None

    # Without the object that PyTorch's function makes of it, which takes a microsecond.
    stream = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
    stream = stream or (lambda ordinal: torch.cuda.current_stream(ordinal).cuda_stream)
    return _ArrayLibrary(plain, key, plain.data_ptr, stream, True)


def _cupy() -> _ArrayLibrary:
    cupy = cupy_arrays.cupy_module()
    plain, current = cupy.ndarray, cupy.cuda.get_current_stream

    def key(arguments: Sequence[Any], out: Sequence[Any], addresses: list[int]) -> Key | None:
        found: list[Any] = [len(out)]
        for value in (*arguments, *out) if out else arguments:
            kind = type(value)
            if kind is plain:
                memory = value.data
                address = memory.ptr
                if not address or address % _LINE or not value.flags.c_contiguous:
                    return None
                found += value.shape, value.dtype, memory.device_id
                addresses.append(address)
            elif kind in _NUMBERS:
                found.append(repr(value))
            else:
                return None
        return tuple(found) if addresses else None

    return _ArrayLibrary(
        plain, key, lambda one: int(one.data.ptr), lambda _: int(current().ptr), False
    )


def _maker(one: Any) -> Callable[[], Any]:
    """What makes an array like another."""
    shape = tuple(one.shape)
    if cupy_arrays.is_cupy(one):
        return functools.partial(cupy_arrays.cupy_module().empty, shape, one.dtype)
    strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    place = {"dtype": one.dtype, "device": one.device}
    return functools.partial(torch_module().empty_strided, shape, strides, **place)


def _bytes_like(one: Any, size: int) -> Callable[[], Any]:
    """What makes an array of bytes where another one is."""
    if cupy_arrays.is_cupy(one):
        return functools.partial(cupy_arrays.cupy_module().empty, (size,), "uint8")
    torch = torch_module()
    place = {"dtype": torch.uint8, "device": one.device}
    return functools.partial(torch.empty_strided, (size,), (1,), **place)


def _overlap(addresses: Sequence[int], sizes: Sequence[int], count: int) -> bool:
    """Whether one of the last so many arrays shares memory with another."""
    for place in range(len(addresses) - count, len(addresses)):
        start = addresses[place]
        end = start + sizes[place]
        for other in range(place):
            begin = addresses[other]
            if begin < end and start < begin + sizes[other]:
                return True
    return False
