"""Constants: ``arith.constant``, and what attributes of tensors and numbers stand for."""

from math import prod
from typing import Any

import numpy as np

from tvm_iree_ext.mlir.base.elements import element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import Constant, Number, Splat, Value
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form

_MOST_UNFOLDED = 1 << 20  # elements of a constant, of which the text has one


def constant(scope: Scope, op: form.ParsedOperation) -> Value:
    """``arith.constant``, of a scalar or a tensor."""
    return constant_value(op.attributes["value"], op.results[0].type)


def constant_value(attribute: Any, kind: form.Type, *, foldable: bool = True) -> Value:
    """A constant of a type."""
    if isinstance(attribute, form.Opaque):
        raise Unsupported(attribute.why or f"the constant {attribute.text}")
    if not isinstance(kind, form.ParsedScalarType | form.ParsedTensorType):
        raise Unsupported(f"a constant of the type {kind}")
    own = element(kind.dtype)
    if isinstance(attribute, form.Dense):
        shape = tuple(values_extent(one) for one in attribute.type.shape)
        values = attribute.values
        # A large one is a splat even where it may not be looked into: it takes memory only then.
        if values.size == 1 and (foldable or prod(shape) > _MOST_UNFOLDED):
            return Splat(shape, own, Number(own, values.reshape(-1)[0]))
        return Constant(_full(values, shape), own, foldable)
    if isinstance(kind, form.ParsedTensorType):
        raise Unsupported(f"a constant {type(attribute).__name__} of a tensor type")
    if isinstance(attribute, tuple):
        attribute = complex(float(attribute[0]), float(attribute[1]))
    return Number(own, attribute)


def values_extent(one: int | None) -> int:
    """The extent of a constant, which has no other."""
    if one is None:
        raise Unsupported("a constant of a shape that is not known")
    return one


def _full(values: Any, shape: Any) -> Any:
    return values if values.shape == tuple(shape) else np.broadcast_to(values, shape)
