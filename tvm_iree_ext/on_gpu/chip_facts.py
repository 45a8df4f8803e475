"""The GPU, its driver and its clocks, as they say."""

import ctypes
import subprocess
from collections.abc import Iterator
from typing import Any

from tvm_iree_ext.on_gpu.archive_file import ArchiveFile
from tvm_iree_ext.runtime.launch.driver import Gpu
from tvm_iree_ext.runtime.launch.driver_answers import chip_of_gpu, hip_version

_CUDA_ATTRIBUTES = {
    "cores": 16,  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    "clock_khz": 13,
    "memory_clock_khz": 36,
    "bus_bits": 37,
    "l2_bytes": 38,
    "shared_memory_bytes": 97,  # a workgroup's at most, when asked for
}
_QUERY_S = 20.0
_QUERIED = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit,temperature.gpu"


def chip_facts(archive: ArchiveFile, kind: str) -> Iterator[dict[str, Any]]:
    """What is known of the GPU, as a row."""
    gpu = Gpu(kind)
    facts: dict[str, Any] = {"kind": kind, "chip": chip_of_gpu(gpu)}
    if not gpu.cuda:
        facts["driver"] = "HIP {}.{}".format(*hip_version(gpu))
    else:
        name = ctypes.create_string_buffer(100)
        gpu.named("cuDeviceGetName", name, len(name), 0)
        version = ctypes.c_int()
        gpu.named("cuDriverGetVersion", ctypes.byref(version))
        facts |= {
            "name": name.value.decode(),
            "driver": f"{version.value // 1000}.{version.value % 1000 // 10}",
        }
        for key, attribute in _CUDA_ATTRIBUTES.items():
            value = ctypes.c_int()
            gpu.named("cuDeviceGetAttribute", ctypes.byref(value), attribute, 0)
            facts[key] = value.value
    try:
        command = ["nvidia-smi", f"--query-gpu={_QUERIED}", "--format=csv,noheader"]
        facts["nvidia-smi"] = subprocess.run(
            command, capture_output=True, text=True, timeout=_QUERY_S
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        pass
    yield facts
