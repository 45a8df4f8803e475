"""PrimFunc of a program's body: parameters, loops and registers, results.

A program emits itself, so its parts are taken here: signature, body and what the body writes.
"""

from collections.abc import Mapping, Sequence

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.signature import Operand, Signature, evaluate
from tvm_iree_ext.tir.tir_expressions import Expr, Index, i64
from tvm_iree_ext.vector.analysis.work import work
from tvm_iree_ext.vector.emit import control, elementwise, memory, nests, products, shapes, transfer
from tvm_iree_ext.vector.emit.aliasing import Aliases
from tvm_iree_ext.vector.emit.compute import NARROW, narrowed
from tvm_iree_ext.vector.emit.context import EMIT, BufferBox, Emitter, copy, memory_dtype
from tvm_iree_ext.vector.ir.core import Block, Value
from tvm_iree_ext.vector.ir.vector_types import MemoryType, RankedTensorType, ScalarType

# Element operations: 4 microseconds of a product of matrices, 8 of a sum of arrays.  Waking the
# thread pool takes as long.
_PARALLEL_WORK = 1 << 18

PARTS = (control, elementwise, memory, nests, products, shapes, transfer)
"""The modules that fill the table :data:`EMIT` of what emits an op."""

__all__ = ["EMIT", "PARTS", "prim_func"]


def prim_func(
    entry: str, signature: Signature, body: Block, written: Sequence[Value]
) -> tirx.PrimFunc:
    """TensorIR on any target.

    Args:
        entry: name of the function.
        signature: the arguments that are given, then what is returned, then what is written.
        body: arguments and operations, of which the last is ``func.return``.
        written: the arguments whose new contents are results.
    """
    aliases = Aliases(body)
    last = body.terminator
    returned = dict(zip(last.attributes["names"], last.operands, strict=True))
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name(entry)
        I.func_attr({"global_symbol": entry, "tirx.noalias": True})
        parameters = _Parameters(signature)
        outputs = _outputs(returned, aliases, parameters)
        is_large = bool(parameters.symbols) or work(body) >= _PARALLEL_WORK
        emitter = Emitter(aliases, outputs, is_parallel=is_large)
        with I.sblock("root"):
            _take_arguments(emitter, body.arguments, written, parameters)
            values = emitter.block(body)
            for name, value in zip(returned, values, strict=True):
                _give_result(emitter, value, parameters.results[name])
    return builder.get()


class _Parameters:
    """The buffers and numbers of the PrimFunc, in the order of the signature."""

    def __init__(self, signature: Signature) -> None:
        self.symbols: dict[str, Expr] = {n: tirx.Var(n, "int64") for n in signature.symbols}
        self.arguments: dict[str, BufferBox | Expr] = {}
        self.results: dict[str, BufferBox] = {}
        for operand in signature.operands:
            if operand.role == "scalar":
                dtype = "float32" if operand.dtype in NARROW else operand.dtype
                number = I.arg(operand.name, tirx.Var(operand.name, dtype))
                self.arguments[operand.name] = narrowed(number, operand.dtype)
            elif operand.role == "result":
                self.results[operand.name] = self._place(operand, f"{operand.name}_result")
            else:
                self.arguments[operand.name] = self._place(operand, operand.name)

    def _place(self, operand: Operand, name: str) -> BufferBox:
        shape: list[Index] = [
            extent if isinstance(extent, int) else evaluate(extent, self.symbols, _CALLS)
            for extent in operand.shape
        ]
        dtype = memory_dtype(operand.dtype)
        buffer = I.arg(name, I.buffer([i64(e) for e in shape], dtype, align=item_bytes(dtype)))
        return BufferBox.whole(buffer, shape, operand.dtype)


def _ceildiv(a: Expr, b: Index) -> Expr:
    return tirx.floordiv(a + i64(b) - i64(1), i64(b))


_CALLS = {"ceildiv": _ceildiv, "max": tirx.max}


def _outputs(
    returned: Mapping[str, Value], aliases: Aliases, parameters: _Parameters
) -> dict[int, BufferBox]:
    """The memories that are a result as a whole: they need no copy at the end."""
    found: dict[int, BufferBox] = {}
    for name, value in returned.items():
        if isinstance(value.type, RankedTensorType) and value not in aliases.views:
            found.setdefault(aliases.memory[value], parameters.results[name])
    return found


def _take_arguments(
    emitter: Emitter, arguments: Sequence[Value], written: Sequence[Value], parameters: _Parameters
) -> None:
    """Vectors are loaded, and the buffers that are written copied to where the result is."""
    for argument in arguments:
        name = argument.hint
        given = parameters.arguments.get(name)
        if argument in written:
            if isinstance(given, BufferBox):
                copy(given, parameters.results[name])
            given = parameters.results[name]
        assert given is not None
        if isinstance(argument.type, MemoryType):
            emitter[argument] = given
        elif isinstance(given, BufferBox):
            made = emitter.define(argument)
            for number in range(made.count):
                index = made.index(number)
                lanes = made.lanes if argument.rank else 1
                made.write(number * made.lanes, given.load(index, lanes))
        else:
            emitter[argument] = given


def _give_result(emitter: Emitter, value: Value, place: BufferBox) -> None:
    if isinstance(value.type, MemoryType):
        copy(emitter.place(value), place)
    elif isinstance(value.type, ScalarType):
        place.store((), emitter.scalar(value))
    else:
        vector = emitter.vector(value)
        for number in range(vector.count):
            lanes = vector.lanes if value.rank else 1
            place.store(vector.index(number), vector.register(number), lanes)
