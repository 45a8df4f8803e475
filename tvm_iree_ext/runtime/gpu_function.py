"""The kernels of an artifact for a GPU, called with arrays of the host and of the GPU.

Arrays on the GPU are used where they are; others are copied there and back.  Launches and copies go
to the current stream of PyTorch or CuPy where an array of its is on the GPU, and nothing is waited
for where all arrays are; else the call returns when the results are there.
"""

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import ArtifactError, CallError
from tvm_iree_ext.runtime import arrays, cupy_arrays
from tvm_iree_ext.runtime.arrays import Allocator, Port
from tvm_iree_ext.runtime.cupy_arrays import CupyArray
from tvm_iree_ext.runtime.launch.driver import DriverError, Gpu
from tvm_iree_ext.runtime.launch.gpu_targets import DLPACK_DEVICES
from tvm_iree_ext.runtime.launch.host_plan import ComputedArray
from tvm_iree_ext.runtime.launch.launcher import Kernels
from tvm_iree_ext.runtime.launch.plan_steps import Unmet, bind, number
from tvm_iree_ext.runtime.launch_graph import Launches
from tvm_iree_ext.runtime.repeated_calls import RepeatedCalls
from tvm_iree_ext.runtime.torch_arrays import torch_module

Allocate = Callable[[int], int]
Make = Callable[[Sequence[tuple[int, ...]]], tuple[list[Any], list[Any]]]
"""Arrays for results of some shapes: as they are returned, and as they are passed."""

_KEPT = 64  # calls with other shapes, whose extents are known


