"""A GPU's driver that is no library: what it is asked to launch is executed by an emulator.

:class:`~tvm_iree_ext.runtime.launch.driver.Gpu` calls functions of HIP or CUDA by their names; an
:class:`EmulatedDriver` has those that it calls, so that an artifact's own launch plan drives it::

    driver = EmulatedDriver("rocm", "gfx942", load_code_object)
    Kernels(folder, library=driver)(x, y)        # raises EmulationError for what it finds

The emulator of a kind of code is a *loader*, ``load(image, device)``: the functions of the image by
name, or None where the image is none of its own (a cubin, or code for another chip), so that the
next one is tried.  A function says how many bytes each of its arguments has, and is launched with
these bytes, as the launch's pointers gave them::

    class Function:
        argument_sizes: Sequence[int]
        most_lanes: int
        def launch(self, launch: EmulatedLaunch) -> None: ...

What a function finds wrong it adds to ``launch.device.memory.findings``; the driver raises for it
after the launch.  Launches are executed one after another, whatever their stream.
"""

import contextlib
import ctypes
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tvm_iree_ext.emulator.memory import GlobalMemory
from tvm_iree_ext.emulator.tensor_maps import encode

Extents = tuple[int, int, int]

_INVALID = 1  # hipErrorInvalidValue, CUDA_ERROR_INVALID_VALUE
_OUT_OF_MEMORY = 2
_OTHER_CHIP = 209  # hipErrorNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU
_NOT_FOUND = 500  # hipErrorNotFound, CUDA_ERROR_NOT_FOUND

_HIP_VERSION = 6_02_41134  # HIP of ROCm 6.2
_CHIP_NAME = 1160  # where hipDeviceProp_t of HIP 6 has it
_WITH_FEATURES = ("gfx90a", "gfx942", "gfx950")  # whose names HIP follows by two features

# hipDeviceAttribute_t and CUdevice_attribute: of a workgroup, then of a grid, along x, y, z.
_HIP_NUMBERS = {
    56: 1024, 26: 1024, 27: 1024, 28: 1024, 29: 0x7FFFFFFF, 30: 65535, 31: 65535,
}  # fmt: skip
_CUDA_NUMBERS = {
    1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 0x7FFFFFFF, 6: 65535, 7: 65535, 8: 48 << 10, 10: 32,
    12: 65536,
}  # fmt: skip
_SHARED_NUMBERS = (74, 97)  # HIP's and CUDA's
_LANES = 0  # CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK

_SHARED_LIMIT = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_USUAL_SHARED = 48 << 10  # bytes that CUDA gives a kernel without being told of more

# What needs nothing done: there is one GPU, and it is always the thread's own.
_NOTHING = (
    "hipInit", "hipSetDevice", "hipDeviceSynchronize", "cuInit", "cuDeviceGet",
    "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxSynchronize",
    "hipGetDevice", "cuCtxGetCurrent", "cuGraphDestroy", "cuGraphExecDestroy",
    "hipStreamSynchronize", "cuStreamSynchronize",
)  # fmt: skip

_SAME = {
    "hipGetDeviceCount": "count", "cuDeviceGetCount": "count",
    "hipModuleLoadData": "load", "cuModuleLoadData": "load",
    "hipModuleGetFunction": "function", "cuModuleGetFunction": "function",
    "hipMalloc": "allocate", "cuMemAlloc_v2": "allocate",
    "hipFree": "free", "cuMemFree_v2": "free",
    "hipMemcpyHtoDAsync": "to_device", "cuMemcpyHtoDAsync_v2": "to_device",
    "hipMemcpyDtoH": "from_device", "cuMemcpyDtoH_v2": "from_device",
    "hipMemcpyDtoDAsync": "copy", "cuMemcpyDtoDAsync_v2": "copy",
    "hipMemsetD8Async": "fill_bytes", "cuMemsetD8Async": "fill_bytes",
    "hipMemsetD32Async": "fill_words", "cuMemsetD32Async": "fill_words",
    "hipModuleLaunchKernel": "launch", "cuLaunchKernel": "launch",
    "cuDeviceGetAttribute": "attribute", "cuFuncSetAttribute": "set_attribute",
    "cuFuncGetAttribute": "function_attribute", "cuFuncGetParamInfo": "argument",
    "hipGetDevicePropertiesR0600": "properties", "hipRuntimeGetVersion": "version",
    "hipDeviceGetAttribute": "attribute",
    "cuTensorMapEncodeTiled": "encode_tensor_map",
    "cuGraphCreate": "graph", "cuGraphAddKernelNode": "add_node",
    "cuGraphInstantiateWithFlags": "instantiate",
    "cuGraphExecKernelNodeSetParams": "set_node", "cuGraphLaunch": "launch_graph",
}  # fmt: skip


