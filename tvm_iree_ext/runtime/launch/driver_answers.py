"""What a driver says of a GPU and of a kernel that it has loaded.

An artifact's ``launch.py`` holds this module, too.
"""

import ctypes

from tvm_iree_ext.runtime.launch.driver import DriverError, Gpu
from tvm_iree_ext.runtime.launch.launch_contract import Argument, GpuLimits, KernelReport

# CUdevice_attribute, and hipDeviceAttribute_t of HIP from 5 on.  A wave of RDNA may have 64 lanes
# where HIP tells 32, so that it is not asked; nor for registers, which it counts otherwise.
_CUDA_ATTRIBUTES = {
    "lanes": (1,), "lanes_per_dim": (2, 3, 4), "grid": (5, 6, 7), "declared": (8,),
    "shared": (97,), "registers": (12,), "subgroup": (10,),
}  # fmt: skip
_HIP_ATTRIBUTES = {
    "lanes": (56,), "lanes_per_dim": (26, 27, 28), "grid": (29, 30, 31), "shared": (74,),
}  # fmt: skip
_LANES, _SHARED, _REGISTERS = 0, 1, 4  # CUfunction_attribute
_NO_SUCH_ARGUMENT = 1  # CUDA_ERROR_INVALID_VALUE

# hipDeviceProp_t of HIP 6 has the chip's name there; the whole has 1472 bytes.
_PROPERTIES, _CHIP_NAME, _CHIP_NAME_BYTES = "hipGetDevicePropertiesR0600", 1160, 256
_PROPERTY_BYTES = 4096  # with room for what a later HIP adds


def chip_of_gpu(gpu: Gpu) -> str:
    """The chip, as ``sm_90`` or ``gfx942:sramecc+:xnack-``; empty where HIP is older than 6."""
    if capability := gpu.capability():
        return f"sm_{capability[0]}{capability[1]}"
    if not gpu.has(_PROPERTIES):
        return ""
    properties = (ctypes.c_char * _PROPERTY_BYTES)()
    gpu.named(_PROPERTIES, properties, gpu.ordinal)
    return properties.raw[_CHIP_NAME : _CHIP_NAME + _CHIP_NAME_BYTES].partition(b"\0")[0].decode()


def hip_version(gpu: Gpu) -> tuple[int, int]:
    """HIP's version; zeros for CUDA."""
    if gpu.cuda:
        return 0, 0
    number = ctypes.c_int()
    gpu.named("hipRuntimeGetVersion", ctypes.byref(number))
    return number.value // 10_000_000, number.value // 100_000 % 100


def gpu_limits(gpu: Gpu, chip: str) -> GpuLimits:
    """What the GPU offers to a workgroup."""
    numbers = _CUDA_ATTRIBUTES if gpu.cuda else _HIP_ATTRIBUTES
    found = {
        key: tuple(_device_attribute(gpu, number) for number in several)
        for key, several in numbers.items()
    }
    return GpuLimits(
        name=chip,
        is_cuda=gpu.cuda,
        lanes=found["lanes"][0],
        lanes_per_dim=found["lanes_per_dim"],
        grid=found["grid"],
        shared_memory_bytes=found["shared"][0],
        declared_shared_memory_bytes=found.get("declared", found["shared"])[0],
        registers=found.get("registers", (0,))[0],
        subgroup_size=found.get("subgroup", (0,))[0],
    )


def _device_attribute(gpu: Gpu, number: int) -> int:
    value = ctypes.c_int()
    name = "cuDeviceGetAttribute" if gpu.cuda else "hipDeviceGetAttribute"
    gpu.named(name, ctypes.byref(value), number, gpu.ordinal)
    return value.value


def kernel_report(gpu: Gpu, function: ctypes.c_void_p, count: int) -> KernelReport:
    """CUDA's figures of a kernel that is loaded, which is launched with so many arguments."""
    lanes, shared, registers = (
        _function_attribute(gpu, function, number) for number in (_LANES, _SHARED, _REGISTERS)
    )
    return KernelReport(lanes, registers, shared, _arguments(gpu, function, count))


def _function_attribute(gpu: Gpu, function: ctypes.c_void_p, number: int) -> int:
    value = ctypes.c_int()
    gpu.named("cuFuncGetAttribute", ctypes.byref(value), number, function)
    return value.value


def _arguments(gpu: Gpu, function: ctypes.c_void_p, count: int) -> tuple[Argument, ...] | None:
    """The arguments that a kernel takes, one more than are given at most; None before CUDA 12.4."""
    name = "cuFuncGetParamInfo"
    if not gpu.has(name):
        return None
    found = []
    for number in range(count + 1):
        place, size = ctypes.c_size_t(), ctypes.c_size_t()
        try:
            gpu.named(
                name, function, ctypes.c_size_t(number), ctypes.byref(place), ctypes.byref(size)
            )
        except DriverError as error:
            if error.status != _NO_SUCH_ARGUMENT:
                raise
            break
        found.append(Argument(size.value, place=place.value))
    return tuple(found)
