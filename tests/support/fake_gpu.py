"""A GPU's driver whose launches are run by the simulator, in the process of the test.

The driver is a shared library, ``libamdhip64.so`` and ``libcuda.so.1``, that any process loads: it
asks a server for memory, which both map, and for launches.
"""

import mmap
import os
import shutil
import socket
import struct
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from native_compiler import compile_native

from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_with_host
from tvm_iree_ext.programs import program_constants, program_lowering
from tvm_iree_ext.programs.program_gpu import kernel_module
from tvm_iree_ext.runtime.launch import driver
from tvm_iree_ext.runtime.launch.driver import DRIVERS
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.machine.memory_barriers import TensorMap
from tvm_iree_ext.simulator.simulated_launch import hardware_of, simulate
from tvm_iree_ext.simulator.translation.lane_statements import translate

MEMORY = 64 << 20
LINE = 256  # how memory is aligned


@pytest.fixture(scope="session")
def compiled():
    """``compiled(language, *command)``: with C or C++."""
    return compile_native


@pytest.fixture(scope="session")
def driver_library(tmp_path_factory):
    """The folder with the driver."""
    place = tmp_path_factory.mktemp("driver")
    source = Path(__file__).with_name("fake_gpu.c")
    compile_native("c", "-shared", "-fPIC", "-w", source, "-o", place / "driver.so")
    return place / "driver.so"


