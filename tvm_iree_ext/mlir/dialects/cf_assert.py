"""``cf.assert`` between operations: a call in which its condition does not hold fails so.

One kernel looks at the conditions of a function, and a result is handed on by way of what that
kernel gives: what nothing reads would be gone.  An assert in a region of ``linalg`` is passed over,
since what is read outside is the nearest inside.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import KERNEL_ERROR
from tvm_iree_ext.mlir.base.elements import Expr, element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import Number, Tensor, Value, plain
from tvm_iree_ext.mlir.dialects.tensor_dialect import Place, moved
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder
from tvm_iree_ext.mlir.importing.relax_types import OPAQUE
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form

ASSERT = "cf.assert"
_MOST_TEXT = 400  # characters of a message
_UNKNOWN = 1 << 20  # how many an extent counts for that only a call tells


def _assert(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    condition = scope.scalar(op.operands[0])
    message = str(op.attributes["msg"]).replace("\0", "")[:_MOST_TEXT]
    if not isinstance(condition, Number):
        scope.function.asserts.append((condition, message))
    elif not condition.value:
        raise Unsupported(f"never holds: {message}")
    return []


def asserted(scope: Scope, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The results of a function, one of which is there only where all asserts of it hold.

    Raises:
        Unsupported: for asserts in what computes nothing.
    """
    asserts, found = scope.function.asserts, list(tensors)
    if not asserts:
        return found
    if not found:
        raise Unsupported(f"a {ASSERT} in what gives nothing that is computed")
    conditions = [condition for condition, _ in asserts]
    kernel = PrimFuncBuilder(scope, ASSERT, conditions, [((1,), element("int64"))], OPAQUE)

    def each(at: Any) -> None:
        for condition, message in asserts:
            said = f"{scope.function.name}: {message}"
            with I.Assert(kernel.scalar(condition), said, KERNEL_ERROR):
                I.evaluate(tirx.const(0, "int32"))
        kernel.store(0, tirx.const(0, "int64"), [at[0]])

    with kernel:
        kernel.block("assert", [1], each)
    (held,) = kernel.results
    least = min(range(len(found)), key=lambda place: _size(found[place]))
    found[least] = _behind(scope, held, found[least])
    return found


def _behind(scope: Scope, held: Tensor, value: Tensor) -> Tensor:
    """A copy of a tensor that takes what the asserts give: a zero."""
    zero = tirx.const(0, "int64")

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        (number,) = kernel.copied(held, [zero])
        nothing = kernel.as_parts(value.element.constant(0), value.element)
        parts = kernel.copied(value, at)
        return [
            tirx.Select(tirx.EQ(number, zero), one, other)
            for one, other in zip(parts, nothing, strict=True)
        ]

    return moved(scope, "asserted", [value, held], value.shape, value.element, part)


def _size(tensor: Tensor) -> int:
    extents = map(plain, tensor.shape)
    return prod(one if isinstance(one, int) else _UNKNOWN for one in extents)


ASSERTS = {ASSERT: _assert}
