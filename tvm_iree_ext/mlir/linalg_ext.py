"""Operations of ``iree_linalg_ext`` as the registry's ops."""

from typing import Any

from tvm_iree_ext import ops
from tvm_iree_ext.mlir import form
from tvm_iree_ext.mlir.errors import Unsupported
from tvm_iree_ext.mlir.registry_ops import call_op, is_identity, region_of, type_of
from tvm_iree_ext.mlir.scope import Scope
from tvm_iree_ext.mlir.values import Number, Value


def map_text(one: form.AffineMap) -> str:
    """A map of plain dims and symbols in MLIR's spelling.

    Raises:
        Unsupported: for one with arithmetic in it.
    """
    names = {"dim": "d", "symbol": "s"}
    results = []
    for result in one.results:
        if result.kind not in names:
            raise Unsupported("an indexing map with arithmetic in it; plain dims are supported")
        results.append(f"{names[result.kind]}{result.value}")
    dims = ", ".join(f"d{i}" for i in range(one.dims))
    symbols = ", ".join(f"s{i}" for i in range(one.symbols))
    return f"({dims}){f'[{symbols}]' if symbols else ''} -> ({', '.join(results)})"


def _attention(scope: Scope, op: form.Operation) -> list[Value]:
    online = op.name.endswith("online_attention")
    count = len(op.results)
    inputs, outputs = op.operands[:-count], op.operands[-count:]
    query, key, value = (scope.any_tensor(one) for one in inputs[:3])
    scale = scope.scalar(inputs[3])
    mask = scope.any_tensor(inputs[4]) if len(inputs) > 4 else None
    outs = [scope.any_tensor(one) for one in outputs]
    block = op.block()
    given: dict[str, Any] = {
        "mask": None if mask is None else type_of(scope, mask),
        "scale": float(scale.value) if isinstance(scale, Number) else "operand",
        "region": None if is_identity(block) else region_of(scope, block),
        "score_domain": "natural" if is_identity(block) else "log2",
        "indexing_maps": [map_text(one) for one in op.attributes["indexing_maps"]],
        "output_dtype": outs[0].element.storage[0],
    }
    operands: dict[str, Value] = {"query": query, "key": key, "value": value, "scale": scale}
    if mask is not None:
        operands["mask"] = mask
    types = [type_of(scope, one) for one in (query, key, value)]
    if online:
        given["max_dtype"], given["sum_dtype"] = (one.element.storage[0] for one in outs[1:])
        operands |= dict(zip(("output_init", "max_init", "sum_init"), outs, strict=True))
        return call_op(scope, ops.online_attention(*types, **given), operands, outs)
    return call_op(scope, ops.attention(*types, **given), operands, outs)


def _sort(scope: Scope, op: form.Operation) -> list[Value]:
    values = [scope.any_tensor(one) for one in op.operands]
    made = ops.sort(
        *(type_of(scope, one) for one in values),
        dimension=int(op.attributes["dimension"]),
        region=region_of(scope, op.block()),
    )
    operands = {f"operand{i}": one for i, one in enumerate(values)}
    return call_op(scope, made, operands, values)


def _topk(scope: Scope, op: form.Operation) -> list[Value]:
    count = len(op.results)
    inputs = [scope.any_tensor(one) for one in op.operands[:-count]]
    outs = [scope.any_tensor(one) for one in op.operands[-count:]]
    operands: dict[str, Value] = {"values": inputs[0]}
    given: dict[str, Any] = {}
    if len(inputs) > 1:
        operands["indices"] = inputs[1]
        given["indices"] = type_of(scope, inputs[1])
    names = ("output_values", "output_indices")
    for name, one in zip(names, outs, strict=False):
        given[name] = type_of(scope, one)
        operands[f"{name}_init"] = one
    made = ops.topk(
        type_of(scope, inputs[0]),
        dimension=int(op.attributes["dimension"]),
        region=region_of(scope, op.block()),
        **given,
    )
    return call_op(scope, made, operands, outs)


def _scan(scope: Scope, op: form.Operation) -> list[Value]:
    value, output, accumulator = (scope.any_tensor(one) for one in op.operands)
    made = ops.scan(
        type_of(scope, value),
        region_of(scope, op.block()),
        dimension=int(op.attributes["dimension"]),
        inclusive=bool(op.attributes["inclusive"]),
        accumulator=type_of(scope, accumulator),
        output=type_of(scope, output),
    )
    operands: dict[str, Value] = {"input": value, "accumulator_init": accumulator}
    return call_op(scope, made, operands, [output, accumulator])


def _scatter(scope: Scope, op: form.Operation) -> list[Value]:
    *inputs, original = (scope.any_tensor(one) for one in op.operands)
    operands: dict[str, Value] = dict(zip(("updates", "indices", "mask"), inputs, strict=False))
    operands["original"] = original
    made = ops.scatter(
        type_of(scope, inputs[0]),
        type_of(scope, inputs[1]),
        type_of(scope, original),
        mask=type_of(scope, inputs[2]) if len(inputs) > 2 else None,
        region=region_of(scope, op.block()),
        dimension_map=[int(one) for one in op.attributes["dimension_map"]],
        unique_indices=bool(op.attributes["unique_indices"]),
    )
    return call_op(scope, made, operands, [original])


def _gather(scope: Scope, op: form.Operation) -> list[Value]:
    *inputs, output = (scope.any_tensor(one) for one in op.operands)
    operands: dict[str, Value] = dict(zip(("source", "indices", "mask"), inputs, strict=False))
    operands["output_init"] = output
    made = ops.gather(
        type_of(scope, inputs[0]),
        type_of(scope, inputs[1]),
        mask=type_of(scope, inputs[2]) if len(inputs) > 2 else None,
        output=type_of(scope, output),
        dimension_map=[int(one) for one in op.attributes["dimension_map"]],
    )
    return call_op(scope, made, operands, [output])


def _fft(scope: Scope, op: form.Operation) -> list[Value]:
    *inputs, real, imag = (scope.value(one) for one in op.operands)
    outs = [scope.any_tensor(one) for one in op.operands[-2:]]
    stage = scope.scalar(op.operands[0])
    operands: dict[str, Value] = {"stage": stage, "real_init": real, "imag_init": imag}
    given: dict[str, Any] = {}
    if len(inputs) == 3:
        coefficients = [scope.any_tensor(one) for one in op.operands[1:3]]
        operands |= dict(zip(("real_coeff", "imag_coeff"), coefficients, strict=True))
        given = {
            "real_coeff": type_of(scope, coefficients[0]),
            "imag_coeff": type_of(scope, coefficients[1]),
        }
    made = ops.fft(
        *(type_of(scope, one) for one in outs),
        stage=int(stage.value) if isinstance(stage, Number) else "operand",
        **given,
    )
    return call_op(scope, made, operands, outs)


LINALG_EXT = {
    "iree_linalg_ext.attention": _attention,
    "iree_linalg_ext.online_attention": _attention,
    "iree_linalg_ext.fft": _fft,
    "iree_linalg_ext.gather": _gather,
    "iree_linalg_ext.scan": _scan,
    "iree_linalg_ext.scatter": _scatter,
    "iree_linalg_ext.sort": _sort,
    "iree_linalg_ext.topk": _topk,
}
