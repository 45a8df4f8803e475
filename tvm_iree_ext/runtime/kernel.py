"""A compiled kernel: called with arrays, exported to a folder, loaded from one."""

import functools
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm_ffi
from numpy import empty, ndarray

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import ArtifactError, CallError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.base.signature import Signature, shape_text
from tvm_iree_ext.runtime import arrays, artifact, machine
from tvm_iree_ext.runtime import tvm_runtime as runtime
from tvm_iree_ext.runtime.artifact import LIBRARY
from tvm_iree_ext.runtime.calls import Caller, ordered
from tvm_iree_ext.runtime.gpu_function import GpuFunction, is_on_gpu
from tvm_iree_ext.runtime.jax_function import jax_function
from tvm_iree_ext.runtime.launch.gpu_targets import DLPACK_DEVICES
from tvm_iree_ext.runtime.manifest import Contents, DeviceManifest, Manifest, ProgramManifest
from tvm_iree_ext.runtime.torch_arrays import outside_graphs
from tvm_iree_ext.runtime.torch_operator import TorchOperator, defined

_opened: dict[str, str] = {}  # path of a library that this process has loaded -> SHA-256
_PATIENCE = 8  # calls with arrays that had to be converted, until that is expected
_NO_TYPE = type("_NoType", (), {})  # of no array
_MISSING = object()  # in place of an argument that did not come


class LoadedArtifact:
    """A folder whose files were checked, and its manifest: what kernels and programs share."""

    folder: Path
    manifest: Manifest | ProgramManifest

    @property
    def target(self) -> Mapping[str, Any]:
        """The TVM target that it was built for."""
        return self.manifest.target

    @property
    def resources(self) -> Mapping[str, Any]:
        """Resources: bytes of code and library, and what else the builder found."""
        return self.manifest.resources

    def export(self, folder: Path | str, *, runtime: bool = False) -> Path:
        """Write the artifact to ``folder``: ``kernel.so`` and ``manifest.json``.

        An artifact that stands there is replaced in one step. With ``runtime`` the TVM runtime
        (``libtvm_runtime``, ``libtvm_ffi``) goes with it: all that a C++ program needs. One for a
        GPU needs no runtime, and has launchers in Python and C++ instead.

        Raises:
            ArtifactError: where the folder cannot be written or holds anything else, where this
                one's own folder is damaged or was replaced since it was loaded, or where the
                runtime at hand is of another architecture than the kernel.
        """
        artifact.check_unchanged(self.folder, self.manifest)
        return export(self.folder, folder, runtime=runtime)


