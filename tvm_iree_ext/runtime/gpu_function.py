"""The kernels of an artifact for a GPU, called with arrays of the host and of the GPU.

Arrays on the GPU are used where they are; others are copied there and back.  Launches and copies go
to PyTorch's current stream where a tensor of its is on the GPU, and nothing is waited for where all
arrays are; else the call returns when the results are there.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import ArtifactError, CallError
from tvm_iree_ext.runtime.launch.driver import DriverError, Gpu
from tvm_iree_ext.runtime.launch.launcher import Kernels, bind, number
from tvm_iree_ext.runtime.launch_graph import Launches
from tvm_iree_ext.runtime.repeated_calls import RepeatedCalls
from tvm_iree_ext.runtime.torch_arrays import torch_module

DLPACK_DEVICES = {"cuda": 2, "rocm": 10}
"""DLPack's numbers of the kinds of target that are GPUs."""

Allocate = Callable[[int], int]

_KEPT = 64  # calls with other shapes, whose extents are known


def gpu_obstacle(kind: str, chip: str) -> str:
    """Why kernels for a chip do not run here, for a message; empty when they do.

    HIP does not say which chip it has: there a driver and a GPU are what is asked for.
    """
    try:
        gpu = Gpu(kind)
        found = gpu.capability()
    except DriverError as error:
        return f"target {kind}:{chip}: {error}"
    if found and not _is_run_by(chip, found):
        return f"target {kind}:{chip}: the GPU here is sm_{found[0]}{found[1]}"
    return ""


def _is_run_by(chip: str, found: tuple[int, int]) -> bool:
    """Whether an NVIDIA GPU runs what is built for a chip: a newer one of its generation does."""
    number = chip.removeprefix("sm_")
    built = int(number.rstrip("a")[:-1]), int(number.rstrip("a")[-1])
    return built == found if number.endswith("a") else built[0] == found[0] and built <= found


class GpuFunction:
    """Launches of a kernel or a program's function on a GPU; takes its operands in order.

    Args:
        folder: of the artifact.
        name: of the op or function, for messages.
        plan: by which the kernels are launched.
        inputs: how many of the operands are not results.
        function: of a program.
        library: stands for the driver's; see :class:`~.launch.launcher.Kernels`.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        plan: Mapping[str, Any],
        inputs: int,
        function: str | None = None,
        library: Any = None,
    ) -> None:
        self._folder, self._name, self._function = folder, name, function
        self._library = library
        self._plan, self._inputs = plan, inputs
        if not {"parameters", "symbols", "steps"} <= self._plan.keys():
            raise ArtifactError(f"the artifact {folder} has no launch plan of {name}")
        self._parameters = [one["name"] for one in self._plan["parameters"]]
        self._launches: dict[tuple[Any, ...], Launches] = {}
        self._loaded: dict[int, Kernels] = {}
        self._repeated = RepeatedCalls(self._refused)
        self.again = self._repeated.again
        self._lock = threading.Lock()

    def result_shapes(self, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The results' shapes, by those of the other operands, all of which are arrays.

        Raises:
            CallError: for shapes that do not fit.
        """
        given, results = (
            self._plan["parameters"][: self._inputs],
            self._plan["parameters"][self._inputs :],
        )
        named = {one["name"]: shape for one, shape in zip(given, shapes, strict=True)}
        try:
            names = bind({**self._plan, "parameters": given}, named, {})
        except ValueError as error:
            raise CallError(f"{self._name}: {error}") from None
        return [tuple(number(extent, names) for extent in one["shape"]) for one in results]

    def __call__(self, *values: Any) -> None:
        """Compute the results, which are the last values.

        Raises:
            CallError: for arrays on several GPUs.
            ArtifactError: where no driver or GPU is there, or the driver refuses.
        """
        torch = torch_module()
        places = [_place(value, torch) for value in values]
        ordinals = {
            place.ordinal for place in places if place is not None and place.ordinal is not None
        }
        if len(ordinals) > 1:
            raise CallError(
                f"{self._name}: arrays are on GPUs {', '.join(map(str, sorted(ordinals)))};"
                " expected one"
            )
        try:
            self._call(values, places, ordinals.pop() if ordinals else 0)
        except DriverError as error:
            raise self._refused(error) from error

    def remember(
        self, arguments: Sequence[Any], values: Sequence[Any], results: Sequence[Any], is_out: bool
    ) -> None:
        """Know a call that went through, so that ``again`` takes the next one like it.

        Args:
            arguments: that came for the operands which are not results.
            values: with which this function was called for them.
            results: that were returned.
            is_out: whether these were the caller's.
        """
        key = self._repeated.key(arguments, results if is_out else ())
        if key is None or not stream_ordered(values):
            return
        places = [_place(value, torch_module()) for value in values]
        ordinals = {one.ordinal for one in places if one is not None}
        if None in ordinals:  # some are copied
            return
        ordinal = ordinals.pop() or 0
        kernels = self._kernels(ordinal)
        launches = self._known_launches(kernels, ordinal, values, places)
        self._repeated.remember(key, () if is_out else results, values, kernels.gpu, launches)

    def _refused(self, error: DriverError) -> ArtifactError:
        return ArtifactError(f"the artifact {self._folder} does not run: {error}")

    def _call(
        self, values: Sequence[Any], places: Sequence["_ArrayPlace | None"], ordinal: int
    ) -> None:
        kernels = self._loaded.get(ordinal) or self._kernels(ordinal)
        arrays = [place for place in places if place is not None]
        addresses = [place.address for place in arrays]
        on_host = [number for number, place in enumerate(arrays) if place.ordinal is None]
        results = len(arrays) - (len(places) - self._inputs)  # where they begin
        with kernels.gpu.current(), _memory(kernels, values, ordinal) as (allocate, stream):
            for number in on_host:
                place = arrays[number]
                addresses[number] = allocate(place.size)
                if number < results:
                    kernels.gpu.write(addresses[number], place.address, place.size, stream)
            launches = self._known_launches(kernels, ordinal, values, places)
            workspace = allocate(launches.bytes) if launches.bytes else 0
            launches(addresses, workspace, stream)
            if on_host or not stream_ordered(values):
                kernels.gpu.wait()
            for number in on_host:
                if number >= results:
                    place = arrays[number]
                    kernels.gpu.read(place.address, addresses[number], place.size)

    def _known_launches(
        self,
        kernels: Kernels,
        ordinal: int,
        values: Sequence[Any],
        places: Sequence["_ArrayPlace | None"],
    ) -> Launches:
        """What numbers and shapes such as these launch; kept by what came."""
        # Numbers by their text: 0.0 is equal to -0.0.
        key = (
            ordinal,
            *[
                repr(value) if place is None else place.shape
                for value, place in zip(values, places, strict=True)
            ],
        )
        if (known := self._launches.get(key)) is not None:
            return known
        pairs = list(zip(self._parameters, values, places, strict=True))
        numbers: dict[str, Any] = {name: value for name, value, place in pairs if place is None}
        shapes = {name: place.shape for name, _, place in pairs if place is not None}
        numbers |= bind(self._plan, shapes, numbers)
        with self._lock:
            if len(self._launches) >= _KEPT:
                self._repeated.forget()
                for launches in self._launches.values():
                    launches.close()
                self._launches.clear()
            return self._launches.setdefault(key, Launches(kernels, numbers))

    def _kernels(self, ordinal: int) -> Kernels:
        """The kernels on a GPU, loaded when they are first called there."""
        with self._lock:
            if ordinal not in self._loaded:
                self._loaded[ordinal] = Kernels(
                    self._folder, ordinal, self._function, self._library
                )
            return self._loaded[ordinal]


