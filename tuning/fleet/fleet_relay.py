"""Passes on what is said over a proven connection, as a process: ``fleet_relay.py LISTENER FAR``.

Both are descriptors.  It takes the first connection of the one to the other, and ends with either.
TVM's client holds Python's lock while it waits for an answer: no thread of its process could do it.
It needs the standard library alone, and starts quickly.
"""

import contextlib
import os
import socket
import sys
import threading

_PATIENCE_S = 10.0
_PIECE = 1 << 16


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes, until either end closes; then both do."""
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def main(listening: int, connected: int) -> None:
    """Return at once where all is set up; the relay is a child that nobody waits for."""
    if os.fork():
        return
    with socket.socket(fileno=listening) as listener, socket.socket(fileno=connected) as far:
        listener.settimeout(_PATIENCE_S)
        near, _ = listener.accept()
        listener.close()
        for end in (near, far):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_copy, args=(far, near), daemon=True).start()
        _copy(near, far)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
