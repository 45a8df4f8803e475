"""``iree_linalg_ext.quantize_affine`` and ``dequantize_affine``, element by element.

As IREE 3.13's own decomposition has them (``iree-linalg-ext-decompose-aggregated-ops``): ``clamp(
roundeven(x / scale) + zero_point)`` in the wider type of x and scale, and ``(q - zero_point) *
scale`` of a difference in integers, in the wider type of scale and result.
"""

from collections.abc import Callable

from tvm_iree_ext.mlir.base.ir_values import Value
from tvm_iree_ext.mlir.dialects.linalg_generic import emit, loops_of
from tvm_iree_ext.mlir.dialects.made_blocks import MadeBlock
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import kind_of

_Body = Callable[[form.ParsedOperation, MadeBlock], form.ParsedValue]


def _as_loops(scope: Scope, op: form.ParsedOperation, body: _Body) -> list[Value]:
    kinds = [form.ParsedScalarType(kind_of(value).name) for value in op.operands]
    block = MadeBlock(kinds)
    block.finish(body(op, block))
    whole = form.ParsedOperation(
        op.name, op.operands, op.results, op.attributes, [[block.made()]], op.location, op.segments
    )
    return emit(scope, loops_of(scope, whole), op.name)


def _quantized(op: form.ParsedOperation, block: MadeBlock) -> form.ParsedValue:
    x, scale, *zero_point, out = block.arguments
    kind = _wider(x, scale)
    ratio = block.op("arith.divf", [_extended(block, one, kind) for one in (x, scale)], kind)
    level = block.op("math.roundeven", [ratio], kind)
    for point in zero_point:
        convert = "arith.uitofp" if "zp_unsigned" in op.attributes else "arith.sitofp"
        level = block.op("arith.addf", [level, block.op(convert, [point], kind)], kind)
    for function, name in (("arith.maxnumf", "quant_min"), ("arith.minnumf", "quant_max")):
        bound = block.op("arith.constant", [], kind, value=float(op.attributes[name]))
        level = block.op(function, [level, bound], kind)
    is_unsigned = "storage_unsigned" in op.attributes
    return block.op("arith.fptoui" if is_unsigned else "arith.fptosi", [level], _scalar(out))


def _dequantized(op: form.ParsedOperation, block: MadeBlock) -> form.ParsedValue:
    stored, scale, *zero_point, out = block.arguments
    kind = _wider(scale, out)
    is_unsigned = "input_unsigned" in op.attributes
    for point in zero_point:
        width = min(max(16, 2 * kind_of(stored).bits), 64)
        stored, point = (
            _resized(block, one, width, is_unsigned=flag in op.attributes)
            for one, flag in ((stored, "input_unsigned"), (point, "zp_unsigned"))
        )
        stored, is_unsigned = block.op("arith.subi", [stored, point], _scalar(stored)), False
    number = block.op("arith.uitofp" if is_unsigned else "arith.sitofp", [stored], kind)
    value = block.op("arith.mulf", [number, _extended(block, scale, kind)], kind)
    if kind == _scalar(out):
        return value
    return block.op("arith.truncf", [value], _scalar(out))


def _scalar(value: form.ParsedValue) -> form.ParsedScalarType:
    return form.ParsedScalarType(kind_of(value).name)


def _wider(one: form.ParsedValue, other: form.ParsedValue) -> form.ParsedScalarType:
    return _scalar(max(one, other, key=lambda value: kind_of(value).bits))


def _extended(
    block: MadeBlock, value: form.ParsedValue, kind: form.ParsedScalarType
) -> form.ParsedValue:
    return value if _scalar(value) == kind else block.op("arith.extf", [value], kind)


def _resized(
    block: MadeBlock, value: form.ParsedValue, width: int, *, is_unsigned: bool
) -> form.ParsedValue:
    came = kind_of(value).bits
    if came == width:
        return value
    name = "arith.trunci" if came > width else "arith.extui" if is_unsigned else "arith.extsi"
    return block.op(name, [value], form.ParsedScalarType(f"int{width}"))


AFFINE: dict[str, Callable[[Scope, form.ParsedOperation], list[Value]]] = {
    "iree_linalg_ext.quantize_affine": lambda scope, op: _as_loops(scope, op, _quantized),
    "iree_linalg_ext.dequantize_affine": lambda scope, op: _as_loops(scope, op, _dequantized),
}
