"""Set up a worker's process before its first trial: warm, limited, and never an orphan."""

import ctypes
import importlib
import os
import signal
import sys
from dataclasses import dataclass

from tvm_iree_ext.processes import limits

_PR_SET_PDEATHSIG = 1
_TRIAL = "tvm_iree_ext.tuning.measuring.trial"


@dataclass(frozen=True)
class Conditions:
    """Called first in a worker's process.

    Attributes:
        parent: the process that it must not outlive, also where a kernel hangs.
        memory_bytes: what it may allocate; 0 is anything.
        niceness: how far it stands behind others, 0 to 19.
    """

    parent: int
    memory_bytes: int = 0
    niceness: int = 0

    def __call__(self) -> None:
        """Set them up, and import what trials need."""
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self.parent:  # it ended before that
            os._exit(1)
        os.nice(self.niceness)
        limits.no_core_file()
        importlib.import_module(_TRIAL)
        if self.memory_bytes:
            limits.limit_memory(self.memory_bytes)
