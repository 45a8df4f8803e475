"""What the chip that is there reaches: operations of nothing but products, and bytes of a copy."""

import ctypes
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.on_gpu.archive_file import ArchiveFile
from tvm_iree_ext.on_gpu.gpu_timer import Timing, described, gpu_timer
from tvm_iree_ext.on_gpu.resident_call import ResidentCall
from tvm_iree_ext.runtime.launch.driver import Gpu
from tvm_iree_ext.runtime.launch.launcher import Kernels

COPY = "copy"
"""The case that is no kernel's: the driver copies from memory to memory."""

_CORES = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_LIMIT_S = 0.3
_COPIES = {True: "cuMemcpyDtoDAsync_v2", False: "hipMemcpyDtoDAsync"}  # whether CUDA's


def probed(archive: ArchiveFile, folder: str) -> Iterator[dict[str, Any]]:
    """A row: operations, or bytes read and written, and the time."""
    case = archive.case(folder)
    if case["id"] == COPY:
        gpu = Gpu(case["target"].partition(":")[0])
        yield _row(case, _copied(gpu, case["bytes"]), "bytes", 2 * case["bytes"])
        return
    with tempfile.TemporaryDirectory() as place:
        kernels = Kernels(archive.extract(folder, Path(place)))
    gpu, cores = kernels.gpu, ctypes.c_int()
    gpu.named("cuDeviceGetAttribute", ctypes.byref(cores), _CORES, gpu.ordinal)
    workgroups = cores.value * case["workgroups"]
    values = {
        "result": np.zeros(workgroups * case["lanes"], np.uint32),
        "rounds": case["rounds"],
        "cores": cores.value,
    }
    with gpu.current(), kernels.memory() as allocate, gpu_timer(gpu) as timer:
        timing = timer.time(ResidentCall(kernels, values, allocate), _LIMIT_S)
    count = workgroups * case["rounds"] * case["operations"]
    yield _row(case, timing, "operations", count)


def _copied(gpu: Gpu, size: int) -> Timing:
    with gpu.current():
        places: list[int] = []
        try:
            places += [gpu.allocate(size) for _ in range(2)]
            to, source = (ctypes.c_void_p(one) for one in places)

            def copy(stream: int) -> None:
                gpu.named(
                    _COPIES[gpu.cuda], to, source, ctypes.c_size_t(size), ctypes.c_void_p(stream)
                )

            with gpu_timer(gpu) as timer:
                return timer.time(copy, _LIMIT_S)
        finally:
            for one in places:
                gpu.free(one)


def _row(case: Mapping[str, Any], timing: Timing, what: str, count: float) -> dict[str, Any]:
    return {
        **{key: case[key] for key in ("id", "config", "target")},
        "who": "",
        **described(timing),
        what: count,
        "status": "passed",
        "message": "",
    }
