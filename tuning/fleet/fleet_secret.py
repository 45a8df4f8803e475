"""A secret that both ends of a fleet's connections prove to know, before TVM's RPC begins.

Who connects and who listens send a nonce each, and answer the other's by HMAC.  So nobody without
the secret is heard by a tracker or a server, and nobody can stand for one.  Nothing is encrypted:
who sits in between and can change what is sent can take over a connection that has been proven.
"""

import contextlib
import hashlib
import hmac
import os
import queue
import secrets
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tvm_iree_ext.base import limited_reading
from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.tuning.fleet import fleet_relay

VARIABLE = "TVM_IREE_EXT_FLEET_SECRET"  # the name of a file, never the secret: others see it in ps
_GREETING = b"tvm_iree_ext.fleet 1\n"
_NONCE_BYTES = 32
_LEAST_BYTES, _MOST_BYTES = 16, 4096
_PROOF_S = 10.0

Address = tuple[str, int]


def secret() -> bytes | None:
    """Read the secret in the file that ``$TVM_IREE_EXT_FLEET_SECRET`` names; None without a name.

    Raises:
        TuningError: for a file that cannot be read, that others can read, or that holds too little.
    """
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    try:
        found = limited_reading.content(name, _MOST_BYTES).strip()
        mode = Path(name).stat().st_mode
    except OSError as error:
        raise TuningError(f"{VARIABLE}: cannot read {name}: {error.strerror or error}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise TuningError(f"{VARIABLE}: others may read {name}; give it mode 600")
    if len(found) < _LEAST_BYTES:
        raise TuningError(
            f"{VARIABLE}: {name} holds {len(found)} bytes; expected at least {_LEAST_BYTES}, as of"
            " 'openssl rand -hex 32'"
        )
    return found


def prove(connection: socket.socket, known: bytes, *, listens: bool) -> None:
    """Prove the secret to the other end, and have it prove it.

    Raises:
        OSError: where it does not; ConnectionRefusedError where it came with something else.
    """
    before = connection.gettimeout()
    connection.settimeout(_PROOF_S)
    mine = secrets.token_bytes(_NONCE_BYTES)
    connection.sendall(_GREETING + mine)
    if _received(connection, len(_GREETING)) != _GREETING:
        raise ConnectionRefusedError("the other end was given no secret")
    theirs = _received(connection, _NONCE_BYTES)
    # The roles differ: an answer that is sent back is none.
    connection.sendall(_proof(known, listens, mine, theirs))
    expected = _proof(known, not listens, theirs, mine)
    if not hmac.compare_digest(_received(connection, len(expected)), expected):
        raise ConnectionRefusedError("the other end has another secret")
    connection.settimeout(before)


def _proof(known: bytes, listens: bool, own: bytes, other: bytes) -> bytes:
    role = b"listens" if listens else b"connects"
    return hmac.new(known, _GREETING + role + own + other, hashlib.sha256).digest()


def _received(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionResetError("the other end closed the connection")
        data += piece
    return data


def connector() -> Callable[..., socket.socket]:
    """A function that connects to a tracker as TVM does, and proves the secret where there is one.

    It raises OSError or RuntimeError where there is nothing, or it does not prove the secret.
    """
    from tvm.rpc import base

    connect = base.connect_with_retry
    return lambda *given, **named: _proven(connect(*given, **named))


def _proven(connection: socket.socket) -> socket.socket:
    if known := secret():
        try:
            prove(connection, known, listens=False)
        except BaseException:
            connection.close()
            raise
    return connection


def relayed(address: Address) -> Address:
    """An address on loopback whose first connection goes on to a proven one; else ``address``.

    TVM's client connects by itself, and can prove nothing.
    """
    if secret() is None:
        return address
    with (
        _proven(socket.create_connection(address, _PROOF_S)) as far,
        socket.create_server(("127.0.0.1", 0), backlog=1) as listener,
    ):
        descriptors = listener.fileno(), far.fileno()
        command = [sys.executable, "-I", "-S", fleet_relay.__file__, *map(str, descriptors)]
        subprocess.run(command, check=True, pass_fds=descriptors, stdin=subprocess.DEVNULL)
        return listener.getsockname()[:2]


def listening(host: str, ports: range) -> tuple[Any, int]:
    """A socket that listens at the first port that is free, and the port.

    Where there is a secret, it accepts those alone who prove it.

    Raises:
        OSError: where no port is free.
    """
    known = secret()
    family = socket.getaddrinfo(host, ports[0], type=socket.SOCK_STREAM)[0][0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for port in ports:
        try:
            listener.bind((host, port))
        except OSError:
            if port == ports[-1]:
                listener.close()
                raise
            continue
        break
    listener.listen()
    return (Gate(listener, known) if known else listener), port


class Gate:
    """A listening socket for TVM that hands on only connections that are proven.

    Each is proven by a thread of its own, so that a stranger who says nothing delays nobody.
    """

    def __init__(self, listener: socket.socket, known: bytes) -> None:
        self._listener = listener
        self._known = known
        self._proven: queue.SimpleQueue[tuple[socket.socket, Any]] = queue.SimpleQueue()
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        threading.Thread(target=self._listen, daemon=True).start()

    def fileno(self) -> int:
        """File descriptor, readable when there is a connection to be accepted."""
        return self._woken.fileno()

    def setblocking(self, flag: bool) -> None:
        """It never blocks."""

    def accept(self) -> tuple[socket.socket, Any]:
        """A proven connection and its address; BlockingIOError where there is none."""
        self._woken.recv(1)
        return self._proven.get_nowait()

    def close(self) -> None:
        """Listen no longer."""
        for one in (self._listener, self._woken, self._wake):
            one.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                connection, address = self._listener.accept()
                threading.Thread(
                    target=self._admit, args=(connection, address), daemon=True
                ).start()

    def _admit(self, connection: socket.socket, address: Any) -> None:
        try:
            prove(connection, self._known, listens=True)
            self._proven.put((connection, address))
            self._wake.send(b"\0")
        except OSError:
            connection.close()
