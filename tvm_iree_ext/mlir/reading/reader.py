"""Text or file of MLIR -> :class:`tvm_iree_ext.mlir.reading.form.Module`.

IREE's bindings parse and verify it, in a process of its own with limits: text that crashes, hangs
or fills the parser is an error here.  The process is kept for the next text; it starts in about
half a second, and a context in it in 15 ms.
"""

import atexit
import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from typing import Any

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.base.limited_reading import opened
from tvm_iree_ext.base.suggestions import near_file
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.reading.wire import Late, Line

LIMIT_S = 60.0
LIMIT_BYTES = 1 << 30
"""Of the text.  Weights of a model are in it, two characters a byte."""

_START_S = 60.0
_FILES = (".mlir", ".mlirbc")
_CHILD = (
    "import sys; sys.path[:] = {path!r}; from tvm_iree_ext.mlir.reading.reader_process import main;"
    " main({descriptor})"
)
# For a text of so many bytes, the parser may take so much memory, and what comes of it as much.
_BASE_MEMORY, MEMORY_PER_BYTE = 2 << 30, 40
COMPILER_MEMORY, COMPILER_LIMIT_S = 4 << 30, 600.0
"""Of IREE's compiler, before the text: it has a thread, and a stack, for each core."""


_PART_BYTES = 1 << 24  # of a file that is read at once


def read(
    source: str | bytes | os.PathLike[str],
    *,
    limit_s: float = LIMIT_S,
    limit_bytes: int = LIMIT_BYTES,
) -> form.Module:
    """Parse and verify MLIR.

    Args:
        source: a path, or a ``str`` that ends in ``.mlir`` or ``.mlirbc``: a file of MLIR's text
            or bytecode; any other ``str`` or ``bytes``: the text itself.
        limit_s: how long parsing may take.
        limit_bytes: how long the text may be.

    Raises:
        MlirError: for a file that cannot be read, text that IREE refuses (with its own messages,
            each behind ``FILE:LINE:COLUMN``), one beyond a limit, one that ends the parser, and
            where IREE's bindings are not installed.
    """
    name, text = name_of(source), text_of(source, limit_bytes)
    if b"\0" in text and not text.startswith(form.BYTECODE):
        line = text[: text.index(b"\0")].count(b"\n") + 1
        raise MlirError(f"{name}:{line}: a null byte; MLIR's text has none")
    memory = _BASE_MEMORY + MEMORY_PER_BYTE * len(text)
    with _borrowed() as process:
        kind, said = process.ask((text, memory, max(1, int(limit_s))), name, limit_s)
    if kind == "module" and isinstance(said, form.Module):
        return said
    if kind == "refused":
        raise MlirError("\n".join(f"{_at(name, where)}: {what.strip()}" for where, what in said))
    raise MlirError(f"{name}: {said}")


def name_of(source: str | bytes | os.PathLike[str]) -> str:
    """What a source is called in messages."""
    return str(source) if _is_file(source) else "<text>"


def _is_file(source: Any) -> bool:
    if isinstance(source, str):
        return source.endswith(_FILES)
    return not isinstance(source, bytes | bytearray)


def text_of(source: str | bytes | os.PathLike[str], limit_bytes: int = LIMIT_BYTES) -> bytes:
    """The bytes of a source, or of the file that it names.

    Raises:
        MlirError: for a file that cannot be read, and more bytes than the limit.
    """
    name = name_of(source)
    if isinstance(source, os.PathLike) or _is_file(source):
        text = _file(name, limit_bytes)
    elif isinstance(source, str):
        text = source.encode("utf-8", "surrogatepass")
    else:
        text = bytes(source)
    if len(text) > limit_bytes:
        raise MlirError(f"{name}: more than the limit of {limit_bytes} bytes; raise limit_bytes")
    return text


def _file(name: str, limit_bytes: int) -> bytes:
    try:
        with opened(name) as file:
            parts, left = [], limit_bytes + 1  # by parts: a read takes memory for all it may give
            while left and (part := file.read(min(left, _PART_BYTES))):
                parts.append(part)
                left -= len(part)
            return b"".join(parts)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        hint = near_file(name) if isinstance(error, FileNotFoundError) else ""
        raise MlirError(f"{name}: {getattr(error, 'strerror', None) or error}{hint}") from None


def _at(name: str, location: form.Location) -> str:
    if location.file:
        return f"{name}: {location}"
    return f"{name}:{location}" if location.line else name


class _Process:
    """A process that parses, and our end of the socket to it."""

    def __init__(self) -> None:
        if importlib.util.find_spec("iree") is None:
            raise MlirError(
                "IREE's bindings are not installed, which MLIR is read with;"
                " pip install 'tvm-iree-ext[mlir]'"
            )
        ours, theirs = socket.socketpair()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process runs
        path = [os.path.abspath(entry) for entry in sys.path]
        with theirs:
            descriptor = theirs.fileno()
            code = _CHILD.format(path=path, descriptor=descriptor)
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                pass_fds=(descriptor,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
            )
        self._line = Line(ours)
        self.owner = os.getpid()
        self._is_ready = False

    def _wait_until_ready(self) -> None:
        kind, said = self._receive("the parser", _START_S)
        self._is_ready = True
        if kind != "ready":
            self.stop()
            raise MlirError(f"IREE's bindings do not load: {said}")

    def ask(self, question: Any, name: str, limit_s: float) -> tuple[str, Any]:
        """Send a question; the answer."""
        if not self._is_ready:
            self._wait_until_ready()
        self._line.within(limit_s)
        with contextlib.suppress(EOFError, Late):  # the process has gone: receiving says how
            self._line.send(question)
        return self._receive(name, limit_s)

    def _receive(self, name: str, limit_s: float) -> tuple[str, Any]:
        self._line.within(limit_s)
        try:
            kind, said = self._line.receive()
        except Late:
            self.stop()
            raise MlirError(f"{name}: parsing takes more than {limit_s:g} s") from None
        except EOFError:
            how = self._how_it_ended()
            self.stop()
            raise MlirError(f"{name}: IREE's parser {how}") from None
        except BaseException:  # Ctrl-C: the answer to this question would be the next one's
            self.stop()
            raise
        return kind, said

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "sent what cannot be understood"
        self._said.seek(0)
        said = self._said.read().decode("utf-8", "replace").strip().splitlines()
        last = f": {said[-1][:300]}" if said else ""
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}{last}"
        return f"ended with status {code}{last}"

    def stop(self) -> None:
        """End the process."""
        self._line.close()
        if self.owner == os.getpid():
            self._process.kill()
            self._process.wait()
        self._said.close()

    def is_alive(self) -> bool:
        """Whether it is this process's own, and runs."""
        return self.owner == os.getpid() and self._process.poll() is None


_idle: list[_Process] = []
_lock = threading.Lock()


def start_early() -> None:
    """Start a process for the next text, where none is idle, and do not wait for it."""
    with _lock:
        if not any(process.is_alive() for process in _idle):
            with contextlib.suppress(MlirError, OSError):  # who reads is told
                _idle.append(_Process())


@contextlib.contextmanager
def _borrowed() -> Any:
    """A process for one question: an idle one, or a new one where all are busy."""
    process = None
    with _lock:
        while _idle and process is None:
            candidate = _idle.pop()
            process = candidate if candidate.is_alive() else None
    process = process or _Process()
    try:
        yield process
    finally:
        if process.is_alive():
            with _lock:
                _idle.append(process)


@atexit.register
def stop() -> None:
    """End the processes that are idle; the next text starts a new one."""
    with _lock:
        while _idle:
            _idle.pop().stop()
