"""Memory that one call of an exported kernel takes beyond its operands and results.

It is measured in a process of its own, which loads the kernel, fills the operands, and calls it
once.  What that call adds to the peak is all that it took: workspaces, thread stacks, code that is
paged in.
"""

import contextlib
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.base.signature import Operand
from tvm_iree_ext.runtime import tvm_runtime
from tvm_iree_ext.runtime.kernel import load

_CHUNK = 1 << 16


def extra_bytes(folder: Path, threads: int) -> int:
    """What a first call takes at its peak, all threads together.

    Raises:
        BuildError: where the process that measures fails.
    """
    code = f"import {__name__} as here; here.main()"
    command = [sys.executable, "-c", code, str(folder), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise BuildError(f"cannot measure the memory of {folder}: {' '.join(last)}")
    return int(done.stdout)


def peak_bytes() -> int:
    """The greatest size in memory that this process has had since :func:`reset_peak`."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        # Not less than that of the parent process.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def reset_peak() -> None:
    """Let the peak be the present size.

    Under a kernel that cannot, as in some sandboxes, it stays; operands larger than what imports
    took make that the same.
    """
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def _filled(operand: Operand) -> Any:
    """Normal numbers, or ones; made part by part, so that the peak is the present size."""
    if operand.role == "scalar":
        return 1
    shape = [extent for extent in operand.shape if isinstance(extent, int)]
    if len(shape) != len(operand.shape):
        raise BuildError(f"{operand} has no size yet; the memory of a call depends on it")
    array = np.ones(shape, dtypes.numpy_dtype(operand.dtype))
    if operand.dtype in dtypes.FLOATS and operand.role == "input":
        rng, flat = np.random.default_rng(0), array.reshape(-1)
        for first in range(0, flat.size, _CHUNK):
            part = flat[first : first + _CHUNK]
            part[:] = rng.standard_normal(part.size, np.float32)
    return array


def main() -> None:
    """Print what the first call of the kernel in a folder adds to the peak, with some threads."""
    folder, threads = sys.argv[1:]
    kernel = load(folder)
    tvm_runtime.ensure_loaded()
    arguments = [_filled(operand) for operand in kernel.signature.arguments]
    results = tuple(_filled(operand) for operand in kernel.signature.results)
    with tvm_runtime.threads(int(threads)):
        reset_peak()
        before = peak_bytes()
        kernel(*arguments, out=results)
        print(peak_bytes() - before)
