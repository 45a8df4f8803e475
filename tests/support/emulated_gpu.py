"""A GPU's driver whose launches execute machine code: the code that a process has loaded."""

import struct
import tempfile
import threading
from pathlib import Path

import pytest
from fake_gpu import FakeGpu

from tvm_iree_ext.emulator.driver import EmulatedDevice, EmulatedLaunch
from tvm_iree_ext.emulator.runs.emulated_devices import LOADERS

_OTHER_CHIP = 209


class EmulatedGpu(FakeGpu):
    """The server: :class:`FakeGpu` for code objects and PTX in place of lowered functions."""

    def __init__(self, place, library, kind, chip):
        super().__init__(place, library)
        features = ":sramecc+:xnack-" if kind == "rocm" else ""
        (place / "chip").write_text(f"{chip}{features}")
        if kind == "cuda":
            number = chip.removeprefix("sm_")
            self.capability = (int(number[:-1]), int(number[-1]))
        self.launched = 0
        self._loader, self._kind, self._chip = LOADERS[kind], kind, chip
        self._loaded = threading.local()  # a thread serves one process

    def _answer(self, what, content):
        if what == "load":
            self._loaded.device = EmulatedDevice(self._kind, self._chip)
            self._loaded.kernels = self._loader(content, self._loaded.device)
            return 0 if self._loaded.kernels is not None else _OTHER_CHIP
        if what == "function":
            return 0 if content.decode() in self._loaded.kernels else -1
        if what == "parameters":
            self._loaded.name = content.decode()
            return len(self._sizes())
        if what == "bytes":
            return self._sizes()[struct.unpack("q", content)[0]]
        return super()._answer(what, content)

    def _sizes(self):
        return self._loaded.kernels[self._loaded.name].argument_sizes

    def _launch(self, content):
        base, gx, gy, gz, bx, by, bz, shared, _stream = struct.unpack("=Q7IQ", content[:44])
        device, at = self._loaded.device, 44
        copies = {}  # emulated addresses, by what is held
        arguments = []
        for size in self._sizes():
            raw, at = content[at : at + size], at + size
            if size == 8:
                raw = self._translated(struct.unpack("Q", raw)[0] - base, raw, copies, device)
            arguments.append(raw)
        name = self._loaded.name
        launch = EmulatedLaunch(device, name, (gx, gy, gz), (bx, by, bz), shared, arguments)
        self._loaded.kernels[name].launch(launch)
        device.memory.findings.check(name)
        self.launched += 1
        for start, address in copies.items():
            size = self.held[start]
            self.memory[start : start + size] = device.memory.read(address, size)
            device.memory.free(address)

    def _translated(self, place, raw, copies, device):
        """An address as the emulator has it; numbers are left as they are."""
        start = max((one for one in self.held if one <= place), default=None)
        if start is None or place >= start + self.held[start]:
            return raw
        if start not in copies:
            size = self.held[start]
            copies[start] = device.memory.allocate(size)
            device.memory.write(copies[start], self.memory[start : start + size])
        return struct.pack("Q", copies[start] + place - start)


@pytest.fixture
def emulated_gpu(driver_library):
    """``emulated_gpu(kind, chip)``: the server."""
    servers = []
    with tempfile.TemporaryDirectory(prefix="gpu-") as place:

        def start(kind, chip):
            own = Path(place, f"{len(servers)}")
            own.mkdir()
            servers.append(EmulatedGpu(own, driver_library, kind, chip))
            return servers[-1]

        yield start
        for server in servers:
            server.close()
