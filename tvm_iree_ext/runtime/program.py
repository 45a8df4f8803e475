"""A compiled program: functions that share a library and constants, called with arrays.

Here, too, is what loads any artifact.  A program's functions are run by the virtual machine of the
TVM runtime, from ``program.vm``: which kernels of the library to call on which memory.  No compiler
is needed, and ``tvm`` is not imported.
"""

import ctypes
import functools
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from tvm_iree_ext.base.dtypes import COMPLEX_PARTS, item_bytes, numpy_dtype
from tvm_iree_ext.base.errors import ArtifactError, CallError
from tvm_iree_ext.base.operand_parts import parts_of
from tvm_iree_ext.base.signature import Signature, shape_text
from tvm_iree_ext.runtime import arrays, artifact, complex_arrays, kernel
from tvm_iree_ext.runtime import tvm_runtime as runtime
from tvm_iree_ext.runtime.arrays import Port
from tvm_iree_ext.runtime.calls import Caller, ordered
from tvm_iree_ext.runtime.complex_results import ComplexResults
from tvm_iree_ext.runtime.gpu_function import GpuFunction, is_on_gpu
from tvm_iree_ext.runtime.kernel import Kernel, LoadedArtifact
from tvm_iree_ext.runtime.launch.gpu_targets import DLPACK_DEVICES
from tvm_iree_ext.runtime.manifest import Function, Parameter, ProgramManifest
from tvm_iree_ext.runtime.program_control import functions_of
from tvm_iree_ext.runtime.program_profile import Profile, profile
from tvm_iree_ext.runtime.program_state import ProgramState
from tvm_iree_ext.runtime.strided_arrays import StridedPort
from tvm_iree_ext.runtime.torch_arrays import outside_graphs
from tvm_iree_ext.runtime.torch_operator import TorchOperator, defined
from tvm_iree_ext.runtime.updated_arguments import UpdatedArguments

BYTECODE = "program.vm"
PARAMETERS = "parameters.bin"
ALIGNMENT = 64  # of each parameter in its file
_TAKEN = (np.ndarray, tvm_ffi.Tensor, int, float, bool)
_EXTENTS = re.compile(r"\((-?\d+) vs\. (-?\d+)\).*match_cast, ty=R\.Tensor\(\((.*?),?\), dtype")
_CPU, _POOLED = 1, 2  # kDLCPU; the allocator that keeps what is freed for the next call


