"""Operands of CPU sort as lines along the sorted dim, and the loops over them.

A line is one position of the other dims.  Where the sorted dim is the innermost, a line lies in
one piece: it is read in place, and what is sorted alternates between the result and a scratch line
until it ends in the result.  Otherwise the lines of one cache line of elements are copied to
scratch together, sorted there, and copied back, so that memory is not read in single elements.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.ordering.line_elements import SortLine, stored
from tvm_iree_ext.schedules.emit import Index, i64, known, product, serial


class SortLines:
    """The PrimFunc's parameters while it is built, flat, and the loops over lines."""

    def __init__(self, op: Sort) -> None:
        self.op = op
        parameters = Parameters.declare(op)
        self.parameters = list(parameters.buffers.values())
        shape = [parameters.extent(extent) for extent in op.shape]
        self.length = shape[op.dimension]
        self.outer = product(shape[: op.dimension])
        self.inner = product(shape[op.dimension + 1 :])
        self.total = product(shape)

    def declare(self) -> None:
        """Flat views of the parameters; called inside the root block."""
        flat = [
            I.decl_buffer(
                [i64(self.total)],
                stored(str(b.dtype)),
                data=b.data,
                align=item_bytes(str(b.dtype)),
            )
            for b in self.parameters
        ]
        count = len(self.op.dtypes)
        self.inputs, self.results = flat[:count], flat[count:]

    @property
    def contiguous(self) -> bool:
        """Whether a line lies in one piece."""
        return known(self.inner) == 1

    def scratch(self, shape: Sequence[Index]) -> list[Any]:
        """Memory of one task for each operand."""
        return [emit.scratch(shape, stored(dtype)) for dtype in self.op.dtypes]

    def in_place(self, line: Index) -> tuple[SortLine, SortLine]:
        """A contiguous line of the operands, and of the results."""
        base = I.Bind(i64(line) * i64(self.length))
        return SortLine(self.inputs, base), SortLine(self.results, base)

    def each(self, parallel: bool, body: Callable[[SortLine, SortLine], None]) -> None:
        """``body(source, target)`` for each line; ``target`` may be ``source``.

        The body leaves the sorted line in ``target``.
        """
        loop = I.parallel if parallel else I.serial
        if self.contiguous:
            with loop(i64(0), i64(self.outer)) as line:
                body(*self.in_place(line))
            return
        widest = max(item_bytes(dtype) for dtype in self.op.dtypes)
        width = emit.LINE_BYTES // widest
        inner = known(self.inner)
        if inner is not None:
            width = min(width, inner)
        # At least one, as TVM sees a division by zero otherwise.
        blocks = emit.larger(emit.ceil_div(self.inner, width), 1)
        with loop(i64(0), i64(product([self.outer, blocks]))) as task:
            outer = I.Bind(tirx.floordiv(task, i64(blocks)))
            first = I.Bind(tirx.floormod(task, i64(blocks)) * width)
            columns = I.Bind(i64(emit.smaller(width, self.inner - first)))
            start = I.Bind(outer * i64(self.length) * i64(self.inner) + first)
            tile = self.scratch([product([width, self.length])])
            for source, target in zip(self.inputs, tile, strict=True):
                with serial(self.length) as i, serial(columns) as c:
                    value = source[start + i * i64(self.inner) + c]
                    I.buffer_store(target, value, [c * i64(self.length) + i])
            with serial(columns) as c:
                line = SortLine(tile, I.Bind(c * i64(self.length)))
                body(line, line)
            for source, target in zip(tile, self.results, strict=True):
                with serial(self.length) as i, serial(columns) as c:
                    value = source[c * i64(self.length) + i]
                    I.buffer_store(target, value, [start + i * i64(self.inner) + c])
