"""A driver that fails, for each process once, at a call and with a status that a test chooses.

From a fault of the GPU on (700 and more) each later call of that process fails likewise; of other
statuses the one call does.
"""

import re
import shutil
import socket
import struct
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from native_compiler import compile_native

HANGS = -1
OUT_OF_MEMORY, LOST_DEVICE, ILLEGAL_ADDRESS, LAUNCH_FAILED = 2, 46, 700, 719
SAID = {
    OUT_OF_MEMORY: "OUT_OF_MEMORY", LOST_DEVICE: "DEVICE_UNAVAILABLE",
    ILLEGAL_ADDRESS: "ILLEGAL_ADDRESS", LAUNCH_FAILED: "LAUNCH_FAILED",
}  # fmt: skip
LASTING = (LOST_DEVICE, ILLEGAL_ADDRESS, LAUNCH_FAILED)
"""Statuses that a process does not get rid of."""


@dataclass(frozen=True)
class Fault:
    """The first call of a function fails."""

    name: str
    status: int


def message_of(fault):
    """What the one who met it says."""
    said = f"status {fault.status}, {SAID[fault.status]}: what it says"
    return f"DriverError: {fault.name} failed with {said}"


class FaultyDriver:
    """The server.

    Each process that opens the driver takes the next of ``faults`` (None: it has none); ``met`` are
    those that came to pass, ``called`` what each process has called.
    """

    def __init__(self, place):
        self.faults, self.met, self.called = [], [], []
        self._lock = threading.Lock()
        self.address = place / "faults"
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self.address))
        self._socket.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._socket.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with self._lock:
            fault = self.faults.pop(0) if self.faults else None
            called = []
            self.called.append(called)
        lasts = False
        with connection, connection.makefile("r") as stream:
            for line in stream:
                called.append(line.strip())
                fails = fault is not None and (lasts or line.strip() == fault.name)
                if fails and not lasts:
                    self.met.append(fault)
                connection.sendall(struct.pack("i", fault.status if fails else 0))
                if fails:
                    lasts = fault.status in LASTING
                    fault = fault if lasts else None


@pytest.fixture(scope="session")
def faulty_library(tmp_path_factory):
    """A driver with all functions that the simulated one has."""
    here, place = Path(__file__).parent, tmp_path_factory.mktemp("faulty")
    source = (here / "fake_gpu.c").read_text()
    names = set(re.findall(r"^int ((?:hip|cu)\w+)\(", source, re.MULTILINE))
    both = re.findall(r"int vendor##(\w+)\(", source)
    names |= {f"{vendor}{name}" for name in both for vendor in ("hip", "cu")}
    (place / "functions").write_text("".join(f"FORWARD({name})\n" for name in sorted(names)))
    compile_native(
        "c", "-shared", "-fPIC", "-w", f'-DFUNCTIONS="{place / "functions"}"',
        here / "faulty_driver.c", "-ldl", "-o", place / "driver.so",
    )  # fmt: skip
    return place / "driver.so"


@pytest.fixture
def faulty(gpu, faulty_library):
    """The server, before the simulated GPU's driver, for processes with that one's environment."""
    (gpu.place / "faultless.so").write_bytes((gpu.place / "libcuda.so.1").read_bytes())
    for name in ("libamdhip64.so", "libcuda.so.1"):
        shutil.copy(faulty_library, gpu.place / name)
    server = FaultyDriver(gpu.place)
    gpu.environment |= {
        "FAULTS": str(server.address), "FAULTLESS": str(gpu.place / "faultless.so"),
    }  # fmt: skip
    yield server
    server.close()
