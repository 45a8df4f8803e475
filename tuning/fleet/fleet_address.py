"""Address of a fleet, and what one must know to use it."""

import contextlib
import ipaddress

from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.tuning.fleet.fleet_secret import VARIABLE, secret

HOST = "127.0.0.1"
PORT = 9190
DEFAULT_KEY = "tvm_iree_ext"  # of devices; it says which are alike, and keeps nobody out


def address(text: str) -> tuple[str, int]:
    """``HOST:PORT``, or a host with the usual port.

    Raises:
        TuningError: for what is neither.
    """
    host, _, port = text.partition(":")
    if not host or (port and not (port.isdecimal() and 0 < int(port) < 1 << 16)):
        raise TuningError(f"{text!r} is no address of a tracker; expected HOST:PORT")
    return host, int(port or PORT)


def check_host(host: str) -> None:
    """Make sure that what others can reach has a secret that they must prove.

    Raises:
        TuningError: where it has none, or one that cannot be used.
    """
    if secret() is None and not _is_loopback(host):
        raise TuningError(
            f"a fleet at {host} runs what anybody sends: let {VARIABLE} name a file with a secret,"
            f" there and where 'tune' runs; without one it listens at {HOST} alone"
        )


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
