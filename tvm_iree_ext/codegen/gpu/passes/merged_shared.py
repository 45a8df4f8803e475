"""Put a kernel's buffers of dynamic shared memory into one, which is all that a launch takes.

Each gets a place of its own.  TVM's ``MergeSharedMemoryAllocations`` lets those share memory whose
lifetimes do not overlap, and by then the barriers stand.  TVM's barriers reckon with it; those that
a function places itself do not: between the last load of one buffer and the first store to another
there need be none, and a lane would store where others still load.  What may share does so before
there are barriers (:mod:`tvm_iree_ext.codegen.storage_reuse`).
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx
from tvm.ir import TensorLoad

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.tir.function_body import with_body

_DYNAMIC = "shared.dyn"
_LEAST_ALIGNMENT = 64  # bytes, of the whole
_BUFFER_DATA = ir.Op.get("tirx.buffer_data")
_ACCESS_PTR = ir.Op.get("tirx.tvm_access_ptr")
_COPY = ir.Op.get("tirx.s_tir.cp_async_raw")


@tirx.transform.prim_func_pass(opt_level=0, name="tvm_iree_ext.merge_shared")
def merge_shared(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Merge the buffers of each kernel of a function; after they are flat and have barriers.

    Raises:
        BuildError: for a buffer of unknown extents, or whose address goes where no place can be
            added to it.
    """

    def attr(node: Any, mutator: Any) -> Any:
        if node.attr_key != "thread_extent":
            return mutator.default_mutate(node)
        return _merged(node)

    return with_body(func, tvm_ffi.structural_mutate(func.body, (tirx.AttrStmt, attr)))


def _merged(kernel: Any) -> Any:
    """A kernel, from its outermost thread extent on."""
    buffers: list[Any] = []
    tvm_ffi.structural_walk(kernel, (tirx.AllocBuffer, lambda node: buffers.append(node.buffer)))
    buffers = [buffer for buffer in buffers if buffer.scope() == _DYNAMIC]
    if len(buffers) < 2:
        return kernel
    places: dict[int, int] = {}  # by buffers, views among them, in bytes
    end, most = 0, _LEAST_ALIGNMENT
    for buffer in buffers:
        alignment = max(int(buffer.data_alignment), 16)
        end = -(-end // alignment) * alignment
        places[hash(buffer)] = end
        end, most = end + _bytes(buffer), max(most, alignment)
    whole = tirx.decl_buffer(
        (end,), "uint8", "buf_dyn_shmem", scope=_DYNAMIC, data_alignment=most
    )  # fmt: skip
    body = _Places(whole, places).rewritten(kernel.body)
    declared = [tirx.DeclBuffer(buffer, data=whole.data) for buffer in buffers]
    body = tirx.SeqStmt([tirx.AllocBuffer(whole), *declared, body])
    return tirx.AttrStmt(kernel.node, kernel.attr_key, kernel.value, body)


class _Places:
    """Rewrites accesses to buffers that lie somewhere in a whole."""

    def __init__(self, whole: Any, places: dict[int, int]) -> None:
        self.whole, self.places = whole, places

    def rewritten(self, body: Any) -> Any:
        return tvm_ffi.structural_mutate(
            body,
            [
                (tirx.AllocBuffer, self._alloc),
                (tirx.DeclBuffer, self._view),
                (TensorLoad, self._load),
                (tirx.BufferStore, self._store),
                (ir.Call, self._call),
            ],
        )

    def _alloc(self, node: Any, _mutator: Any) -> Any:
        return tirx.Evaluate(0) if hash(node.buffer) in self.places else node

    def _view(self, node: Any, mutator: Any) -> Any:
        """A view lies where the buffer does."""
        if (place := self._pointed_at(node.data)) is None:
            return mutator.default_mutate(node)
        self.places[hash(node.buffer)] = place
        return tirx.DeclBuffer(node.buffer, data=self.whole.data)

    def _load(self, node: Any, mutator: Any) -> Any:
        indices = [mutator.mutate(index) for index in node.indices]
        return tirx.BufferLoad(node.source, self._indices(node.source, indices))

    def _store(self, node: Any, mutator: Any) -> Any:
        indices = [mutator.mutate(index) for index in node.indices]
        value = mutator.mutate(node.value)
        return tirx.BufferStore(node.buffer, value, self._indices(node.buffer, indices))

    def _indices(self, buffer: Any, indices: Sequence[Any]) -> list[Any]:
        if not (place := self.places.get(hash(buffer))):
            return list(indices)
        (index,) = indices
        return [_shifted(index, place // _element_bytes(str(buffer.dtype)))]

    def _call(self, node: Any, mutator: Any) -> Any:
        arguments = list(node.args)
        if node.op.same_as(_ACCESS_PTR):
            if (place := self._pointed_at(arguments[1])) is None:
                return mutator.default_mutate(node)
            offset = mutator.mutate(arguments[2])
            count = place // _element_bytes(str(arguments[0].ty.dtype))
            arguments[2] = _shifted(offset, count)
            return ir.Call(node.op, arguments, ret_ty=node.ty)
        if node.op.same_as(_COPY) and (place := self._pointed_at(arguments[0])) is not None:
            count = place // _element_bytes(str(node.ty.dtype))
            rest = [mutator.mutate(argument) for argument in arguments[1:]]
            rest[0] = _shifted(rest[0], count)
            return ir.Call(node.op, [arguments[0], *rest], ret_ty=node.ty)
        if place := self._pointed_at(node):
            raise BuildError(f"the address of {node.args[0].name} in shared memory goes somewhere")
        return mutator.default_mutate(node)

    def _pointed_at(self, data: Any) -> int | None:
        """Offset of the merged buffer whose ``buffer.data`` is ``data``; None for any other."""
        if not isinstance(data, ir.Call) or not data.op.same_as(_BUFFER_DATA):
            return None
        return self.places.get(hash(data.args[0]))


def _shifted(index: Any, count: int) -> Any:
    """An index so many elements on."""
    if isinstance(index, tirx.Ramp):
        return tirx.Ramp(_shifted(index.base, count), index.stride, index.lanes)
    if isinstance(index, tirx.Broadcast):
        return tirx.Broadcast(_shifted(index.value, count), index.lanes)
    return index + tirx.const(count, str(index.ty.dtype)) if count else index


def _element_bytes(dtype: str) -> int:
    kind = DataType(dtype)
    return -(-kind.bits * kind.lanes // 8)


def _bytes(buffer: Any) -> int:
    if not all(isinstance(extent, tirx.IntImm) for extent in buffer.shape):
        raise BuildError(
            f"{buffer.name} in shared memory has the extents {buffer.shape}; expected numbers"
        )
    return prod(map(int, buffer.shape)) * _element_bytes(str(buffer.dtype))
