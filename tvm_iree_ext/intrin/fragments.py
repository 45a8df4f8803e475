"""Lane and register of an operand's element in its fragment.

A fragment is a ``local`` buffer ``[..., lane, register]`` (``[..., subgroup, lane, register]``
where several subgroups share the instruction): every lane's registers of one instruction's
operand, in the order that the instruction wants.  Lanes that hold the same elements are one: of 32
lanes with 16 different parts the fragment has 16, and lane ``l`` uses part ``l mod 16``, or
``l div 2`` where neighbours hold the same.  Adjacent lanes that share a run of elements each hold a
part of it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from math import prod
from typing import Any

from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.targets.mma.mma_kinds import MmaOperand, dtype_bits


def packed(operand: MmaOperand) -> MmaOperand:
    """The operand as its buffers hold it: pairs of 4-bit elements along K are bytes."""
    if dtype_bits(operand.dtype) != 4:
        return operand
    k = max(dim for dim, name in enumerate(operand.dims) if name[0] == "K")
    element = tuple(e // 2 if dim == k else e for dim, e in enumerate(operand.element))
    count = operand.elements_per_lane // 2
    return replace(operand, dtype="i8", element=element, elements_per_lane=count)


def fragment_lanes(operand: MmaOperand) -> int:
    """How many lanes hold different parts."""
    return prod(operand.thread) * operand.element_split_lanes


def fragment_lane(operand: MmaOperand, lane: Any) -> Any:
    """Index of the fragment's part that a lane uses."""
    strides = _part_strides(operand)
    if all(strides[dim] == operand.tstrides[dim] for dim in strides):
        return lane % fragment_lanes(operand)
    digits = (lane // operand.tstrides[dim] % operand.thread[dim] for dim in strides)
    parts = (_times(digit, stride) for digit, stride in zip(digits, strides.values(), strict=True))
    return _sum(list(parts))


def _part_strides(operand: MmaOperand) -> dict[int, int]:
    """By dim, how many parts lie between those of neighbours along it."""
    dims = [dim for dim, lanes in enumerate(operand.thread) if lanes > 1]
    stride, found = operand.element_split_lanes, {}
    for dim in sorted(dims, key=lambda dim: operand.tstrides[dim]):
        found[dim] = stride
        stride *= operand.thread[dim]
    return found


def fragment_shape(operand: MmaOperand) -> Ints:
    """The shape of one instruction's fragment: ``[(subgroups,) lanes, registers]``."""
    groups = prod(operand.subgroup)
    shape = (fragment_lanes(operand), operand.elements_per_lane)
    return (groups, *shape) if groups > 1 else shape


def place(operand: MmaOperand, index: Sequence[Any]) -> list[Any]:
    """The place in the fragment of the element at ``index``: one entry per dim of the shape.

    ``index`` has an integer or a TIR expression for each of the operand's dims.
    """
    digits: dict[str, Any] = {}
    lane: list[Any] = []
    group: list[Any] = []
    parts = _part_strides(operand)
    for dim, x in enumerate(index):
        levels = (
            ("e", operand.element[dim]),
            ("t", operand.thread[dim]),
            ("o", operand.outer[dim]),
            ("s", operand.subgroup[dim]),
        )
        span = 1
        for at, (level, tile) in enumerate(levels):
            if tile == 1:
                continue
            digit = x // span if span > 1 else x
            if any(slower > 1 for _, slower in levels[at + 1 :]):
                digit = digit % tile
            span *= tile
            if level == "t":
                lane.append(_times(digit, parts[dim]))
            elif level == "s":
                group.append(_times(digit, operand.sstrides[dim]))
            else:
                digits[f"{level}{dim}"] = digit
    tiles = {f"o{dim}": tile for dim, tile in enumerate(operand.outer)}
    tiles |= {f"e{dim}": tile for dim, tile in enumerate(operand.element)}
    register: Any = 0
    for name in operand.reg_order:
        if tiles[name] > 1:
            register = register * tiles[name] + digits[name]
    if operand.element_split_lanes > 1:
        lane.append(register // operand.elements_per_lane)
        register = register % operand.elements_per_lane
    found = [_sum(lane), register]
    return [_sum(group), *found] if prod(operand.subgroup) > 1 else found


def coords(operand: MmaOperand, lane: Any, group: Any, register: int) -> list[Any]:
    """Index of the element that a lane holds in a register: the inverse of :func:`place`.

    ``lane`` and ``group`` are integers or TIR expressions; ``register`` is an integer.
    """
    tiles = {f"o{dim}": tile for dim, tile in enumerate(operand.outer)}
    tiles |= {f"e{dim}": tile for dim, tile in enumerate(operand.element)}
    digits: dict[str, Any] = {}
    for name in reversed(operand.reg_order):
        register, digits[name] = divmod(register, tiles[name])
    if (shares := operand.element_split_lanes) > 1:  # of the slowest digit
        name = next(name for name in operand.reg_order if tiles[name] > 1)
        digits[name] = digits[name] + lane % shares * (tiles[name] // shares)
    index = []
    for dim in range(len(operand.dims)):
        lanes, groups = operand.thread[dim], operand.subgroup[dim]
        outer, element = operand.outer[dim], operand.element[dim]
        x: Any = digits[f"o{dim}"] * lanes * element + digits[f"e{dim}"]
        if lanes > 1:
            x = x + lane // operand.tstrides[dim] % lanes * element
        if groups > 1:
            x = x + group // operand.sstrides[dim] % groups * (outer * lanes * element)
        index.append(x)
    return index


def run(operand: MmaOperand, dim: int) -> int:
    """How many registers in a row hold neighbours along ``dim``, and nothing else."""
    fastest = [name for name in operand.reg_order if _tile(operand, name) > 1]
    if not fastest or fastest[-1] != f"e{dim}":
        return 1
    return operand.element[dim] // operand.element_split_lanes


def _tile(operand: MmaOperand, name: str) -> int:
    return (operand.outer if name[0] == "o" else operand.element)[int(name[1:])]


def _times(digit: Any, stride: int) -> Any:
    return digit * stride if stride != 1 else digit


def _sum(terms: Sequence[Any]) -> Any:
    return reduce(lambda a, b: a + b, terms) if terms else 0
