"""Sums of products of blocks with scales among ``linalg``'s loops: the registry's contraction.

    %a = arith.scaling_extf %lhs, %lhs_scale : f4E2M1FN, f8E8M0FNU to f32
    %b = arith.scaling_extf %rhs, %rhs_scale : f4E2M1FN, f8E8M0FNU to f32
    %product = arith.mulf %a, %b : f32
    %sum = arith.addf %out, %product : f32

as IREE has them; one of the two may be a plain float.
"""

from typing import Any

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import EXPONENTS
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.mlir.base.ir_values import TENSORS, Value, is_zero
from tvm_iree_ext.mlir.dialects.iree_linalg_ext import map_text
from tvm_iree_ext.mlir.dialects.linalg_generic import Loops, is_projection
from tvm_iree_ext.mlir.dialects.registry_calls import call_op, element_type_of
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import kind_of
from tvm_iree_ext.ops.families.contraction.factors import SIDES, scales_of

Places = dict[str, int]
"""The place among a block's arguments of each operand of the contraction."""


def scaled_places(block: form.ParsedBlock) -> Places | None:
    """Where lhs, rhs and their scales are; None for a block that does anything else.

    Sums are of float32, and each argument is used once.
    """
    made = {id(op.results[0]): op for op in block.operations[:-1] if op.results}
    place = {id(argument): number for number, argument in enumerate(block.arguments)}
    last = len(block.arguments) - 1

    def operands(value: form.ParsedValue, name: str) -> list[form.ParsedValue]:
        op = made.get(id(value))
        return list(op.operands) if op is not None and op.name == name else []

    (yielded,) = block.operations[-1].operands or (None,)
    if yielded is None or kind_of(yielded).name != "float32":
        return None
    parts = [one for one in operands(yielded, "arith.addf") if place.get(id(one)) != last]
    if len(parts) != 1:
        return None
    found: Places = {}
    for side, factor in zip(SIDES, operands(parts[0], "arith.mulf"), strict=False):
        scaled = operands(factor, "arith.scaling_extf")
        if scaled and kind_of(scaled[1]).name != EXPONENTS:
            return None
        element = scaled[0] if scaled else (operands(factor, "arith.extf") or [factor])[0]
        for name, value in ((side, element), *((scales_of(side), one) for one in scaled[1:])):
            if id(value) not in place:
                return None
            found[name] = place[id(value)]
    is_scaled = any(scales_of(side) in found for side in SIDES)
    return found if is_scaled and sorted(found.values()) == list(range(last)) else None


def scaled_contraction(scope: Scope, loops: Loops) -> list[Value] | None:
    """The result by the registry's contraction; None for loops that are none with scales.

    Why loops with scales are none is noted.
    """
    if len(loops.outputs) != 1 or not loops.reduced:
        return None
    places = scaled_places(loops.block)
    maps = [*loops.input_maps, *loops.output_maps]
    if places is None or not all(map(is_projection, maps)):
        return None
    (out,) = loops.outputs
    names = [*SIDES, *(name for name in map(scales_of, SIDES) if name in places)]
    operands: dict[str, Value] = {name: loops.inputs[places[name]] for name in names}
    types: dict[str, Any] = {}
    for name, value in operands.items():
        if not isinstance(value, TENSORS):
            return None
        types[name] = element_type_of(scope, value)
    order = [loops.input_maps[places[name]] for name in names]
    init = None if is_zero(out) else element_type_of(scope, out)
    try:
        op = ops.contraction(
            types["lhs"],
            types["rhs"],
            indexing_maps=[map_text(one) for one in (*order, *loops.output_maps)],
            lhs_scales=types.get("lhs_scales"),
            rhs_scales=types.get("rhs_scales"),
            init=init,
            result_dtype="float32",
        )
    except OpError as error:
        scope.program.fell_back(str(error))
        return None
    return call_op(scope, op, {**operands, "init": out}, [out])
