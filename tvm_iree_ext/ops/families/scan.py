"""``iree_linalg_ext.scan``: running combinations along one dimension.

With f the region, the other indices fixed, and n the extent of the dimension:

    inclusive:    output[0] = input[0];          output[i] = f(output[i-1], input[i])
    exclusive:    output[0] = accumulator_init;  output[i] = f(output[i-1], input[i-1])
    accumulator = output[n-1] if n > 1 else accumulator_init

So an inclusive scan ignores the accumulator's initial value, and an exclusive one's accumulator
leaves out the last element.  Differences to the dialect: the accumulator is two operands (an init
and a result), and the output, whose contents the op ignores, is a result only.

The order is the one above.  Beyond the dialect, ``reassociate=True`` allows any other bracketing
(never another order of the operands): then a line is scanned in blocks, in parallel.  Regions that
are associative as they are (integer add, mul, and, or, xor; min and max) need no such leave.

A region over f16 or bf16 is computed in float32 and its result rounded to the element type: equal
to the dialect's where the region is one operation, and more exact where it is several.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Operand, Shape, Signature, TensorType
from tvm_iree_ext.ops.base.compute_dtypes import computed_dtype
from tvm_iree_ext.ops.base.natural_inits import identity
from tvm_iree_ext.ops.base.op import Op, resolve
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor, check_dimension
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.base.regions import Region, RegionLike, trace
from tvm_iree_ext.ops.base.shapes import named, unify
from tvm_iree_ext.tir.tir_expressions import convert, i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx

_NAME = "iree_linalg_ext.scan"


@dataclass(frozen=True, eq=False)
class Scan(Op):
    """A scan; made by :func:`scan`, which checks it."""

    type: TensorType
    dimension: int
    inclusive: bool
    region: Region
    reassociate: bool
    name: str = _NAME

    @property
    def compute_dtype(self) -> str:
        """The type in which the region is computed."""
        return computed_dtype(self.type.dtype)

    @cached_property
    def in_order(self) -> bool:
        """Whether only the order of the definition gives the right result."""
        if self.reassociate:
            return False
        return self.region.known_as is None or self.rounds

    @cached_property
    def rounds(self) -> bool:
        """Whether combinations may round: those of floats that are not known to choose one."""
        return self.type.dtype in dtypes.FLOATS and self.region.known_as in (None, "add", "mul")

    @property
    def line_shape(self) -> Shape:
        """The shape of the accumulator: the input's without the dimension."""
        shape = self.type.shape
        return (*shape[: self.dimension], *shape[self.dimension + 1 :])

    @cached_property
    def signature(self) -> Signature:
        """``input``, the region's numbers, ``accumulator_init, output, accumulator``."""
        shape, line, dtype = self.type.shape, self.line_shape, self.type.dtype
        return Signature(
            (
                Operand("input", shape, dtype),
                *(one.operand for one in self.region_scalars),
                Operand("accumulator_init", line, dtype, default=identity(self.region, dtype)),
                Operand("output", shape, dtype, "result"),
                Operand("accumulator", line, dtype, "result", init="accumulator_init", over=shape),
            )
        )

    @property
    def attributes(self) -> dict[str, Any]:
        """Dimension, inclusive, region, and whether it may be reassociated."""
        return {
            "dimension": self.dimension,
            "inclusive": self.inclusive,
            "region": self.region.text,
            "reassociate": self.reassociate,
        }

    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """Applications of the region."""
        length = resolve(self.type.shape[self.dimension], extents)
        return (length - 1) * math.prod(resolve(e, extents) for e in self.line_shape)


