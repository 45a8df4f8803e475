"""From a framework's dialect to those that are imported: IREE's compiler, a process with limits."""

import signal
import subprocess
from pathlib import Path

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.mlir.reading import reader
from tvm_iree_ext.processes import limits

NOT_LOWERED = "IREE does not lower it:"
_FLAGS = (
    "--compile-to=input",
    "--iree-input-demote-f64-to-f32=false",
    "--iree-input-demote-i64-to-i32=false",
    "--mlir-print-debuginfo",
    "--mlir-print-op-on-diagnostic=false",
)
_MOST_LINES = 20  # of what the compiler complains
_REFUSED = 1  # the exit status after a message on the program
_NO_MEMORY = (b"out of memory", b"bad_alloc", b"failed to map segment", b"allocate memory")


def lower(path: Path, dialect: str, name: str | None = None) -> bytes:
    """Bring a file of a framework's dialect to the dialects that are imported.

    ``name`` stands for the file in messages and in the places of operations.

    Raises:
        MlirError: for what IREE does not lower, with its own messages; for what takes the compiler
            beyond :data:`reader.COMPILER_LIMIT_S` or the memory that it may take; and where IREE's
            compiler is not installed.
    """
    try:
        from iree.compiler.tools.binaries import find_tool
    except ImportError as error:
        raise MlirError(
            f"IREE's compiler is not installed: {error}; pip install 'tvm-iree-ext[mlir]'"
        ) from None
    result = path.with_name("lowered.mlir")
    command = [find_tool("iree-compile"), path, f"--iree-input-type={dialect}", *_FLAGS]
    memory = reader.COMPILER_MEMORY + reader.MEMORY_PER_BYTE * path.stat().st_size
    code, said = _run([*map(str, command), f"-o={result}"], memory)
    if code not in (0, _REFUSED) and any(words in said for words in _NO_MEMORY):
        raise MlirError(f"IREE's compiler takes more than the {memory / 1e6:.0f} MB that it may")
    if name is not None:
        said = said.replace(bytes(path), name.encode("utf-8", "replace"))
    if code:
        lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
        ended = [f"it was ended by {signal.Signals(-code).name}"] if code < 0 else []
        raise MlirError("\n".join([NOT_LOWERED, *lines[:_MOST_LINES], *ended]))
    lowered = result.read_bytes()
    if name is None:
        return lowered
    shown = name.replace("\\", "/").replace('"', "'").encode("utf-8", "replace")
    return lowered.replace(b'loc("%b":' % bytes(path), b'loc("%b":' % shown)


def _run(command: list[str], memory: int) -> tuple[int, bytes]:
    """The exit status of a command, and what it says on stderr."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    with process:
        try:
            limits.limit_child(process.pid, memory, reader.COMPILER_LIMIT_S)
            said = process.communicate(timeout=reader.COMPILER_LIMIT_S)[1]
        except subprocess.TimeoutExpired:
            raise MlirError(
                f"IREE's compiler takes more than {reader.COMPILER_LIMIT_S:g} s"
            ) from None
        finally:
            process.kill()
    return process.returncode, said
