"""Call the GPU kernels of the folder that this file lies in, with NumPy and the driver.

    python launch.py                          says what is taken, and what is launched
    python launch.py X.npy 0.5 n=100 ...      runs it on arrays and numbers in that order (zeros for
                                              those that are not given), and writes all arrays,
                                              results among them, to NAME.npy; results whose
                                              extents only the run tells, to result0.npy ...

A program's function comes first, where it is neither the only one nor ``main``.

From Python: ``Kernels(folder)(x, 0.5, y)`` changes the arrays in place, and returns results whose
extents only the run tells.
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

from tvm_iree_ext.runtime.launch.binary_file import chosen, read_binary
from tvm_iree_ext.runtime.launch.driver import (
    DriverError,
    Gpu,
    LaunchError,
    LaunchFrame,
    PreparedLaunch,
    afterwards,
)
from tvm_iree_ext.runtime.launch.driver_answers import (
    chip_of_gpu,
    gpu_limits,
    hip_version,
    kernel_report,
)
from tvm_iree_ext.runtime.launch.host_plan import ComputedArray, HostCall, HostPlan
from tvm_iree_ext.runtime.launch.launch_contract import GpuLimits, KernelReport, Step, disagreements
from tvm_iree_ext.runtime.launch.plan_steps import arrays_of, bind, follow, is_prepared, number

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


class PreparedPlan:
    """What a plan does for some numbers: called with addresses, again and again, by any thread.

    Args:
        gpu: that launches.
        steps: of the plan that are no arithmetic, with numbers for their texts.
        arrays: whose addresses come with a call; those of ``workspaces`` come after them.
        constants: gives the addresses that stay, at the first call.
    """

    def __init__(
        self,
        gpu: Gpu,
        steps: Sequence[Step | PreparedLaunch],
        arrays: Sequence[str],
        constants: Callable[[], Mapping[str, int]],
    ) -> None:
        self.gpu, self.steps, self._constants = gpu, steps, constants
        others = [step for step in steps if not isinstance(step, PreparedLaunch)]
        taken: dict[str, int] = {}
        for step in others:
            if "allocate" in step:  # by several rounds of a loop, one after another
                name = step["allocate"]
                taken[name] = max(step["bytes"], taken.get(name, 0))
        self.workspaces: Sequence[int] = tuple(taken.values())
        """Bytes of each."""
        self.arrays = (*arrays, *taken)
        self.launches = len(steps) - len(others)
        self._frames: list[LaunchFrame] = []  # that no call has

    def frame(self) -> LaunchFrame:
        """Memory out of which the launches are made."""
        return LaunchFrame(self.gpu, self.steps, self.arrays, self._constants())

    def __call__(self, addresses: Sequence[int], stream: int) -> None:
        """Launch on a stream, and do not wait.  The GPU must be current."""
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = self.frame()
        frame(addresses, stream)
        self._frames.append(frame)


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

        Raises:
            LaunchError: where the GPU runs none of the binaries.
            DriverError: where there is no driver or no binary, or the driver refuses.
        """
        folder = Path(folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        self.plan: Mapping[str, Any] = plan_of(manifest, function)
        self._parameters = folder / PARAMETERS
        images = {
            name: (folder / name).read_bytes() for name in BINARIES if (folder / name).exists()
        }
        if not images:
            raise DriverError(f"{folder} has the source only; compile kernel.cu to kernel.cubin")
        target = manifest["target"]
        self.gpu = Gpu(target["kind"], ordinal, library)
        with self.gpu.current():
            self._chip = chip_of_gpu(self.gpu)
            binaries, why = chosen(
                [read_binary(name, image) for name, image in images.items()],
                target["kind"], str(target.get("arch", target.get("mcpu", ""))), self._chip,
                hip_version(self.gpu),
            )  # fmt: skip
            if why:
                raise LaunchError(f"{folder}: {why}")
            self._module = self.gpu.load([images[one.name] for one in binaries])
        self._reports: dict[str, KernelReport] = dict(binaries[0].kernels or {})
        self._limits: GpuLimits | None = None
        self._functions: dict[str, ctypes.c_void_p] = {}
        self._known: dict[str, PreparedPlan] = {}
        self._host_plan: HostPlan | None = None
        self._arrays = [one["name"] for one in self.plan["parameters"] if "shape" in one]
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
    ) -> list[ComputedArray]:
        """Launch what the plan says, on a stream; wait only for numbers that the host reads.

        The results whose extents only the run tells are where they are once all is done.

        Args:
            arrays: addresses on the GPU, by the parameters' names.
            numbers: the other parameters, and the extents that shapes give (:func:`bind`).
            allocate: what gives addresses of so many bytes that live until all is done.
            stream: of the driver's; 0 is the default stream.

        Raises:
            LaunchError: for a launch that the kernel or the GPU does not take.
            Unmet: where what the plan requires does not hold.
        """
        if not self.is_prepared:
            if self._host_plan is None:
                self._host_plan = HostPlan(self.plan["steps"], self._stretch)
            addresses = {**self.constants(), **arrays}
            call = HostCall(self.gpu, dict(numbers), addresses, allocate, stream)
            self._host_plan(call)
            return [call.array(one) for one in self.plan.get("results", ())]
        prepared = self.prepared(numbers)
        taken = [allocate(size) for size in prepared.workspaces]
        prepared([*[arrays[name] for name in self.arrays], *taken], stream)
        return []

    @functools.cached_property
    def is_prepared(self) -> bool:
        """Whether the numbers of a call say what is launched; else kernels do, in the call."""
        return "results" not in self.plan and is_prepared(self.plan["steps"])

    def _stretch(self, steps: Sequence[Step], names: dict[str, Any]) -> PreparedPlan:
        constants = self.constants()
        arrays = [name for name in arrays_of(steps) if name not in constants]
        return PreparedPlan(self.gpu, self._launches(steps, names), arrays, lambda: constants)

    @property
    def arrays(self) -> Sequence[str]:
        """The parameters that are arrays, in their order."""
        return self._arrays

    def prepared(self, numbers: Mapping[str, Any]) -> PreparedPlan:
        """What is done for some numbers; kept, since most calls have those of an earlier one.

        Raises:
            LaunchError: for a launch that the kernel or the GPU does not take, and where the host
                decides what is launched.
        """
        if not self.is_prepared:
            raise LaunchError("what is launched hangs on what kernels compute; see Kernels.enqueue")
        key = repr(numbers)  # by their text: 0.0 is equal to -0.0
        if (known := self._known.get(key)) is not None:
            return known
        steps = self._launches(self.plan["steps"], dict(numbers))
        if len(self._known) >= _KEPT:
            self._known.clear()
        made = self._known[key] = PreparedPlan(self.gpu, steps, self._arrays, self.constants)
        return made

    def _launches(self, plan: Sequence[Step], names: dict[str, Any]) -> list[Step | PreparedLaunch]:
        """What steps of the plan do for the values of names, which they add to."""
        steps: list[Step | PreparedLaunch] = []

        def do(step: Step) -> None:
            if "launch" not in step:
                steps.append(step)
            elif 0 not in step["grid"]:
                self._check(step)
                steps.append(self.gpu.prepared(self._function(step["launch"]), step))

        follow(plan, names, do)
        return steps

    def _check(self, step: Step) -> None:
        """Check a launch beside what was loaded, and what the driver says of the GPU."""
        name = step["launch"]
        if self._limits is None:
            self._limits = gpu_limits(self.gpu, self._chip)
        if name not in self._reports and self.gpu.cuda:
            count = len(step["arguments"])
            self._reports[name] = kernel_report(self.gpu, self._function(name), count)
        if name in self._reports:  # else the driver says that it has no such kernel
            for problem in disagreements(step, self._reports[name], self._limits):
                raise LaunchError(f"{name} on {self._limits.name or 'this GPU'}: {problem}")

    def _function(self, name: str) -> ctypes.c_void_p:
        if name not in self._functions:
            self._functions[name] = self.gpu.function(self._module, name)
        return self._functions[name]

    def __call__(self, *arguments: Any) -> list[np.ndarray]:
        """Run it on contiguous arrays, changed in place, and numbers, and wait for it.

        Returns the results whose extents only the run tells.
        """
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
            computed = self.enqueue(addresses, numbers, allocate=allocate)
            self.gpu.wait()
            for name, value in given.items():
                if value.flags.writeable:
                    self.gpu.read(value.ctypes.data, addresses[name], value.nbytes)
            results = [np.empty(one.shape, numpy_type(one.dtype)) for one in computed]
            for one, value in zip(computed, results, strict=True):
                self.gpu.read(value.ctypes.data, one.address, value.nbytes)
        return results

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
    results = Kernels(folder, function=function)(*values)
    for one, value in zip(plan["parameters"], values, strict=True):
        if "shape" in one:
            np.save(f"{one['name']}.npy", value)
    for place, value in enumerate(results):
        np.save(f"result{place}.npy", value)


if __name__ == "__main__":
    main(sys.argv[1:])