@dataclass
class EmulatedDevice:
    """An emulated GPU.

    ``seed`` is of all noise.  ``order`` says in which order waves run between barriers, as far as
    the machine leaves it open: 0 first to last, 1 last to first, others by chance.
    ``shared_bytes`` is the most that a workgroup has of shared memory; None for any.
    """

    kind: str
    chip: str
    seed: int = 0
    order: int = 0
    shared_bytes: int | None = None
    memory: GlobalMemory = field(init=False)
    executed: Counter[str] = field(default_factory=Counter)
    """How many waves have executed each instruction, by its name."""

    def __post_init__(self) -> None:
        self.memory = GlobalMemory(self.seed)


@dataclass(frozen=True)
class EmulatedLaunch:
    """A launch of a function: how many workgroups of how many lanes, and its arguments' bytes."""

    device: EmulatedDevice
    name: str
    grid: Extents
    block: Extents
    shared: int
    arguments: Sequence[bytes]


class EmulatedFunction(Protocol):
    """A kernel that an emulator has loaded."""

    @property
    def argument_sizes(self) -> Sequence[int]:
        """Bytes of each argument."""

    @property
    def most_lanes(self) -> int:
        """Lanes of a workgroup for which it is made; 0 where it does not say."""

    def launch(self, launch: EmulatedLaunch) -> None:
        """Execute it; faults are added to the memory's findings."""


Loader = Callable[[bytes, EmulatedDevice], Mapping[str, EmulatedFunction] | None]


class _Function:
    """A function as ctypes has it: called, and told the types of its arguments."""

    def __init__(self, call: Callable[..., int]) -> None:
        self._call = call
        self.argtypes: Any = None

    def __call__(self, *arguments: Any) -> int:
        return self._call(*arguments)


