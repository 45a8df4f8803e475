"""IREE as a peer: MLIR of linalg and iree_linalg_ext on tensors, compiled for this CPU.

A case gives the body of a function whose arguments are the op's by name and whose results are the
op's.  What is timed is the invocation: operands and results are device buffers made beforehand.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import Operand
from tvm_iree_ext.bench.base.bench_case import Call, Library, Peer, Skipped, Values
from tvm_iree_ext.bench.peers.mlir_text import tensor
from tvm_iree_ext.bench.peers.thread_setup import Opening
from tvm_iree_ext.ops.base.op import Op

_FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
)
DATA_TILING = "--iree-opt-data-tiling"
"""Packs the operands of contractions: beside a large one the time of that is nothing."""
_LARGER_STACK = "--iree-llvmcpu-stack-allocation-limit=4194304"

opening = Opening()
IREE = Library("IREE", "iree-base-runtime", opening.limit, module="iree.runtime")


def iree_peer(op: Op, body: str, flags: Sequence[str] = ()) -> Peer:
    """IREE running the body of a function; it ends with ``return``.

    Args:
        op: its arguments and results, of static shapes, are those of the function.
        body: MLIR, in which ``%NAME`` is the argument of that name.
        flags: of the compiler, beside the usual ones.
    """
    return Peer(IREE, lambda values: _call(op, function(op, body), values, flags))


def function(op: Op, body: str) -> str:
    """The module of a function; each result has a place that the caller gives, too.

    That is the operand in whose place it is, or one more argument.
    """
    homes = _homes(op)
    written = {home: f" {{iree.abi.output = {n} : index}}" for n, home in enumerate(homes)}
    given = [(one.name, one) for one in op.signature.arguments]
    given += [(home, one) for home, one in homes.items() if not one.in_place_of]
    arguments = [
        f"%{name}: {tensor(one.shape, one.dtype)}{written.get(name, '')}" for name, one in given
    ]
    results = [tensor(one.shape, one.dtype) for one in op.signature.results]
    head = f"func.func @main({', '.join(arguments)}) -> ({', '.join(results)})"
    return f"{head} {{\n{body}\n}}\n"


def _homes(op: Op) -> dict[str, Operand]:
    """The results by the arguments of the function that they are written to."""
    results = enumerate(op.signature.results)
    return {one.in_place_of or f"place{number}": one for number, one in results}


def _call(op: Op, text: str, values: Values, flags: Sequence[str]) -> Call:
    library = _compiled(text, flags)
    arrays = {one.name: np.asarray(values[one.name], order="C") for one in op.signature.arguments}
    homes = _homes(op)
    for shape, home in zip(op.signature.result_shapes({}), homes, strict=True):
        if home not in arrays:
            arrays[home] = np.zeros(shape, dtypes.numpy_dtype(homes[home].dtype))
    return opening.call(lambda threads: _opened(library, arrays, list(homes), threads))


def _compiled(text: str, flags: Sequence[str]) -> bytes:
    try:
        from iree.compiler import CompilerToolError, compile_str
    except ImportError as error:
        raise Skipped("needs iree-base-compiler") from error
    try:
        return compile_str(text, extra_args=[*_FLAGS, *flags])
    except CompilerToolError as error:
        raise Skipped(f"does not compile: {_first_error(str(error))}") from error


def _first_error(text: str) -> str:
    lines = [line for line in text.splitlines() if "error:" in line]
    return lines[0].split("error:", 1)[1].strip() if lines else "no reason given"


def _opened(
    library: bytes, arrays: Mapping[str, np.ndarray], homes: Sequence[str], threads: int
) -> Call:
    """The function on a device of some worker threads, or of the caller's alone."""
    import iree.runtime as iree

    device, context, main = _loaded(library, threads)
    buffers = {name: iree.asdevicearray(device, array) for name, array in arrays.items()}
    given = iree.VmVariantList(len(buffers))
    for buffer in buffers.values():
        given.push_ref(buffer._buffer_view)
    results = tuple(_Result(device, buffers[home]._buffer_view) for home in homes)

    def call() -> Any:
        context.invoke(main, given, iree.VmVariantList(len(results)))
        return results if len(results) > 1 else results[0]

    return call


def _loaded(library: bytes, threads: int) -> tuple[Any, Any, Any]:
    """A device of some threads, a context with the library in it, and the function ``main``."""
    import iree.runtime as iree
    from iree.runtime import _binding  # iree.runtime has one device of a kind in a process

    if threads > 1:
        iree.flags.parse_flags(f"--task_topology_group_count={threads}")
    driver = _binding.create_hal_driver("local-task" if threads > 1 else "local-sync")
    device = driver.create_default_device()
    instance = iree.VmInstance()
    module = iree.VmModule.copy_buffer(instance, library)
    context = iree.VmContext(instance, [iree.create_hal_module(instance, device), module])
    return device, context, module.lookup_function("main")


def file_call(path: Path, dialect: str, arrays: Sequence[np.ndarray]) -> Call:
    """The call of the function ``main`` of a file, with arrays; its results come as a list.

    Args:
        path: MLIR, as text or bytecode; it is compiled with data tiling, else without, else with
            a larger stack.
        dialect: what it is in: ``stablehlo`` or ``torch``.
        arrays: given in this order; they become device buffers.
    """
    from iree.compiler import CompilerToolError, compile_file

    *first, last = ([DATA_TILING], [], [_LARGER_STACK])
    for flags in first:
        try:
            library = compile_file(str(path), input_type=dialect, extra_args=[*_FLAGS, *flags])
            break
        except CompilerToolError:
            continue
    else:
        try:
            library = compile_file(str(path), input_type=dialect, extra_args=[*_FLAGS, *last])
        except CompilerToolError as error:
            raise Skipped(f"does not compile: {_first_error(str(error))}") from error
    return opening.call(lambda threads: _opened_main(library, arrays, threads))


def _opened_main(library: bytes, arrays: Sequence[np.ndarray], threads: int) -> Call:
    import iree.runtime as iree

    device, context, main = _loaded(library, threads)
    buffers = [iree.asdevicearray(device, array) for array in arrays]
    given = iree.VmVariantList(len(buffers))
    for buffer in buffers:
        given.push_ref(buffer._buffer_view)

    def call() -> Any:
        found = iree.VmVariantList(1)
        context.invoke(main, given, found)
        views = (found.get_as_object(place, iree.HalBufferView) for place in range(len(found)))
        return [_Result(device, view) for view in views]

    return call


class _Result:
    """A buffer of a device, which NumPy sees when it asks."""

    def __init__(self, device: Any, view: Any) -> None:
        self._device, self._view = device, view

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        import iree.runtime as iree

        found = iree.DeviceArray(self._device, self._view, implicit_host_transfer=True)
        return np.array(found.to_host(), dtype, copy=True)
