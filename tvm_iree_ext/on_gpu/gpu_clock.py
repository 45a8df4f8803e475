"""The clock of an NVIDIA GPU's cores, as NVML says, which comes with the driver."""

import contextlib
import ctypes
from typing import Any

from tvm_iree_ext.runtime.launch.driver import Gpu

_LIBRARY = "libnvidia-ml.so.1"
_CORES = 1  # NVML_CLOCK_SM
_BUS_TEXT = 32  # bytes of a PCI bus id, NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE


class GpuClock:
    """Reads the clock; one that says None where NVML is not there or refuses, and for HIP.

    ``library`` stands for NVML's.
    """

    def __init__(self, gpu: Gpu, library: Any = None) -> None:
        self._library, self._device = library, ctypes.c_void_p()
        if not gpu.cuda:
            self._library = None
            return
        with contextlib.suppress(OSError):
            self._library = library or ctypes.CDLL(_LIBRARY)
        if self._library is None:
            return
        # By the bus: NVML counts GPUs otherwise than a process that sees some of them.
        bus = ctypes.create_string_buffer(_BUS_TEXT)
        gpu.named("cuDeviceGetPCIBusId", bus, len(bus), gpu.ordinal)
        device = ctypes.byref(self._device)
        if self._library.nvmlInit_v2() or self._library.nvmlDeviceGetHandleByPciBusId_v2(
            bus, device
        ):
            self._library = None

    def mhz(self) -> int | None:
        """The clock now."""
        return self._asked("nvmlDeviceGetClockInfo")

    def most_mhz(self) -> int | None:
        """The highest clock that it may have."""
        return self._asked("nvmlDeviceGetMaxClockInfo")

    def _asked(self, name: str) -> int | None:
        if self._library is None:
            return None
        found = ctypes.c_uint()
        status = getattr(self._library, name)(self._device, _CORES, ctypes.byref(found))
        return None if status else found.value
