"""One function of the nests of a chain, each of which goes through the rows by its first loop.

before:  for i, j, k: t[i, j] += x[i, j, k]        after:  for r, e: own[r] += x[r / n, r % n, e]
         for i, j, k: y[i, j, k] = x / t                   for r, e: y[r / n, r % n, e] = x / own
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx

from tvm_iree_ext.programs.fusion.row_digits import Digit, RowTensors, are_same, times
from tvm_iree_ext.programs.fusion.row_nests import RowNest, loads_in
from tvm_iree_ext.schedules.shared.loops.loops_nests import substitute
from tvm_iree_ext.schedules.shared.loops.loops_rows import ROWS
from tvm_iree_ext.tir.buffers import buffer_like
from tvm_iree_ext.tir.tir_expressions import i64, known


class RowFunction:
    """The function of a chain's nests.

    Args:
        tensors: the rows of what they read and write.
        nests: in order.
        operands: the tensor of the program that a nest's buffer is, where it is one.
        results: the tensors to be written, by what ``tensors`` knows them as.
    """

    def __init__(
        self,
        tensors: RowTensors,
        nests: Sequence[RowNest],
        operands: Mapping[ir.Var, ir.Var],
        results: Sequence[ir.Var],
    ) -> None:
        self._tensors, self._operands = tensors, operands
        self._symbols: dict[ir.Var, ir.Var] = {}
        self._given: dict[ir.Var, ir.Var] = {}  # by the program's tensor
        self._own: dict[Any, ir.Var] = {}
        self._own_digits: dict[Any, Sequence[Digit]] = {}
        self._copied: set[ir.Var] = set()  # results that are read by another shape, too
        self._results: dict[ir.Var, ir.Var] = {}
        like = {
            one.tensors[store.buffer]: store.buffer for one in nests for store in one.nest.stores
        }
        for one in nests:
            for load in loads_in(one.nest):
                tensor = one.tensors[load.source]
                if tensor in results and not operands[load.source].same_as(tensor):
                    self._copied.add(tensor)
        for number, result in enumerate(results):
            self._results[result] = self._buffer(like[result], result.ty, f"result{number}")
        self._blocks: list[Any] = []
        for one in nests:
            self._add(one)

    @property
    def operands(self) -> list[ir.Var]:
        """What it is called with."""
        return list(self._given)

    def function(self) -> tirx.PrimFunc:
        """The function: results behind the operands."""
        body = tirx.SeqStmt(self._blocks) if len(self._blocks) > 1 else self._blocks[0]
        own = list(self._own.values())
        root = s_tir.SBlock([], [], [], "root", body, None, own)
        body = s_tir.SBlockRealize([], tirx.const(1, "bool"), root)
        parameters = [*self._given.values(), *self._results.values()]
        function = tirx.PrimFunc(parameters, body)
        is_one = known(self._tensors.rows) == 1
        attributes = {"tirx.noalias": True, "s_tir": True, ROWS: 0 if is_one else 1}
        return function.with_attr(attributes)

    @property
    def has_all_extents(self) -> bool:
        """Whether each extent that is not known is that of an operand's or a result's axis."""
        said = {
            extent
            for buffer in (*self._given.values(), *self._results.values())
            for extent in buffer.ty.shape
            if isinstance(extent, ir.Var)
        }
        return all(one in said for one in self._symbols.values())

    def _count(self, value: Any) -> Any:
        """A count of the program as one of the function."""
        if isinstance(value, int):
            return i64(value)
        return tvm_ffi.structural_map(value, (ir.Var, self._symbol))

    def _symbol(self, var: ir.Var) -> ir.Var:
        return self._symbols.setdefault(var, tirx.Var(var.name, "int64"))

    def _buffer(self, like: ir.Var, kind: Any, name: str) -> ir.Var:
        return buffer_like(like, [self._count(one) for one in kind.shape.values], name)

    def _add(self, one: RowNest) -> None:
        """The loops of a nest."""
        nest, row, at = one.nest, tirx.Var("row", "int64"), {}
        elements = [
            (digit, tirx.Var("element", "int64")) for digit in one.elements
            if known(digit.extent) != 1
        ]  # fmt: skip
        for axis in nest.axes:
            at[axis.var] = _sum(
                (self._value(piece.digit, row, elements), self._count(piece.stride))
                for piece in one.digits.pieces[axis.var]
            )

        def load(node: ir.TensorLoad) -> Any:
            if node.source in nest.cells:
                return node
            tensor = one.tensors[node.source]
            if tensor in self._results and tensor not in self._copied:
                return tirx.BufferLoad(self._results[tensor], list(node.indices))
            if tensor in self._tensors.written:
                return tirx.BufferLoad(self._own[tensor], self._own_place(tensor, row, elements))
            operand = self._operands[node.source]
            if operand not in self._given:
                name = f"b{len(self._given)}"
                self._given[operand] = self._buffer(node.source, operand.ty, name)
            return tirx.BufferLoad(self._given[operand], list(node.indices))

        def placed(value: Any) -> Any:
            value = substitute(value, at)
            value = tvm_ffi.structural_map(value, (ir.TensorLoad, load))
            return substitute(value, self._symbols)

        (store,) = nest.stores
        tensor = one.tensors[store.buffer]
        if tensor in self._results and tensor not in self._copied:
            target = self._results[tensor]
            indices = [placed(index) for index in store.indices]
        else:
            digits = [] if nest.reduced else [digit for digit, _ in elements]
            target = self._make_own(tensor, store.buffer, digits)
            indices = self._own_place(tensor, row, elements)
        stores = [tirx.BufferStore(target, placed(store.value), indices)]
        init = None
        if nest.init:
            init = tirx.BufferStore(target, placed(nest.init[0].value), indices)
        cells = list(nest.cells)
        zeros = {cell: [i64(0)] * len(cell.ty.shape) for cell in cells}
        first = [tirx.BufferStore(cell, placed(nest.cells[cell]), zeros[cell]) for cell in cells]
        self._blocks.append(
            self._block([*first, *stores], init, cells, row, elements, nest.reduced)
        )
        if tensor in self._copied:
            own = tirx.BufferLoad(target, indices)
            indices = [placed(index) for index in store.indices]
            copy = tirx.BufferStore(self._results[tensor], own, indices)
            self._blocks.append(self._block([copy], None, [], row, elements, []))

    def _block(
        self,
        stores: Sequence[Any],
        init: Any,
        cells: Sequence[ir.Var],
        row: ir.Var,
        elements: Sequence[tuple[Digit, ir.Var]],
        reduced: Sequence[Any],
    ) -> Any:
        kinds = tirx.IterVar.DataPar, tirx.IterVar.CommReduce
        axes = [(row, self._count(self._tensors.rows), kinds[0])]
        axes += [(var, self._count(d.extent), kinds[bool(reduced)]) for d, var in elements]
        if known(axes[0][1]) == 1:
            axes = axes[1:]
            stores = [substitute(store, {row: i64(0)}) for store in stores]
            init = None if init is None else substitute(init, {row: i64(0)})
        iterators = [
            tirx.IterVar(ir.Range.from_min_extent(i64(0), extent), var, kind)
            for var, extent, kind in axes
        ]
        loops = [tirx.Var(var.name, "int64") for var, _, _ in axes]
        body = tirx.SeqStmt(list(stores)) if len(stores) > 1 else stores[0]
        block = s_tir.SBlock(iterators, [], [], "row", body, init, list(cells))
        made: Any = s_tir.SBlockRealize(loops, tirx.const(1, "bool"), block)
        for loop, (_, extent, _) in reversed(list(zip(loops, axes, strict=True))):
            made = tirx.For(loop, i64(0), extent, tirx.ForKind.SERIAL, made)
        return made

    def _value(self, digit: Digit, row: ir.Var, elements: Sequence[tuple[Digit, ir.Var]]) -> Any:
        if not digit.is_row:
            return next((var for one, var in elements if one is digit), i64(0))
        weight, extent = self._count(digit.weight), self._count(digit.extent)
        value = row if known(weight) == 1 else tirx.floordiv(row, weight)
        if are_same(times(digit.weight, digit.extent), self._tensors.rows):
            return value
        return tirx.floormod(value, extent)

    def _make_own(self, tensor: Any, like: ir.Var, digits: Sequence[Digit]) -> ir.Var:
        """A buffer of the function's own, for a tensor that no other sees, as a nest goes."""
        rows, self._own_digits[tensor] = self._count(self._tensors.rows), digits
        shape = [rows, *(self._count(digit.extent) for digit in digits)]
        self._own[tensor] = tirx.decl_buffer(shape, str(like.ty.dtype), "own")
        return self._own[tensor]

    def _own_place(
        self, tensor: Any, row: ir.Var, elements: Sequence[tuple[Digit, ir.Var]]
    ) -> list[Any]:
        """Where the element is that a nest is at."""
        digits = self._own_digits[tensor]
        return [row, *(self._part(digit, digits, elements) for digit in digits)]

    def _part(
        self, digit: Digit, digits: Sequence[Digit], elements: Sequence[tuple[Digit, ir.Var]]
    ) -> Any:
        """A digit of the element that others are the digits of."""
        within = [one for one in elements if _is_within(one[0], digit)]
        if all(any(_is_within(one, other) for other in digits) for one, _ in elements):
            return _sum((var, self._count(_quotient(one.weight, digit))) for one, var in within)
        flat = _sum((var, self._count(one.weight)) for one, var in elements)
        return tirx.floormod(
            tirx.floordiv(flat, self._count(digit.weight)), self._count(digit.extent)
        )


def _is_within(digit: Digit, other: Digit) -> bool:
    """Whether a digit is one, or a part, of another."""
    if are_same(digit.weight, other.weight) and are_same(digit.extent, other.extent):
        return True
    numbers = [known(n) for n in (digit.weight, digit.extent, other.weight, other.extent)]
    if any(number is None for number in numbers):
        return False
    weight, extent, least, many = (int(number or 0) for number in numbers)
    return weight % least == 0 and least <= weight and weight * extent <= least * many


def _quotient(weight: Any, digit: Digit) -> Any:
    """How much of a digit one of its parts of such a weight is."""
    whole, least = known(weight), known(digit.weight)
    return 1 if whole is None or not least else whole // least


def _sum(terms: Any) -> Any:
    total: Any = i64(0)
    for value, factor in terms:
        term = value if known(factor) == 1 else value * factor
        total = term if known(total) == 0 else total + term
    return total
