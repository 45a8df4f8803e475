"""One PrimFunc under construction: buffers of tensors, variables of extents, scalars, stores."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from tvm import tirx
from tvm.ir import Range
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.mlir.base.elements import Element, Expr, Held, Pair
from tvm_iree_ext.mlir.base.ir_values import (
    AnyTensor,
    Applied,
    Constant,
    Empty,
    Number,
    Shape,
    Splat,
    Symbol,
    Tensor,
    Value,
    extent,
    inner,
    plain,
)
from tvm_iree_ext.mlir.importing.relax_types import ELEMENTWISE, MOST_EXTENT
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import Context
from tvm_iree_ext.mlir.scalars.scalar_regions import Evaluator
from tvm_iree_ext.ops.base.block_nests import block_over

Body = Callable[[Mapping[int, Any]], None]


class PrimFuncBuilder:
    """Builds a PrimFunc, and calls it in the function that is imported.

    Within ``with kernel:`` its blocks are made; then ``results`` are the tensors that it computes.
    An extent that is not a number is a variable of its own wherever it stands, so that TVM can
    match the buffers of kernels that it fuses.  Where ``in_place`` is given, it is the only output:
    nothing else may read it afterwards.
    """

    def __init__(
        self,
        scope: Scope,
        name: str,
        reads: Sequence[Value],
        outputs: Sequence[tuple[Shape, Element]],
        pattern: int,
        extents: Sequence[Any] = (),
        in_place: Tensor | None = None,
    ) -> None:
        self._in_place = in_place
        self.scope, self.outputs, self.pattern = scope, list(outputs), pattern
        self.name = "".join(c if c.isalnum() else "_" for c in name)
        self.results: list[Tensor] = []
        self._inputs: list[Tensor] = []
        self._memory: dict[int, Tensor] = {}
        self._symbols: list[Expr] = []
        for one in inner(reads):
            if isinstance(one, Symbol):
                self._symbols.append(one.value)
            else:
                tensor = in_memory(scope, one)
                self._memory[id(one)] = tensor
                if not any(tensor is known for known in self._inputs):
                    self._inputs.append(tensor)
        self._extents = [*extents]
        for value in reads:
            self._extents += getattr(value, "shape", ())
        self._variables: dict[str, Expr] = {}
        self._buffers: dict[int, list[Any]] = {}
        self._stores: list[list[Any]] = []
        self._scalars: dict[int, Held] = {}
        self._arguments: list[Any] = []
        self.context = Context()
        self.context.kernel = self

    def __enter__(self) -> "PrimFuncBuilder":
        self._builder = IRBuilder()
        self._builder.__enter__()
        self._function = I.prim_func(s_tir=True)
        self._function.__enter__()
        I.func_name(self.name)
        I.func_attr({"tirx.noalias": True, "op_pattern": self.pattern})
        for shape, _ in [*((t.shape, None) for t in self._inputs), *self.outputs]:
            for one in shape:
                self._variable(one)
        for tensor in self._inputs:
            extents = [self.extent(one) for one in tensor.shape]
            self._buffers[id(tensor)] = [
                self._parameter(extents, dtype) for dtype in tensor.element.storage
            ]
            self._arguments += tensor.parts
        for symbol in [*self._symbols, *self._extents]:
            if not isinstance(plain(symbol), int) and str(symbol) not in self._variables:
                variable = tirx.Var(f"n{len(self._variables)}", "int64")
                self._variables[str(symbol)] = I.arg(variable.name, variable)
                self._arguments.append(symbol)
        for shape, element in self.outputs:
            if self._in_place is not None:
                self._stores.append(self._buffers[id(self._in_place)])
                continue
            own = [self.extent(one) for one in shape]
            self._stores.append([self._parameter(own, dtype) for dtype in element.storage])
        self._root = I.sblock("root")
        self._root.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._root.__exit__(kind, error, trace)
        self._function.__exit__(kind, error, trace)
        self._builder.__exit__(kind, error, trace)
        if kind is None:
            types = [(shape, dtype) for shape, element in self.outputs for dtype in element.storage]
            written = () if self._in_place is None else self._in_place.parts
            made = self._builder.get()
            parts = self.scope.call(made, self.name, self._arguments, types, written)
            for shape, element in self.outputs:
                count = len(element.storage)
                self.results.append(Tensor(tuple(shape), element, tuple(parts[:count])))
                parts = parts[count:]

    def _parameter(self, shape: Sequence[Expr], dtype: str) -> Any:
        number = sum(map(len, self._buffers.values())) + sum(map(len, self._stores))
        name = f"b{number}"
        # The alignment of an item, which is all that a caller's array has.
        return I.arg(name, I.buffer(list(shape), dtype, align=item_bytes(dtype)))

    def _variable(self, one: Any) -> None:
        if not isinstance(plain(one), int):
            name = f"n{len(self._variables)}"
            self._variables.setdefault(str(one), tirx.Var(name, "int64"))

    def extent(self, one: Any) -> Expr:
        """An extent of the function as an expression of the PrimFunc."""
        number = plain(one)
        return extent(number) if isinstance(number, int) else self._variables[str(one)]

    def block(
        self,
        name: str,
        extents: Sequence[Any],
        body: Body,
        *,
        reduced: Sequence[int] = (),
        init: Body | None = None,
    ) -> None:
        """Loops and a block over extents, of which the dims ``reduced`` are reduced, in order."""
        own = [self.extent(one) for one in extents]
        dims = [dim for dim in range(len(own)) if dim not in reduced]

        def bounded(inside: Body) -> Body:
            def run(at: Mapping[int, Any]) -> None:
                self.know(at, extents)
                inside(at)

            return run

        first = bounded(init) if init is not None else None
        block_over(own, name, dims, list(reduced), bounded(body), first)

    def know(self, at: Mapping[int, Any], extents: Sequence[Any]) -> None:
        """Tell the analyzer where the variables of a block lie; forget the scalars of others."""
        self._scalars.clear()
        for dim, variable in at.items():
            number = plain(extents[dim])
            most = number if isinstance(number, int) else MOST_EXTENT
            bounds = Range.from_min_extent(tirx.const(0, "int64"), tirx.const(most, "int64"))
            self.context.analyzer.bind(variable, bounds, True)

    def copied(self, value: AnyTensor, at: Sequence[Expr]) -> list[Expr]:
        """The stored parts of an element, as they are."""
        tensor = self._memory.get(id(value))
        if tensor is not None:
            return [buffer[tuple(at)] for buffer in self._buffers[id(tensor)]]
        held = self.element(value, at)
        return stored(held, value.element)

    def element(self, value: AnyTensor, at: Sequence[Expr]) -> Held:
        """What an element of a tensor holds; the place must lie inside."""
        tensor = self._memory.get(id(value))
        if tensor is not None:
            parts = [buffer[tuple(at)] for buffer in self._buffers[id(tensor)]]
            return loaded(parts, tensor.element)
        if isinstance(value, Splat):
            return self.scalar(value.scalar)
        assert isinstance(value, Empty)
        return value.element.constant(0)

    def as_parts(self, held: Held, element: Element) -> list[Expr]:
        """The parts that a buffer takes of a value."""
        return stored(held, element)

    def checked(self, value: AnyTensor, at: Sequence[Expr]) -> Held:
        """An element whose place may lie outside: then that of the nearest place, or 0 of none."""
        if isinstance(value, Splat | Empty):
            return self.element(value, at)
        return loaded(self.clamped(value, at), value.element)

    def clamped(self, value: AnyTensor, at: Sequence[Expr]) -> list[Expr]:
        """The stored parts of such an element."""
        zero = tirx.const(0, "int64")
        place: list[Expr] = []
        there: Expr | None = None
        nothing = stored(value.element.constant(0), value.element)
        for index, one in zip(at, value.shape, strict=True):
            number = plain(one)
            if number == 0:
                return nothing
            own = self.extent(one)
            if isinstance(number, int) and self.context.fits(index, 0, number - 1):
                place.append(index)
                continue
            place.append(tirx.max(tirx.min(index, own - 1), zero))
            if not isinstance(number, int):
                some = zero < own
                there = some if there is None else tirx.And(there, some)
        found = self.copied(value, place)
        if there is None:
            return found
        return [tirx.if_then_else(there, a, b) for a, b in zip(found, nothing, strict=True)]

    def scalar(self, value: Value) -> Held:
        """A scalar of the function, computed here."""
        if isinstance(value, Number):
            return value.element.constant(value.value)
        if isinstance(value, Symbol):
            found = self.extent(value.value)
            return found if value.element.held == "int64" else tirx.Cast(value.element.held, found)
        assert isinstance(value, Applied)
        if id(value) not in self._scalars:
            operands = [
                self.scalar(one) if isinstance(one, Number | Symbol | Applied) else one
                for one in value.operands
            ]
            found = Evaluator(self.context, self.scope.value).apply(value.operation, operands)
            self._scalars[id(value)] = found[value.result]
        return self._scalars[id(value)]

    def store(self, output: int, held: Held, at: Sequence[Expr]) -> None:
        """Store an element."""
        self.put(output, stored(held, self.outputs[output][1]), at)

    def put(self, output: int, parts: Sequence[Expr], at: Sequence[Expr]) -> None:
        """Store the stored parts of an element."""
        for buffer, part in zip(self._stores[output], parts, strict=True):
            I.buffer_store(buffer, part, list(at))

    def stored_element(self, output: int, at: Sequence[Expr]) -> Held:
        """An element of an output, as it is now."""
        return loaded(self.stored_parts(output, at), self.outputs[output][1])

    def stored_parts(self, output: int, at: Sequence[Expr]) -> list[Expr]:
        """The stored parts of such an element."""
        return [buffer[tuple(at)] for buffer in self._stores[output]]

    def kept(self, held: Held) -> Held:
        """The same value, computed once: through a buffer of one element."""
        if isinstance(held, Pair):
            return Pair(*(self._kept(part) for part in held))
        return self._kept(held)

    def _kept(self, value: Expr) -> Expr:
        cell = I.sblock_alloc_buffer([1], str(value.ty.dtype), scope="local")
        zero = tirx.const(0, "int64")
        I.buffer_store(cell, value, [zero])
        return cell[zero]

    def evaluate(
        self,
        block: form.ParsedBlock,
        arguments: Sequence[Any],
        position: Sequence[Expr] = (),
        scope: Scope | None = None,
    ) -> list[Any]:
        """What a region yields for its arguments, at a position of the iteration space."""
        self.context.position = dict(enumerate(position))
        return Evaluator(self.context, (scope or self.scope).value).run(block, arguments)


def loaded(parts: Sequence[Expr], element: Element) -> Held:
    """What stored parts hold."""
    if element.is_complex:
        return Pair(*parts)
    return element.loaded(parts[0])


def stored(held: Held, element: Element) -> list[Expr]:
    """The parts that a buffer takes."""
    return list(held) if isinstance(held, Pair) else [element.stored(held)]


def in_memory(scope: Scope, value: AnyTensor) -> Tensor:
    """A tensor in memory, emitting what it takes."""
    match value:
        case Tensor():
            return value
        case Constant():
            return scope.constant(value)
    kernel = PrimFuncBuilder(scope, "fill", [value], [(value.shape, value.element)], ELEMENTWISE)
    with kernel:
        kernel.block(
            "fill",
            value.shape,
            lambda at: kernel.put(0, kernel.copied(value, _place(at)), _place(at)),
        )
    return kernel.results[0]


def _place(at: Any) -> list[Any]:
    return [at[dim] for dim in sorted(at)]
