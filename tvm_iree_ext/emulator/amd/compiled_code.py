"""A kernel's code as steps, each made when it is first reached and kept."""

from collections import Counter
from collections.abc import Mapping

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.code_object import KernelCode
from tvm_iree_ext.emulator.amd.control_instructions import control_step
from tvm_iree_ext.emulator.amd.decoding import Instruction, decode
from tvm_iree_ext.emulator.amd.dual_instructions import dual_step
from tvm_iree_ext.emulator.amd.lane_instructions import LaneInstruction
from tvm_iree_ext.emulator.amd.matrix_instructions import matrix_step
from tvm_iree_ext.emulator.amd.memory_instructions import VectorAccess, scalar_load_step
from tvm_iree_ext.emulator.amd.scalar_instructions import ScalarInstruction
from tvm_iree_ext.emulator.amd.scaled_instructions import scaled_step
from tvm_iree_ext.emulator.amd.shared_instructions import SharedInstruction
from tvm_iree_ext.emulator.amd.vector_instructions import VectorInstruction
from tvm_iree_ext.emulator.amd.wave_state import CodeStep

_MEMORY = ("GLOBAL", "FLAT", "SCRATCH", "MUBUF", "VGLOBAL", "VFLAT", "VSCRATCH", "VBUFFER")


class CompiledCode:
    """The steps of a kernel by their places."""

    def __init__(self, kernel: KernelCode) -> None:
        self._kernel = kernel
        self._steps: dict[int, CodeStep] = {}
        self.counts: Counter[int] = Counter()  # waves that have executed each place

    def at(self, place: int) -> CodeStep:
        """The step at a place of the code.

        Raises:
            EmulationError: for a place outside of the code, or an instruction that is not emulated.
        """
        step = self._steps.get(place)
        if step is None:
            step = self._steps[place] = self._made(place)
        return step

    def take_counts(self) -> Mapping[str, int]:
        """How many waves have executed each instruction, by its name, since the last time."""
        found: Counter[str] = Counter()
        for place, count in self.counts.items():
            found[self._steps[place].text().partition("(")[0]] += count
        self.counts.clear()
        return found

    def _made(self, place: int) -> CodeStep:
        if not 0 <= place < len(self._kernel.text):
            raise EmulationError(f"{self._kernel.name}: there is no code at {place:#x}")
        instruction = decode(self._kernel.text, place, self._kernel.chip)
        try:
            return self._step(instruction)
        except EmulationError as error:
            where = f"{self._kernel.name} at {place:#06x}, {instruction!r}"
            raise EmulationError(f"{where}: {error}") from None

    def _step(self, one: Instruction) -> CodeStep:
        first = self._kernel.first_accumulator if one.chip.is_cdna else 0
        form = one.format
        if form.startswith(_MEMORY):
            return VectorAccess(one, first).step()
        if form.startswith("DS"):
            return SharedInstruction(one, first).step()
        if form.startswith("SMEM"):
            return scalar_load_step(one)
        if form.startswith("VOPD"):
            return dual_step(one)
        if form.startswith("SOP"):
            return control_step(one) or ScalarInstruction(one).step()
        return (
            LaneInstruction(one, first).step()
            or scaled_step(one, first)
            or matrix_step(one, first)
            or VectorInstruction(one, self._kernel.lanes).step()
        )
