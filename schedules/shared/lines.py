"""A tensor as lines along one dimension: ``[outer, length, inner]``, with flat positions.

Ops that walk along a dimension (scan, arg_compare) see every rank and dimension so: the lines of a
last dimension are contiguous (``inner`` is 1), those of another lie side by side.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import alignment_bytes
from tvm_iree_ext.base.signature import Shape
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.base.parameters import passed_dtype
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known


@dataclass(frozen=True)
class Lines:
    """A tensor's lines: how many before and beside one another, and their length."""

    outer: Index
    length: Index
    inner: Index

    @staticmethod
    def of(shape: Shape, dimension: int, symbols: Mapping[str, tirx.Var] | None = None) -> "Lines":
        """The lines of a tensor; without ``symbols``, of one whose extents are numbers."""
        extents: list[Index] = [
            extent if isinstance(extent, int) else (symbols or {})[extent] for extent in shape
        ]
        return Lines(
            emit.product(extents[:dimension]),
            extents[dimension],
            emit.product(extents[dimension + 1 :]),
        )

    def at(self, outer: Index, position: Index, inner: Index = 0) -> Expr:
        """The flat position of an element of the tensor."""
        row = i64(outer) * i64(self.length) + i64(position)
        return row * i64(self.inner) + i64(inner)

    def line(self, outer: Index, inner: Index = 0) -> Expr:
        """The flat position of a line, in a tensor that lacks the dimension."""
        return i64(outer) * i64(self.inner) + i64(inner)


def static_lines(shape: Shape, dimension: int) -> tuple[int | None, int | None, int | None]:
    """Outer, length and inner of :class:`Lines`, None where they are known at call time only."""
    parts = shape[:dimension], shape[dimension : dimension + 1], shape[dimension + 1 :]
    counts: list[int | None] = []
    for part in parts:
        count: int | None = 1
        for extent in part:
            count = count * extent if isinstance(extent, int) and count is not None else None
        counts.append(count)
    return counts[0], counts[1], counts[2]


@dataclass(frozen=True)
class FlatOperand:
    """An operand addressed by flat position."""

    buffer: Any

    @property
    def dtype(self) -> str:
        """The element type."""
        return str(self.buffer.dtype)

    @property
    def held(self) -> str:
        """The type in which elements are held in registers: halves are widened, bool is int8."""
        return held_dtype(self.dtype)

    def load(self, position: Index, lanes: int = 1) -> Expr:
        """An element, or a run of them, in the held type."""
        return emit.cast(self.buffer[emit.run(position, lanes)], self.held)

    def store(self, position: Index, value: Expr, lanes: int = 1) -> None:
        """Write an element or run, given in the held type."""
        I.buffer_store(self.buffer, emit.cast(value, self.dtype), [emit.run(position, lanes)])


def held_dtype(dtype: str) -> str:
    """The type in which elements of ``dtype`` are held in registers."""
    return {"float16": "float32", "bfloat16": "float32", "bool": "int8"}.get(dtype, dtype)


def rounded(value: Expr, dtype: str) -> Expr:
    """A float32, or a vector of them, rounded to ``dtype`` and held in float32 again."""
    if dtype != "bfloat16":
        return emit.cast(emit.cast(value, dtype), "float32")
    # By hand, as in emit.cast: to nearest, ties to even; a NaN must not be carried into infinity.
    count = str(value.ty.dtype).partition("x")[2]
    lanes = int(count or 1)

    def const(number: int) -> Expr:
        return emit.splat(tirx.const(number, "uint32"), lanes)

    bits = tirx.reinterpret(f"uint32x{lanes}" if count else "uint32", value)
    up = bits + const(0x7FFF) + ((bits >> const(16)) & const(1))
    is_nan = (bits & const(0x7FFFFFFF)) > const(0x7F800000)
    bits = tirx.Select(is_nan, bits | const(0x10000), up)
    return tirx.reinterpret(str(value.ty.dtype), bits & const(0xFFFF0000))


def declare(
    op: Op, *, align: int = 1, make: Callable[[Any], FlatOperand] = FlatOperand
) -> tuple[dict[str, FlatOperand], dict[str, tirx.Var], dict[str, Expr]]:
    """Name the PrimFunc under construction and add the parameters of ``op`` to it.

    Args:
        op: whose they are.
        align: the bytes that addresses are multiples of, at least.  An item's are enough for a
            CPU: any NumPy array will do, at no cost in vector moves.
        make: what makes an operand of a flat buffer.

    Returns:
        The tensors by name, the symbolic extents, and the scalars.
    """
    I.func_name(op.entry)
    I.func_attr({"global_symbol": op.entry, "tirx.noalias": True})
    symbols = {name: tirx.Var(name, "int64") for name in op.signature.symbols}
    scalars: dict[str, Expr] = {}
    declared = []
    for operand in op.signature.operands:
        if operand.role == "scalar":
            scalars[operand.name] = I.arg(
                operand.name, tirx.Var(operand.name, passed_dtype(operand.dtype))
            )
            continue
        shape = [i64(symbols[e] if isinstance(e, str) else e) for e in operand.shape]
        buffer = I.buffer(shape, operand.dtype, align=max(align, alignment_bytes(operand.dtype)))
        declared.append((operand, shape, I.arg(operand.name, buffer)))
    flats = {}
    for operand, shape, buffer in declared:
        flat = I.decl_buffer(
            [i64(emit.product([known(e) or e for e in shape]))],
            operand.dtype,
            data=buffer.data,
            align=max(align, alignment_bytes(operand.dtype)),
        )
        flats[operand.name] = make(flat)
        IRBuilder.name(operand.name, flats[operand.name].buffer)
    return flats, symbols, scalars