class FakeGpu:
    """The server.

    ``kernels`` are the lowered functions that it runs by name; ``calls`` is what it was asked for,
    ``held`` the memory that was not given back, of at most ``room`` bytes, ``simulations`` one for
    each launch.
    """

    def __init__(self, place, library):
        for name in ("libamdhip64.so", "libcuda.so.1"):
            shutil.copy(library, place / name)
        self.place = place
        self.kernels, self.calls, self.simulations, self.held = {}, [], [], {}
        self.room, self.delay_s = MEMORY, 0  # before each launch
        self.capability, self.refuses, self.streams = (8, 0), {}, []
        self.attributes, self.function_attributes = {}, {}  # by the driver's numbers
        self.version = 60240000  # of HIP
        (place / "chip").write_text("gfx942:sramecc+:xnack-")  # of HIP's
        self.writes = []  # the stream of each copy to the GPU
        self.environment = {
            **os.environ, "FAKE_GPU": str(place), "LD_LIBRARY_PATH": str(place),
        }  # fmt: skip
        (place / "memory").write_bytes(b"\0" * MEMORY)
        with (place / "memory").open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), MEMORY)
        self._next, self._lock = LINE, threading.Lock()
        self._own = threading.local()  # of a process, which a thread serves
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(place / "socket"))
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
        with connection, connection.makefile("rb") as stream:
            while head := stream.read(8):
                name, length = struct.unpack("II", head)
                what, content = stream.read(name).decode(), stream.read(length)
                try:
                    if what == "launch" and self.delay_s:
                        time.sleep(self.delay_s)
                    with self._lock:
                        answer = self._answer(what, content)
                except Exception as error:  # a test reads it among the calls
                    self.calls.append(f"{what} raised {type(error).__name__}: {error}")
                    answer = -1
                try:
                    connection.sendall(struct.pack("q", answer))
                except OSError:  # the process was ended
                    return

    def _answer(self, what, content):
        if what in self.refuses:
            return self.refuses[what].pop(0) if self.refuses[what] else 0
        if what == "allocate":
            (size,) = struct.unpack("q", content)
            if sum(self.held.values()) + size > self.room:
                return -1
            at, self._next = self._next, self._next + -(-size // LINE) * LINE
            assert at + size < MEMORY or size > MEMORY  # that is never touched
            if size > MEMORY:
                self._next = at + LINE
            else:
                self.memory[at : at + size] = b"\xa5" * size  # as nothing leaves it
            self.held[at] = size
            return at
        if what == "free":
            del self.held[struct.unpack("q", content)[0]]
        elif what == "attribute":
            number = struct.unpack("i", content)[0]
            parts = dict(zip((75, 76), self.capability, strict=True))
            return parts.get(number, self.attributes.get(number, 0))
        elif what == "function attribute":
            return self.function_attributes.get(struct.unpack("i", content)[0], 0)
        elif what == "version":
            return self.version
        elif what == "function":
            return 0 if content.decode() in self.kernels else -1
        elif what == "parameters":
            self._own.function = content.decode()
            self._own.asked = [_bytes(one) for one in self.kernels[self._own.function].params]
            return len(self._own.asked)
        elif what == "bytes":
            return self._own.asked[struct.unpack("q", content)[0]]
        elif what == "write":
            self.writes.append(struct.unpack("q", content)[0])
        elif what == "launch":
            self._launch(content)
        if what in ("load", "launch", "wait", "shared", "node", "move", "graph"):
            self.calls.append(what)
        return 0

    def _launch(self, content):
        base, *extents, stream = struct.unpack("=Q7IQ", content[:44])
        kernel, at = self.kernels[self._own.function], 44
        self.streams.append(stream)
        hardware = hardware_of(kernel)
        translation = translate(kernel, hardware)
        sizes = {parameter.short_name: parameter.size for parameter in translation.parameters}
        given, written = {}, []
        for parameter, size in zip(kernel.params, self._own.asked, strict=True):
            raw, at = content[at : at + size], at + size
            name = str(parameter.name).removesuffix("_ptr")
            kind = parameter.ty
            if not hasattr(kind, "element_type"):
                given[name] = np.frombuffer(raw, str(kind.dtype))[0].item()
            elif "TensorMap" in type(kind.element_type).__name__:
                given[name] = self._tensor_map(raw)
            else:
                start = struct.unpack("Q", raw)[0] - base
                dtype = element_type(str(kind.element_type.dtype))
                first = max(at for at in self.held if at <= start)
                count = (first + self.held[first] - start) // dtype.itemsize
                # Memory that a program's tensors share may be larger than this one.
                count = min(count, sizes[name] or count)
                given[name] = np.frombuffer(self.memory, dtype, count, start)
                written.append(name)
        done = simulate(translation, given, hardware=hardware, written=written).check()
        assert [*done.grid, *done.block] == extents[:6]
        self.simulations.append(done)

    def _tensor_map(self, raw):
        at, kind, columns, rows, wide, high, swizzle, stride = struct.unpack("16Q", raw)[:8]
        dtype = {6: np.float16, 7: np.float32}[kind]
        assert stride == columns * np.dtype(dtype).itemsize
        array = np.frombuffer(self.memory, dtype, rows * columns, at).reshape(rows, columns)
        return TensorMap(array, (high, wide), 16 << swizzle)


def kernels_of_program(imported, target):
    """The lowered kernels of an imported program, by name, for a GPU to run."""
    constants = program_constants.Constants()
    scheduled = program_lowering.scheduled_program(imported, target, constants, ())
    _, kernels = lower_with_host(kernel_module(scheduled.module), target)
    return {str(name.name_hint): kernel for name, kernel in kernels.functions.items()}


def _bytes(parameter):
    kind = parameter.ty
    if hasattr(kind, "element_type"):
        return 128 if "TensorMap" in type(kind.element_type).__name__ else 8
    return np.dtype(str(kind.dtype)).itemsize


@pytest.fixture
def gpu(driver_library, monkeypatch):
    """The server, whose driver this process finds, too."""
    with tempfile.TemporaryDirectory(prefix="gpu-") as place:  # a socket's path is short
        server = FakeGpu(Path(place), driver_library)
        monkeypatch.setenv("FAKE_GPU", place)
        monkeypatch.setattr(driver, "_losses", [])
        for kind, name in (("rocm", "libamdhip64.so"), ("cuda", "libcuda.so.1")):
            monkeypatch.setitem(DRIVERS[kind], "libraries", (str(Path(place, name)),))
        yield server
        server.close()
