"""A conversion inside subgroups as SIMT steps: in each, every lane offers a register and takes one.

A shuffle gives a lane one value of another lane's choice, so what a lane wants of several others,
or others of it, takes several steps:

    moves   a lane's result registers that it has itself
    steps   in each, lane l offers its register ``offered[l]`` and takes what lane ``source[l]``
            offers for its result register ``target[l]``

With butterflies there are as many steps as xor masks.  Otherwise wants are given to the first step
in which neither the taker nor the giver is busy with something else, which is at most twice the
fewest: a giver may serve any number of lanes that want the same register.
"""

from dataclasses import dataclass

import numpy as np

from tvm_iree_ext.layout.conversion import Conversion

NOTHING = -1


@dataclass(frozen=True, eq=False)
class Step:
    """One shuffle, for all subgroups: arrays ``[subgroups, lanes]``.

    A lane that takes nothing has target ``NOTHING`` and itself as the source; one of which nothing
    is wanted offers ``NOTHING``.
    """

    source: np.ndarray
    offered: np.ndarray
    target: np.ndarray


@dataclass(frozen=True, eq=False)
class Exchange:
    """Shuffles that make result registers, in units of ``unit`` registers that stay side by side.

    ``moves[subgroup, lane, register]`` is the source register in the same lane, or ``NOTHING``.
    """

    unit: int
    moves: np.ndarray
    steps: tuple[Step, ...]


def exchange(conversion: Conversion, unit: int = 1) -> Exchange:
    """The steps of a conversion that stays inside subgroups.

    Args:
        conversion: any but one through shared memory.
        unit: the most registers that one shuffle can move together.
    """
    while unit > 1 and not _stay_together(conversion, unit):
        unit //= 2
    source_lane = conversion.source_lane[..., ::unit]
    register = conversion.source_register[..., ::unit] // unit
    lanes = np.arange(source_lane.shape[1])[:, None]
    moves = np.where(source_lane == lanes, register, NOTHING)
    if conversion.xor_masks is not None and unit == 1:
        steps = _butterfly(conversion)
    else:
        steps = _scheduled(source_lane, register)
    return Exchange(unit, moves, steps)


def _stay_together(conversion: Conversion, unit: int) -> bool:
    """Whether aligned groups of registers come from aligned groups of one lane."""
    lane, register = conversion.source_lane, conversion.source_register
    if lane.shape[-1] % unit:
        return False
    lane, register = (each.reshape(*each.shape[:2], -1, unit) for each in (lane, register))
    runs = register == register[..., :1] + np.arange(unit)
    return bool((runs & (lane == lane[..., :1]) & (register[..., :1] % unit == 0)).all())


def _butterfly(conversion: Conversion) -> tuple[Step, ...]:
    assert conversion.xor_masks is not None
    assert conversion.xor_registers is not None
    lanes = np.arange(conversion.source_lane.shape[1])
    steps = []
    for at, mask in enumerate(conversion.xor_masks):
        if mask == 0:
            continue  # stays in the lane
        target = conversion.xor_registers[:, :, at]
        wanted = np.take_along_axis(conversion.source_register, target[..., None], -1)[..., 0]
        source = np.broadcast_to(lanes ^ mask, target.shape)
        steps.append(Step(source, wanted[:, lanes ^ mask], target))
    return tuple(steps)


def _scheduled(source_lane: np.ndarray, register: np.ndarray) -> tuple[Step, ...]:
    """Every want in the first step that has room for it, the giver's registers in turn."""
    subgroups, lanes, _ = source_lane.shape
    steps: list[Step] = []
    for g in range(subgroups):
        wants = np.argwhere(source_lane[g] != np.arange(lanes)[:, None])
        busy: list[Step] = []
        # By distance and register, so that lanes which want alike things are served together.
        order = np.lexsort(
            (
                wants[:, 1],
                register[g][tuple(wants.T)],
                (source_lane[g][tuple(wants.T)] - wants[:, 0]) % lanes,
            )
        )
        for lane, want in wants[order].tolist():
            giver, offer = int(source_lane[g, lane, want]), int(register[g, lane, want])
            at = 0
            while at < len(busy) and not _room(busy[at], lane, giver, offer):
                at += 1
            if at == len(busy):
                busy.append(
                    Step(np.arange(lanes), np.full(lanes, NOTHING), np.full(lanes, NOTHING))
                )
            busy[at].source[lane], busy[at].target[lane] = giver, want
            busy[at].offered[giver] = offer
        for at, step in enumerate(busy):
            if at == len(steps):
                steps.append(_idle(subgroups, lanes))
            for name in ("source", "offered", "target"):
                getattr(steps[at], name)[g] = getattr(step, name)
    return tuple(steps)


def _idle(subgroups: int, lanes: int) -> Step:
    nothing = np.full((subgroups, lanes), NOTHING)
    return Step(np.tile(np.arange(lanes), (subgroups, 1)), nothing, nothing.copy())


def _room(step: Step, lane: int, giver: int, offer: int) -> bool:
    return bool(step.target[lane] == NOTHING and step.offered[giver] in (NOTHING, offer))


def perform(plan: Exchange, parts: np.ndarray) -> np.ndarray:
    """Apply the steps to source registers ``parts[subgroups, lanes, registers]``.

    >>> from tvm_iree_ext.layout import NestedLayout, analyse_conversion, to_simt
    >>> rows = NestedLayout((1, 1), (1, 1), (1, 1), (4, 1), (1, 4), (0, 0), (1, 0))
    >>> columns = NestedLayout((1, 1), (1, 1), (1, 1), (1, 4), (4, 1), (0, 0), (0, 1))
    >>> plan = exchange(analyse_conversion(rows, columns, 1, 4))
    >>> len(plan.steps)
    3
    >>> numbers = np.arange(16).reshape(4, 4)
    >>> perform(plan, to_simt(numbers, rows, 1, 4).reshape(1, 4, 4))[0, 1]
    array([ 1,  5,  9, 13])
    """
    units = parts.reshape(*parts.shape[:2], -1, plan.unit)
    result = np.zeros((*plan.moves.shape, plan.unit), parts.dtype)
    g, lane, register = np.nonzero(plan.moves != NOTHING)
    result[g, lane, register] = units[g, lane, plan.moves[g, lane, register]]
    for step in plan.steps:
        g, lane = np.nonzero(step.target != NOTHING)
        giver = step.source[g, lane]
        result[g, lane, step.target[g, lane]] = units[g, giver, step.offered[g, giver]]
    return result.reshape(*parts.shape[:2], -1)
