"""Layouts that ``iree_vector_ext.to_layout`` gives to values, where a product takes them.

A product takes what the layout was given to, and has the layout itself: which lane multiplies what
is a matter of its kernel.  Where its operands have none, or one alone, they are taken as they come.
"""

from collections.abc import Mapping
from typing import Any

from tvm_iree_ext.mlir.base.ir_values import AnyTensor, Tensor, Value
from tvm_iree_ext.mlir.importing.emitted_values import as_shape
from tvm_iree_ext.mlir.importing.imported import LAYOUTS_UNUSED
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.ops.families.distribution.to_layout import ToLayout


def lay_out(scope: Scope, value: Value, op: ToLayout, source: AnyTensor) -> None:
    """Note that ``op`` makes a value of another one."""
    scope.function.laid_out[_key(value)] = value, op, source


def _key(value: Value) -> int:
    """What is the same of a value when its extents are known to be others, too."""
    return id(value.parts[0]) if isinstance(value, Tensor) else id(value)


def without_layouts(
    scope: Scope, operands: Mapping[str, AnyTensor]
) -> tuple[dict[str, AnyTensor], dict[str, Any]]:
    """``lhs``, ``rhs`` and ``acc`` of a product without layouts, and its arguments that say these.

    The layout of ``acc`` may be missing: it may be said of the result alone.
    """
    laid_out = scope.function.laid_out
    known = {n: laid_out.get(_key(one), (one, None, one)) for n, one in operands.items()}
    bare = {n: as_shape(scope, source, operands[n].shape) for n, (_, _, source) in known.items()}
    found: dict[str, ToLayout] = {name: op for name, (_, op, _) in known.items() if op is not None}
    if not found:
        return dict(operands), {}
    kinds = {str(op.mma_kind): op.mma_kind for op in found.values() if op.mma_kind is not None}
    if len(found) < 2 or len(kinds) > 1:
        why = f"mma_kind is {' and '.join(kinds)}" if len(kinds) > 1 else "no other operand has one"
        said = ", ".join(found)
        scope.program.fell_back(f"{said} of a product with a layout, and {why}", LAYOUTS_UNUSED)
        return bare, {}
    layouts = {name: op.layout for name, op in found.items()}
    return bare, {"layouts": layouts, "mma_kind": next(iter(kinds.values()), None)}
