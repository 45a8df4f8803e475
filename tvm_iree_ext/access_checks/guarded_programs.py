"""Programs whose kernels get arrays beside pages that cannot be touched.

What the virtual machine passes to a kernel goes there by copies: inputs that cannot be written,
results that are noise at first.  Workspaces are noise beside such pages, too.  So an access outside
of any array, of the program's own and of those between its kernels, ends the process.
"""

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.access_checks import guard_pages
from tvm_iree_ext.access_checks.guard_pages import Side
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.codegen import pass_seam
from tvm_iree_ext.runtime import arrays, tvm_runtime
from tvm_iree_ext.runtime.artifact import LIBRARY
from tvm_iree_ext.runtime.program import Program

_BUFFER_DATA = ir.Op.get("tirx.buffer_data")
Use = Literal["input", "result", "either"]
"""Role of a kernel's parameter."""

_SIDES: tuple[Side, ...] = ("end", "beginning")


def guarded_results(
    build: Callable[[], Program], arguments: Callable[[Program], Sequence[Any]]
) -> Iterator[list[np.ndarray]]:
    """The results of the main function of a program, with arrays at the ends of pages and at their
    beginnings.

    Args:
        build: builds the program.
        arguments: makes those of its main function.

    Raises:
        ExtError: for a workspace that is written behind its end, up to the next page.
    """
    uses: dict[str, list[Use]] = {}
    with pass_seam.edited(lambda every: [_noting(uses), *every]):
        built = build()
    for side in _SIDES:
        program = _Guarded(built, uses, side)
        library = program.folder / LIBRARY
        with contextlib.ExitStack() as stack:
            stack.callback(program.forget)
            wrong: list[str] = []
            if guard_pages.takes_workspaces(library):
                stack.enter_context(tvm_runtime.threads(1))
                wrong = stack.enter_context(guard_pages.workspaces(library, side))
            results: Any = program.main(*arguments(program))
        if wrong:
            raise ExtError(wrong[0])
        several = results if isinstance(results, tuple) else (results,)
        yield [np.asarray(result) for result in several]


def _noting(uses: dict[str, list[Use]]) -> Any:
    """A pass that notes what the parameters of each kernel are for."""

    def note(mod: ir.IRModule, _context: Any) -> ir.IRModule:
        for var, func in mod.functions.items():
            if isinstance(func, tirx.PrimFunc):
                uses[str(var.name_hint)] = _uses(func)
        return mod

    return ir.transform.module_pass(note, opt_level=0, name="tvm_iree_ext.note_uses")


def _uses(func: tirx.PrimFunc) -> list[Use]:
    """Role of each parameter; one whose address escapes may be stored into there."""
    owners: dict[int, int] = {}  # of views
    results: set[int] = set()
    addressed: set[int] = set()

    def owner(buffer: Any) -> int:
        return owners.get(hash(buffer), hash(buffer))

    def view(node: Any) -> Any:
        data = node.data
        if isinstance(data, ir.Call) and data.op.same_as(_BUFFER_DATA):
            owners[hash(node.buffer)] = owner(data.args[0])
            return tvm_ffi.WalkResult.SKIP
        return None

    def call(node: Any) -> None:
        if node.op.same_as(_BUFFER_DATA):
            addressed.add(owner(node.args[0]))

    def store(node: Any) -> None:
        results.add(owner(node.buffer))

    handlers = [(tirx.DeclBuffer, view), (ir.Call, call), (tirx.BufferStore, store)]
    tvm_ffi.structural_walk(func.body, handlers, order="pre")

    def use(param: Any) -> Use:
        if hash(param) in results:
            return "result"
        return "either" if hash(param) in addressed else "input"

    return [use(param) for param in func.params]


class _Guarded(Program):
    """A program that calls its kernels by way of guarded arrays."""

    def __init__(self, program: Program, uses: dict[str, list[Use]], side: Side) -> None:
        super().__init__(program.folder, program.manifest)
        self.uses, self.side = uses, side

    def link(self, executable: Any, library: Any) -> None:
        """Let the virtual machine find guarded calls in the place of kernels."""
        for name, uses in self.uses.items():
            call = functools.partial(self._call, library[name], uses)
            tvm_ffi.register_global_func(name, call, override=True)

    def forget(self) -> None:
        """Let the virtual machine find them no more."""
        for name in self.uses:
            tvm_ffi.remove_global_func(name)

    def _call(self, kernel: Any, uses: Sequence[Use], *operands: Any) -> None:
        placed: list[Any] = []
        targets: list[tuple[np.ndarray, np.ndarray]] = []
        for operand, use in zip(operands, uses, strict=True):
            if not isinstance(operand, tvm_ffi.Tensor) or 0 in operand.shape:
                placed.append(operand)
                continue
            array = _memory(operand)
            if use != "input":
                guarded = guard_pages.empty(array.shape, array.dtype, self.side)
                if use == "either":
                    guarded[...] = array
                targets.append((array, guarded))
            else:
                guarded = guard_pages.copy(array, self.side)
            placed.append(arrays.as_tensor(guarded))
        kernel(*placed)
        for array, guarded in targets:
            array[...] = guarded


def _memory(tensor: Any) -> np.ndarray:
    """The memory of a tensor as an array."""
    dtype = numpy_dtype(str(tensor.dtype))
    count = int(np.prod(tensor.shape, dtype=np.int64)) * dtype.itemsize
    memory: Any = (ctypes.c_uint8 * count).from_address(tensor.data_ptr())
    return np.ndarray(tuple(tensor.shape), dtype, memory)
