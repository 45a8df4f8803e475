"""The GPU, its driver and its clocks, as they say."""

import ctypes
import subprocess
from typing import Any

from tvm_iree_ext.runtime.launch.driver import Gpu

_CUDA_ATTRIBUTES = {
    "cores": 16,  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    "clock_khz": 13,
    "memory_clock_khz": 36,
    "bus_bits": 37,
    "l2_bytes": 38,
    "shared_memory_bytes": 97,  # a workgroup's at most, when asked for
}
_QUERIED = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit,temperature.gpu"


def chip_facts(kind: str) -> dict[str, Any]:
    """What is known of the GPU."""
    gpu = Gpu(kind)
    facts: dict[str, Any] = {"kind": kind}
    if gpu.cuda:
        name = ctypes.create_string_buffer(100)
        gpu.named("cuDeviceGetName", name, len(name), 0)
        version = ctypes.c_int()
        gpu.named("cuDriverGetVersion", ctypes.byref(version))
        major, minor = gpu.capability() or (0, 0)
        facts |= {
            "name": name.value.decode(),
            "driver": f"{version.value // 1000}.{version.value % 1000 // 10}",
            "chip": f"sm_{major}{minor}",
        }
        for key, attribute in _CUDA_ATTRIBUTES.items():
            value = ctypes.c_int()
            gpu.named("cuDeviceGetAttribute", ctypes.byref(value), attribute, 0)
            facts[key] = value.value
    try:
        command = ["nvidia-smi", f"--query-gpu={_QUERIED}", "--format=csv,noheader"]
        facts["nvidia-smi"] = subprocess.run(
            command, capture_output=True, text=True, timeout=20
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        pass
    return facts
