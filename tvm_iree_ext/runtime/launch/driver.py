"""A GPU by its driver's functions: HIP's or CUDA's, which no toolkit is needed for.

An artifact's ``launch.py`` holds this module, too.
"""

import contextlib
import ctypes
import functools
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.runtime.launch.launch_contract import Step

_HIP = {
    "libraries": ("libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.7"),
    "init": "hipInit",
    "count": "hipGetDeviceCount",
    "load": "hipModuleLoadData",
    "function": "hipModuleGetFunction",
    "allocate": "hipMalloc",
    "free": "hipFree",
    "to_device": "hipMemcpyHtoDAsync",
    "from_device": "hipMemcpyDtoH",
    "launch": "hipModuleLaunchKernel",
    "wait": "hipDeviceSynchronize",
    "wait_for": "hipStreamSynchronize",
    "copy": "hipMemcpyDtoDAsync",
    "fill": {1: "hipMemsetD8Async", 4: "hipMemsetD32Async"},
}
_CUDA = {
    "libraries": ("libcuda.so.1", "libcuda.so"),
    "init": "cuInit",
    "count": "cuDeviceGetCount",
    "load": "cuModuleLoadData",
    "function": "cuModuleGetFunction",
    "allocate": "cuMemAlloc_v2",
    "free": "cuMemFree_v2",
    "to_device": "cuMemcpyHtoDAsync_v2",
    "from_device": "cuMemcpyDtoH_v2",
    "launch": "cuLaunchKernel",
    "wait": "cuCtxSynchronize",
    "wait_for": "cuStreamSynchronize",
    "copy": "cuMemcpyDtoDAsync_v2",
    "fill": {1: "cuMemsetD8Async", 4: "cuMemsetD32Async"},
}
DRIVERS: dict[str, dict[str, Any]] = {"rocm": _HIP, "cuda": _CUDA}
"""The driver's libraries and functions, by the kind of target."""

_OTHER_CHIP = 209  # CUDA_ERROR_NO_BINARY_FOR_GPU
_SHARED_LIMIT = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_LOST = (4, 46, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999)
"""Both drivers' statuses after which a process gets nothing more from its GPU: faults, asserts."""
_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and MINOR
_USUAL_SHARED = 48 << 10  # bytes for which it need not be raised

# CUtensorMapDataType; words of their width for what is not listed there.
_MAP_TYPES = {
    "uint8": 0, "int8": 0, "float8_e4m3fn": 0, "float8_e5m2": 0, "uint16": 1, "int16": 1,
    "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9,
}  # fmt: skip


