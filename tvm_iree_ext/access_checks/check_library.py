"""The functions that checked kernels call, compiled once a process, and what they found."""

import ctypes
import functools
import subprocess
from pathlib import Path

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.linker import find_linker

INDEX = "tvm_iree_ext_index"
"""The function that checks ``(index, span, extent, access)`` and gives an index to go on with."""

NOISE = "tvm_iree_ext_noise"
"""The function that fills memory: ``(address, bytes)``."""

_accesses: list[str] = []  # what was checked in this process, by number
_numbers: dict[str, int] = {}


def number_of(access: str) -> int:
    """The number by which a kernel names an access."""
    if access not in _numbers:
        _numbers[access] = len(_accesses)
        _accesses.append(access)
    return _numbers[access]


def access_of(number: int) -> str:
    """The access of a number."""
    return _accesses[number]


@functools.cache
def load() -> ctypes.CDLL:
    """Load the functions, such that libraries that are loaded later find them.

    Raises:
        BuildError: where there is no C compiler.
    """
    source = Path(__file__).with_name("checks.c")
    with scratch() as place:
        library = place / "checks.so"
        command = [*find_linker(), "-O1", "-o", str(library), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"{command[0]} cannot compile {source.name}: {done.stderr.strip()}")
        return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def begin(seed: int, *, keep: bool = False) -> None:
    """Forget what was found unless it is kept; the noise of what follows depends on ``seed``."""
    ctypes.c_uint64.in_dll(load(), "tvm_iree_ext_seed").value = seed * 0xD1B54A32D192ED03 % 2**64
    if not keep:
        _finding()[0] = 0


def finding() -> str:
    """The first access outside of a buffer since :func:`begin`; empty where there was none."""
    is_there, access, index, extent = _finding()
    if not is_there:
        return ""
    return f"index {index} is outside of 0..{extent - 1} in {access_of(access)}"


def _finding() -> "ctypes.Array[ctypes.c_int64]":
    return (ctypes.c_int64 * 4).in_dll(load(), "tvm_iree_ext_finding")
