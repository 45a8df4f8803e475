"""The process that parses: one text after another, each in a context and within limits of its own.

It imports IREE's bindings and not TVM, and ends when the socket that it reads from is closed.
"""

import contextlib
import gc
import signal
import socket
import sys
from typing import Any

from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.reading.wire import Line
from tvm_iree_ext.processes import limits

_SOURCE = "-"  # what the bindings call a text that they parse
_MOST_DIAGNOSTICS = 20


def main(descriptor: int) -> None:
    """Serve the reader at the other end of a socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the reader's
    limits.no_core_file()
    line = Line(socket.socket(fileno=descriptor))
    try:
        from iree.compiler import ir  # noqa: F401
    except ImportError as error:
        line.send(("missing", str(error)))
        return
    # Deep pickles: what is nested as deep as it may be.
    sys.setrecursionlimit(20_000)
    line.send(("ready", ""))
    with contextlib.suppress(EOFError):
        while True:
            text, memory, seconds = line.receive()
            line.send(_answer(bytes(text), memory, seconds))
            gc.collect()


def _answer(text: bytes, memory: int, seconds: int) -> tuple[str, Any]:
    limits.limit_memory(memory)
    limits.limit_seconds(seconds)
    try:
        return _parse(text)
    except MemoryError:
        return "failed", f"it takes more than the {memory / 1e6:.0f} MB that it may"
    finally:
        limits.lift_memory_limit()


def _parse(text: bytes) -> tuple[str, Any]:
    """Parse a text; one that is refused again with its older spellings brought up to date."""
    from tvm_iree_ext.mlir.reading.older_spellings import up_to_date

    answer = _parse_as_it_is(text)
    if answer[0] != "refused" or text.startswith(form.BYTECODE):
        return answer
    today = up_to_date(text)
    if today.refusals:
        return "refused", today.refusals
    return answer if today.text is None else _parse_as_it_is(today.text)


def _parse_as_it_is(text: bytes) -> tuple[str, Any]:
    from iree.compiler import ir

    from tvm_iree_ext.mlir.reading.translate import TooDeep, Translator, place_of

    context = ir.Context()
    context.enable_multithreading(False)
    try:
        module = ir.Module.parse(text, context)
    except ir.MLIRError as error:
        said = []
        for diagnostic in error.error_diagnostics[:_MOST_DIAGNOSTICS]:
            said.append((place_of(diagnostic.location, _SOURCE), diagnostic.message))
        return "refused", said or [(form.Location(0, 0), str(error))]
    try:
        with context, ir.Location.unknown():
            return "module", Translator(_SOURCE).module(module)
    except TooDeep as error:
        return "failed", str(error)