class DriverError(RuntimeError):
    """There is no driver, or it refused: with the ``status`` that it gave, 0 where it gave none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class LaunchError(DriverError):
    """A binary, a launch and the GPU do not agree: see :mod:`.launch_contract`."""


_losses: list[str] = []


def lost() -> str:
    """How this process lost its GPU, for a message; empty where it did not."""
    return _losses[0] if _losses else ""


@contextlib.contextmanager
def afterwards(undo: Sequence[Callable[[], None]]) -> Iterator[None]:
    """After the block do what is in ``undo`` by then; of all that fails the first is raised.

    What a lost GPU had went with it, whatever its driver says then.
    """
    first: BaseException | None = None
    try:
        yield
    except BaseException as error:
        first = error
    for action in undo:
        was_lost = lost()
        try:
            action()
        except DriverError as error:
            first = first or (None if was_lost else error)
    if first is not None:
        raise first


_SCALARS: dict[str, Any] = {
    "bool": ctypes.c_bool, "float32": ctypes.c_float, "float64": ctypes.c_double,
    **{f"int{bits}": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
}  # fmt: skip


def scalar(value: Any, dtype: str) -> Any:
    """A number as a kernel takes it."""
    if dtype in _SCALARS:
        return _SCALARS[dtype](value)
    if dtype == "float16":
        bits = int(np.float16(value).view(np.uint16))
    elif dtype == "bfloat16":  # rounded to even
        whole = int(np.float32(value).view(np.uint32))
        bits = (whole + 0x7FFF + (whole >> 16 & 1)) >> 16
    else:
        raise ValueError(f"a kernel takes no number of {dtype}")
    return ctypes.c_uint16(bits)


class PreparedLaunch:
    """A launch of which only addresses and the stream are open; a :class:`LaunchFrame` makes it."""

    def __init__(self, function: Any, extents: Sequence[int], arguments: Sequence[Step]) -> None:
        self.function = function
        self.extents = tuple(extents)
        """Workgroups along x, y, z, lanes along x, y, z, and bytes of dynamic shared memory."""
        self.arguments = [
            scalar(one["value"], one["dtype"]) if "value" in one else one for one in arguments
        ]


class LaunchFrame:
    """Memory out of which a plan's launches are made, for one call after another.

    Arguments of a kernel are passed by their places in memory.  These lie here, once for all
    launches: a call writes the addresses that came, and names places that never change.  The driver
    copies them when it is told of a launch; until then the frame is one thread's.

    Args:
        gpu: that launches.
        steps: launches and tensor maps, in their order.
        arrays: whose addresses come with each call.
        known: addresses that stay.
    """

    def __init__(
        self,
        gpu: "Gpu",
        steps: Sequence["Step | PreparedLaunch"],
        arrays: Sequence[str],
        known: Mapping[str, int],
    ) -> None:
        self._launch, self._check = gpu.launcher()
        self._addresses = (ctypes.c_uint64 * max(len(arrays) + len(known), 1))()
        self._addresses[len(arrays) : len(arrays) + len(known)] = list(known.values())
        self._write = struct.Struct(f"={len(arrays)}Q").pack_into
        first = ctypes.addressof(self._addresses)
        self._places = {name: first + 8 * place for place, name in enumerate((*arrays, *known))}
        self._of_maps: dict[str, tuple[EncodedTensorMap, str]] = {}  # and the array
        self._maps: list[tuple[EncodedTensorMap, int]] = []  # and the place of the array's address
        self.launches: list[tuple[PreparedLaunch, Any]] = []
        """Each with the places of its arguments."""
        self.users: dict[str, set[int]] = {name: set() for name in arrays}
        """By the array, which launches it is passed to, itself or in a tensor map."""
        for step in steps:
            if isinstance(step, PreparedLaunch):
                self._add(step)
            elif "tensor_map" in step:
                made = EncodedTensorMap(gpu, step)
                self._of_maps[step["tensor_map"]] = made, step["array"]
                self._maps.append((made, (self._places[step["array"]] - first) // 8))
        self._stream: int | None = None
        self._calls: list[tuple[Any, ...]] = []

    def place(self, addresses: Sequence[int]) -> None:
        """Have the arguments say where the arrays lie now."""
        self._write(self._addresses, 0, *addresses)
        for made, place in self._maps:
            made.lie_at(self._addresses[place])

    def __call__(self, addresses: Sequence[int], stream: int) -> None:
        """Launch all on a stream, and do not wait."""
        if self._maps:
            self.place(addresses)
        else:
            self._write(self._addresses, 0, *addresses)
        if stream != self._stream:
            self._calls = [
                (one.function, *one.extents, ctypes.c_void_p(stream), places, None)
                for one, places in self.launches
            ]
            self._stream = stream
        launch = self._launch
        for arguments in self._calls:
            if status := launch(*arguments):
                self._check(status)

    def _add(self, launch: PreparedLaunch) -> None:
        places = []
        for one in launch.arguments:
            if not isinstance(one, Mapping):
                places.append(ctypes.addressof(one))
                continue
            name = one.get("array", "")
            if not name:
                made, name = self._of_maps[one["tensor_map"]]
                places.append(made.place)
            else:
                places.append(self._places[name])
            if name in self.users:
                self.users[name].add(len(self.launches))
        self.launches.append((launch, (ctypes.c_void_p * len(places))(*places)))


class EncodedTensorMap:
    """CUDA's descriptor of an array, and of the boxes that are copied of it."""

    def __init__(self, gpu: "Gpu", step: Step) -> None:
        rank = len(step["extents"])
        words = (ctypes.c_uint64 * 24)()  # 128 bytes that begin at a multiple of 64
        self.words = (ctypes.c_uint64 * 16).from_buffer(words, -ctypes.addressof(words) % 64)
        whole, box = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
        self._gpu, self._address = gpu, 0
        self._kind = ctypes.byref(self.words), _MAP_TYPES[step["dtype"]], rank
        self._boxes = (
            whole(*step["extents"]), whole(*step["strides"]), box(*step["box"]),
            box(*step["steps"]), step["interleave"], step["swizzle"], step["l2_promotion"],
            step["fill"],
        )  # fmt: skip

    @property
    def place(self) -> int:
        """Where it lies in the host's memory."""
        return ctypes.addressof(self.words)

    def lie_at(self, address: int) -> None:
        """Make it anew where the array lies elsewhere than before."""
        if address != self._address:
            place = ctypes.c_void_p(address)
            self._gpu.named("cuTensorMapEncodeTiled", *self._kind, place, *self._boxes)
            self._address = address


