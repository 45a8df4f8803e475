"""Call the GPU kernels of the folder that this file lies in, with NumPy and the driver.

    python launch.py                          says what is taken, and what is launched
    python launch.py X.npy 0.5 n=100 ...      runs it on arrays and numbers in that order (zeros for
                                              those that are not given), and writes all arrays,
                                              results among them, to NAME.npy

A program's function comes first, where it is neither the only one nor ``main``.

From Python: ``Kernels(folder)(x, 0.5, y)`` changes the arrays in place.
"""

import ast
import contextlib
import ctypes
import functools
import json
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

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
}
DRIVERS: dict[str, dict[str, Any]] = {"rocm": _HIP, "cuda": _CUDA}
"""The driver's libraries and functions, by the kind of target."""

_OTHER_CHIP = 209  # CUDA_ERROR_NO_BINARY_FOR_GPU
_SHARED_LIMIT = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_LOST = (4, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999)
"""Both drivers' statuses after which a process gets nothing more from its GPU: faults, asserts."""
_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and MINOR
_MOST_EXTENT = (1 << 31) - 1  # of a grid
_USUAL_SHARED = 48 << 10  # bytes for which it need not be raised

# CUtensorMapDataType; words of their width for what is not listed there.
_MAP_TYPES = {
    "uint8": 0, "int8": 0, "float8_e4m3fn": 0, "float8_e5m2": 0, "uint16": 1, "int16": 1,
    "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9,
}  # fmt: skip
TensorMap = ctypes.c_uint64 * 16


class DriverError(RuntimeError):
    """There is no driver, or it refused."""


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


Step = Mapping[str, Any]


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
    """A launch that was prepared: called with addresses, tensor maps and a stream.

    Arguments of a kernel are passed by their places in memory: those of numbers stay, those of
    addresses are made anew by each call, which may be one of several threads.
    """

    def __init__(
        self, gpu: "Gpu", function: Any, extents: Sequence[int], arguments: Sequence[Step]
    ) -> None:
        self._launch, self._check = gpu.launcher()
        self._function, self._extents = function, tuple(extents)
        self._arrays = [one["array"] for one in arguments if "array" in one]
        self._maps = [
            (place, one["tensor_map"]) for place, one in enumerate(arguments) if "tensor_map" in one
        ]
        self._numbers = {
            place: scalar(one["value"], one["dtype"])
            for place, one in enumerate(arguments)
            if "value" in one
        }
        self._known = [
            ctypes.addressof(self._numbers[place]) if place in self._numbers else 0
            for place in range(len(arguments))
        ]
        self._open = [place for place, one in enumerate(arguments) if "array" in one]
        self._addresses = ctypes.c_uint64 * len(self._arrays)
        self._places = ctypes.c_void_p * len(arguments)

    @property
    def function(self) -> Any:
        """The driver's kernel."""
        return self._function

    @property
    def extents(self) -> tuple[int, ...]:
        """Workgroups along x, y, z, lanes along x, y, z, and bytes of dynamic shared memory."""
        return self._extents

    @property
    def names(self) -> set[str]:
        """The arrays and tensor maps that are passed."""
        return {*self._arrays, *(name for _, name in self._maps)}

    def arguments(self, addresses: Mapping[str, int], maps: Mapping[str, Any]) -> tuple[Any, Any]:
        """The places of the arguments, and the memory of the addresses, which must outlive them."""
        own = self._addresses(*[addresses[name] for name in self._arrays])
        first, places = ctypes.addressof(own), self._known.copy()
        for number, place in enumerate(self._open):
            places[place] = first + 8 * number
        for place, name in self._maps:
            places[place] = ctypes.addressof(maps[name])
        return self._places(*places), own

    def __call__(self, addresses: Mapping[str, int], maps: Mapping[str, Any], stream: int) -> None:
        """Launch it, and do not wait."""
        places, _own = self.arguments(addresses, maps)
        status = self._launch(self._function, *self._extents, stream, places, None)
        if status:
            self._check(status)


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
        if self.cuda and self._is_current():
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

    def _is_current(self) -> bool:
        """Whether this thread has CUDA's context of the GPU already, as PyTorch's threads do."""
        found = ctypes.c_void_p()
        self.named("cuCtxGetCurrent", ctypes.byref(found))
        return found.value is not None and found.value == self._context.value

    def load(self, images: Sequence[bytes]) -> ctypes.c_void_p:
        """The module of the first image that is for this chip."""
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

    def prepared(self, function: Any, step: Step) -> "PreparedLaunch":
        """A launch of a kernel with numbers for extents, of which only addresses are left open.

        Raises:
            DriverError: for extents that no grid has.
        """
        shared = step["shared"]
        # The limit stays at the most of what was prepared: any of it may be launched next.
        if self.cuda and shared > self._limits.get(function.value, _USUAL_SHARED):
            self.named("cuFuncSetAttribute", function, _SHARED_LIMIT, shared)
            self._limits[function.value] = shared
        numbers = (*step["grid"], *step["block"], shared)
        if max(numbers) > _MOST_EXTENT:
            raise DriverError(f"{step['launch']} is launched with {max(numbers)}; 2^31 - 1 is most")
        return PreparedLaunch(self, function, numbers, step["arguments"])

    def tensor_map(self, step: Step, address: int) -> Any:
        """CUDA's descriptor of an array, and of the boxes that are copied of it."""
        rank = len(step["extents"])
        words = (ctypes.c_uint64 * 24)()  # 128 bytes that begin at a multiple of 64
        made = TensorMap.from_buffer(words, -ctypes.addressof(words) % 64)
        whole, box = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
        self.named(
            "cuTensorMapEncodeTiled", ctypes.byref(made), _MAP_TYPES[step["dtype"]], rank,
            ctypes.c_void_p(address), whole(*step["extents"]), whole(*step["strides"]),
            box(*step["box"]), box(*step["steps"]),
            step["interleave"], step["swizzle"], step["l2_promotion"], step["fill"],
        )  # fmt: skip
        return made

    def launcher(self) -> tuple[Callable[..., int], Callable[[int], None]]:
        """The driver's function that launches, and what raises for its status."""
        name = self.names["launch"]
        launch = getattr(self._library, name)
        pointer, number = ctypes.c_void_p, ctypes.c_uint
        launch.argtypes = [pointer, *[number] * 7, pointer, pointer, pointer]
        return launch, lambda status: self._check(name, status)

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
        raise DriverError(message)

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

