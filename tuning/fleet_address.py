"""Where a fleet is, and what one must know to use it."""

import contextlib
import ipaddress

from tvm_iree_ext.errors import TuningError

HOST = "127.0.0.1"
PORT = 9190
DEFAULT_KEY = "tvm_iree_ext"


def address(text: str) -> tuple[str, int]:
    """``HOST:PORT``, or a host with the usual port.

    Raises:
        TuningError: for what is neither.
    """
    host, _, port = text.partition(":")
    if not host or (port and not (port.isdecimal() and 0 < int(port) < 1 << 16)):
        raise TuningError(f"{text!r} is no address of a tracker; expected HOST:PORT")
    return host, int(port or PORT)


def check_key(host: str, key: str) -> None:
    """Make sure that a server that others can reach has a key of its own.

    Raises:
        TuningError: where it has not.
    """
    if key == DEFAULT_KEY and not _is_loopback(host):
        raise TuningError(
            f"a server at {host} runs what anybody sends who knows its key: give it one by --key,"
            f" and the same to 'tune'; without one it listens at {HOST} alone"
        )


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
