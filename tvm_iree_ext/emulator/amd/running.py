"""Waves that are executed: with the memory operations that they have not waited for."""

from typing import Any

from tvm_iree_ext.emulator.amd.outstanding import Outstanding
from tvm_iree_ext.emulator.amd.wave_state import Waves


class Running(Waves):
    """Waves, and what is outstanding."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.outstanding = Outstanding(self)