BINARIES = ("kernel.hsaco", "kernel.cubin", "kernel.ptx")
"""Binaries that a driver loads; PTX where the cubin is for another chip."""

PARAMETERS = "parameters.bin"
"""A program's constants."""

_KEPT = 64  # calls with other numbers, of which it is known what they launch

# Types that NumPy lacks are moved as integers of their width.
_WORDS = {"bfloat16": "uint16", "float8": "uint8", "int4": "uint8", "bool": "uint8"}


def numpy_type(dtype: str) -> np.dtype:
    """The type of the elements, or integers of their width."""
    return np.dtype(_WORDS.get(dtype.partition("_")[0], dtype))


_ARITHMETIC = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.operator, ast.UnaryOp,
    ast.unaryop, ast.BoolOp, ast.boolop, ast.Compare, ast.cmpop, ast.IfExp, ast.Call,
)  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "int": int, "float": float}


@functools.cache
def _compiled(text: str) -> Any:
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        known = isinstance(node, _ARITHMETIC)
        if isinstance(node, ast.Call):
            known = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        if not known:
            raise ValueError(f"the launch plan has {text!r}: {ast.unparse(node)} is no arithmetic")
    return compile(tree, "<launch plan>", "eval")


def number(value: int | str, names: Mapping[str, Any]) -> Any:
    """Evaluate a number of a plan, given the values of names."""
    if not isinstance(value, str):
        return value
    return eval(_compiled(value), {"__builtins__": {}, **_FUNCTIONS}, names)


def bind(
    plan: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], numbers: Mapping[str, Any]
) -> dict[str, int]:
    """The extents that the arrays' shapes give, all of which must fit; some may be ``numbers``."""
    names: dict[str, int] = {}
    arrays = [one for one in plan["parameters"] if "shape" in one]
    for one in arrays:
        name, shape = one["name"], shapes[one["name"]]
        if len(shape) != len(one["shape"]):
            raise ValueError(f"{name} has rank {len(shape)}; expected {len(one['shape'])}")
        for extent, came in zip(one["shape"], shape, strict=True):
            if extent in plan["symbols"]:
                names.setdefault(extent, came)
    for one in arrays:
        for axis, (extent, came) in enumerate(zip(one["shape"], shapes[one["name"]], strict=True)):
            if came != (wanted := number(extent, {**numbers, **names})):
                raise ValueError(f"{one['name']} axis {axis} has extent {came}; expected {wanted}")
    return names


