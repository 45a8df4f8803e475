"""``iree_linalg_ext.im2col``: a call of the registry's op."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_iree_ext import ops
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.mlir.base.ir_values import AnyTensor, Number, Scalar, Symbol, Value
from tvm_iree_ext.mlir.dialects.iree_linalg_ext_moves import padding_number, per_part
from tvm_iree_ext.mlir.dialects.registry_calls import extent_names
from tvm_iree_ext.mlir.dialects.tensor_dialect import mixed
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.ops.base.op import Op

_NUMBERS = (
    *("kernel_size", "offsets", "output_sizes", "input_pad_low", "input_pad_high"),
    *("output_pad_low", "output_pad_high"),
)


class _Numbers:
    """Numbers of an op as it takes them; those that only a run tells are operands, by names."""

    def __init__(self, scope: Scope, source: AnyTensor) -> None:
        self.scope = scope
        self.extents = extent_names(scope, source.shape)
        self.operands: dict[str, Value] = {}

    def named(self, name: str, values: Sequence[Scalar]) -> list[Extent]:
        return [self._one(f"{name}{place}", value) for place, value in enumerate(values)]

    def _one(self, name: str, value: Scalar) -> Extent:
        if isinstance(value, Number):
            return int(value.value)
        if isinstance(value, Symbol) and not name.startswith("offsets"):
            (known,) = extent_names(self.scope, (value.value,))
            if isinstance(known, int) or known in self.extents:
                return known
        while name in self.extents:
            name += "_"
        self.operands[name] = value
        return name


def _im2col(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    groups = op.groups()
    source, output = scope.any_tensor(groups[0][0]), scope.any_tensor(groups[1][0])
    numbers = _Numbers(scope, source)
    given: dict[str, Any] = {
        name: [int(one) for one in op.attributes[name]]
        for name in (
            *("strides", "dilations", "batch_pos", "m_pos", "k_pos"),
            *("input_k_perm", "output_perm"),
        )
    }
    for name, operands in zip(_NUMBERS, groups[2:9], strict=True):
        static = op.attributes.get(f"static_{name}", ())
        nested = name == "output_sizes"
        flat = [one for group in static for one in group] if nested else static
        found = numbers.named(name, mixed(scope, flat, operands))
        if nested:
            rest = iter(found)
            given[name] = [[next(rest) for _ in group] for group in static]
        elif found:
            given[name] = found
    padding = scope.scalar(groups[9][0]) if groups[9] else None
    values: dict[str, Value] = {"input": source, **numbers.operands}
    if padding is not None and not isinstance(padding, Number):
        given["pad_value"], values["pad_value"] = "operand", padding
    shape = extent_names(scope, output.shape)
    number = 0

    def make(types: Mapping[str, TensorType]) -> Op:
        nonlocal number
        own = dict(given)
        if isinstance(padding, Number):
            own["pad_value"] = padding_number(padding, number)
        number += 1
        return ops.im2col(types["input"], shape, **own)

    return per_part(scope, values, output, make)


IM2COL = {"iree_linalg_ext.im2col": _im2col}
