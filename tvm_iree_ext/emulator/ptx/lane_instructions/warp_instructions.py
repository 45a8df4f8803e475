"""What the lanes of a warp tell one another.

Source: PTX ISA 9.0, *Data Movement and Conversion Instructions: shfl.sync*; *Parallel
Synchronization and Communication Instructions: vote.sync, match.sync, activemask, redux.sync,
elect.sync, bar.warp.sync*.
"""

from typing import Any

import numpy as np

from tvm_iree_ext.emulator.findings import INSTRUCTION
from tvm_iree_ext.emulator.ptx.machine.execution import Execution
from tvm_iree_ext.emulator.ptx.machine.lanes import WARP
from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value, numpy_of
from tvm_iree_ext.emulator.ptx.reading.syntax import DroppedResult, PtxInstruction, ResultPair
from tvm_iree_ext.emulator.ptx.values.operations import (
    PtxOperation,
    instruction,
    on_lanes,
    results_of,
)

_LANE = np.arange(WARP)
_BIT = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
_EVERYONE = 0xFFFFFFFF
_NOISE = 0xA5A5A5A5  # what a lane gets of one that takes no part


def bits_of_lanes(lanes: np.ndarray) -> np.ndarray:
    """A mask [warps, 32] as words [warps, 1]."""
    return (lanes * _BIT).sum(axis=1, dtype=np.uint64).astype(np.uint32)[:, None]


def _members(lanes: Execution, mask: Value) -> np.ndarray:
    """Which lanes each lane's member mask names, [warps, 32 or 1] of words; all must be there.

    A lane must name itself, and those that are named must execute the instruction, too.
    """
    if lanes.mask is None and np.ndim(mask) == 0 and mask == _EVERYONE:
        return np.broadcast_to(mask, (lanes.count, 1))
    words = lanes.full(mask)
    here = bits_of_lanes(lanes.active)
    alive = bits_of_lanes(lanes.alive())
    missing = (words & ~here & alive) != 0
    if lanes.mask is not None or missing.any():
        lanes.found(INSTRUCTION, "lanes are named that do not execute it", missing)
    own = (words & _BIT) == 0
    if own.any():
        lanes.found(INSTRUCTION, "lanes execute it that are not named", own)
    return words & here


@instruction("shfl")
def _shfl(one: PtxInstruction) -> PtxOperation:
    """*shfl.sync*: another lane's value, and whether that lane is in range."""
    target, value, lane, clamp, *members = one.operands
    mode = one.one_of("up", "down", "bfly", "idx")
    both = isinstance(target, ResultPair)

    def function(lanes: Execution, value: Value, lane: Value, clamp: Value, mask: Value) -> Any:
        members_ = _members(lanes, mask)
        lane = np.asarray(lane).astype(np.int64) & 31
        clamp = np.asarray(clamp).astype(np.int64)
        segment = clamp >> 8 & 31
        most = (_LANE & segment) | (clamp & 31 & ~segment)
        least = _LANE & segment
        if mode == "up":
            source = _LANE - lane
            inside = source >= most
        elif mode == "down":
            source = _LANE + lane
            inside = source <= most
        elif mode == "bfly":
            source = _LANE ^ lane
            inside = source <= most
        else:
            source = least | (lane & ~segment)
            inside = source <= most
        source = np.where(inside, source, _LANE) & 31
        whole = lanes.full(value)
        if source.ndim == 1:
            found = whole[:, source]
        else:
            found = np.take_along_axis(whole, lanes.full(source), axis=1)
        if (members_ != _EVERYONE).any():
            there = (members_ >> source.astype(np.uint32)) & np.uint32(1)
            found = np.where(there, found, np.uint32(_NOISE))
        return (found, inside) if both else found

    sources = [
        (value, "b32"), (lane, "b32"), (clamp, "b32"), *((one, "b32") for one in members),
    ]  # fmt: skip
    targets = list(zip(results_of(target), ("b32", "pred"), strict=False))
    return on_lanes(function, sources, targets)