class Gpu:
    """A GPU, by its driver: the one that is installed, or a ``library`` with its functions."""

    def __init__(self, kind: str, ordinal: int = 0, library: Any = None) -> None:
        self.names, self.ordinal, self.cuda = DRIVERS[kind], ordinal, kind == "cuda"
        self._library = self._open() if library is None else library
        self.call("init", 0)
        count = ctypes.c_int()
        self.call("count", ctypes.byref(count))
        if ordinal >= count.value:
            raise DriverError(f"no GPU {ordinal}: the driver has {count.value}")
        self._context = ctypes.c_void_p()
        self._limits: dict[int | None, int] = {}  # of dynamic shared memory, by function
        if self.cuda:
            device = ctypes.c_int()
            self.named("cuDeviceGet", ctypes.byref(device), ordinal)
            self.named("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
            self._context_value = self._context.value or -1  # a thread without one has None
            self._get_current = self._library.cuCtxGetCurrent
            self._found = threading.local()  # where a thread is told its context

    def capability(self) -> tuple[int, int] | None:
        """NVIDIA's number of the chip; None for others."""
        if not self.cuda:
            return None
        parts = ctypes.c_int(), ctypes.c_int()
        for part, attribute in zip(parts, _CAPABILITY, strict=True):
            self.named("cuDeviceGetAttribute", ctypes.byref(part), attribute, self.ordinal)
        return parts[0].value, parts[1].value

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make it this thread's GPU, and afterwards that which was."""
        if self.cuda and self.is_current():
            yield
            return
        before = ctypes.c_int()
        if self.cuda:
            self.named("cuCtxPushCurrent_v2", self._context)
        else:
            self.named("hipGetDevice", ctypes.byref(before))
            self.named("hipSetDevice", self.ordinal)

        def back() -> None:
            if self.cuda:
                self.named("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
            else:
                self.named("hipSetDevice", before)

        with afterwards([back]):
            yield

    def is_current(self) -> bool:
        """Whether it is this thread's GPU already, as it is in threads that PyTorch is used in."""
        if self.cuda:
            try:
                found, place = self._found.own
            except AttributeError:
                found = ctypes.c_void_p()
                found, place = self._found.own = found, ctypes.byref(found)
            if status := self._get_current(place):
                self._check("cuCtxGetCurrent", status)
            return bool(found.value == self._context_value)
        device = ctypes.c_int()
        self.named("hipGetDevice", ctypes.byref(device))
        return device.value == self.ordinal

    def load(self, images: Sequence[bytes]) -> ctypes.c_void_p:
        """The module of the first image that the driver takes for this chip."""
        module = ctypes.c_void_p()
        name, status = self.names["load"], 0
        for image in images:
            status = getattr(self._library, name)(ctypes.byref(module), image + b"\0")
            if status != _OTHER_CHIP:
                break
        self._check(name, status)
        return module

    def function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        """A kernel of a module."""
        function = ctypes.c_void_p()
        self.call("function", ctypes.byref(function), module, name.encode())
        return function

    def allocate(self, size: int) -> int:
        """The address of new memory, which :meth:`free` gives back."""
        pointer = ctypes.c_void_p()
        self.call("allocate", ctypes.byref(pointer), ctypes.c_size_t(max(size, 1)))
        return pointer.value or 0

    def free(self, address: int) -> None:
        """Give memory back."""
        self.call("free", ctypes.c_void_p(address))

    def write(self, address: int, source: int, size: int, stream: int = 0) -> None:
        """Copy from the host's memory in a stream's order; the source must stay until it is done.

        A stream like PyTorch's does not wait for the default stream, nor is it waited for there.
        """
        if size:
            places = ctypes.c_void_p(address), ctypes.c_void_p(source)
            self.call("to_device", *places, ctypes.c_size_t(size), ctypes.c_void_p(stream))

    def read(self, target: int, address: int, size: int) -> None:
        """Copy to the host's memory, after :meth:`wait`."""
        if size:
            places = ctypes.c_void_p(target), ctypes.c_void_p(address)
            self.call("from_device", *places, ctypes.c_size_t(size))

    def wait_for(self, stream: int) -> None:
        """Wait until all is done that a stream was given."""
        self.call("wait_for", ctypes.c_void_p(stream))

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """Copy on the GPU, in a stream's order."""
        if size:
            places = ctypes.c_void_p(target), ctypes.c_void_p(source)
            self.call("copy", *places, ctypes.c_size_t(size), ctypes.c_void_p(stream))

    def fill(self, address: int, content: bytes, stream: int) -> None:
        """Write some bytes in a stream's order, which need not stay: they go with the orders."""
        width = 1 if len(content) % 4 else 4
        kind = ctypes.c_uint32 if width == 4 else ctypes.c_uint8
        for at in range(0, len(content), width):
            word = int.from_bytes(content[at : at + width], "little")
            self.named(
                self.names["fill"][width], ctypes.c_void_p(address + at), kind(word),
                ctypes.c_size_t(1), ctypes.c_void_p(stream),
            )  # fmt: skip

    def prepared(self, function: Any, step: Step) -> "PreparedLaunch":
        """A launch of a kernel with numbers for extents, of which only addresses are left open."""
        shared = step["shared"]
        # The limit stays at the most of what was prepared: any of it may be launched next.
        if self.cuda and shared > self._limits.get(function.value, _USUAL_SHARED):
            self.named("cuFuncSetAttribute", function, _SHARED_LIMIT, shared)
            self._limits[function.value] = shared
        numbers = (*step["grid"], *step["block"], shared)
        return PreparedLaunch(function, numbers, step["arguments"])

    def launcher(self) -> tuple[Callable[..., int], Callable[[int], None]]:
        """The driver's function that launches, and what raises for its status."""
        # Without argtypes, whose conversions would take a microsecond: numbers are a grid's, below
        # 2^31, pointers are objects of ctypes.
        name = self.names["launch"]
        return getattr(self._library, name), functools.partial(self._check, name)

    def is_recording(self, stream: int) -> bool:
        """Whether what is launched on a stream of CUDA's becomes part of somebody's graph."""
        if not stream:  # nothing is recorded from the default stream
            return False
        status = ctypes.c_int()
        self.named("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(status))
        return status.value != 0

    def wait(self) -> None:
        """Wait until all that was launched is done."""
        self.call("wait")

    def call(self, what: str, *arguments: Any) -> None:
        """Call a function that both drivers have."""
        self.named(self.names[what], *arguments)

    def has(self, name: str) -> bool:
        """Whether the driver has a function, which older ones may lack."""
        return hasattr(self._library, name)

    def named(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver by its own name."""
        self._check(name, getattr(self._library, name)(*arguments))

    def _open(self) -> Any:
        for name in self.names["libraries"]:
            with contextlib.suppress(OSError):
                return ctypes.CDLL(name)
        raise DriverError(f"no GPU driver: looked for {', '.join(self.names['libraries'])}")

    def _check(self, name: str, status: int) -> None:
        if not status:
            return
        message = f"{name} failed with status {status}{self._explained(status)}"
        if before := lost():
            message += f"; the GPU was lost before: {before}"
        elif status in _LOST:
            _losses.append(message)
        raise DriverError(message, status)

    def _explained(self, status: int) -> str:
        """The driver's name for a status, and what it says of it."""
        said = []
        for what in ("Name", "String"):
            get = getattr(self._library, f"{'cu' if self.cuda else 'hip'}GetError{what}", None)
            text = ctypes.c_char_p()
            if get is None:
                continue
            if self.cuda:
                get(status, ctypes.byref(text))
            else:
                get.restype = ctypes.c_char_p
                text = ctypes.c_char_p(get(status))
            if text.value:
                said.append(text.value.decode(errors="replace"))
        return f", {': '.join(said)}" if said else ""
