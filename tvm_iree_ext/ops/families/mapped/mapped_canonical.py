"""The canonical TensorIR of map_load and map_store: the formula, a block each."""

from __future__ import annotations

from tvm_iree_ext.ops.base.block_nests import BlockNest
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.families.mapped.mapped import Mapped
from tvm_iree_ext.tir.tir_expressions import i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx


@emits_canonical
def canonical_mapped(op: Mapped, parameters: Parameters) -> None:
    """The block ``map_load``; or ``copy`` and ``map_store``."""
    output = parameters["output"]
    if not op.loads:
        with BlockNest("copy", parameters, op.other.shape) as at:
            I.buffer_store(output, parameters["output_init"][tuple(at)], at)
    with BlockNest(op.entry, parameters, op.domain.shape) as at:
        place, value = op.region(at, parameters.symbols)
        inside: ir.Expr = tirx.const(True, "bool")
        for index, extent in zip(place, op.other.shape, strict=True):
            one = tirx.And(tirx.const(0, "int64") <= index, index < i64(parameters.extent(extent)))
            inside = tirx.And(inside, one)
        if op.loads:
            found = parameters["source"][tuple(place)]
            I.buffer_store(output, tirx.if_then_else(inside, found, value), at)
        else:
            with I.If(tirx.And(value, inside)), I.Then():
                I.buffer_store(output, parameters["input"][tuple(at)], place)
