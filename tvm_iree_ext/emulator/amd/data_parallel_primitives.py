"""DPP: an operand that is another lane's, for each lane by a pattern.

Sources: "CDNA3 Instruction Set Architecture", section "DPP", and "RDNA3 Instruction Set
Architecture", sections "DPP16" and "DPP8".
"""

import functools
from collections.abc import Callable

import numpy as np

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.decoding import Instruction
from tvm_iree_ext.emulator.amd.operands import Getter
from tvm_iree_ext.emulator.amd.wave_state import Array, Waves

_ROW = 16  # lanes


def moved(get: Getter, instruction: Instruction) -> Getter:
    """An operand as the lanes of the instruction's pattern have it; 0 where that is no lane."""
    find = _sources(instruction)

    def chosen(waves: Waves) -> Array:
        lanes, _ = find(waves.lanes)
        values = np.broadcast_to(get(waves), (waves.count, waves.lanes))[:, np.maximum(lanes, 0)]
        return np.where(_readable(waves, instruction, lanes), values, np.uint32(0))

    return chosen


def writing_lanes(instruction: Instruction) -> Callable[[Waves], Array]:
    """Which lanes are written: those of the masks, and, without BOUND_CTRL, that had a source."""
    find = _sources(instruction)
    zeroes = bool(instruction.get("bc"))

    def lanes(waves: Waves) -> Array:
        sources, masked = find(waves.lanes)
        if zeroes or instruction.has("lane_sel_0"):
            return np.broadcast_to(masked[None, :], (waves.count, waves.lanes))
        return _readable(waves, instruction, sources) & masked[None, :]

    return lanes


def _readable(waves: Waves, instruction: Instruction, lanes: Array) -> Array:
    """Where a lane is read that is there and executes; FI takes others, too."""
    there = np.broadcast_to(lanes[None, :] >= 0, (waves.count, waves.lanes))
    if instruction.get("fi"):
        return there
    return there & waves.full_mask()[:, np.maximum(lanes, 0)]


def _sources(instruction: Instruction) -> Callable[[int], tuple[Array, Array]]:
    """What gives, for a number of lanes, each lane's source (-1: none), and who may write."""
    if instruction.has("lane_sel_0"):
        choice = tuple(instruction.get(f"lane_sel_{number}") for number in range(8))
        return functools.partial(_eights, choice)
    control = instruction.get("dpp")
    rows, banks = instruction.get("row_mask"), instruction.get("bank_mask")
    return functools.partial(_pattern, control, rows, banks)


@functools.cache
def _eights(choice: tuple[int, ...], lanes: int) -> tuple[Array, Array]:
    lane = np.arange(lanes)
    return lane // 8 * 8 + np.array(choice)[lane % 8], np.ones(lanes, bool)


@functools.cache
def _pattern(control: int, rows: int, banks: int, lanes: int) -> tuple[Array, Array]:
    lane = np.arange(lanes)
    row, place = lane // _ROW * _ROW, lane % _ROW
    amount, found = control & 15, lane
    if control < 0x100:  # quad_perm
        found = lane // 4 * 4 + (control >> (2 * (lane % 4)) & 3)
    elif 0x101 <= control <= 0x10F:  # row_shl: from the lane above
        found = np.where(place + amount < _ROW, lane + amount, -1)
    elif 0x111 <= control <= 0x11F:  # row_shr
        found = np.where(place >= amount, lane - amount, -1)
    elif 0x121 <= control <= 0x12F:  # row_ror
        found = row + (place - amount) % _ROW
    elif control == 0x130:  # wave_shl
        found = np.where(lane + 1 < lanes, lane + 1, -1)
    elif control == 0x134:  # wave_rol
        found = (lane + 1) % lanes
    elif control == 0x138:  # wave_shr
        found = lane - 1
    elif control == 0x13C:  # wave_ror
        found = (lane - 1) % lanes
    elif control == 0x140:  # row_mirror
        found = row + 15 - place
    elif control == 0x141:  # row_half_mirror
        found = lane // 8 * 8 + 7 - lane % 8
    elif control == 0x142:  # row_bcast15
        found = np.where(row > 0, row - 1, -1)
    elif control == 0x143:  # row_bcast31
        found = np.where(lane >= 32, 31, -1)
    elif 0x150 <= control <= 0x15F:  # row_share, row_newbcast
        found = row + amount
    elif 0x160 <= control <= 0x16F:  # row_xmask
        found = row + (place ^ amount)
    else:
        raise EmulationError(f"DPP control {control:#x} is not known")
    may_write = (rows >> (lane // _ROW % 4) & 1) & (banks >> (lane % _ROW // 4) & 1)
    return found, may_write.astype(bool)