def scan(
    input: OperandLike,
    region: RegionLike = "add",
    *,
    dimension: int = 0,
    inclusive: bool = True,
    accumulator: OperandLike | None = None,
    output: OperandLike | None = None,
    dtype: str = "float32",
    reassociate: bool = False,
) -> Scan:
    """Combine the elements before each position along ``dimension``.

    Args:
        input: a shape (of ``dtype``), a :class:`TensorType`, or anything with ``shape`` and
            ``dtype``.  Extents are numbers, names of extents known at call time, or ``"?"``.
        region: f(previous output, input element): a callable over TIR expressions, text over
            ``arg0`` and ``arg1``, or one of ``add mul min max and or xor``.
        dimension: the axis along which to scan, from 0.
        inclusive: whether a position counts its own element.
        accumulator: to be checked when given: input's shape without ``dimension``.
        output: to be checked when given: input's shape.
        dtype: element type of operands given as bare shapes.
        reassociate: allow another bracketing than from first to last.

    Returns:
        The op.  Its kernel takes ``input`` and ``accumulator_init``, and returns ``output`` and
        ``accumulator``.  Where the region has a name the init may be left out: it is then what
        changes nothing, such as 0 for ``add``.

    Raises:
        OpError: for a dimension, rank, extent, dtype or region that does not fit.
    """
    allowed = dtypes.ELEMENTS
    kind = as_tensor(_NAME, "input", input, dtype, allowed, least=0)
    dimension = check_dimension(_NAME, dimension, len(kind.shape))
    for name, value in (("inclusive", inclusive), ("reassociate", reassociate)):
        if not isinstance(value, bool):
            raise OpError(f"{_NAME}: {name} is {value!r}; expected True or False")
    shape = kind.shape
    if output is not None:
        given = as_tensor(_NAME, "output", output, kind.dtype, allowed, least=0)
        shape = unify(_NAME, "output", given, shape, kind.dtype, "input's shape")
    if accumulator is not None:
        given = as_tensor(_NAME, "accumulator", accumulator, kind.dtype, allowed, least=0)
        line = (*shape[:dimension], *shape[dimension + 1 :])
        what = f"input's shape without dimension {dimension}"
        line = unify(_NAME, "accumulator", given, line, kind.dtype, what)
        shape = (*line[:dimension], shape[dimension], *line[dimension:])
    computed = computed_dtype(kind.dtype)
    traced = trace(_NAME, region, [computed, computed], yields=computed, takes_scalars=True)
    if kind.dtype == "bool" and traced.known_as in ("add", "mul"):
        raise OpError(f"{_NAME}: region {traced.text!r} over bool; expected and, or, xor, min, max")
    return Scan(TensorType(named(shape), kind.dtype), dimension, inclusive, traced, reassociate)


@emits_canonical
def canonical_scan(op: Scan, parameters: Parameters) -> None:
    """One block ``scan_line`` per line, which reads nothing that it writes."""
    dtype, length = op.type.dtype, i64(parameters.extent(op.type.shape[op.dimension]))
    one = tirx.const(1, "int64")
    line_extents = [i64(parameters.extent(extent)) for extent in op.line_shape]

    with I.sblock("root"), I.grid(*(line_extents or [one])) as loops, I.sblock("scan_line"):
        listed = list(loops) if isinstance(loops, Sequence) else [loops]
        extents = line_extents or [one]
        at = [I.axis.spatial(e, v) for e, v in zip(extents, listed, strict=True)]
        line = at if line_extents else []

        def place(j: ir.Expr | int) -> list[ir.Expr]:
            index = tirx.const(j, "int64") if isinstance(j, int) else j
            return [*line[: op.dimension], index, *line[op.dimension :]]

        source, target = parameters["input"], parameters["output"]
        init, last = parameters["accumulator_init"], parameters["accumulator"]
        carry = I.sblock_alloc_buffer((1,), dtype, scope="local")
        start = source[tuple(place(0))] if op.inclusive else init[tuple(line)]
        I.buffer_store(carry, start, [0])
        I.buffer_store(target, carry[0], place(0))
        with I.serial(tirx.const(0, "int64"), length - 1) as j:
            element = source[tuple(place(j + 1 if op.inclusive else j))]
            computed = op.region(
                convert(carry[0], op.compute_dtype), convert(element, op.compute_dtype)
            )
            I.buffer_store(carry, convert(computed, dtype), [0])
            I.buffer_store(target, carry[0], place(j + 1))
        only = tirx.Select(length > 1, carry[0], init[tuple(line)])
        I.buffer_store(last, only, line)
