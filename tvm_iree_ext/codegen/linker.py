"""From an IRModule to a shared library, for this machine or another.

The library is linked without start files, and its only import beside the C and math libraries is
``libtvm_ffi``; so any linker that knows ELF will do for another machine, and none needs its libc.
"""

import importlib.util
import logging
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.target import Target

import tvm_iree_ext.base.ffi_errors  # noqa: F401 - errors keep their class
from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.code_parts import part_count, write_objects
from tvm_iree_ext.codegen.serial_runtime import serial_runtime
from tvm_iree_ext.runtime.machine import is_this_machine, library_machine
from tvm_iree_ext.targets.host import vector_extensions

# Bound when loaded, not when called: a missing function is then an error, not the process's end.
_COMPILER_FLAGS = ("-shared", "-fPIC", "-nostartfiles", "-Wl,-z,now", "-Wl,--as-needed")
_LINKER_FLAGS = ("-shared", "-z", "now")
_SECTION_EXECUTABLE = 4  # SHF_EXECINSTR

_LOG = logging.getLogger(__name__)


def compile_library(
    mod: tvm.IRModule, target: Target, path: Path, tir_pipeline: str | None = None
) -> dict[str, Any]:
    """Compile ``mod`` for a CPU ``target`` into the shared library ``path``.

    A target whose ``mtriple`` names another architecture is linked by a cross linker.

    Returns:
        What a manifest says under ``resources``: ``library_bytes``, ``code_bytes``,
        ``needs_runtime`` (whether it calls ``libtvm_runtime``, without which it works by one
        thread), ``cpu_features`` (the vector extensions that the target has, and that a machine
        must have).

    Raises:
        BuildError: where TVM refuses the module, no linker is found, or the linker fails.
    """
    linker = find_linker(str(target.attrs.get("mtriple", "")))
    names = ", ".join(variable.name_hint for variable in mod.get_global_vars())
    with scratch() as folder:
        try:
            if tir_pipeline and part_count(mod, target) > 1:
                objects = write_objects(mod, target, tir_pipeline, folder)
            else:
                objects = [f"{folder}/kernel.o"]
                executable = tvm.compile(mod, target=target, tir_pipeline=tir_pipeline)
                executable.mod.write_to_file(objects[0])
        except (RuntimeError, ValueError, TypeError) as error:  # TVM's checks raise all three
            raise BuildError(f"TVM cannot compile {names} for {target}: {error}") from error
        codes = (Path(one).read_bytes() for one in objects)
        if (runtime := serial_runtime(codes, target)) is not None:
            objects.append(f"{folder}/runtime.o")
            Path(objects[-1]).write_bytes(runtime)
        _link(linker, str(path), objects)
    library = path.read_bytes()
    return {
        "library_bytes": len(library),
        "code_bytes": code_bytes(library),
        "needs_runtime": b"__TVMBackend" in library,
        "cpu_features": vector_extensions(target),
    }


def find_linker(triple: str = "") -> list[str]:
    """The command that links objects for ``triple`` (this machine's when empty), up to ``-o``.

    For this machine ``$CC``, ``cc``, ``gcc``, ``clang``; for another Linux machine its GCC, such
    as ``aarch64-linux-gnu-gcc``; for both ``ld.lld``, also that of the ``ziglang`` package.

    Raises:
        BuildError: where there is none, naming what to install.
    """
    arch = triple.split("-")[0]
    if is_this_machine(triple):
        what, package = "this machine", "gcc"
        compilers = [os.environ.get("CC") or "cc", "gcc", "clang"]
    elif "linux" in triple:
        what, package = triple, f"gcc-{arch.replace('_', '-')}-linux-gnu"
        compilers = [f"{triple}-gcc", f"{arch}-linux-gnu-gcc"]
    else:
        raise BuildError(f"cannot link for {triple}: cross-building is for Linux targets")
    for compiler in compilers:
        command = shlex.split(compiler)  # CC may be "ccache gcc"
        if found := shutil.which(command[0]):
            return [found, *command[1:], *_COMPILER_FLAGS]
    if lld := _lld():
        return [*lld, *_LINKER_FLAGS]
    raise BuildError(
        f"no linker for {what}: looked for {', '.join(compilers)}, ld.lld and"
        f" ziglang; install one: pip install ziglang, or apt install {package}"
    )


def find_lld() -> list[str]:
    """The command of an ``ld.lld``: on the PATH, or that of the ``ziglang`` package.

    Raises:
        BuildError: where there is none, naming what to install.
    """
    if lld := _lld():
        return lld
    raise BuildError("no ld.lld; install one: pip install ziglang, or apt install lld")


def _lld() -> list[str]:
    if found := shutil.which("ld.lld"):
        return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "ld.lld"]
    return []


def _link(linker: Sequence[str], output: str, objects: Sequence[str]) -> None:
    libraries = ["-lm"] if "-nostartfiles" in linker else []
    command = [*linker, "-o", output, *objects, *libraries]
    _LOG.debug("%s", shlex.join(command))
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise BuildError(f"{linker[0]} failed with status {done.returncode}: {said}")


def code_bytes(library: bytes) -> int:
    """Bytes of machine code in a 64-bit ELF library; 0 in other formats."""
    if library_machine(library) is None or library[4] != 2:
        return 0
    order = "little" if library[5] == 1 else "big"

    def number(offset: int, count: int) -> int:
        return int.from_bytes(library[offset : offset + count], order)  # type: ignore[arg-type]

    table, size, count = number(40, 8), number(58, 2), number(60, 2)
    headers = range(table, table + size * count, size)
    return sum(number(h + 32, 8) for h in headers if number(h + 8, 8) & _SECTION_EXECUTABLE)