class GpuFunction:
    """Launches of a kernel or a program's function on a GPU; takes its operands in order.

    Args:
        folder: of the artifact.
        name: of the op or function, for messages.
        plan: by which the kernels are launched.
        inputs: how many of the operands are not results of their own.
        updated: the numbers of those of them in which results lie.
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
        updated: Collection[int] = (),
    ) -> None:
        self._folder, self._name, self._function = folder, name, function
        self._library = library
        self._plan, self._inputs = plan, inputs
        self._updated = frozenset(updated)
        if not {"parameters", "symbols", "steps"} <= self._plan.keys():
            raise ArtifactError(f"the artifact {folder} has no launch plan of {name}")
        self._parameters = [one["name"] for one in self._plan["parameters"]]
        self._launches: dict[tuple[Any, ...], Launches] = {}
        self._loaded: dict[int, Kernels] = {}
        self._repeated = RepeatedCalls(self._refused)
        self.again = self._repeated.again
        self._lock = threading.Lock()

    def result_shapes(self, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]] | None:
        """The shapes of the results of their own, by those of the other operands, all arrays.

        None where only the run tells them.

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
        if "results" in self._plan:
            return None
        return [tuple(number(extent, names) for extent in one["shape"]) for one in results]

    def __call__(self, *values: Any) -> None:
        """Compute the results, which are the last values, and those that lie in others.

        Raises:
            CallError: for arrays on several GPUs, and where the plan requires what does not hold.
            ArtifactError: where no driver or GPU is there, or the driver refuses.
        """
        self.computed(values, lambda shapes: ([], []))

    def computed(self, values: Sequence[Any], make: Make) -> tuple[list[Any], list[Any]]:
        """Compute results whose extents only the run tells; what ``make`` then gives for them.

        Raises:
            CallError: for arrays on several GPUs, and as ``make`` does.
            ArtifactError: where no driver or GPU is there, or the driver refuses.
        """
        torch = torch_module()
        places = [_place(value, torch) for value in values]
        ordinals = {
            place.ordinal for place in places if place is not None and place.ordinal is not None
        }
        self._check_one(ordinals)
        try:
            return self._call(values, places, ordinals.pop() if ordinals else 0, make)
        except DriverError as error:
            raise self._refused(error) from error

    def _check_one(self, ordinals: Collection[int]) -> None:
        if len(ordinals) > 1:
            raise CallError(
                f"{self._name}: arrays are on GPUs {', '.join(map(str, sorted(ordinals)))};"
                " expected one"
            )

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
        libraries = _libraries(values)
        if len(libraries) != 1:
            return
        tell = self._repeated.remember(libraries.pop(), arguments, results, is_out)
        if tell is None:
            return
        torch = torch_module()
        places = [_place(value, torch) for value in values]
        ordinals = {one.ordinal for one in places if one is not None}
        if None in ordinals:  # some are copied
            return
        ordinal = ordinals.pop() or 0
        kernels = self._kernels(ordinal)
        if not kernels.is_prepared:  # what is launched is another in each call
            return
        tell(kernels.gpu, self._known_launches(kernels, ordinal, values, places))

    def allocator(self, like: Any) -> Allocator:
        """What allocates results where the first array is ``like``: there, of the same library."""
        found = arrays.allocator(like)
        if found is not arrays.dlpack_results or not is_on_gpu(like):
            return found
        return functools.partial(self._new_tensors, like)

    def _new_tensors(
        self, like: Any, shapes: Sequence[tuple[int, ...]], ports: Sequence[Port]
    ) -> tuple[list[Any], list[Any]]:
        """New tensors of TVM's on the GPU of an array: twice, as results and to be passed.

        Raises:
            ArtifactError: where the driver refuses.
        """
        kind, ordinal = like.__dlpack_device__()
        device = int(kind), int(ordinal)
        tensors, passed = [], []
        try:
            gpu = self._kernels(device[1]).gpu
            for shape, port in zip(shapes, ports, strict=True):
                memory = _GpuMemory(gpu, prod(shape) * port.item)
                made = arrays.gpu_tensor(memory, memory.address, shape, port.numpy, device)
                tensors.append(made)
                passed.append(port.in_words(made, made))
        except DriverError as error:
            raise self._refused(error) from error
        return tensors, passed

    def copy(self, source: Any, target: Any) -> None:
        """Copy all elements of an array, one of which is on the GPU, as ports took both.

        Raises:
            ArtifactError: where the driver refuses.
        """
        torch = torch_module()
        if torch is not None and isinstance(target, torch.Tensor):
            target.copy_(source if isinstance(source, torch.Tensor) else torch.from_dlpack(source))
            return
        places = [_place(one, torch) for one in (source, target)]
        try:
            gpu = self._kernels(max(one.ordinal or 0 for one in places if one is not None)).gpu
            with gpu.current():
                _copy(gpu, *places)
        except DriverError as error:
            raise self._refused(error) from error

    def _refused(self, error: DriverError) -> ArtifactError:
        return ArtifactError(f"the artifact {self._folder} does not run: {error}")

    def _call(
        self,
        values: Sequence[Any],
        places: Sequence["_ArrayPlace | None"],
        ordinal: int,
        make: Make,
    ) -> tuple[list[Any], list[Any]]:
        kernels = self._loaded.get(ordinal) or self._kernels(ordinal)
        there = [place for place in places if place is not None]
        addresses = [place.address for place in there]
        on_host = [number for number, place in enumerate(there) if place.ordinal is None]
        results = len(there) - (len(places) - self._inputs)  # where they begin
        libraries = _libraries(values)
        with kernels.gpu.current(), _memory(kernels, libraries, ordinal) as (allocate, stream):
            if len(libraries) > 1:  # each on a stream of its own
                kernels.gpu.wait()
            for number in on_host:
                place = there[number]
                addresses[number] = allocate(place.size)
                if number < results:
                    kernels.gpu.write(addresses[number], place.address, place.size, stream)
            made: tuple[list[Any], list[Any]] = [], []
            if kernels.is_prepared:
                launches = self._known_launches(kernels, ordinal, values, places)
                workspace = allocate(launches.bytes) if launches.bytes else 0
                launches(addresses, workspace, stream)
            else:
                computed = self._follow(kernels, values, places, addresses, allocate, stream)
                made = make([one.shape for one in computed])
                is_in_order = _libraries(made[1]) <= libraries
                self._fill(kernels.gpu, made[1], computed, ordinal, stream if is_in_order else None)
            if on_host or len(libraries) != 1:
                kernels.gpu.wait()
            for number in on_host:
                if number >= results or number in self._updated:
                    place = there[number]
                    kernels.gpu.read(place.address, addresses[number], place.size)
        return made

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
        numbers = self._numbers(values, places)
        with self._lock:
            if len(self._launches) >= _KEPT:
                self._repeated.forget()
                for launches in self._launches.values():
                    launches.close()
                self._launches.clear()
            return self._launches.setdefault(key, Launches(kernels, numbers))

    def _numbers(
        self, values: Sequence[Any], places: Sequence["_ArrayPlace | None"]
    ) -> dict[str, Any]:
        """The numbers of a call, and the extents that its arrays' shapes give."""
        pairs = list(zip(self._parameters, values, places, strict=True))
        numbers: dict[str, Any] = {name: value for name, value, place in pairs if place is None}
        shapes = {name: place.shape for name, _, place in pairs if place is not None}
        return numbers | bind(self._plan, shapes, numbers)

    def _follow(
        self,
        kernels: Kernels,
        values: Sequence[Any],
        places: Sequence["_ArrayPlace | None"],
        addresses: Sequence[int],
        allocate: Allocate,
        stream: int,
    ) -> list[ComputedArray]:
        """Launch by a plan whose loops and branches the host decides.

        Raises:
            CallError: where what the plan requires does not hold.
        """
        numbers = self._numbers(values, places)
        named = dict(zip(kernels.arrays, addresses, strict=True))
        try:
            return kernels.enqueue(named, numbers, allocate=allocate, stream=stream)
        except Unmet as error:
            raise CallError(f"{self._name}: {error}") from None

    def _fill(
        self,
        gpu: Gpu,
        tensors: Sequence[Any],
        computed: Sequence[ComputedArray],
        ordinal: int,
        stream: int | None,
    ) -> None:
        """Copy results into arrays, in a stream's order where one is given.

        Raises:
            CallError: for arrays on another GPU.
        """
        torch = torch_module()
        places = [place for one in tensors if (place := _place(one, torch)) is not None]
        self._check_one({ordinal, *(one.ordinal for one in places if one.ordinal is not None)})
        is_waiting = stream is None or any(place.ordinal is None for place in places)
        if is_waiting:
            gpu.wait()
        for place, one in zip(places, computed, strict=True):
            if place.ordinal is None:
                gpu.read(place.address, one.address, place.size)
            else:
                gpu.copy(place.address, one.address, place.size, stream or 0)
        if is_waiting:
            gpu.wait()

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


