"""Calls with PyTorch's tensors on the GPU that are like earlier ones: launched with no more ado.

All that a call is checked for follows from its tensors' shapes, types and devices, but for what is
asked here anew: where they lie, whether they are contiguous, what autograd would want of them.
So a call like one that went through costs the host little more than its launches.
"""

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from tvm_iree_ext.runtime.launch.driver import DriverError, Gpu
from tvm_iree_ext.runtime.launch_graph import Launches
from tvm_iree_ext.runtime.torch_arrays import torch_module

_KEPT = 64  # kinds of calls
_LINE = 16  # bytes: how arrays on a GPU are aligned, as other calls are checked for
_NUMBERS = (float, int, bool)

Key = tuple[Any, ...]


class _Torch(NamedTuple):
    """What is asked of PyTorch in each call."""

    tensor: Any
    parameter: Any
    forward: Any
    is_grad_enabled: Callable[[], bool]
    stream: Callable[[int], int]


class _RepeatedCall(NamedTuple):
    """A call with tensors of which only the addresses are new."""

    gpu: Gpu
    launches: Launches
    made: Sequence[Any]
    """For each new result what makes it, and the arguments that it takes."""
    sizes: Sequence[int]
    """Bytes of all arrays; none where results are new."""
    memory: Callable[[int], Any]
    """Gives a tensor of so many bytes."""


class RepeatedCalls:
    """The calls of a function that went through once; anything else is None and begins nothing.

    Args:
        refused: what to raise for an error of the driver's.
    """

    def __init__(self, refused: Callable[[DriverError], Exception]) -> None:
        self._refused = refused
        self._torch: _Torch | None = None
        self._known: dict[Key, _RepeatedCall] = {}

    def again(self, arguments: tuple[Any, ...], out: Any) -> Any:
        """The results, of a call that is like an earlier one; else None.

        Raises:
            Exception: what ``refused`` makes of an error of the driver's.
        """
        torch = self._torch
        if torch is None:
            return None
        addresses: list[int] = []
        out = () if out is None else out if type(out) is tuple else (out,)
        key = _kind_of_call(torch, arguments, out, addresses)
        if key is None or (known := self._known.get(key)) is None:
            return None
        gpu, launches, made, sizes, memory = known
        results: Sequence[Any] = out
        if made:
            fresh: list[Any] = [
                empty(shape, strides, dtype=dtype, device=device)
                for empty, shape, strides, dtype, device in made
            ]
            for one in fresh:
                if type(one) is not torch.tensor:  # of a program that is only traced
                    return None
                addresses.append(one.data_ptr())
            results = fresh
        elif _overlap(addresses, sizes, len(out)):
            return None
        workspace = 0
        if launches.bytes:
            # PyTorch gives what is freed to others only after what the stream has now.
            taken = memory(launches.bytes)
            workspace = taken.data_ptr()
        try:
            if gpu.is_current():
                launches(addresses, workspace, torch.stream(gpu.ordinal))
            else:
                with gpu.current():
                    launches(addresses, workspace, torch.stream(gpu.ordinal))
        except DriverError as error:
            raise self._refused(error) from error
        return results[0] if len(results) == 1 else tuple(results)

    def key(self, arguments: Sequence[Any], out: Sequence[Any]) -> Key | None:
        """What says which call it is; None for one of which more must be asked each time."""
        if (module := torch_module()) is None:
            return None
        if self._torch is None:
            self._torch = _torch(module)
        return _kind_of_call(self._torch, arguments, out, [])

    def remember(
        self,
        key: Key,
        made: Sequence[Any],
        values: Sequence[Any],
        gpu: Gpu,
        launches: Launches,
    ) -> None:
        """Know a call that went through.

        Args:
            key: of it.
            made: the new results.
            values: all that was passed to the function, tensors and numbers.
            gpu: on which it ran.
            launches: that it was.
        """
        torch = torch_module()
        tensors = [one for one in values if isinstance(one, torch.Tensor)]
        sizes = [] if made else [one.numel() * one.element_size() for one in tensors]
        makers = [(torch.empty_strided, *_described(one)) for one in made]
        place = {"dtype": torch.uint8, "device": f"cuda:{gpu.ordinal}"}
        memory = functools.partial(torch.empty, **place)
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[key] = _RepeatedCall(gpu, launches, makers, sizes, memory)

    def forget(self) -> None:
        """Know no calls any more."""
        self._known.clear()


def _torch(module: Any) -> _Torch:
    # Without the object that PyTorch's function makes of it, which takes a microsecond.
    stream = getattr(getattr(module, "_C", None), "_cuda_getCurrentRawStream", None)
    return _Torch(
        module.Tensor,
        module.nn.Parameter,
        module.autograd.forward_ad,
        module.is_grad_enabled,
        stream or (lambda ordinal: module.cuda.current_stream(ordinal).cuda_stream),
    )


def _kind_of_call(
    torch: _Torch, arguments: Sequence[Any], out: Sequence[Any], addresses: list[int]
) -> Key | None:
    """What says which call it is, its addresses aside; None where more must be asked.

    A tensor without storage, such as a sparse or nested one or one within a transform of
    torch.func, says so by an error or by address 0.
    """
    plain, parameter, forward, is_grad_enabled, _ = torch
    if forward._current_level >= 0:  # there may be tangents
        return None
    key: list[Any] = [len(out)]
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
                key += value.shape, value.dtype, value.device
                addresses.append(address)
            elif kind in _NUMBERS:
                key.append(repr(value))  # 0.0 is equal to -0.0, 1 to True
            else:
                return None
    except RuntimeError:
        return None
    return tuple(key)


def _overlap(addresses: Sequence[int], sizes: Sequence[int], count: int) -> bool:
    """Whether one of the last so many arrays shares memory with another."""
    spans = list(zip(addresses, sizes, strict=True))
    for place in range(len(spans) - count, len(spans)):
        start, size = spans[place]
        for other, length in spans[:place]:
            if start < other + length and other < start + size:
                return True
    return False


def _described(one: Any) -> tuple[Any, ...]:
    """Shape, strides, type and device of a new tensor like another."""
    shape = tuple(one.shape)
    strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return shape, strides, one.dtype, one.device
