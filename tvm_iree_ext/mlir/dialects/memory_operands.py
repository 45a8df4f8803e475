"""Operations on tensors whose operands are memrefs: what they hold goes in, results are written.

    linalg.dot ins(%x, %y : memref<4xf32>, memref<4xf32>) outs(%z : memref<f32>)

is ``linalg.dot`` on what ``%x``, ``%y`` and ``%z`` hold, and what it yields is what ``%z`` holds
from then on.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import TENSORS, Memref
from tvm_iree_ext.mlir.dialects.linalg_generic import outside
from tvm_iree_ext.mlir.importing import memory
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form

Handler = Callable[[Scope, form.ParsedOperation], Any]

_INTO_LAST_TWO = ("fft", "scan", "topk")
_INTO_SECOND = (
    "iree_linalg_ext.im2col",
    "iree_linalg_ext.map_gather",
    "iree_linalg_ext.map_load",
    "iree_linalg_ext.map_scatter",
    "iree_linalg_ext.map_store",
    "linalg.pack",
    "linalg.unpack",
)


def takes_memory(op: form.ParsedOperation) -> bool:
    """Whether an operation, or a region of it, uses a memref."""
    return any(is_memref(value) for inner in op.walk() for value in inner.operands)


def is_memref(value: form.ParsedValue) -> bool:
    """Whether a value is memory."""
    return isinstance(value.type, form.ParsedMemrefType)


def written_operands(op: form.ParsedOperation) -> list[int]:
    """The numbers of the operands that an operation writes results into, in the results' order.

    Raises:
        Unsupported: for an operation of which that is not known.
    """
    dialect, _, name = op.name.rpartition(".")
    count = len(op.operands)
    if op.name in _INTO_SECOND:
        return [1]
    if op.name == "iree_vector_ext.transfer_scatter":
        return [0]
    if op.name == "iree_linalg_ext.sort":
        return list(range(count))
    if dialect == "iree_linalg_ext" and name in _INTO_LAST_TWO:
        return [count - 2, count - 1]
    if op.name in ("iree_linalg_ext.arg_compare", "iree_linalg_ext.topk_v2"):
        outs = [sum(op.segments[:2]), sum(op.segments[:4])]
        return list(range(*outs))
    if op.name == "iree_linalg_ext.online_attention":
        return [count - 3, count - 2, count - 1]
    if op.name == "linalg.reduce":
        return list(range(count // 2, count))
    if dialect.startswith(("linalg", "iree_linalg_ext")):
        return list(range(op.segments[0], count)) if len(op.segments) == 2 else [count - 1]
    raise Unsupported("takes no memrefs; of tensors it is supported")


def on_memory(scope: Scope, op: form.ParsedOperation, perform: Handler) -> list[Any]:
    """Perform an operation on what its memrefs hold, and write into them what it yields.

    An operation that has results writes nothing.

    Raises:
        Unsupported: for an operation that does not write what it takes.
    """
    inside = Scope(scope.function, scope.depth, scope.calling, outer=scope)
    tensors: dict[int, form.ParsedValue] = {}
    for value in (*op.operands, *outside([block for region in op.regions for block in region])):
        if is_memref(value) and id(value) not in tensors:
            found = scope.value(value)
            assert isinstance(found, Memref)
            held = form.ParsedValue(value.type.tensor, value.name)  # type: ignore[union-attr]
            tensors[id(value)] = held
            inside.define(held, memory.read(scope, found))
    written = [] if op.results else written_operands(op)
    made = _of_tensors(op, tensors)
    if written:
        made = replace(made, results=[_like(made.operands[number]) for number in written])
    results = perform(inside, made)
    results = results if isinstance(results, list) else [results]
    for number, result in zip(written, results, strict=True) if written else ():
        target = scope.value(op.operands[number])
        assert isinstance(target, Memref)
        assert isinstance(result, TENSORS)
        memory.write(scope, target, result)
    return [] if written else results


def _like(value: form.ParsedValue) -> form.ParsedValue:
    return form.ParsedValue(value.type, f"{value.name}'")


def _of_tensors(
    op: form.ParsedOperation, tensors: Mapping[int, form.ParsedValue]
) -> form.ParsedOperation:
    """The operation, and those of its regions, with tensors for memrefs."""
    regions = [
        [
            form.ParsedBlock(
                block.arguments, [_of_tensors(inner, tensors) for inner in block.operations]
            )
            for block in region
        ]
        for region in op.regions
    ]
    name = "tensor.extract" if op.name == "memref.load" else op.name
    name = "tensor.dim" if op.name == "memref.dim" else name
    operands = [tensors.get(id(value), value) for value in op.operands]
    return replace(op, name=name, operands=operands, regions=regions)
