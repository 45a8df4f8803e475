"""Memrefs in the regions of loops and branches: which a region writes, and what they are inside.

What a region writes is carried like what it yields: it goes in as a tensor, and comes out as one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import Buffer, Memref, Scalar, Shape, Tensor, plain
from tvm_iree_ext.mlir.dialects.linalg_generic import outside
from tvm_iree_ext.mlir.dialects.memory_operands import is_memref, written_operands
from tvm_iree_ext.mlir.dialects.memref_dialect import MEMREF
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form

_STORES = ("bufferization.materialize_in_destination", "memref.copy", "memref.store")
_CALLS = ("func.call", "util.call")


def written_buffers(scope: Scope, blocks: Sequence[form.ParsedBlock]) -> list[Buffer]:
    """The buffers from outside that blocks write, once each; of calls all that they are given."""
    roots = {id(value): {id(value)} for value in outside(blocks) if is_memref(value)}
    written: set[int] = set()
    for block in blocks:
        for top in block.operations:
            for op in top.walk():
                held = [roots.get(id(value), set()) for value in op.operands]
                for result in filter(is_memref, op.results):
                    roots[id(result)] = set().union(*held)
                for number in _written(op):
                    written |= held[number]
    found = [scope.value(value) for value in outside(blocks) if id(value) in written]
    return list({id(one.buffer): one.buffer for one in found if isinstance(one, Memref)}.values())


def _written(op: form.ParsedOperation) -> Sequence[int]:
    """The numbers of the memrefs that an operation may write."""
    memrefs = [number for number, value in enumerate(op.operands) if is_memref(value)]
    if op.name in _STORES:
        return [number for number in memrefs if number == 1]
    if op.name in _CALLS:
        return memrefs
    if not memrefs or op.results or op.name in MEMREF or op.name.startswith("scf."):
        return []
    return written_operands(op)


def carried(buffers: Sequence[Buffer]) -> list[form.ParsedValue]:
    """Results for what buffers become."""
    found = []
    for buffer in buffers:
        extents = [plain(one) for one in buffer.held.shape]
        shape = tuple(one if isinstance(one, int) else None for one in extents)
        kind = form.ParsedTensorType(shape, buffer.held.element.name)
        found.append(form.ParsedValue(kind, "%memory"))
    return found


def inside(
    memref: Memref, buffer: Buffer, known: Mapping[str, Any], number: Callable[[Scalar], Scalar]
) -> Memref:
    """A memref in a region, whose buffer holds there what ``buffer`` does.

    ``known`` are extents inside by those outside; ``number`` gives scalars.

    Raises:
        Unsupported: for a part whose extents no tensor tells inside.
    """
    own = dict(known)
    for outer, inner in zip(memref.buffer.held.shape, buffer.held.shape, strict=True):
        own.setdefault(str(outer), inner)

    def shape(given: Shape) -> Shape:
        return tuple(one if isinstance(plain(one), int) else extent(one) for one in given)

    def extent(one: Any) -> Any:
        if str(one) not in own:
            raise Unsupported(
                "a part of memory of an extent that a call tells, from outside of a loop or a"
                " branch; take the part inside"
            )
        return own[str(one)]

    parts = tuple(
        replace(
            part, shape=shape(part.shape), numbers=tuple(map(number, part.numbers)), layout=None
        )
        for part in memref.parts
    )
    return Memref(buffer, shape(memref.shape), parts)


def come_out(buffers: Sequence[Buffer], tensors: Sequence[Any]) -> None:
    """Have buffers hold what a loop or a branch made of them."""
    for buffer, tensor in zip(buffers, tensors, strict=True):
        assert isinstance(tensor, Tensor)
        buffer.held, buffer.is_written = tensor, True