class EmulatedDriver:
    """Stands where :class:`~tvm_iree_ext.runtime.launch.driver.Gpu` has the driver's library.

    Args:
        kind: ``rocm`` or ``cuda``.
        chip: of the one GPU, such as ``gfx942`` or ``sm_80``.
        loader: the emulator.
        seed: see :class:`EmulatedDevice`.
        order: see :class:`EmulatedDevice`.
        shared_bytes: see :class:`EmulatedDevice`.
        inputs_stay: what the host has filled is read only; not for launchers that fill results,
            too, as :class:`~tvm_iree_ext.runtime.launch.launcher.Kernels` does when it is called.
    """

    def __init__(
        self,
        kind: str,
        chip: str,
        loader: Loader,
        *,
        seed: int = 0,
        order: int = 0,
        shared_bytes: int | None = None,
        inputs_stay: bool = False,
    ) -> None:
        self.device = EmulatedDevice(kind, chip, seed, order, shared_bytes)
        self._inputs_stay = inputs_stay
        self.launches = 0
        self._loader = loader
        self._modules: list[Mapping[str, EmulatedFunction]] = []
        self._functions: list[tuple[str, EmulatedFunction]] = []
        self._made: dict[str, _Function] = {}
        self._graphs: list[list[_BoundLaunch]] = []
        self._shared: dict[int, int] = {}  # bytes of shared memory that a kernel may be given

    def __getattr__(self, name: str) -> _Function:
        """A function of the driver by its own name."""
        if name.startswith("_") or not (name in _NOTHING or name in _SAME):
            raise AttributeError(name)
        made = self.__dict__["_made"]
        if name not in made:
            call = _nothing if name in _NOTHING else getattr(self, f"_{_SAME[name]}")
            made[name] = _Function(call)
        return made[name]

    def _count(self, found: Any) -> int:
        found._obj.value = 1
        return 0

    def _attribute(self, found: Any, attribute: int, ordinal: int) -> int:
        """What a GPU has of something; of CUDA's also the two parts of its number."""
        numbers = dict(_HIP_NUMBERS)
        if self.device.kind == "cuda":
            number = self.device.chip.removeprefix("sm_").rstrip("a")
            numbers = {75: int(number[:-1]), 76: int(number[-1]), **_CUDA_NUMBERS}
        numbers |= dict.fromkeys(_SHARED_NUMBERS, self.device.shared_bytes or 0)
        found._obj.value = numbers.get(attribute, 0)
        return 0

    def _properties(self, found: Any, ordinal: int) -> int:
        """HIP's, of which only the chip's name is told."""
        features = ":sramecc+:xnack-" if self.device.chip in _WITH_FEATURES else ""
        name = f"{self.device.chip}{features}".encode()
        ctypes.memmove(ctypes.addressof(found) + _CHIP_NAME, name + b"\0", len(name) + 1)
        return 0

    def _version(self, found: Any) -> int:
        found._obj.value = _HIP_VERSION
        return 0

    def _function_attribute(self, found: Any, attribute: int, function: Any) -> int:
        emulated = self._functions[function.value - 1][1]
        found._obj.value = emulated.most_lanes if attribute == _LANES else 0
        return 0

    def _argument(self, function: Any, number: Any, place: Any, size: Any) -> int:
        """Where an argument lies among all, and its bytes."""
        sizes = self._functions[function.value - 1][1].argument_sizes
        if number.value >= len(sizes):
            return _INVALID
        end = 0
        for bytes_ in sizes[: number.value + 1]:
            place._obj.value = -(-end // min(bytes_, 64)) * min(bytes_, 64)
            end = place._obj.value + bytes_
        size._obj.value = sizes[number.value]
        return 0

    def _set_attribute(self, function: Any, attribute: int, value: int) -> int:
        if attribute == _SHARED_LIMIT:
            self._shared[function.value] = value
        return 0

    def _encode_tensor_map(self, found: Any, kind: int, rank: int, *rest: Any) -> int:
        """CUDA's descriptor of an array, as the emulator reads it."""
        address, extents, strides, box, steps, interleave, swizzle, _promotion, fill = rest
        data = encode(
            kind, address.value or 0, extents[:rank], strides[: rank - 1], box[:rank],
            steps[:rank], interleave=interleave, swizzle=swizzle, fill=fill,
        )  # fmt: skip
        if not data:
            return _INVALID
        ctypes.memmove(found, data, len(data))
        return 0

    def _load(self, found: Any, image: bytes) -> int:
        module = self._loader(image, self.device)
        if module is None:
            return _OTHER_CHIP
        self._modules.append(module)
        found._obj.value = len(self._modules)
        return 0

    def _function(self, found: Any, module: Any, name: bytes) -> int:
        function = self._modules[module.value - 1].get(name.decode())
        if function is None:
            return _NOT_FOUND
        self._functions.append((name.decode(), function))
        found._obj.value = len(self._functions)
        return 0

    def _allocate(self, found: Any, size: Any) -> int:
        try:
            found._obj.value = self.device.memory.allocate(size.value)
        except MemoryError:
            return _OUT_OF_MEMORY
        return 0

    def _free(self, address: Any) -> int:
        with contextlib.suppress(KeyError):
            self.device.memory.free(address.value or 0)
            return 0
        return _INVALID

    def _to_device(self, address: Any, source: Any, size: Any, stream: Any) -> int:
        try:
            self.device.memory.write(address.value, ctypes.string_at(source, size.value))
        except ValueError:
            return _INVALID
        if self._inputs_stay:
            self.device.memory.protect(address.value)
        return 0

    def _from_device(self, target: Any, address: Any, size: Any) -> int:
        try:
            ctypes.memmove(target, self.device.memory.read(address.value, size.value), size.value)
        except ValueError:
            return _INVALID
        return 0

    def _copy(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        memory = self.device.memory
        try:
            memory.write(target.value, memory.read(source.value, size.value))
        except ValueError:
            return _INVALID
        return 0

    def _fill_bytes(self, address: Any, word: Any, count: Any, stream: Any) -> int:
        return self._fill(address.value, word.value.to_bytes(1, "little") * count.value)

    def _fill_words(self, address: Any, word: Any, count: Any, stream: Any) -> int:
        return self._fill(address.value, word.value.to_bytes(4, "little") * count.value)

    def _fill(self, address: int, content: bytes) -> int:
        try:
            self.device.memory.write(address, content)
        except ValueError:
            return _INVALID
        return 0

    def _launch(self, function: Any, *rest: Any) -> int:
        *extents, _stream, places, _extra = rest
        return self._execute(self._bound(function.value, extents, places))

    def _bound(self, number: int, extents: Sequence[int], places: Any) -> "_BoundLaunch":
        """A launch with its arguments' bytes, which the driver copies when it is told of it."""
        sizes = self._functions[number - 1][1].argument_sizes
        arguments = [ctypes.string_at(places[place], size) for place, size in enumerate(sizes)]
        return _BoundLaunch(number, tuple(extents), arguments)

    def _execute(self, bound: "_BoundLaunch") -> int:
        gx, gy, gz, bx, by, bz, shared = bound.extents
        usual = _USUAL_SHARED if self.device.kind == "cuda" else shared
        if shared > self._shared.get(bound.number, usual):
            return _INVALID
        name, emulated = self._functions[bound.number - 1]
        self.launches += 1
        launch = EmulatedLaunch(
            self.device, name, (gx, gy, gz), (bx, by, bz), shared, bound.arguments
        )
        emulated.launch(launch)
        self.device.memory.findings.check(name)
        return 0

    def _graph(self, found: Any, flags: int) -> int:
        """CUDA's graphs: launches that are told once, and started together."""
        self._graphs.append([])
        found._obj.value = len(self._graphs)
        return 0

    def _add_node(self, found: Any, graph: Any, before: Any, count: Any, described: Any) -> int:
        nodes = self._graphs[graph.value - 1]
        nodes.append(self._node(described._obj))
        found._obj.value = len(nodes)
        return 0

    def _node(self, described: Any) -> "_BoundLaunch":
        """A launch from CUDA_KERNEL_NODE_PARAMS."""
        count = len(self._functions[described.function - 1][1].argument_sizes)
        places = (ctypes.c_void_p * count).from_address(described.arguments)
        return self._bound(described.function, list(described.extents), places)

    def _instantiate(self, found: Any, graph: Any, flags: Any) -> int:
        self._graphs.append(list(self._graphs[graph.value - 1]))
        found._obj.value = len(self._graphs)
        return 0

    def _set_node(self, made: Any, node: Any, described: Any) -> int:
        self._graphs[made.value - 1][node.value - 1] = self._node(described._obj)
        return 0

    def _launch_graph(self, made: Any, stream: Any) -> int:
        return next(filter(None, map(self._execute, self._graphs[made.value - 1])), 0)


@dataclass(frozen=True)
class _BoundLaunch:
    number: int
    extents: tuple[int, ...]
    arguments: Sequence[bytes]


def _nothing(*_arguments: Any) -> int:
    return 0