class Kernel(LoadedArtifact):
    """A kernel of an artifact, to be called with arrays.

    ``kernel(query, key, value)`` returns new arrays of the kind of the first array: NumPy for
    NumPy, PyTorch for PyTorch, JAX for JAX, CuPy for CuPy, and TVM tensors, which any library takes
    by DLPack, for all else.
    A single result is returned bare, several as a tuple. ``kernel(..., out=array)`` (a tuple for
    several results) fills arrays of the caller's and returns them. Arguments may be named as in
    the signature, scalars are Python or NumPy numbers.

    Arguments with a default may be left out: initial values that change nothing, such as those of
    a scan or a top-k.  An extent of a result that follows from no argument is that of ``out``.

    Checked before anything runs: the number of arguments, ranks, extents, dtypes, byte order,
    device. There is no conversion between dtypes. What is accepted, and how:

    - An input that is not contiguous, or whose address is not a multiple of its item size, is
      copied. A read-only input is not: a kernel never writes its inputs.
    - ``out`` must be writable, contiguous, aligned, of exactly the result's shape and dtype, and
      share no memory with an input or another ``out``. Where the signature says that a result may
      be ``in_place_of`` an input, it may be that very array: what a scatter's ``original`` is.
    - A PyTorch tensor that requires grad is accepted under ``torch.no_grad()`` and refused
      otherwise, since the result would silently have no gradient. For the same reason one with a
      forward-mode tangent is refused, and so are tensors without elements in memory: FakeTensors,
      and what transforms of ``torch.func`` pass.
    - Where all results are empty they are returned without a call; so is the init of a result that
      is combined with nothing, such as that of a scatter without updates. A sum without terms is 0.
      What has no value where an input is empty, such as a softmax over nothing, is refused.

    A kernel for a GPU is loaded by the driver at the first call. It takes arrays of the CPU, which
    are copied there and back, and arrays on the GPU, which are used where they are; results are
    where the first array is. With PyTorch's tensors on the GPU, or CuPy's arrays, it is launched on
    that library's current stream, and is not waited for.
    """

    manifest: Manifest

    def __new__(cls, folder: Path, manifest: Manifest, function: Any = None) -> "Kernel":
        """A kernel whose ``__call__`` is made for its number of arguments, or for a GPU."""
        if manifest.target.get("kind") in DLPACK_DEVICES:
            return super().__new__(_GpuKernel)
        return super().__new__(_called_with(len(manifest.signature.arguments)))

    def __init__(self, folder: Path, manifest: Manifest, function: Any = None) -> None:
        self.folder = folder
        self.manifest = manifest
        gpu = DLPACK_DEVICES.get(str(manifest.target.get("kind")))
        self._caller = Caller(manifest.op, manifest.signature, gpu)
        self._arity = len(manifest.signature.arguments)
        self._results = self._caller.static_results()
        self._patience = _PATIENCE
        self._take(function)

    def _take(self, function: Any) -> None:
        """Have a function to call, or None while there is none."""
        self._function = function
        self._on_gpu = function if isinstance(function, GpuFunction) else None
        self._is_direct = (
            function is not None
            and self._patience > 0
            and self.manifest.is_guarded
            and self._caller.takes_plain_arrays
        )
        is_one = len(self.signature.results) == 1
        self._direct_out = ndarray if self._is_direct and is_one else _NO_TYPE

    @property
    def op(self) -> str:
        """The name of the op: ``iree_linalg_ext.attention``."""
        return self.manifest.op

    @property
    def signature(self) -> Signature:
        """The operands: what a call takes and returns."""
        return self.manifest.signature

    @functools.cached_property
    def config(self) -> LoweringConfig:
        """The lowering config.

        Raises:
            ScheduleError: for one with fields that only another version of this package has.
        """
        return LoweringConfig.from_json(self.manifest.config)

    @property
    def provenance(self) -> str:
        """Origin of the lowering config.

        ``heuristic``, ``given``, ``record exact``, ``record nearest SHAPE``; a record whose time
        was computed and not measured has ``, static`` behind it.
        """
        return self.manifest.provenance

    def __repr__(self) -> str:
        operands = ", ".join(map(str, self.signature.arguments))
        results = ", ".join(f"{o.dtype}{shape_text(o.shape)}" for o in self.signature.results)
        target = " ".join(str(self.target[k]) for k in ("kind", "arch", "mcpu") if k in self.target)
        return f"<Kernel {self.op}({operands}) -> {results} for {target}, {self.provenance} config>"

    def _repr_html_(self) -> str:
        from tvm_iree_ext.runtime.artifact_html import kernel_html

        return kernel_html(self.manifest)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its folder, from which the kernel is loaded again."""
        return functools.partial(load, lazy=not self.is_opened), (self.folder,)

    def __call__(self, *arguments: Any, out: Any = None, **named: Any) -> Any:
        """Compute the results; see the class for what is accepted.

        Raises:
            CallError: for arguments that do not fit; nothing was computed, ``out`` is untouched.
                Some kernels raise it for values, too, before they write anything.
            ArtifactError: for a kernel that was loaded lazily and does not run on this machine, or
                whose folder was replaced or removed since; and for one whose manifest is wrong.
        """
        return self._call(arguments, out, named)

    def _call(self, arguments: tuple[Any, ...], out: Any, named: dict[str, Any]) -> Any:
        """Any call but the most frequent, which :func:`_called_with` has.

        NumPy arrays go to the library as they are.  Where it refuses them they are looked at: the
        message is better then, and some can be converted.
        """
        if len(arguments) + len(named) < self._arity:
            arguments, named = self._caller.completed(arguments, named, out)
        results: tuple[ndarray, ...] = ()
        if self._is_direct and not named and len(arguments) == self._arity:
            if out is None and self._results and type(arguments[0]) is ndarray:
                results = tuple([empty(shape, dtype) for shape, dtype in self._results])
            elif type(out) is tuple and len(out) == len(self.signature.results) > 1:
                results = out if all(type(one) is ndarray for one in out) else ()
        for value in arguments if results else (None,):
            if type(value) is not ndarray:
                return self._checked_call(arguments, out, named)
        try:
            self._function(*(arguments + results))
            return results[0] if len(results) == 1 else out or results
        except CallError:
            raise  # of a kernel that has begun: it must not run again
        except (TypeError, ValueError, BufferError):
            pass
        return self._refused_call(arguments, out)

    def torch_op(self, name: str, *, mutates_args: Sequence[str] = ()) -> Any:
        """The kernel as an operator of PyTorch's, which its compilers and exporter take as it is.

        >>> op = kernel.torch_op("mine::attention")                 # doctest: +SKIP
        >>> torch.compile(lambda q, k, v: op(q, k, v), fullgraph=True)  # doctest: +SKIP

        It takes tensors as a call of the kernel does, scalars as numbers, None for an input with a
        default, and by name the extents that follow from no argument. Its results, of the
        signature's shapes and dtypes, are on the device of the first tensor. It has no backward
        pass: tensors that require grad are refused where gradients are recorded. The process
        keeps the kernel.

        Args:
            name: ``namespace::name``; the operator is ``torch.ops.namespace.name.default``.
            mutates_args: inputs in whose memory the result is written that the signature says may
                be ``in_place_of`` them; such results are not returned.

        Raises:
            CallError: for a name that stands for another operator, and without PyTorch.
        """
        is_on_gpu = self.manifest.target.get("kind") in DLPACK_DEVICES
        identity = self.op, {name: one.digest for name, one in self.manifest.files.items()}
        mutates = tuple(mutates_args)
        operator = TorchOperator(
            self.op, self.signature, self, True, identity, is_on_gpu, False, mutates
        )
        return defined(name, operator)

    def jax_fn(self) -> Callable[..., Any]:
        """The kernel as a function of JAX's arrays, which ``jax.jit`` compiles calls of.

        >>> attention = kernel.jax_fn()                             # doctest: +SKIP
        >>> jax.jit(lambda q, k, v: attention(2 * q, k, v))         # doctest: +SKIP

        It takes and gives JAX arrays as a call of the kernel does, outside of ``jax.jit`` too; a
        scalar is a number that is known when JAX traces.  Within ``jax.vmap`` it is called for
        one element after the other.  It has no derivative, and a gradient through it is refused.

        Raises:
            CallError: for a kernel for a GPU, and where JAX or ``jax-tvm-ffi`` is not installed.
        """
        if self.manifest.target.get("kind") in DLPACK_DEVICES:
            raise CallError(
                f"{self.op}: jax_fn takes kernels for a CPU; this one is for"
                f" {self.manifest.target['kind']}"
            )
        if self._caller.has_words:
            kinds = ", ".join(sorted({one.dtype for one in self.signature.operands if one.words}))
            raise CallError(f"{self.op}: jax_fn takes no operands of {kinds}; call the kernel")
        library = self.manifest.files[LIBRARY].digest
        identity = f"tvm_iree_ext.{self.manifest.entry}.{library}"
        return jax_function(self._caller, self._opened(), identity)

    @property
    def is_opened(self) -> bool:
        """Whether its library is loaded; that of a lazy one is at the first call."""
        return self._function is not None

    def _opened(self) -> Any:
        """The function, of the artifact as it was loaded."""
        if self._function is None:
            artifact.check_unchanged(self.folder, self.manifest)
            self._take(_open(self.folder, self.manifest))
        return self._function

    def _allocator(self, like: Any) -> arrays.Allocator:
        """What allocates results where the first array is ``like``."""
        return arrays.allocator(like)

    def _copy(self, source: Any, target: Any, item: int) -> None:
        """Copy an argument that is the result."""
        arrays.copy(source, target, item)

    def _refused_call(self, arguments: tuple[Any, ...], out: Any) -> Any:
        """A call with NumPy arrays that the library has refused."""
        found = self._checked_call(arguments, out, {})
        self._patience -= 1
        self._take(self._function)
        return found

    def _checked_call(self, arguments: tuple[Any, ...], out: Any, named: dict[str, Any]) -> Any:
        """A call for which nothing is taken for granted."""
        arguments = ordered(self.op, self._caller.arguments, arguments, named)
        shapes, passed = self._caller.inputs(arguments)
        result_shapes, copies = self._caller.plan(shapes, out)
        if out is None:
            allocate = self._allocator(self._caller.like(arguments))
            results, tensors = allocate(result_shapes, self._caller.result_ports)
        else:
            results, tensors = self._caller.outputs(out, result_shapes, passed)
        for result, argument in copies or ():
            item = self._caller.result_ports[result].passed_item
            self._copy(passed[argument], tensors[result], item)
        if copies is None:
            self._opened()
            if self._on_gpu is None:
                passed, tensors = self._caller.for_library(passed, tensors, shapes, result_shapes)
            try:
                self._function(*passed, *tensors)
            except CallError:
                raise
            except (TypeError, ValueError) as error:  # what the library checks for any caller
                raise ArtifactError(
                    f"the manifest of {self.folder} does not describe its library: {error}"
                ) from error
            if self._on_gpu is not None and not self._caller.has_words:
                self._on_gpu.remember(arguments, [*passed, *tensors], results, out is not None)
        if out is None:
            results = arrays.returned(results, self._caller.like(arguments))
        return results[0] if len(results) == 1 else tuple(results)


class _GpuKernel(Kernel):
    __doc__ = Kernel.__doc__

    def _take(self, function: Any) -> None:
        super()._take(function)
        self._again = None if function is None else function.again

    @outside_graphs
    def __call__(self, *arguments: Any, out: Any = None, **named: Any) -> Any:
        """As of any kernel; one that is like an earlier one takes the host less time."""
        if len(arguments) + len(named) < self._arity:
            arguments, named = self._caller.completed(arguments, named, out)
        if self._again is not None and not named:
            found = self._again(arguments, out)
            if found is not None:
                return found
        return self._checked_call(arguments, out, named)

    def _allocator(self, like: Any) -> arrays.Allocator:
        return self._opened().allocator(like) if is_on_gpu(like) else arrays.allocator(like)

    def _copy(self, source: Any, target: Any, item: int) -> None:
        if is_on_gpu(source) or is_on_gpu(target):
            self._opened().copy(source, target)
        else:
            arrays.copy(source, target, item)


_GpuKernel.__name__ = _GpuKernel.__qualname__ = Kernel.__name__


@functools.cache
def _called_with(count: int) -> type[Kernel]:
    """The class of kernels of ``count`` arguments, made for calls with NumPy arrays and ``out``.

    A parameter for each argument takes a tenth less time than a tuple of them and a loop over it.
    """
    arguments = [f"argument{place}" for place in range(count)]
    parameters = "".join(f"{name}=_MISSING, " for name in arguments) + "/, " * bool(count)
    given = "".join(f"{name}, " for name in arguments)
    types = " is ".join(f"type({name})" for name in ["out", *arguments])
    code = f"""
