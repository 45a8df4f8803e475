"""Buffers that operations read and write, as tensors: each write gives a buffer another one.

    memref.store %x, %m[%i]      before:  %m holds t0       after:  %m holds insert(t0, x, i)

What is read of a part of a buffer is made of all that the buffer holds; what is written into a part
makes all of it anew.  Whether that is done where the buffer lies is for those to say who see all
that reads it (:mod:`tvm_iree_ext.programs.updates`).
"""

from dataclasses import dataclass

from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import AnyTensor, Memref, Scalar, Shape, Tensor
from tvm_iree_ext.mlir.importing.emitted_values import as_shape
from tvm_iree_ext.mlir.importing.scope import Scope


@dataclass(frozen=True, eq=False)
class MemoryPart:
    """A part of memory: of a shape, at a place that numbers say.

    ``layout``, where there is one, is a tensor that has the numbers for extents: a kernel takes
    them with it.  Of several that take numbers Relax fuses none, where their extents are a call's.
    """

    shape: Shape
    numbers: tuple[Scalar, ...] = ()
    layout: Tensor | None = None

    def read(self, scope: Scope, whole: AnyTensor) -> AnyTensor:
        """What the part holds where the whole holds this."""
        raise NotImplementedError

    def written(self, scope: Scope, whole: AnyTensor, value: AnyTensor) -> AnyTensor:
        """What the whole holds once this is written into the part."""
        raise NotImplementedError


def part_of(memref: Memref, part: MemoryPart) -> Memref:
    """A part of a memref."""
    return Memref(memref.buffer, part.shape, (*memref.parts, part))


def read(scope: Scope, memref: Memref) -> AnyTensor:
    """What a memref holds now."""
    return _held(scope, memref, len(memref.parts))[-1]


def _held(scope: Scope, memref: Memref, count: int) -> list[AnyTensor]:
    """What the buffer holds, and so many parts, each of the last."""
    found = [memref.buffer.held]
    for part in memref.parts[:count]:
        found.append(part.read(scope, found[-1]))
    return found


def write(scope: Scope, memref: Memref, value: AnyTensor) -> None:
    """Have a memref hold another tensor of its shape.

    Raises:
        Unsupported: for memory that is constant.
    """
    if memref.buffer.constant:
        raise Unsupported(f"writes {memref.buffer.constant}, which is constant")
    value = as_shape(scope, value, memref.shape)
    if memref.parts:
        wholes = _held(scope, memref, len(memref.parts) - 1)
        for part, whole in zip(reversed(memref.parts), reversed(wholes), strict=True):
            value = part.written(scope, whole, value)
    memref.buffer.held, memref.buffer.is_written = value, True
