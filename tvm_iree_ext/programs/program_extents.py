"""Extents that a program computes: known before the tensors that have them.

    before:  y = call_tir(f, (x), R.Tensor((data0,)))        after:  n = call_tir(count, (x))
             n = call_tir(count, (x))                                s = match_cast(n, [data0])
             s = match_cast(n, [data0])                              y = call_tir(f, (x), ...)

TVM's fusion orders the bindings of a block by the tensors that they take, and does not see that a
shape may name what another binding says.
"""

from typing import Any

import tvm_ffi
from tvm import ir, relax

from tvm_iree_ext.programs.base.relax_passes import relax_functions, with_blocks, with_functions


@ir.transform.module_pass(opt_level=0)
def extents_first(mod: ir.IRModule, _: Any) -> ir.IRModule:
    """Have each extent said before it is used; all else stays in its order."""
    changed = {}
    for var, function in relax_functions(mod).items():
        known = {one for parameter in function.params for one in _variables(parameter.ty)}
        blocks = [_Order(block, known).block() for block in function.body.blocks]
        changed[var] = with_blocks(function, blocks, function.body.body)
    return with_functions(mod, changed)


class _Order:
    """The bindings of a block, and which of them says what others use."""

    def __init__(self, block: Any, known: set[ir.Var]) -> None:
        self._block = block
        self._bindings = list(block.bindings)
        self._values = [_variables(one.value) for one in self._bindings]
        self._used = [
            [*values, *_variables(one.var.ty)]
            for one, values in zip(self._bindings, self._values, strict=True)
        ]
        self._said = {one.var: place for place, one in enumerate(self._bindings)}
        for place, one in enumerate(self._bindings):
            for extent in _said(one):
                is_first = extent not in known and extent not in self._said
                if is_first and not self._takes(place, extent):
                    self._said[extent] = place

    def _takes(self, place: int, extent: ir.Var) -> bool:
        """Whether what a binding takes has an extent that it also says."""
        todo, seen = [*self._values[place]], set()
        while todo:
            one = todo.pop()
            if one.same_as(extent):
                return True
            if one in self._said and one not in seen:
                seen.add(one)
                todo += self._used[self._said[one]]
        return False

    def block(self) -> Any:
        """The block with its bindings in an order in which all is said before it is used."""
        order: dict[int, None] = {}
        for first in range(len(self._bindings)):
            todo = [first]
            while todo:
                place = todo[-1]
                needed = [self._said[one] for one in self._used[place] if one in self._said]
                missing = [one for one in needed if one not in order and one not in todo]
                if missing:
                    todo.append(missing[0])
                else:
                    order.setdefault(todo.pop())
        return type(self._block)([self._bindings[place] for place in order])


def _said(binding: Any) -> list[ir.Var]:
    """The extents that a binding gives values: those that stand alone where it compares."""
    if not isinstance(binding, relax.MatchCast):
        return []
    shape = getattr(binding.ty, "shape", binding.ty)
    return [one for one in getattr(shape, "values", None) or () if isinstance(one, ir.Var)]


def _variables(part: Any) -> list[ir.Var]:
    found: dict[ir.Var, None] = {}
    tvm_ffi.structural_walk(part, (ir.Var, lambda var: found.setdefault(var)))
    return list(found)
