"""The steps of a kernel's launch plan inside a program's, where its names are new."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from tvm_iree_ext.codegen.gpu.launch_plan.plan_expressions import Names

_MADE = ("let", "allocate", "for", "tensor_map")  # what a step gives a name to


class RenamedSteps(ast.NodeTransformer):
    """Steps with names of ``names``.

    Args:
        names: of the program's plan.
        known: new names of the kernel's parameters and symbols, by their own.
    """

    def __init__(self, names: Names, known: dict[str, str]) -> None:
        self._names, self._known = names, known

    def steps(self, steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The steps in order."""
        return [self._step(step) for step in steps]

    def _step(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """Texts first, then what the step names."""
        made: dict[str, Any] = {}
        for key, value in step.items():
            if key in ("launch", "dtype", *_MADE):
                made[key] = value
            elif key == "array":
                made[key] = self._known[value]
            elif key == "arguments":
                made[key] = [self._argument(one) for one in value]
            elif key not in ("then", "else") and not (key == "steps" and "for" in step):
                made[key] = (
                    [self._number(one) for one in value]
                    if isinstance(value, list)
                    else self._number(value)
                )
        for key in _MADE:
            if key in step:
                made[key] = self._known[step[key]] = self._names.fresh(step[key])
        for key in ("then", "else", "steps"):
            if key in step and key not in made:
                made[key] = self.steps(step[key])
        return made

    def _argument(self, one: Mapping[str, Any]) -> dict[str, Any]:
        if "value" in one:
            return {**one, "value": self._number(one["value"])}
        (kind,) = one
        return {kind: self._known[one[kind]]}

    def _number(self, value: int | str) -> int | str:
        if not isinstance(value, str):
            return value
        return ast.unparse(self.visit(ast.parse(value, mode="eval")))

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """The name that a kernel's has here."""
        return ast.Name(self._known.get(node.id, node.id))  # min, max, int, float stay
