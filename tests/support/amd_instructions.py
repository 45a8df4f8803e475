"""Single instructions of AMD's chips executed on registers that a test fills."""

import numpy as np

from tvm_iree_ext.emulator.amd.chips import CHIPS
from tvm_iree_ext.emulator.amd.code_object import KernelCode, KernelDescriptor
from tvm_iree_ext.emulator.amd.compiled_code import CompiledCode
from tvm_iree_ext.emulator.amd.running import Running
from tvm_iree_ext.emulator.memory import GlobalMemory

EXEC = 126


class Machine:
    """Waves of a chip with the instructions given as their code."""

    def __init__(self, chip, *instructions, waves=1, lds=1024, seed=0):
        facts = CHIPS[chip]
        lanes = 64 if facts.is_cdna else 32
        text = b"".join(one.to_bytes() for one in instructions) + bytes(24)
        # 256 registers, of which half are accumulators; denormal numbers stay.
        descriptor = KernelDescriptor(lds, 0, 0, 0, (31 | 0xF << 16, 0, 31), 0, 0)
        kernel = KernelCode("t", facts, text, 0, 0, descriptor, {".wavefront_size": lanes})
        memory, rng = GlobalMemory(), np.random.default_rng(seed)
        self.waves = Running(kernel, memory, [(0, 0, 0)], waves, lds, rng)
        self.waves.scalar[EXEC : EXEC + 2] = 0xFFFFFFFF
        self.waves.forget_mask()
        self._code, self._count = CompiledCode(kernel), len(instructions)

    def run(self):
        place = 0
        with np.errstate(all="ignore"):
            for _ in range(self._count):
                step = self._code.at(place)
                self.waves.step = step
                step.run(self.waves)
                place = step.next
        return self.waves
