"""Operations of ``iree_linalg_ext`` as the registry's ops."""

from typing import Any

from tvm_iree_ext import ops
from tvm_iree_ext.mlir.base.elements import element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import TENSORS, Number, Value
from tvm_iree_ext.mlir.dialects.registry_calls import (
    call_op,
    element_type_of,
    extent_names,
    factor_type_of,
    is_identity,
    region_of,
    type_of,
)
from tvm_iree_ext.mlir.importing.emitted_values import as_shape
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form


def map_text(one: form.ParsedAffineMap, *, zero: bool = False) -> str:
    """A map of plain dims and symbols, and of 0 where that may be, in MLIR's spelling.

    Raises:
        Unsupported: for one with arithmetic in it.
    """
    names = {"dim": "d", "symbol": "s"}
    results = []
    for result in one.results:
        if zero and result.kind == "constant" and result.value == 0:
            results.append("0")
            continue
        if result.kind not in names:
            raise Unsupported("an indexing map with arithmetic in it; plain dims are supported")
        results.append(f"{names[result.kind]}{result.value}")
    dims = ", ".join(f"d{i}" for i in range(one.dims))
    symbols = ", ".join(f"s{i}" for i in range(one.symbols))
    return f"({dims}){f'[{symbols}]' if symbols else ''} -> ({', '.join(results)})"