class ProgramFunction:
    """A function of a program, called like a :class:`~tvm_iree_ext.runtime.kernel.Kernel`.

    Complex operands are arrays of ``complex64`` or ``complex128``, of any kind.
    Results are arrays of the kind of the first array, in memory that is the caller's alone.
    """

    def __init__(self, program: "Program", function: Function) -> None:
        self._program = program
        self._function = function
        self.name = function.name
        self.signature = function.signature
        parts = Signature(tuple(p for o in function.signature.operands for p in parts_of(o)))
        self._gpu = DLPACK_DEVICES.get(str(program.target.get("kind")))
        self._caller = Caller(function.name, parts, self._gpu)
        self._arguments = function.signature.arguments
        self._updates = UpdatedArguments(function.name, function.signature, self._caller)
        operands = function.signature.operands
        self._is_complex = any(operand.dtype in COMPLEX_PARTS for operand in operands)
        self._is_split = any(
            o.role == "unused" or o.strides or o.dtype in COMPLEX_PARTS for o in operands
        )
        self._complex_ports = {
            operand.name: Port(self.name, operand, self._gpu)
            for operand in self._arguments
            if operand.dtype in COMPLEX_PARTS
        }
        self._strided_ports = {
            operand.name: StridedPort(self.name, operand, self._gpu)
            for operand in self._arguments
            if operand.strides
        }
        self._scalars = tuple(operand.role == "scalar" for operand in parts.arguments)
        # On a GPU, with operands that are passed as they come.
        self._is_repeatable = (
            self._gpu is not None
            and not self._is_split
            and not self._updates
            and True not in self._scalars
        )
        arrays_in = [n for n, o in enumerate(self._arguments) if o.role == "input"]
        # Its kind is that of the results; a tensor of rank 0 may come as a number.
        arrays_in.sort(key=lambda place: self._arguments[place].shape == ())
        self._first_array = arrays_in[0] if arrays_in else None

    def __repr__(self) -> str:
        operands = ", ".join(map(str, self.signature.arguments))
        results = ", ".join(f"{o.dtype}{shape_text(o.shape)}" for o in self.signature.results)
        return f"<ProgramFunction {self.name}({operands}) -> {results}>"

    @outside_graphs
    def __call__(self, *arguments: Any, out: Any = None, **named: Any) -> Any:
        """Compute the results: bare for one, a tuple for several.

        Raises:
            CallError: for arguments that do not fit; nothing was computed, ``out`` is untouched.
                Some programs raise it for values, too.
            ArtifactError: for a program that was loaded lazily and does not run on this machine.
        """
        launched = self._program.launched(self.name) if self._is_repeatable else None
        if launched is not None and not named:
            found = launched.again(arguments, out)
            if found is not None:
                return found
        arguments = ordered(self.name, self._arguments, arguments, named)
        if self._is_complex and out is not None:
            return self._put_together(arguments, out)
        like = None if self._first_array is None else arguments[self._first_array]
        if self._updates:
            self._updates.check(arguments, out)
        given = arguments
        if self._is_split:
            arguments = self._split(arguments)
        shapes, passed = self._caller.inputs(arguments)
        if self._updates:
            passed = self._updates.taken(given, passed, self._copy)
        if self._gpu is not None:
            results = self._launched(given, like, shapes, passed, out)
            return results[0] if len(results) == 1 else tuple(results)
        expected = self._caller.result_shapes(shapes)
        targets = None
        if out is not None and expected is not None:
            targets = self._caller.outputs(out, expected, passed)
        elif out is not None:
            targets = self._caller.likely_outputs(out, shapes, passed)
        ports = self._caller.result_ports
        if expected and all(0 in shape for shape in expected) and not self._function.states:
            _, tensors = arrays.numpy_results(expected, ports)
            tensors = [arrays.as_tensor(t) if isinstance(t, np.ndarray) else t for t in tensors]
        else:
            passed = [
                _empty(p, shape) if shape and 0 in shape else p
                for p, shape in zip(passed, shapes, strict=True)
            ]
            tensors = self._program.run(self._function, self._boxed(passed))
        if targets is not None:
            self._caller.check_extents(targets[1], [tensor.shape for tensor in tensors])
            for target, tensor, port in zip(targets[1], tensors, ports, strict=True):
                start, end = arrays.span(target, port.item)
                ctypes.memmove(start, tensor.data_ptr(), end - start)
            results = targets[0]
        else:
            results = arrays.converted(tensors, ports, like)
            if self._is_complex:
                results = self._joined(results)
            if self._updates:
                results = self._updates.returned(given, results, tensors)
        return results[0] if len(results) == 1 else tuple(results)

    def _put_together(self, arguments: tuple[Any, ...], out: Any) -> Any:
        """A call whose results, of which a run gives the parts, are put into other arrays."""
        if self._updates:
            self._updates.check(arguments, out)
        shapes, _ = self._caller.inputs(self._split(arguments))
        bound = self._caller.signature.bind(self.name, shapes)
        results = ComplexResults(self.name, self.signature, self._gpu)
        given = results.checked(out, arguments, bound)
        found = self(*arguments)
        filled = results.filled(given, found if isinstance(found, tuple) else (found,))
        return filled[0] if len(filled) == 1 else tuple(filled)

    def profile(self, *arguments: Any, runs: int = 10, **named: Any) -> Profile:
        """Where the time of a call with these arguments goes, kernel by kernel.

        It is called ``runs`` times as it is and as many times with the profiler, on as many
        threads as any call from here.

        Raises:
            CallError: for a program for a GPU; and as the call itself does.
            ArtifactError: for an artifact that does not say what its kernels compute.
        """
        program = self._program
        if self._gpu is not None:
            raise CallError(
                f"{self.name}: profile takes programs for a CPU; this one is for"
                f" {program.target['kind']}, whose kernels its vendor's profiler times"
            )
        if not program.manifest.kernels:
            raise ArtifactError(
                f"{program.folder} does not say what its kernels are; build it anew"
            )
        call = functools.partial(self, *arguments, **named)
        return profile(self.name, program.manifest.kernels, call, program.instrument, runs)

    def torch_op(self, name: str) -> Any:
        """The function as an operator of PyTorch's; see ``Kernel.torch_op``.

        Arguments that a call updates are what the operator mutates, and are not returned.

        Raises:
            CallError: for a function that keeps state between calls, which PyTorch would not see;
                and as of a kernel.
        """
        if self._function.states:
            raise CallError(
                f"{self.name}: keeps state between calls, {', '.join(self._function.states)};"
                " PyTorch takes operators to have none"
            )
        files = self._program.manifest.files
        results = self.signature.results
        operator = TorchOperator(
            op=self.name,
            signature=self.signature,
            call=self,
            is_filling=False,
            identity=(self.name, {name: one.digest for name, one in files.items()}),
            is_on_gpu=self._gpu is not None,
            is_shaped_by_data=bool(self.signature.result_symbols),
            mutates=tuple(one.in_place_of for one in results if one.in_place_of),
        )
        return defined(name, operator)

    def _launched(
        self,
        given: Sequence[Any],
        like: Any,
        shapes: list[Any],
        passed: list[Any],
        out: Any,
    ) -> list[Any]:
        """The results, of kernels on a GPU, as arrays of the kind of ``like``."""
        self._caller.result_shapes(shapes)  # refuses what does not fit
        operands = self._caller.arguments
        passed = [
            np.array(value, numpy_dtype(operand.dtype)) if shape is None else value
            for value, operand, shape in zip(passed, operands, shapes, strict=True)
        ]
        function = self._on_gpu()
        expected = function.result_shapes([shape or () for shape in shapes])
        ports = self._updates.others(self._caller.result_ports)

        def make(shapes: Sequence[tuple[int, ...]]) -> tuple[list[Any], list[Any]]:
            if out is None:
                return function.allocator(like)(shapes, ports)
            return self._caller.outputs(out, shapes, passed)

        if expected is None:
            if out is not None:
                self._caller.likely_outputs(out, shapes, passed)
            results, tensors = function.computed(passed, make)
        else:
            results, tensors = make(expected)
            updated = [shapes[part] or () for part in self._updates.parts]
            if not all(0 in shape for shape in (*expected, *updated)):
                function(*passed, *tensors)
                if self._is_repeatable:
                    function.remember(given, [*passed, *tensors], results, out is not None)
        if self._updates:
            results = self._updates.among(results, passed)
        joined = self._joined(results) if self._is_complex else results
        return self._updates.returned(given, joined, self._updates.among(tensors, passed))

    def _on_gpu(self) -> GpuFunction:
        inputs = len(self._caller.arguments)
        return self._program.gpu_function(self._function, inputs, self._updates.parts)

    def _copy(self, value: Any, port: Port) -> Any:
        """A copy of what was taken for an array, for the call to write."""
        if not is_on_gpu(value):
            return arrays.copied(value, port)
        function = self._on_gpu()
        _, (made,) = function.allocator(value)([tuple(value.shape)], [port])
        function.copy(value, made)
        return made

    def _boxed(self, passed: list[Any]) -> list[Any]:
        """The same as what the virtual machine takes: a number is a tensor of rank 0."""
        # The virtual machine would give PyTorch's tensors back for PyTorch's.
        passed = [p if type(p) in _TAKEN else tvm_ffi.from_dlpack(p) for p in passed]
        if True not in self._scalars:
            return passed
        dtypes = [operand.dtype for operand in self._caller.signature.arguments]
        return [
            arrays.as_tensor(np.array(value, numpy_dtype(dtype))) if is_scalar else value
            for value, dtype, is_scalar in zip(passed, dtypes, self._scalars, strict=True)
        ]

    def _split(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments that are used, each complex or strided one as its two parts."""
        passed: list[Any] = []
        for value, operand in zip(arguments, self.signature.arguments, strict=True):
            if operand.role == "unused":
                continue
            if (port := self._complex_ports.get(operand.name)) is not None:
                passed += complex_arrays.parts(port, value)
            elif (strided := self._strided_ports.get(operand.name)) is not None:
                passed += strided.parts(value)
            else:
                passed.append(value)
        return tuple(passed)

    def _joined(self, parts: Sequence[Any]) -> list[Any]:
        """The results, complex ones put together from their parts."""
        results, rest = [], iter(parts)
        for operand in self.signature.results:
            result = next(rest)
            if operand.dtype in COMPLEX_PARTS:
                result = complex_arrays.joined(result, next(rest))
            results.append(result)
        return results


def _empty(value: Any, shape: tuple[int, ...]) -> Any:
    """A tensor without elements, with the strides that a kernel expects and NumPy does not give."""
    dtype = value.dtype if isinstance(value, tvm_ffi.Tensor) else tvm_ffi.from_dlpack(value).dtype
    return _empty_tensor(dtype, shape)


@functools.lru_cache(maxsize=256)  # as many calls take those of strided operands
def _empty_tensor(dtype: Any, shape: tuple[int, ...]) -> Any:
    runtime.ensure_loaded()
    allocate = tvm_ffi.get_global_func("runtime.TVMTensorAllocWithScope")
    return allocate(tvm_ffi.Shape(shape), dtype, tvm_ffi.device("cpu"), None)


class Program(LoadedArtifact, Mapping[str, ProgramFunction]):
    """The functions of a program, by name; called itself, it is its only function, or ``main``.

    Python threads may call it at once: each has its own state of the virtual machine, and all
    share the library and the constants.
    """

    manifest: ProgramManifest

    def __init__(self, folder: Path, manifest: ProgramManifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._functions = {f.name: ProgramFunction(self, f) for f in manifest.functions}
        self._executable: Any = None
        self._lock = threading.Lock()
        self._constants: dict[str, Any] = {}
        self._state = ProgramState()
        self._on_gpu: dict[str, GpuFunction] = {}
        self._gpu_library: Any = None
        self._thread = threading.local()

    def __getitem__(self, name: str) -> ProgramFunction:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __call__(self, *arguments: Any, out: Any = None, **named: Any) -> Any:
        """Call the only function, or ``main``.

        Raises:
            CallError: where there are several functions and none is called ``main``; and as
                :meth:`ProgramFunction.__call__`.
        """
        return self.main(*arguments, out=out, **named)

    def profile(self, *arguments: Any, runs: int = 10, **named: Any) -> Profile:
        """As :meth:`ProgramFunction.profile` of the only function, or ``main``."""
        return self.main.profile(*arguments, runs=runs, **named)

    def torch_op(self, name: str) -> Any:
        """As :meth:`ProgramFunction.torch_op` of the only function, or ``main``."""
        return self.main.torch_op(name)

    @property
    def main(self) -> ProgramFunction:
        """The only function, or the one called ``main``; CallError where there is neither."""
        if len(self._functions) == 1:
            return next(iter(self._functions.values()))
        if "main" not in self._functions:
            raise CallError(
                f"{self.name}: none of its functions is called main; they are"
                f" {', '.join(self._functions)}"
            )
        return self._functions["main"]

    @property
    def name(self) -> str:
        """The name of the module that the program was built from."""
        return self.manifest.name

    def __repr__(self) -> str:
        target = " ".join(str(self.target[k]) for k in ("kind", "mcpu") if k in self.target)
        return f"<Program {self.name}: {', '.join(self._functions)} for {target}>"

    def _repr_html_(self) -> str:
        from tvm_iree_ext.runtime.artifact_html import program_html

        return program_html(self.manifest)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its folder, from which the program is loaded again."""
        return functools.partial(load, lazy=self._executable is None), (self.folder,)

    def open(self, *, is_checked: bool = False) -> None:
        """Load the library, unless that is done; ``is_checked`` says that the files just were.

        Raises:
            ArtifactError: for a program that does not run on this machine, and for one whose
                folder was replaced or removed since it was loaded.
        """
        with self._lock:
            if self._executable is not None:
                return
            if not is_checked:
                artifact.check_unchanged(self.folder, self.manifest)
            library = kernel.open_library(self.folder, self.manifest)
            runtime.ensure_loaded(beside=self.folder)  # the virtual machine is in it
            for name in (BYTECODE, PARAMETERS):
                if name not in self.manifest.files:
                    raise ArtifactError(f"the artifact {self.folder} has no {name}")
            self._constants = _constants(self.folder / PARAMETERS, self.manifest.parameters)
            read = tvm_ffi.get_global_func("ffi.Module.load_from_bytes.relax.VMExecutable")
            try:
                executable = read((self.folder / BYTECODE).read_bytes())
            except (RuntimeError, ValueError) as error:
                raise ArtifactError(f"{self.folder / BYTECODE} does not load: {error}") from error
            self.link(executable, library)
            self._executable = executable

    def link(self, executable: Any, library: Any) -> None:
        """Let the virtual machine find the kernels."""
        executable.import_module(library)

    def launch_by(self, library: Any) -> None:
        """Launch kernels for a GPU by what stands for its driver's library."""
        self._gpu_library = library

    def gpu_function(
        self, function: Function, inputs: int, updated: Collection[int]
    ) -> GpuFunction:
        """The launcher of a function on a GPU; see :class:`GpuFunction`."""
        with self._lock:
            if function.name not in self._on_gpu:
                artifact.check_unchanged(self.folder, self.manifest)
                plan = self.manifest.launch.get(function.name, {})
                self._on_gpu[function.name] = GpuFunction(
                    self.folder,
                    function.name,
                    plan,
                    inputs,
                    function.name,
                    self._gpu_library,
                    updated,
                )
            return self._on_gpu[function.name]

    def launched(self, name: str) -> GpuFunction | None:
        """The launcher of a function that was called on a GPU before."""
        return self._on_gpu.get(name)

    def _start_machine(self) -> dict[str, Any]:
        """The virtual machine of this thread, and the functions of it that were called: none."""
        self.open()
        machine = self._executable["vm_load_executable"]()
        machine["vm_initialization"](_CPU, 0, _POOLED)
        self._thread.machine, self._thread.functions = machine, {}
        return self._thread.functions

    def instrument(self, told: Callable[..., int] | None) -> None:
        """Have the virtual machine of this thread tell of its calls, or of none.

        It is told the function, its name, whether this is before the call, the result and the
        arguments; it says 1 for a call that is not to be made, and 0 for others.
        """
        if getattr(self._thread, "functions", None) is None:
            self._start_machine()
        self._thread.machine["set_instrument"](told and tvm_ffi.convert(told))

    def run(self, function: Function, passed: Sequence[Any]) -> list[Any]:
        """The tensors that a function of the virtual machine returns for those passed."""
        callables = getattr(self._thread, "functions", None)
        if callables is None:
            callables = self._start_machine()
        found = callables.get(function.name)
        if found is None:
            constants = [self._constants[name] for name in function.parameters]
            self._state.begin(function.states, self._constants)
            try:
                found = callables[function.name] = self._thread.machine[function.name], constants
            except AttributeError:
                raise ArtifactError(f"{self.folder} has no function {function.name!r}") from None
        run, constants = found
        try:
            with (
                self._state.passed(function.states) as states,
                functions_of(self._thread.machine.__getitem__),
            ):
                returned = run(*passed, *states, *constants)
        except CallError:
            raise
        except (RuntimeError, ValueError, TypeError) as error:
            raise CallError(f"{function.name}: {_said(error)}") from error
        results = [returned] if isinstance(returned, tvm_ffi.Tensor) else list(returned)
        return results[: len(results) - function.stores]

    @property
    def state(self) -> Mapping[str, np.ndarray]:
        """The tensors that the program keeps between calls, by name: arrays over their memory.

        What is written into them, the next call reads.
        """
        self.open()
        names = [name for one in self.manifest.functions for name in one.states]
        self._state.begin(names, self._constants)
        return self._state.arrays()

    def reset(self) -> None:
        """Have the state begin anew."""
        self.open()
        self._state.reset(self._constants)


def _said(error: Exception) -> str:
    """The virtual machine's complaint in words, with the extents that it compares itself."""
    if (found := _EXTENTS.search(str(error))) is None:
        return str(error)
    came, expected, shape = found.groups()
    return f"a tensor within has extent {came}; expected {expected}, of [{shape}]"


def _constants(path: Path, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """The tensors of the parameters, in the mapped file."""
    size = path.stat().st_size
    memory = np.memmap(path, np.uint8, mode="r") if size else np.empty(0, np.uint8)
    constants = {}
    for parameter in parameters:
        end = parameter.offset + prod(parameter.shape) * item_bytes(parameter.dtype)
        if end > size or parameter.offset % ALIGNMENT:
            raise ArtifactError(f"{path}: the parameter {parameter.name} does not lie in it")
        elements = np.asarray(memory[parameter.offset : end])
        array = elements.view(numpy_dtype(parameter.dtype)).reshape(parameter.shape)
        constants[parameter.name] = arrays.as_tensor(array)
    return constants


def load(folder: Path | str, *, lazy: bool = False) -> "Kernel | Program":
    """The kernel or program of the artifact at ``folder``; only the TVM runtime is needed.

    A ``lazy`` one opens its library at the first call: what is for another machine can be looked
    at and exported here, and only not be called.

    Raises:
        ArtifactError: for an artifact that is absent, damaged or foreign; and, here or at the
            first call, for one that is made for another machine, and where the TVM runtime is
            needed and not found.
    """
    folder = artifact.as_folder(folder)
    manifest = artifact.read(folder)
    if not isinstance(manifest, ProgramManifest):
        return kernel.load(folder, lazy=lazy)
    program = Program(folder, manifest)
    if not lazy and manifest.target.get("kind") not in DLPACK_DEVICES:
        program.open(is_checked=True)
    return program