def _copy(gpu: Gpu, source: _ArrayPlace | None, target: _ArrayPlace | None) -> None:
    """Copy by way of the host, as no kernel is run for what has no elements to combine."""
    assert source is not None
    assert target is not None
    host = np.empty(source.size, np.uint8)
    start = source.address
    gpu.wait()
    if source.ordinal is not None:
        start = host.ctypes.data
        gpu.read(start, source.address, source.size)
    if target.ordinal is None:
        ctypes.memmove(target.address, start, source.size)
    else:
        gpu.write(target.address, start, source.size)
        gpu.wait()


def is_on_gpu(value: Any) -> bool:
    """Whether it is an array, of any library, that lies on a GPU."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return False
    torch = torch_module()
    if torch is not None and isinstance(value, torch.Tensor):
        return not value.is_cpu
    return value.__dlpack_device__()[0] in DLPACK_DEVICES.values()


def _libraries(values: Sequence[Any]) -> set[str]:
    """Libraries with streams of their own that have arrays on the GPU here."""
    torch = torch_module()
    found = set()
    for value in values:
        if isinstance(value, CupyArray):
            found.add("cupy")
        elif torch is not None and isinstance(value, torch.Tensor) and not value.is_cpu:
            found.add("torch")
    return found


def _memory(
    kernels: Kernels, libraries: set[str], ordinal: int
) -> AbstractContextManager[tuple[Allocate, int]]:
    """An allocator on the GPU, and the stream: of the library that has arrays there."""
    if "torch" in libraries:
        return _of_torch(ordinal)
    return _of_cupy(ordinal) if libraries else _of_driver(kernels)


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


@contextlib.contextmanager
def _of_cupy(ordinal: int) -> Iterator[tuple[Allocate, int]]:
    """So does CuPy, whose pool has an arena for each stream."""
    taken: list[Any] = []
    yield cupy_arrays.allocator(ordinal, taken), cupy_arrays.stream(ordinal)


class _GpuMemory:
    """Memory that the driver gave, for a tensor that is nobody's but its holder's."""

    def __init__(self, gpu: Gpu, size: int) -> None:
        self._gpu = gpu
        self.address = 0
        with gpu.current():
            self.address = gpu.allocate(size)

    def __del__(self) -> None:
        if self.address:
            # With a GPU that is lost its memory is, too.
            with contextlib.suppress(DriverError), self._gpu.current():
                self._gpu.free(self.address)