def _attention(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    online = op.name.endswith("online_attention")
    count = len(op.results)
    inputs, outputs = op.operands[:-count], op.operands[-count:]
    query, key, value = (scope.any_tensor(one) for one in inputs[:3])
    scale = scope.scalar(inputs[3])
    mask = scope.any_tensor(inputs[4]) if len(inputs) > 4 else None
    outs = [scope.any_tensor(one) for one in outputs]
    block = op.block()
    # IREE's decomposition: exp2 of scores times log2(e), but where the config says otherwise.  Both
    # give the same where neither a region nor a running maximum tells.
    config = op.attributes.get("decomposition_config")
    use_exp2 = config.get("use_exp2", True) if isinstance(config, dict) else True
    in_base_2 = use_exp2 is not False and (online or not is_identity(block))
    operands: dict[str, Value] = {"query": query, "key": key, "value": value, "scale": scale}
    given: dict[str, Any] = {
        "mask": None if mask is None else type_of(scope, mask),
        "scale": float(scale.value) if isinstance(scale, Number) else "operand",
        "region": None if is_identity(block) else region_of(scope, block, operands),
        "score_domain": "log2" if in_base_2 else "natural",
        "indexing_maps": [map_text(one) for one in op.attributes["indexing_maps"]],
        "output_dtype": outs[0].element.storage[0],
    }
    if mask is not None:
        operands["mask"] = mask
    types = [factor_type_of(scope, one) for one in (query, key, value)]
    if online:
        given["max_dtype"], given["sum_dtype"] = (one.element.storage[0] for one in outs[1:])
        operands |= dict(zip(("output_init", "max_init", "sum_init"), outs, strict=True))
        return call_op(scope, ops.online_attention(*types, **given), operands, outs)
    return call_op(scope, ops.attention(*types, **given), operands, outs)


def _sort(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    values = [scope.any_tensor(one) for one in op.operands]
    operands: dict[str, Value] = {f"operand{i}": one for i, one in enumerate(values)}
    made = ops.sort(
        *(element_type_of(scope, one) for one in values),
        dimension=int(op.attributes["dimension"]),
        region=region_of(scope, op.block(), operands),
    )
    return call_op(scope, made, operands, values)


def _topk(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    count = len(op.results)
    inputs = [scope.any_tensor(one) for one in op.operands[:-count]]
    outs = [scope.any_tensor(one) for one in op.operands[-count:]]
    operands: dict[str, Value] = {"values": inputs[0]}
    given: dict[str, Any] = {}
    if len(inputs) > 1:
        operands["indices"] = inputs[1]
        given["indices"] = element_type_of(scope, inputs[1])
    names = ("output_values", "output_indices")
    for name, one in zip(names, outs, strict=False):
        given[name] = element_type_of(scope, one)
        operands[f"{name}_init"] = one
    made = ops.topk(
        element_type_of(scope, inputs[0]),
        dimension=int(op.attributes["dimension"]),
        region=region_of(scope, op.block(), operands),
        **given,
    )
    return call_op(scope, made, operands, outs)


def _scan(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    value, output, accumulator = (scope.any_tensor(one) for one in op.operands)
    operands: dict[str, Value] = {"input": value, "accumulator_init": accumulator}
    made = ops.scan(
        element_type_of(scope, value),
        region_of(scope, op.block(), operands),
        dimension=int(op.attributes["dimension"]),
        inclusive=bool(op.attributes["inclusive"]),
        accumulator=element_type_of(scope, accumulator),
        output=element_type_of(scope, output),
        reassociate=not scope.program.scans_in_order,
    )
    return call_op(scope, made, operands, [output, accumulator])


def _topk_v2(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    groups = op.groups() if op.segments else [[one] for one in op.operands]
    values, indices, *outs = ([scope.any_tensor(v) for v in g] for g in _four(op, groups))
    operands: dict[str, Value] = {"values": values[0], "output_values_init": outs[0][0]}
    given: dict[str, Any] = {"output_values": element_type_of(scope, outs[0][0])}
    if indices:
        operands["input_indices"] = indices[0]
        given["input_indices"] = element_type_of(scope, indices[0])
    if outs[1]:
        operands["output_indices_init"] = outs[1][0]
        given["output_indices"] = element_type_of(scope, outs[1][0])
    made = ops.topk_v2(
        element_type_of(scope, values[0]),
        dimension=int(op.attributes["dimension"]),
        is_sorted="is_sorted" in op.attributes,
        region=region_of(scope, op.block(), operands),
        **given,
    )
    return call_op(scope, made, operands, [*outs[0], *outs[1]])


def _four(
    op: form.ParsedOperation, groups: list[list[form.ParsedValue]]
) -> list[list[form.ParsedValue]]:
    """Values, indices or none, output values, output indices or none."""
    if op.segments:
        return groups
    flat = list(op.operands)
    count = len(op.results)
    outs = flat[-count:]
    return [flat[:1], flat[1:-count], outs[:1], outs[1:]]


def _arg_compare(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    return arg_compare(scope, op, ops.arg_compare)


def arg_compare(scope: Scope, op: form.ParsedOperation, build: Any) -> list[Value]:
    """An arg_compare of either dialect."""
    if len(op.segments) == 5:  # of iree_vector_ext
        values, indices, value, index, bases = op.groups()
        inputs, outs = [*values, *indices], [*value, *index]
    elif op.segments:
        inputs, outs, bases = op.groups()
    else:
        inputs, outs, bases = op.operands[:-2], op.operands[-2:], []
        if isinstance(op.operands[-1].type, form.ParsedScalarType):
            inputs, outs, bases = op.operands[:-3], op.operands[-3:-1], op.operands[-1:]
    tensors = [scope.any_tensor(one) for one in inputs]
    inits = [scope.any_tensor(one) for one in outs]
    operands: dict[str, Value] = {
        "input_value": tensors[0],
        "init_value": inits[0],
        "init_index": inits[1],
    }
    given: dict[str, Any] = {}
    if len(tensors) > 1:
        operands["input_index"] = tensors[1]
        given["input_index"] = element_type_of(scope, tensors[1])
    if bases:
        base = scope.scalar(bases[0])
        operands["index_base"] = base
        given["index_base"] = int(base.value) if isinstance(base, Number) else "operand"
    made = build(
        element_type_of(scope, tensors[0]),
        region_of(scope, op.block(), operands),
        dimension=int(op.attributes["dimension"]),
        init_value=element_type_of(scope, inits[0]),
        init_index=element_type_of(scope, inits[1]),
        **given,
    )
    return call_op(scope, made, operands, inits)


def _exp_reduction(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    count = len(op.results)
    inputs = [scope.any_tensor(one) for one in op.operands[:-count]]
    outs = [scope.any_tensor(one) for one in op.operands[-count:]]
    operands: dict[str, Value] = {f"input{i}": one for i, one in enumerate(inputs)}
    operands |= {f"init{i}": one for i, one in enumerate(outs)}
    made = ops.exp_reduction(
        [type_of(scope, one) for one in inputs],
        [type_of(scope, one) for one in outs],
        indexing_maps=[map_text(one) for one in op.attributes["indexing_maps"]],
        iterator_types=[one.text for one in op.attributes["iterator_types"]],
        exp_reduced_operands=[int(one) for one in op.attributes["exp_reduced_operands"]],
        region=region_of(scope, op.block(), operands),
    )
    return call_op(scope, made, operands, outs)


def _winograd(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    what = op.name.rpartition(".")[2]
    value, output = (scope.any_tensor(one) for one in op.operands)
    build: Any
    kinds: dict[str, tuple[Any, str]] = {
        "input_transform": (ops.winograd_input_transform, "image_dimensions"),
        "filter_transform": (ops.winograd_filter_transform, "kernel_dimensions"),
        "output_transform": (ops.winograd_output_transform, "image_dimensions"),
    }
    build, dims = kinds[what]
    given: dict[str, Any] = {dims: [int(one) for one in op.attributes[dims]]}
    made = build(
        type_of(scope, value),
        extent_names(scope, output.shape),
        output_tile_size=int(op.attributes["output_tile_size"]),
        kernel_size=int(op.attributes["kernel_size"]),
        **given,
    )
    return call_op(scope, made, {"input": value}, [output])


def _custom_op(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    """Its region on whole operands: what a single tile makes of it is what it means."""
    count = len(op.results)
    outs = [scope.any_tensor(one) for one in op.operands[-count:]]
    inside = Scope(scope.function, scope.depth + 1, scope.calling, scope)
    block = op.block()
    for argument, operand in zip(block.arguments, op.operands, strict=True):
        inside.define(argument, scope.value(operand))
    found = scope.program.run_block(inside, block)
    results: list[Value] = []
    for value, out in zip(found, outs, strict=True):
        if not isinstance(value, TENSORS):
            raise Unsupported("yields what is no tensor")
        results.append(as_shape(scope, value, out.shape))
    return results


def _tile_index(scope: Scope, op: form.ParsedOperation) -> Value:
    return Number(element("index"), 0)  # where the only tile begins


def _fft(scope: Scope, op: form.ParsedOperation) -> list[Value]:
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
    "iree_linalg_ext.arg_compare": _arg_compare,
    "iree_linalg_ext.attention": _attention,
    "iree_linalg_ext.custom_op": _custom_op,
    "iree_linalg_ext.exp_reduction": _exp_reduction,
    "iree_linalg_ext.fft": _fft,
    "iree_linalg_ext.index": _tile_index,
    "iree_linalg_ext.online_attention": _attention,
    "iree_linalg_ext.scan": _scan,
    "iree_linalg_ext.sort": _sort,
    "iree_linalg_ext.topk": _topk,
    "iree_linalg_ext.topk_v2": _topk_v2,
    "iree_linalg_ext.winograd.filter_transform": _winograd,
    "iree_linalg_ext.winograd.input_transform": _winograd,
    "iree_linalg_ext.winograd.output_transform": _winograd,
}
