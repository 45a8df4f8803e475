"""All families of instructions: importing this registers their builders."""

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.ptx.lane_instructions import (
    barriers,
    copy_instructions,
    matrix_instructions,
    memory_instructions,
    warp_instructions,
    warpgroup_instructions,
)
from tvm_iree_ext.emulator.ptx.reading.syntax import PtxInstruction
from tvm_iree_ext.emulator.ptx.values import comparisons, conversions, extended, floats, integers
from tvm_iree_ext.emulator.ptx.values.operations import BUILDERS, PtxOperation

FAMILIES = (
    barriers, comparisons, conversions, copy_instructions, extended, floats, integers,
    matrix_instructions, memory_instructions, warp_instructions, warpgroup_instructions,
)  # fmt: skip

OPCODES = tuple(sorted(BUILDERS))
"""All opcodes that are known."""


def operation_of(one: PtxInstruction) -> PtxOperation:
    """What an instruction does.

    Raises:
        EmulationError: for one that is not known here.
    """
    builder = BUILDERS.get(f"{one.opcode}.cc" if one.has("cc") else one.opcode)
    if builder is None:
        raise EmulationError(f"PTX: no emulation of {one.text!r}")
    try:
        return builder(one)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise EmulationError(f"PTX: no emulation of {one.text!r}: {error!r}") from error
