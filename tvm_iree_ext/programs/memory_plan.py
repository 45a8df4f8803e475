"""The memory that a call of a program takes, beside its arguments and constants.

What lies between kernels shares storage where lifetimes allow, planned over a whole function.  How
near that is to the least is a matter of packing: at any time what is still to be read must be
somewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, relax

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.programs.base.relax_passes import VIEWS, relax_functions, resolved
from tvm_iree_ext.tir.tir_expressions import known

_STORAGE, _INSIDE = "relax.memory.alloc_storage", "relax.memory.alloc_tensor"
_OWN = "relax.builtin.alloc_tensor"


@dataclass(frozen=True)
class FunctionMemory:
    """Bytes that a call of a function takes.

    Attributes:
        planned: of what lies between kernels, and of results.
        least: of what must be there at once, results among it.
        unshared: of the same without any reuse.
    """

    planned: int
    least: int
    unshared: int

    def to_json(self) -> dict[str, int]:
        """A plain dictionary."""
        return {"planned": self.planned, "least": self.least, "unshared": self.unshared}


def memory_of(planned: ir.IRModule) -> dict[str, FunctionMemory]:
    """By name, of the functions of a module whose memory is planned; not of those whose extents
    only a call knows.

    What a compiled loop takes within itself is not counted.
    """
    found = {var.name_hint: _memory(function) for var, function in relax_functions(planned).items()}
    return {name: one for name, one in found.items() if one is not None}


class _Unknown(Exception):
    """Raised for an extent that only a call knows."""


def _memory(function: relax.Function) -> FunctionMemory | None:
    try:
        return _Lifetimes(function).memory()
    except _Unknown:
        return None


class _Lifetimes:
    """When each tensor of a function is written first and read last, by the bindings' numbers."""

    def __init__(self, function: relax.Function) -> None:
        self._bindings = [one for block in function.body.blocks for one in block.bindings]
        self._result = function.body.body
        self._bound = {one.var: one.value for one in self._bindings}
        self._bytes: dict[ir.Var, int] = {}
        self._spans: dict[ir.Var, tuple[int, int]] = {}
        self._planned = 0

    def memory(self) -> FunctionMemory:
        """The bytes; :class:`_Unknown` where a call says."""
        for number, binding in enumerate(self._bindings):
            self._note(number, binding.var, binding.value)
        returned = resolved(self._result, self._bound)
        fields = returned.fields if isinstance(returned, relax.Tuple) else [self._result]
        for field in fields:
            self._read(field, len(self._bindings))
        changes = [0] * (len(self._bindings) + 2)
        for var, (first, last) in self._spans.items():
            changes[first] += self._bytes[var]
            changes[last + 1] -= self._bytes[var]
        least = now = 0
        for change in changes:
            now += change
            least = max(least, now)
        return FunctionMemory(self._planned, least, sum(self._bytes.values()))

    def _note(self, number: int, var: ir.Var, value: Any) -> None:
        name = _name(value)
        if name == _STORAGE:
            self._planned += _number(value.args[0].values[0])
        elif name in (_INSIDE, _OWN):
            shape, dtype = value.args[2:4] if name == _INSIDE else value.args[:2]
            size = prod(map(_number, shape.values)) * item_bytes(str(dtype.value))
            self._bytes[var], self._spans[var] = size, (number, number)
            self._planned += size if name == _OWN else 0
        elif not isinstance(value, relax.Tuple):
            tvm_ffi.structural_walk(value, (ir.Var, lambda one: self._read(one, number)))

    def _read(self, var: Any, number: int) -> None:
        """Note that what a variable's memory holds is used."""
        while True:
            value: Any = self._bound.get(var)
            if isinstance(value, ir.Var):
                var = value
            elif _name(value) in VIEWS:
                var = value.args[0]
            else:
                break
        if var in self._spans:
            self._spans[var] = self._spans[var][0], number


def _name(value: Any) -> str:
    return str(getattr(value.op, "name", "")) if isinstance(value, ir.Call) else ""


def _number(extent: Any) -> int:
    number = known(extent)
    if number is None:
        raise _Unknown
    return number


def memory_text(found: Mapping[str, FunctionMemory]) -> list[str]:
    """A line for each function."""
    return [
        f"memory of {name}: {one.planned / 1e6:.3f} MB for a call; {one.least / 1e6:.3f} at once,"
        f" {one.unshared / 1e6:.3f} without reuse"
        for name, one in found.items()
    ]
