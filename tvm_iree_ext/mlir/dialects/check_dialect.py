"""``check.*``: what a test expects, returned with its constants to be compared outside; and
constants that no one may look into."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from tvm_iree_ext.mlir.base.ir_values import Tensor, Value
from tvm_iree_ext.mlir.dialects.constants import constant_value
from tvm_iree_ext.mlir.dialects.func_dialect import materialised
from tvm_iree_ext.mlir.importing.imported import Check
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form

Kind = Literal["eq", "almost_eq", "true", "false", "all_true"]


@dataclass(frozen=True)
class CheckedExpectation:
    """A check, and the tensors that it is about."""

    kind: Kind
    tensors: tuple[Tensor, ...]
    op: form.ParsedOperation

    def check(self, first: int) -> Check:
        """The check, where its tensors are the results from ``first`` on."""
        given = self.op.attributes
        return Check(
            self.kind,
            first,
            first + 1 if len(self.tensors) > 1 else None,
            float(given.get("atol", 0.0)),
            float(given.get("rtol", 0.0)),
            str(self.op.location),
        )


def _expect(kind: Kind, scope: Scope, op: form.ParsedOperation) -> list[Value]:
    values = [scope.value(value) for value in op.operands]
    if op.name.endswith("_const"):
        values.append(constant_value(op.attributes["value"], op.operands[0].type))
    tensors = tuple(materialised(scope, value) for value in values)
    scope.function.checks.append(CheckedExpectation(kind, tensors, op))
    return []


def _unfoldable(scope: Scope, op: form.ParsedOperation) -> Value:
    return constant_value(op.attributes["value"], op.results[0].type, foldable=False)


CHECKS: dict[str, Any] = {
    "check.expect_all_true": partial(_expect, "all_true"),
    "check.expect_almost_eq": partial(_expect, "almost_eq"),
    "check.expect_almost_eq_const": partial(_expect, "almost_eq"),
    "check.expect_eq": partial(_expect, "eq"),
    "check.expect_eq_const": partial(_expect, "eq"),
    "check.expect_false": partial(_expect, "false"),
    "check.expect_true": partial(_expect, "true"),
    "flow.tensor.constant": _unfoldable,
    "flow.tensor.dynamic_constant": _unfoldable,
    "util.unfoldable_constant": _unfoldable,
}
