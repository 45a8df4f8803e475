"""The canonical TensorIR of scatter and gather: the formulas, a block each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tvm_iree_ext.base.errors import KERNEL_ERROR
from tvm_iree_ext.ops.base.block_nests import BlockNest, in_range
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.families.slices.gather import Gather
from tvm_iree_ext.ops.families.slices.scatter import Scatter
from tvm_iree_ext.ops.families.slices.slices import IndexedSlices
from tvm_iree_ext.tir.tir_expressions import convert, i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx

Point: TypeAlias = "Sequence[ir.Expr]"


@emits_canonical
def canonical_scatter(op: Scatter, parameters: Parameters) -> None:
    """Blocks ``copy`` and ``scatter``, and ``out_of_range`` before them where that is an error.

    The loops over the batch are spatial where indices are unique: no element is updated twice then,
    so the current value can be read from the original, and the block writes what it does not read.
    """
    original, result, updates = (parameters[n] for n in ("original", "result", "updates"))
    _check_range(op, parameters)
    with BlockNest("copy", parameters, op.slices.full) as at:
        I.buffer_store(result, original[tuple(at)], at)
    unique = op.unique_indices
    current = original if unique else result
    serial = 0 if unique else len(op.slices.batch)
    with BlockNest("scatter", parameters, op.slices.slices, serial) as at:
        target, valid = address(op.slices, parameters, at)
        with I.If(valid), I.Then():
            values = (updates[tuple(at)], current[tuple(target)])
            value = op.region(*(convert(value, op.compute_dtype) for value in values))
            I.buffer_store(result, convert(value, op.dtype), target)


@emits_canonical
def canonical_gather(op: Gather, parameters: Parameters) -> None:
    """The block ``gather``, and ``out_of_range`` before it where that is an error."""
    _check_range(op, parameters)
    with BlockNest("gather", parameters, op.slices.slices) as at:
        place, valid = address(op.slices, parameters, at)
        rest = tirx.const(0, op.dtype)
        if op.has_init:
            rest = parameters["output_init"][tuple(at)]
        found = parameters["source"][tuple(place)]
        I.buffer_store(parameters["output"], tirx.if_then_else(valid, found, rest), at)


def _check_range(op: Any, parameters: Parameters) -> None:
    """Raise before anything is written where an index that is not masked is out of range."""
    if op.out_of_range != "error":
        return
    wrong = I.sblock_alloc_buffer([1], "int64")
    I.buffer_store(wrong, tirx.const(0, "int64"), [0])
    with BlockNest("out_of_range", parameters, op.slices.batch, len(op.slices.batch)) as at:
        wanted = _wanted(parameters, at)
        _, inside = _start(op.slices, parameters, at)
        count = tirx.Select(tirx.And(wanted, tirx.Not(inside)), *_one_and_zero())
        I.buffer_store(wrong, wrong[0] + count, [0])
    message = f"{op.name}: indices are out of range; nothing was written"
    with I.Assert(wrong[0] == tirx.const(0, "int64"), message, KERNEL_ERROR):
        I.evaluate(tirx.const(0, "int32"))


def _one_and_zero() -> tuple[ir.Expr, ir.Expr]:
    return tirx.const(1, "int64"), tirx.const(0, "int64")


def _wanted(parameters: Parameters, batch: Point) -> ir.Expr:
    """Whether the mask leaves the slice of a batch position."""
    if "mask" not in parameters.buffers:
        return tirx.const(True, "bool")
    mask = convert(parameters["mask"][tuple(batch)], "int8")
    return tirx.NE(tirx.bitwise_and(mask, tirx.const(1, "int8")), tirx.const(0, "int8"))


def _start(
    slices: IndexedSlices, parameters: Parameters, batch: Point
) -> tuple[dict[int, ir.Expr], ir.Expr]:
    """The index over each indexed dim, and whether its window lies in the tensor."""
    indices = parameters["indices"]
    start: dict[int, ir.Expr] = {}
    inside: ir.Expr = tirx.const(True, "bool")
    for component, dim in enumerate(slices.dimension_map):
        last = [tirx.const(component, "int64")] if slices.depth_dim else []
        place = (*batch, *last)
        index = convert(indices[place], "int64")
        start[dim] = index
        full, extent = (i64(parameters.extent(e[dim])) for e in (slices.full, slices.extents))
        inside = tirx.And(inside, in_range(index, full, extent))
    return start, inside


def address(
    slices: IndexedSlices, parameters: Parameters, at: Point
) -> tuple[list[ir.Expr], ir.Expr]:
    """The place in the tensor of a point of the slices, and whether it is to be touched."""
    batch, window = at[: len(slices.batch)], at[len(slices.batch) :]
    start, inside = _start(slices, parameters, batch)
    zero = tirx.const(0, "int64")
    place = [zero] * (len(slices.full) - len(window)) + list(window)
    for dim, index in start.items():
        place[dim] = place[dim] + index
    return place, tirx.And(_wanted(parameters, batch), inside)