class _ArrayPlace:
    """Address and shape of an array; ``ordinal`` is that of a GPU, or None."""

    __slots__ = ("address", "itemsize", "ordinal", "shape")

    def __init__(
        self, address: int, shape: tuple[int, ...], itemsize: int, ordinal: int | None
    ) -> None:
        self.address, self.shape, self.itemsize, self.ordinal = address, shape, itemsize, ordinal

    @property
    def size(self) -> int:
        """Bytes of its elements."""
        return prod(self.shape) * self.itemsize


def _place(value: Any, torch: Any) -> _ArrayPlace | None:
    """Place of an array that :class:`~tvm_iree_ext.runtime.arrays.Port` took; None for a number."""
    if torch is not None and isinstance(value, torch.Tensor):
        ordinal = None if value.is_cpu else value.device.index
        return _ArrayPlace(value.data_ptr(), tuple(value.shape), value.element_size(), ordinal)
    if isinstance(value, np.ndarray):
        return _ArrayPlace(value.ctypes.data, value.shape, value.itemsize, None)
    if not hasattr(value, "data_ptr"):
        return None
    kind, ordinal = value.__dlpack_device__()
    is_gpu = kind in DLPACK_DEVICES.values()
    return _ArrayPlace(
        value.data_ptr(), tuple(value.shape), value.dtype.itemsize, ordinal if is_gpu else None
    )


def _is_torch(value: Any) -> bool:
    torch = torch_module()
    return torch is not None and isinstance(value, torch.Tensor)


def stream_ordered(values: Sequence[Any]) -> bool:
    """Whether a tensor of PyTorch's is on the GPU, so that its stream orders what is launched."""
    return any(_is_torch(value) and not value.is_cpu for value in values)


def _memory(
    kernels: Kernels, values: Sequence[Any], ordinal: int
) -> AbstractContextManager[tuple[Allocate, int]]:
    """An allocator on the GPU, and the stream: PyTorch's where it has tensors there."""
    return _of_torch(ordinal) if stream_ordered(values) else _of_driver(kernels)


@contextlib.contextmanager
def _of_driver(kernels: Kernels) -> Iterator[tuple[Allocate, int]]:
    with kernels.memory() as allocate:
        yield allocate, 0


@contextlib.contextmanager
def _of_torch(ordinal: int) -> Iterator[tuple[Allocate, int]]:
    """PyTorch gives memory that is freed here to others only after what the stream has now."""
    torch = torch_module()
    stream = torch.cuda.current_stream(ordinal)
    taken: list[Any] = []

    def allocate(size: int) -> int:
        taken.append(torch.empty(max(size, 1), dtype=torch.uint8, device=f"cuda:{ordinal}"))
        return int(taken[-1].data_ptr())

    yield allocate, stream.cuda_stream


def chip_of(target: Mapping[str, Any]) -> str:
    """The chip that a target as plain JSON names."""
    return str(target.get("arch", target.get("mcpu", "")))
