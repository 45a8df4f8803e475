"""``to_layout`` on a GPU: what a lane holds in one layout becomes what it holds in another.

    FREE      registers stay as they are
    IN_LANE   a lane moves its registers
    SHUFFLE   lanes of a subgroup exchange registers, by the steps of ``layout/exchange``
    SHARED    every element is written to shared memory once, and read by those that hold it next

Registers are in the order batch, outer, element (that of IREE's distributed vectors), after the
parts of a subgroup that has several.  Which way is taken is the verdict of
:func:`~tvm_iree_ext.layout.analyse_conversion`.
"""

from math import prod
from typing import Any

import numpy as np
from tvm import DataType, tirx

from tvm_iree_ext.layout.conversion import Conversion, Movement, analyse_conversion
from tvm_iree_ext.layout.distribute import simt_shape
from tvm_iree_ext.layout.exchange import NOTHING, Exchange, Step, exchange
from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules.gpu.collectives.through_shared import plan_staging, through_shared
from tvm_iree_ext.schedules.gpu.emit.lane_registers import (
    Ids,
    LaneRegisters,
    WorkgroupIds,
    in_register,
)
from tvm_iree_ext.schedules.gpu.emit.word_halves import halves, joined

_WORD_BITS = 32  # what a shuffle moves


def emit_conversion(
    source: NestedLayout,
    result: NestedLayout,
    have: LaneRegisters,
    want: LaneRegisters,
    workgroup: WorkgroupIds,
    shared: Any | None = None,
    *,
    limit_bytes: int | None = None,
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
        limit_bytes: of shared memory: what takes more goes there in several steps.
        through_shared_memory: take that way whatever the verdict is.

    Raises:
        LayoutError: for layouts of different shapes, or that do not fit the workgroup.
        ScheduleError: where the limit is less than an element.
    """
    conversion = analyse_conversion(source, result, *workgroup.hardware, packed=True)
    if through_shared_memory or _shares(conversion, have.dtype):
        element_bytes = DataType(have.dtype).bits // 8
        staging = plan_staging(source, result, workgroup.hardware, element_bytes, limit_bytes)
        through_shared(source, result, have, want, workgroup, shared, staging)
        return Movement.SHARED
    unit = max(1, _WORD_BITS // DataType(have.dtype).bits)
    for registers, layout in ((have, source), (want, result)):
        count = prod(simt_shape(layout, *workgroup.hardware, packed=True)[2:])
        unit = registers.run(count, unit)
    _InsideSubgroups(exchange(conversion, unit), have, want, workgroup).emit()
    return conversion.movement


def shared_elements(
    source: NestedLayout,
    result: NestedLayout,
    num_subgroups: int,
    subgroup_size: int,
    dtype: str,
    *,
    limit_bytes: int | None = None,
    through_shared_memory: bool = False,
) -> int:
    """Elements of shared memory that a conversion takes; 0 where it needs none."""
    hardware = num_subgroups, subgroup_size
    conversion = analyse_conversion(source, result, *hardware, packed=True)
    if not through_shared_memory and not _shares(conversion, dtype):
        return 0
    element_bytes = DataType(dtype).bits // 8
    return plan_staging(source, result, hardware, element_bytes, limit_bytes).elements


def _shares(conversion: Conversion, dtype: str) -> bool:
    """Whether lanes hand elements on in shared memory: above 64 bits each is four shuffles."""
    shuffles = conversion.movement is Movement.SHUFFLE and DataType(dtype).bits > 64
    return conversion.movement is Movement.SHARED or shuffles


class _InsideSubgroups:
    """Register moves and shuffles."""

    def __init__(
        self, plan: Exchange, have: LaneRegisters, want: LaneRegisters, workgroup: WorkgroupIds
    ) -> None:
        self.plan, self.have, self.want, self.workgroup = plan, have, want, workgroup
        self.ids = Ids(workgroup)
        self.untouched = [True] * plan.moves.shape[-1]  # no lane has its value yet

    def emit(self) -> None:
        for register in range(self.plan.moves.shape[-1]):
            sources = self.plan.moves[:, :, register]
            if (sources != NOTHING).any():
                self._put(register, self._chosen(sources), None)
        for step in self.plan.steps:
            self._step(step)

    def _put(self, register: int, value: Any, lanes: np.ndarray | None) -> None:
        """A result register, in the ``lanes`` alone where others have theirs already."""
        unit = self.plan.unit
        if lanes is not None and not self.untouched[register]:
            condition = self.ids.condition(lanes)
            if condition is not None:
                value = tirx.Select(condition, value, self.want.load_word(register * unit, unit))
        self.want.store_word(value, register * unit, unit)
        self.untouched[register] = False

    def _chosen(self, sources: np.ndarray) -> Any:
        """The register that ``sources[subgroup, lane]`` numbers; any where it is NOTHING."""
        unit = self.plan.unit
        numbers = np.unique(sources[sources != NOTHING]).tolist()
        value = self.have.load_word(numbers[0] * unit, unit)
        for number in numbers[1:]:
            # Whoever wants nothing takes part where that makes the condition simpler.
            condition = self._condition(sources == number, sources == NOTHING)
            value = tirx.Select(condition, self.have.load_word(number * unit, unit), value)
        return value

    def _condition(self, chosen: np.ndarray, free: np.ndarray) -> Any:
        """A condition that holds where ``chosen`` does, may hold where ``free``, else does not."""
        lanes = np.arange(chosen.shape[1])
        for bit in range(chosen.shape[1].bit_length() - 1):
            for value in (0, 1):
                guess = np.broadcast_to(lanes >> bit & 1 == value, chosen.shape)
                if ((guess == chosen) | free).all():
                    return self.ids.condition(guess)
        if (chosen | free).all():
            return tirx.const(True, "bool")
        return self.ids.condition(chosen)

    def _step(self, step: Step) -> None:
        source = self.ids.table(step.source)
        # In a register: inside a select it would become a branch that not all lanes take.
        taken = in_register(shuffled(self._chosen(step.offered), source, self.workgroup))
        for register in np.unique(step.target[step.target != NOTHING]).tolist():
            self._put(register, taken, step.target == register)


def shuffled(value: Any, lane: Any, workgroup: WorkgroupIds) -> Any:
    """Lane shuffle: ``lane``'s ``value``, of at most 128 bits in all."""
    dtype = DataType(str(value.ty.dtype))
    unsigned = f"uint{dtype.bits * dtype.lanes}"
    word = value if str(dtype) == unsigned else tirx.reinterpret(unsigned, value)
    found = _shuffled_bits(word, lane, workgroup)
    return found if str(dtype) == unsigned else tirx.reinterpret(str(dtype), found)


def _shuffled_bits(word: Any, lane: Any, workgroup: WorkgroupIds) -> Any:
    dtype = DataType(str(word.ty.dtype))
    if dtype.bits > _WORD_BITS:
        low, high = (_shuffled_bits(part, lane, workgroup) for part in halves(in_register(word)))
        return joined(low, high, str(dtype))
    found = _shuffled_word(tirx.Cast("uint32", word), lane, workgroup)
    return found if dtype.bits == _WORD_BITS else tirx.Cast(str(dtype), found)


def _shuffled_word(word: Any, lane: Any, workgroup: WorkgroupIds) -> Any:
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