def __call__(self, {parameters}*more, out=None, **named):
    if {types} is self._direct_out and not more and not named:
        try:
            self._function({given}out)
            return out
        except CallError:
            raise
        except (TypeError, ValueError, BufferError):
            pass
        return self._refused_call(({given}), out)
    given = ({given}*more,) if more else ({given})
    if given and given[-1] is _MISSING:
        given = tuple(value for value in given if value is not _MISSING)
    return self._call(given, out, named)
"""
    methods: dict[str, Any] = {"__doc__": Kernel.__doc__, "__module__": __name__}
    exec(code, globals(), methods)  # as namedtuple and dataclass do
    outside_graphs(functools.update_wrapper(methods["__call__"], Kernel.__call__))
    return type("Kernel", (Kernel,), methods)


def load(folder: Path | str, *, lazy: bool = False) -> Kernel:
    """The kernel of the artifact at ``folder``. No compiler is needed, only the TVM runtime.

    A ``lazy`` one opens its library at the first call: what is for another machine can be looked
    at and exported here, and only not be called.  What is for a GPU always is so.

    Raises:
        ArtifactError: for an artifact that is absent, damaged or foreign; and, here or at the
            first call, for one that is made for another machine, and where the TVM runtime is
            needed and not found.
    """
    folder = artifact.as_folder(folder)
    manifest = artifact.read(folder)
    if isinstance(manifest, DeviceManifest):
        raise ArtifactError(
            f"the artifact {folder} holds GPU kernels; launch them with {folder / 'launch.py'}"
        )
    if not isinstance(manifest, Manifest):
        raise ArtifactError(f"the artifact {folder} is a program; load it with tvm_iree_ext.load")
    return Kernel(folder, manifest, None if lazy else _open(folder, manifest))


def _open(folder: Path, manifest: Manifest) -> Any:
    """The function of an artifact whose files have been checked."""
    if manifest.target.get("kind") in DLPACK_DEVICES:
        return GpuFunction(folder, manifest.op, manifest.launch, len(manifest.signature.arguments))
    library = open_library(folder, manifest)
    try:
        return library[manifest.entry]
    except AttributeError:
        raise ArtifactError(f"{folder / LIBRARY} has no function {manifest.entry!r}") from None


def open_library(folder: Path, manifest: Contents) -> Any:
    """The module of an artifact whose files have been checked.

    Raises:
        ArtifactError: for one that is made for another machine, and where the TVM runtime is
            needed and not found.
    """
    if manifest.target.get("kind") != "llvm":
        raise ArtifactError(
            f"the artifact {folder} is for {manifest.target.get('kind')};"
            " kernels that run here are for llvm"
        )
    if LIBRARY not in manifest.files:
        raise ArtifactError(f"the artifact {folder} has no {LIBRARY}")
    library = folder / LIBRARY
    features = manifest.resources.get("cpu_features", ())
    machine.check_library(library, manifest.target.get("mtriple"), features)
    if manifest.resources.get("needs_runtime", True):
        runtime.ensure_loaded(beside=folder)
    try:
        return _load_module(library, manifest.files[LIBRARY].digest)
    except (RuntimeError, OSError) as error:
        raise ArtifactError(f"{library} does not load: {error}") from error


def _load_module(library: Path, checksum: str) -> Any:
    """The module of a library; unloaded with the last function taken from it.

    The loader goes by names: while another library of the same path is loaded, it would hand that
    one out again. So a path whose content has changed is loaded by another name.
    """
    if _opened.setdefault(str(library), checksum) == checksum:
        return tvm_ffi.load_module(library, keep_module_alive=False)
    with scratch() as place:
        copy = shutil.copy(library, place)
        return tvm_ffi.load_module(copy, keep_module_alive=False)


def export(source: Path | str, folder: Path | str, *, runtime: bool = False) -> Path:
    """Copy the artifact at ``source`` to ``folder``; see :meth:`LoadedArtifact.export`.

    The kernel is not loaded, so it may be one for another machine.

    Raises:
        ArtifactError: as :meth:`LoadedArtifact.export`.
    """
    source = artifact.as_folder(source)
    manifest = artifact.read(source)
    # Kernels for a GPU are launched by the driver alone.
    needed = runtime and manifest.target.get("kind") not in DLPACK_DEVICES
    libraries = _runtime_libraries(source / LIBRARY) if needed else []

    def fill(place: Path) -> None:
        for name in manifest.files:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, place / name)
        for library in libraries:
            shutil.copy(library, place / library.name)

    artifact.write(folder, manifest, fill)
    return Path(folder)


def _runtime_libraries(kernel: Path) -> list[Path]:
    libraries = [runtime.find_runtime(), runtime.find_ffi()]
    built_for = machine.library_machine(kernel.read_bytes())
    for library in libraries:
        found = machine.library_machine(library.read_bytes())
        if found != built_for:
            raise ArtifactError(
                f"the kernel is for {built_for} and {library} for {found}; export without the"
                f" runtime, and take it from the {built_for} wheels of apache-tvm, apache-tvm-ffi"
            )
    return libraries
