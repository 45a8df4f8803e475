"""Launch the GPU kernels of the folder that this file lies in, with NumPy and the driver.

    python launch.py                     lists the kernels
    python launch.py KERNEL [A.npy ...]  runs one on arrays (zeros where none are given), and writes
                                         what it leaves in them to KERNEL_ARGUMENT.npy

From Python: ``Device(folder).launch(name, *arrays)`` changes the arrays in place.
"""

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

_HIP = {
    "libraries": ("libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.7"),
    "init": "hipInit",
    "load": "hipModuleLoadData",
    "function": "hipModuleGetFunction",
    "allocate": "hipMalloc",
    "free": "hipFree",
    "to_device": "hipMemcpyHtoD",
    "from_device": "hipMemcpyDtoH",
    "launch": "hipModuleLaunchKernel",
    "wait": "hipDeviceSynchronize",
}
_CUDA = {
    "libraries": ("libcuda.so.1", "libcuda.so"),
    "init": "cuInit",
    "load": "cuModuleLoadData",
    "function": "cuModuleGetFunction",
    "allocate": "cuMemAlloc_v2",
    "free": "cuMemFree_v2",
    "to_device": "cuMemcpyHtoD_v2",
    "from_device": "cuMemcpyDtoH_v2",
    "launch": "cuLaunchKernel",
    "wait": "cuCtxSynchronize",
}
DRIVERS: dict[str, dict[str, Any]] = {"rocm": _HIP, "cuda": _CUDA}
"""The driver's libraries and functions, by the kind of target."""

# Types that NumPy lacks are moved as integers of their width.
_WORDS = {"bfloat16": "uint16", "float8": "uint8", "int4": "uint8", "bool": "uint8"}


def _numpy_type(dtype: str) -> np.dtype:
    return np.dtype(_WORDS.get(dtype.partition("_")[0], dtype))


class Device:
    """The first GPU, with the kernels of an artifact loaded."""

    def __init__(self, folder: Path | str = Path(__file__).parent) -> None:
        folder = Path(folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        self.kernels = {kernel["name"]: kernel for kernel in manifest["kernels"]}
        self._names: dict[str, Any] = DRIVERS[manifest["target"]["kind"]]
        binary = next(
            (folder / name for name in ("kernel.hsaco", "kernel.cubin", "kernel.ptx")
             if (folder / name).exists()),
            None,
        )  # fmt: skip
        if binary is None:
            raise RuntimeError(f"{folder} has the source only; compile kernel.cu to kernel.cubin")
        self._library = self._open()
        self._call("init", 0)
        if self._names is _CUDA:
            device, context = ctypes.c_int(), ctypes.c_void_p()
            self._check("cuDeviceGet", self._library.cuDeviceGet(ctypes.byref(device), 0))
            retained = self._library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
            self._check("cuDevicePrimaryCtxRetain", retained)
            self._check("cuCtxSetCurrent", self._library.cuCtxSetCurrent(context))
        self._module = ctypes.c_void_p()
        self._image = binary.read_bytes() + b"\0"
        self._call("load", ctypes.byref(self._module), self._image)

    def launch(self, name: str, *arrays: np.ndarray) -> None:
        """Run a kernel on contiguous arrays, one for each argument, and wait for it."""
        kernel = self.kernels[name]
        wanted = [(argument["dtype"], argument["shape"]) for argument in kernel["arguments"]]
        if len(arrays) != len(wanted):
            raise ValueError(f"{name} takes {len(wanted)} arrays; {len(arrays)} came")
        for array, (dtype, shape) in zip(arrays, wanted, strict=True):
            fits = array.dtype.itemsize == _numpy_type(dtype).itemsize
            if not fits or list(array.shape) != shape or not array.flags.c_contiguous:
                raise ValueError(
                    f"{name} takes a contiguous {dtype}{shape}; {array.dtype}{list(array.shape)}"
                    " came"
                )
        pointers = [self._copied(array) for array in arrays]
        function = ctypes.c_void_p()
        self._call("function", ctypes.byref(function), self._module, name.encode())
        places = [ctypes.addressof(pointer) for pointer in pointers]
        parameters = (ctypes.c_void_p * len(places))(*places)
        self._call("launch", function, *kernel["grid"], *kernel["block"], 0, None, parameters, None)
        self._call("wait")
        for array, pointer in zip(arrays, pointers, strict=True):
            self._call(
                "from_device", array.ctypes.data_as(ctypes.c_void_p), pointer,
                ctypes.c_size_t(array.nbytes),
            )  # fmt: skip
            self._call("free", pointer)

    def _copied(self, array: np.ndarray) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        self._call("allocate", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
        source = array.ctypes.data_as(ctypes.c_void_p)
        self._call("to_device", pointer, source, ctypes.c_size_t(array.nbytes))
        return pointer

    def _open(self) -> ctypes.CDLL:
        for name in self._names["libraries"]:
            try:
                return ctypes.CDLL(name)
            except OSError:
                continue
        raise RuntimeError(f"no GPU driver: looked for {', '.join(self._names['libraries'])}")

    def _call(self, what: str, *arguments: Any) -> None:
        name = self._names[what]
        self._check(name, getattr(self._library, name)(*arguments))

    @staticmethod
    def _check(name: str, status: int) -> None:
        if status:
            raise RuntimeError(f"{name} failed with status {status}")


def main(arguments: list[str]) -> None:
    """The command: see the top of the file."""
    folder = Path(__file__).parent
    kernels = {k["name"]: k for k in json.loads((folder / "manifest.json").read_text())["kernels"]}
    if not arguments:
        for kernel in kernels.values():
            operands = ", ".join(
                f"{a['name']}: {a['dtype']}{a['shape']}" for a in kernel["arguments"]
            )
            print(f"{kernel['name']}({operands}), grid {kernel['grid']}, block {kernel['block']}")
        return
    name, *files = arguments
    wanted = kernels[name]["arguments"]
    arrays = [np.load(file) for file in files]
    arrays += [np.zeros(a["shape"], _numpy_type(a["dtype"])) for a in wanted[len(files) :]]
    Device(folder).launch(name, *arrays)
    for argument, array in zip(wanted, arrays, strict=True):
        np.save(f"{name}_{argument['name']}.npy", array)


if __name__ == "__main__":
    main(sys.argv[1:])
