"""``to_layout`` on a GPU: what a lane holds in one layout becomes what it holds in another.

    FREE      registers stay as they are
    IN_LANE   a lane moves its registers
    SHUFFLE   lanes of a subgroup exchange registers, by the steps of ``layout/exchange``
    SHARED    every element is written to shared memory once, and read by those that hold it next

Registers are in the order batch, outer, element (that of IREE's distributed vectors), after the
parts of a subgroup that has several.  Which way is taken is the verdict of
:func:`~tvm_iree_ext.layout.analyse_conversion`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from tvm import DataType, tirx
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules.gpu.copies import TileAccess, choose_placement
from tvm_iree_ext.schedules.gpu.lane_tables import lane_condition, lane_table
from tvm_iree_ext.schedules.layouts import vector_elements

from tvm_iree_ext.layout.analysis import Placement
from tvm_iree_ext.layout.conversion import Conversion, Movement, analyse_conversion
from tvm_iree_ext.layout.distribute import coordinates
from tvm_iree_ext.layout.exchange import NOTHING, Exchange, Step, exchange
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.layout.ownership import representative_lanes, representative_subgroups

_WORD_BITS = 32  # what a shuffle moves


@dataclass(frozen=True)
class Workgroup:
    """The ids of a lane, how many there are, and the kind of target that it is for."""

    subgroup: Any
    lane: Any
    num_subgroups: int
    subgroup_size: int
    kind: str = "cuda"


@dataclass(frozen=True)
class Registers:
    """What a lane holds: ``place(register)`` is the index of a register in a ``local`` buffer.

    Registers whose places differ in the last entry alone, by one, may move together.
    """

    buffer: Any
    place: Callable[[int], list[Any]] = lambda register: [register]

    @property
    def dtype(self) -> str:
        """Of an element."""
        return str(self.buffer.dtype)

    def load(self, start: int, count: int = 1) -> Any:
        """Registers from ``start`` on, as a vector."""
        return self.buffer[tuple(self._at(start, count))]

    def store(self, value: Any, start: int, count: int = 1) -> None:
        """The same, written."""
        I.buffer_store(self.buffer, value, self._at(start, count))

    def _at(self, start: int, count: int) -> list[Any]:
        *outer, first = self.place(start)
        return [*outer, tirx.Ramp(first, tirx.const(1, "int32"), count) if count > 1 else first]


def emit_conversion(
    source: NestedLayout,
    result: NestedLayout,
    have: Registers,
    want: Registers,
    workgroup: Workgroup,
    shared: Any | None = None,
    *,
    through_shared_memory: bool = False,
) -> Movement:
    """Emit the conversion of a value into other registers, and say how it went.

    Args:
        source: the layout of ``have``.
        result: the layout of ``want``.
        have: the registers before.
        want: those after.
        workgroup: whose lanes run what is emitted.
        shared: shared memory of :func:`shared_elements` elements, where the way leads through it.
        through_shared_memory: take that way whatever the verdict is.

    Raises:
        LayoutError: for layouts of different shapes, or that do not fit the workgroup.
    """
    hardware = workgroup.num_subgroups, workgroup.subgroup_size
    conversion = analyse_conversion(source, result, *hardware, packed=True)
    if through_shared_memory or conversion.movement is Movement.SHARED:
        placement = _placement(source, result, *hardware, DataType(have.dtype).bits)
        _through_shared(source, result, have, want, workgroup, shared, placement)
        return Movement.SHARED
    _inside_subgroups(conversion, have, want, workgroup)
    return conversion.movement


def shared_elements(
    source: NestedLayout,
    result: NestedLayout,
    num_subgroups: int,
    subgroup_size: int,
    dtype: str,
    *,
    through_shared_memory: bool = False,
) -> int:
    """Elements of shared memory that a conversion takes; 0 where it needs none."""
    conversion = analyse_conversion(source, result, num_subgroups, subgroup_size, packed=True)
    if conversion.movement is not Movement.SHARED and not through_shared_memory:
        return 0
    bits = DataType(dtype).bits
    placement = _placement(source, result, num_subgroups, subgroup_size, bits)
    return prod(placement.shape[:-1]) * _pitch(placement)


def _pitch(placement: Placement) -> int:
    return placement.shape[-1] + placement.pad_bytes // placement.element_bytes


def _placement(
    source: NestedLayout, result: NestedLayout, num_subgroups: int, subgroup_size: int, bits: int
) -> Placement:
    accesses = [TileAccess(layout, num_subgroups, subgroup_size) for layout in (source, result)]
    shape = source.undistributed_shape or (1,)
    if not source.rank:
        return Placement(shape, bits // 8)
    return choose_placement(
        shape, bits // 8, accesses, alignment_bytes=bits // 8, swizzles=False
    ).placement


def _inside_subgroups(
    conversion: Conversion, have: Registers, want: Registers, workgroup: Workgroup
) -> None:
    bits = DataType(have.dtype).bits
    plan = exchange(conversion, max(1, _WORD_BITS // bits))
    first = [True] * plan.moves.shape[-1]
    for register in range(plan.moves.shape[-1]):
        sources = plan.moves[:, :, register]
        if (sources != NOTHING).any():
            value = _chosen(sources, have, plan.unit, workgroup)
            want.store(value, register * plan.unit, plan.unit)
            first[register] = False
    for step in plan.steps:
        _emit_step(step, plan, have, want, workgroup, first)


def _chosen(sources: np.ndarray, have: Registers, unit: int, workgroup: Workgroup) -> Any:
    """The register that ``sources[subgroup, lane]`` numbers; any where it is NOTHING."""
    numbers = np.unique(sources[sources != NOTHING]).tolist()
    value = have.load(numbers[0] * unit, unit)
    for number in numbers[1:]:
        # Whoever wants nothing takes part where that makes the condition simpler.
        condition = _condition(sources == number, sources == NOTHING, workgroup)
        value = tirx.Select(condition, have.load(number * unit, unit), value)
    return value


def _condition(chosen: np.ndarray, free: np.ndarray, workgroup: Workgroup) -> Any:
    """A condition that holds where ``chosen`` does, may hold where ``free`` does, else does not."""
    lanes = np.arange(chosen.shape[1])
    for bit in range(chosen.shape[1].bit_length() - 1):
        for value in (0, 1):
            guess = np.broadcast_to(lanes >> bit & 1 == value, chosen.shape)
            if ((guess == chosen) | free).all():
                return lane_condition(guess, workgroup.subgroup, workgroup.lane)
    if (chosen | free).all():
        return tirx.const(True, "bool")
    return lane_condition(chosen, workgroup.subgroup, workgroup.lane)


def _emit_step(
    step: Step,
    plan: Exchange,
    have: Registers,
    want: Registers,
    workgroup: Workgroup,
    first: list[bool],
) -> None:
    offered = _chosen(step.offered, have, plan.unit, workgroup)
    source = lane_table(step.source, workgroup.subgroup, workgroup.lane)
    # Bound, since a shuffle inside a select would become a branch that not all lanes take.
    taken = I.Bind(shuffled(offered, source, workgroup))
    targets = np.unique(step.target[step.target != NOTHING]).tolist()
    for target in targets:
        value = taken
        if not first[target]:
            condition = lane_condition(step.target == target, workgroup.subgroup, workgroup.lane)
            if condition is not None:
                old = want.load(target * plan.unit, plan.unit)
                value = tirx.Select(condition, taken, old)
        want.store(value, target * plan.unit, plan.unit)
        first[target] = False


def shuffled(value: Any, lane: Any, workgroup: Workgroup) -> Any:
    """What ``lane`` of the subgroup has for ``value``, of at most 64 bits in all."""
    dtype = DataType(str(value.ty.dtype))
    bits = dtype.bits * dtype.lanes
    if bits > _WORD_BITS:
        whole = tirx.reinterpret("uint64", value)
        parts = [tirx.Cast("uint32", whole), tirx.Cast("uint32", whole >> tirx.const(32, "uint64"))]
        low, high = (tirx.Cast("uint64", _shuffled_word(part, lane, workgroup)) for part in parts)
        return tirx.reinterpret(str(dtype), low | (high << tirx.const(32, "uint64")))
    if bits == _WORD_BITS:
        word = tirx.reinterpret("uint32", value)
        return tirx.reinterpret(str(dtype), _shuffled_word(word, lane, workgroup))
    narrow = f"uint{bits}"
    word = tirx.Cast("uint32", tirx.reinterpret(narrow, value))
    found = tirx.Cast(narrow, _shuffled_word(word, lane, workgroup))
    return tirx.reinterpret(str(dtype), found)


def _shuffled_word(word: Any, lane: Any, workgroup: Workgroup) -> Any:
    if workgroup.kind == "rocm":
        # TVM's own lowering would count the lane's id again.
        found = tirx.call_llvm_pure_intrin(
            "int32", "llvm.amdgcn.ds.bpermute", lane * 4, tirx.reinterpret("int32", word)
        )
        return tirx.reinterpret("uint32", found)
    everyone = tirx.const(0xFFFFFFFF, "uint32")
    size = tirx.const(workgroup.subgroup_size, "int32")
    return tirx.call_intrin(
        "uint32", "tirx.tvm_warp_shuffle", everyone, word, tirx.Cast("int32", lane), size, size
    )


def _through_shared(
    source: NestedLayout,
    result: NestedLayout,
    have: Registers,
    want: Registers,
    workgroup: Workgroup,
    shared: Any,
    placement: Placement,
) -> None:
    hardware = workgroup.num_subgroups, workgroup.subgroup_size
    firsts = (representative_subgroups(source, hardware[0]) == np.arange(hardware[0]))[:, None] & (
        representative_lanes(source, hardware[1]) == np.arange(hardware[1])
    )
    condition = lane_condition(firsts, workgroup.subgroup, workgroup.lane)
    guard: AbstractContextManager[Any] = nullcontext() if condition is None else I.If(condition)
    with guard, nullcontext() if condition is None else I.Then():
        for start, count, address in _addresses(source, placement, workgroup):
            at = tirx.Ramp(address, tirx.const(1, "int32"), count) if count > 1 else address
            I.buffer_store(shared, have.load(start, count), [at])
    for start, count, address in _addresses(result, placement, workgroup):
        at = tirx.Ramp(address, tirx.const(1, "int32"), count) if count > 1 else address
        want.store(shared[at], start, count)


def _addresses(
    layout: NestedLayout, placement: Placement, workgroup: Workgroup
) -> list[tuple[int, int, Any]]:
    """First register, count and element address of each access of a lane."""
    hardware = workgroup.num_subgroups, workgroup.subgroup_size
    held = coordinates(layout, *hardware, packed=True)
    held = held.reshape(*hardware, -1, layout.rank)
    pitches = _strides(placement)
    elements = (held * np.array(pitches, int)).sum(axis=-1)  # [subgroups, lanes, registers]
    run = layout.element_tile[-1] if layout.rank else 1
    count = vector_elements(8 * placement.element_bytes, run, _pitch(placement))
    return [
        (start, count, lane_table(elements[:, :, start], workgroup.subgroup, workgroup.lane))
        for start in range(0, elements.shape[-1], count)
    ]


def _strides(placement: Placement) -> Ints:
    inner: Sequence[int] = (*placement.shape[1:-1], _pitch(placement)) if placement.shape else ()
    if len(placement.shape) < 2:
        return (1,) * len(placement.shape)
    return (*(prod(inner[dim:]) for dim in range(len(inner))), 1)