@instruction("vote")
def _vote(one: PtxInstruction) -> PtxOperation:
    """*vote.sync*: ``.all``, ``.any``, ``.uni``, ``.ballot``."""
    target, said, members = one.operands
    mode = one.one_of("all", "any", "uni", "ballot")

    def function(lanes: Execution, said: Value, mask: Value) -> Value:
        named = _members(lanes, mask)
        yes = bits_of_lanes(lanes.full(said) & lanes.active) & named
        if mode == "ballot":
            return yes
        if mode == "all":
            return yes == named
        if mode == "any":
            return yes != 0
        return (yes == named) | (yes == 0)

    kind = "b32" if mode == "ballot" else "pred"
    return on_lanes(function, [(said, "pred"), (members, "b32")], [(target, kind)])


@instruction("match")
def _match(one: PtxInstruction) -> PtxOperation:
    """*match.sync*: ``.any`` the lanes with the same value, ``.all`` whether all have it."""
    target, value, members = one.operands
    kind = one.type
    everyone, both = one.has("all"), isinstance(target, ResultPair)

    def function(lanes: Execution, value: Value, mask: Value) -> Any:
        named = _members(lanes, mask)
        whole = lanes.full(value)
        same = whole[:, :, None] == whole[:, None, :]
        words = (same * _BIT).sum(axis=2, dtype=np.uint64).astype(np.uint32) & named
        if not everyone:
            return words
        agreed = words == named
        found = np.where(agreed, named, np.uint32(0))
        return (found, agreed) if both else found

    targets = list(zip(results_of(target), ("b32", "pred"), strict=False))
    return on_lanes(function, [(value, kind), (members, "b32")], targets)


@instruction("activemask")
def _activemask(one: PtxInstruction) -> PtxOperation:
    """*activemask*: the lanes that execute it."""
    (target,) = one.operands
    return on_lanes(lambda lanes: bits_of_lanes(lanes.active), (), [(target, "b32")])


_REDUCTIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@instruction("redux")
def _redux(one: PtxInstruction) -> PtxOperation:
    """*redux.sync*: of the named lanes' values, all of which name the same ones."""
    target, value, members = one.operands
    kind = one.type
    name = one.one_of(*_REDUCTIONS)
    reduce = _REDUCTIONS[name]
    numbers = numpy_of(kind)
    neutral: Any = {"add": 0, "or": 0, "xor": 0, "and": -1}.get(name)
    if neutral is None:
        limits = np.finfo(numbers) if numbers.kind == "f" else np.iinfo(numbers)
        neutral = limits.max if name == "min" else limits.min

    def function(lanes: Execution, value: Value, mask: Value) -> Value:
        named = _members(lanes, mask)
        whole = lanes.full(value)
        start = np.array(neutral).astype(numbers)
        found = np.empty(lanes.shape, numbers)
        for word in np.unique(named):
            chosen = (np.uint32(word) & _BIT) != 0
            total = reduce.reduce(np.where(chosen, whole, start), axis=1)[:, None]
            found = np.where(named == word, total.astype(numbers), found)
        return found

    return on_lanes(function, [(value, kind), (members, "b32")], [(target, kind)])


@instruction("elect")
def _elect(one: PtxInstruction) -> PtxOperation:
    """*elect.sync*: one lane of the named ones; which one is left open."""
    target, members = one.operands
    pair = target if isinstance(target, ResultPair) else ResultPair(DroppedResult(), target)

    def function(lanes: Execution, mask: Value) -> tuple[Value, Value]:
        named = _members(lanes, mask)
        chosen = (named & _BIT) != 0
        if lanes.state.early:
            leader = WARP - 1 - np.argmax(chosen[:, ::-1], axis=1)
        else:
            leader = np.argmax(chosen, axis=1)
        return leader.astype(np.uint32)[:, None], leader[:, None] == _LANE

    targets = [(pair.first, "b32"), (pair.second, "pred")]
    return on_lanes(function, [(members, "b32")], targets)