def follow(steps: Sequence[Step], names: dict[str, Any], do: Callable[[Step], None]) -> None:
    """Do what a plan says: the steps that are no arithmetic, with numbers for their texts."""
    for step in steps:
        if "let" in step:
            names[step["let"]] = number(step["value"], names)
        elif "if" in step:
            follow(step["then"] if number(step["if"], names) else step["else"], names, do)
        elif "for" in step:
            start = number(step["from"], names)
            for count in range(number(step["count"], names)):
                names[step["for"]] = start + count
                follow(step["steps"], names, do)
        else:
            do({key: _settled(key, value, names) for key, value in step.items()})


def _settled(key: str, value: Any, names: Mapping[str, Any]) -> Any:
    if key == "arguments":
        return [
            {**one, "value": number(one["value"], names)} if "value" in one else one
            for one in value
        ]
    if key in _NAMES:
        return value
    return (
        [number(one, names) for one in value] if isinstance(value, list) else number(value, names)
    )


_NAMES = ("allocate", "launch", "tensor_map", "array", "dtype")  # what is no number in a step


class Kernels:
    """The kernels of an artifact on a GPU, and the plan by which they are launched."""

    def __init__(
        self,
        folder: Path | str = Path(__file__).parent,
        ordinal: int = 0,
        function: str | None = None,
        library: Any = None,
    ) -> None:
        """Load them: those of a program's ``function``, by default its only one or ``main``.

        ``library`` stands for the driver's, which is looked for where it is None.
        """
        folder = Path(folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        self.plan: Mapping[str, Any] = plan_of(manifest, function)
        self._parameters = folder / PARAMETERS
        images = [(folder / name).read_bytes() for name in BINARIES if (folder / name).exists()]
        if not images:
            raise DriverError(f"{folder} has the source only; compile kernel.cu to kernel.cubin")
        self.gpu = Gpu(manifest["target"]["kind"], ordinal, library)
        with self.gpu.current():
            self._module = self.gpu.load(images)
        self._functions: dict[str, ctypes.c_void_p] = {}
        self._known: dict[str, list[Step | PreparedLaunch]] = {}
        self._constants: dict[str, int] | None = None if self.plan.get("constants") else {}
        self._lock = threading.Lock()

    def constants(self) -> dict[str, int]:
        """Addresses of a program's constants on the GPU; they stay there from the first call on."""
        if self._constants is not None:
            return self._constants
        with self._lock:
            if self._constants is None:
                found: dict[str, int] = {}
                taken: list[Callable[[], None]] = []  # goes back where one fails
                with afterwards(taken):
                    for one in self.plan.get("constants", ()):
                        count, kind = math.prod(one["shape"]), numpy_type(one["dtype"])
                        array = np.fromfile(self._parameters, kind, count, offset=one["offset"])
                        found[one["name"]] = address = self.gpu.allocate(array.nbytes)
                        taken.append(functools.partial(self.gpu.free, address))
                        self.gpu.write(address, array.ctypes.data, array.nbytes)
                        self.gpu.wait()  # whatever stream reads it, now and later
                    taken.clear()
                self._constants = found
            return self._constants

    def enqueue(
        self,
        arrays: Mapping[str, int],
        numbers: Mapping[str, Any],
        *,
        allocate: Callable[[int], int],
        stream: int = 0,
    ) -> None:
        """Launch what the plan says, on a stream, and do not wait.

        Args:
            arrays: addresses on the GPU, by the parameters' names.
            numbers: the other parameters, and the extents that shapes give (:func:`bind`).
            allocate: what gives addresses of so many bytes that live until all is done.
            stream: of the driver's; 0 is the default stream.
        """
        steps, known = self.settled(numbers), self.constants()
        workspaces = {
            step["allocate"]: allocate(step["bytes"])
            for step in steps
            if not isinstance(step, PreparedLaunch) and "allocate" in step
        }
        self.launch(steps, {**known, **arrays, **workspaces}, stream)

    def launch(
        self, steps: Sequence[Step | PreparedLaunch], addresses: Mapping[str, int], stream: int
    ) -> None:
        """Launch what :meth:`settled` gave, on a stream; ``addresses`` are those of all arrays."""
        maps: dict[str, Any] = {}
        for step in steps:
            if isinstance(step, PreparedLaunch):
                step(addresses, maps, stream)
            elif "tensor_map" in step:
                maps[step["tensor_map"]] = self.gpu.tensor_map(step, addresses[step["array"]])

    def settled(self, numbers: Mapping[str, Any]) -> list[Step | PreparedLaunch]:
        """What is done for some numbers; kept, since most calls have those of an earlier one."""
        key = repr(numbers)  # by their text: 0.0 is equal to -0.0
        if (known := self._known.get(key)) is not None:
            return known
        made: list[Step | PreparedLaunch] = []

        def do(step: Step) -> None:
            if "launch" not in step:
                made.append(step)
            elif 0 not in step["grid"]:
                made.append(self.gpu.prepared(self._function(step["launch"]), step))

        follow(self.plan["steps"], dict(numbers), do)
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[key] = made
        return made

    def _function(self, name: str) -> ctypes.c_void_p:
        if name not in self._functions:
            self._functions[name] = self.gpu.function(self._module, name)
        return self._functions[name]

    def __call__(self, *arguments: Any) -> None:
        """Run it on contiguous arrays, changed in place, and numbers, and wait for it."""
        parameters = self.plan["parameters"]
        if len(arguments) != len(parameters):
            raise ValueError(f"{len(parameters)} arguments are taken; {len(arguments)} came")
        numbers: dict[str, Any] = {}
        given: dict[str, np.ndarray] = {}
        for one, value in zip(parameters, arguments, strict=True):
            if "shape" not in one:
                numbers[one["name"]] = value
                continue
            wanted = numpy_type(one["dtype"]).itemsize
            if value.dtype.itemsize != wanted or not value.flags.c_contiguous:
                raise ValueError(
                    f"{one['name']} is {value.dtype}; expected {one['dtype']}, contiguous"
                )
            given[one["name"]] = value
        numbers |= bind(self.plan, {name: value.shape for name, value in given.items()}, numbers)
        with self.gpu.current(), self.memory() as allocate:
            addresses = {name: allocate(value.nbytes) for name, value in given.items()}
            for name, value in given.items():
                self.gpu.write(addresses[name], value.ctypes.data, value.nbytes)
            self.enqueue(addresses, numbers, allocate=allocate)
            self.gpu.wait()
            for name, value in given.items():
                if value.flags.writeable:
                    self.gpu.read(value.ctypes.data, addresses[name], value.nbytes)

    @contextlib.contextmanager
    def memory(self) -> Iterator[Callable[[int], int]]:
        """An allocator on the GPU; all of its memory is freed at the end."""
        taken: list[Callable[[], None]] = []

        def allocate(size: int) -> int:
            address = self.gpu.allocate(size)
            taken.append(functools.partial(self.gpu.free, address))
            return address

        with afterwards(taken):
            yield allocate


def plan_of(manifest: Mapping[str, Any], function: str | None = None) -> Mapping[str, Any]:
    """The launch plan of a kernel, or of a program's function."""
    launch = manifest["launch"]
    if "steps" in launch:
        return launch
    name = function or (next(iter(launch)) if len(launch) == 1 else "main")
    if name not in launch:
        raise ValueError(f"the program has no function {name!r}; there are {', '.join(launch)}")
    return launch[name]


def _described(plan: Mapping[str, Any]) -> str:
    operands = ", ".join(
        f"{one['name']}: {one['dtype']}{one.get('shape', '')}" for one in plan["parameters"]
    )
    return f"({operands})\n" + "\n".join(map(json.dumps, plan["steps"]))


def main(arguments: list[str]) -> None:
    """The command: see the top of the file."""
    folder = Path(__file__).parent
    manifest = json.loads((folder / "manifest.json").read_text())
    launch, function = manifest["launch"], None
    if arguments and arguments[0] in launch and "steps" not in launch:
        function, *arguments = arguments
    plan = plan_of(manifest, function)
    if not arguments:
        print(_described(plan))
        return
    sizes = dict(one.split("=") for one in arguments if "=" in one)
    names: dict[str, Any] = {name: int(value) for name, value in sizes.items()}
    given = [one for one in arguments if "=" not in one]
    values: list[Any] = []
    for one, text in zip(plan["parameters"], given, strict=False):
        values.append(np.load(text) if "shape" in one else ast.literal_eval(text))
        if "shape" in one:
            known = zip(one["shape"], values[-1].shape, strict=False)
            names |= {extent: came for extent, came in known if extent in plan["symbols"]}
    for one in plan["parameters"][len(values) :]:
        shape = [number(extent, names) for extent in one.get("shape", ())]
        values.append(np.zeros(shape, numpy_type(one["dtype"])) if "shape" in one else 0)
    Kernels(folder, function=function)(*values)
    for one, value in zip(plan["parameters"], values, strict=True):
        if "shape" in one:
            np.save(f"{one['name']}.npy", value)


if __name__ == "__main__":
    main(sys.argv[1:])
