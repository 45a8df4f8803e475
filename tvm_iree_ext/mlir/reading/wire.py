"""Messages between the reader and its process: pickles that can hold form objects, and no other.

The process has parsed untrusted text, so what it sends is not trusted either: what is unpickled
can name the classes of :mod:`tvm_iree_ext.mlir.reading.form` and two functions here, nothing else.
"""

import io
import pickle
import socket
import struct
import time
from typing import Any

import ml_dtypes
import numpy as np

from tvm_iree_ext.mlir.reading import form

_HEAD = struct.Struct("<Q")
_MOST_PARTS = 1 << 24


class Late(Exception):
    """The other side took longer than it may."""


class Line:
    """One end of a socket, on which whole messages go to and fro until a deadline."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._deadline: float | None = None

    def within(self, seconds: float | None) -> None:
        """What is sent and received from now on must be done in so many seconds."""
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def send(self, message: Any) -> None:
        """Send one message; arrays go as they lie in memory."""
        parts: list[pickle.PickleBuffer] = []
        stream = io.BytesIO()
        _Pickler(stream, protocol=5, buffer_callback=parts.append).dump(message)
        self._send(_HEAD.pack(len(parts)))
        for part in (stream.getbuffer(), *(part.raw() for part in parts)):
            self._send(_HEAD.pack(part.nbytes))
            self._send(part)

    def receive(self, most_bytes: int | None = None) -> Any:
        """The next message.

        Raises:
            Late: when the deadline came first.
            EOFError: when the other side has gone, or sent what is no message.
        """
        count = self._number(_MOST_PARTS)
        main, *parts = [self._receive(self._number(most_bytes)) for _ in range(count + 1)]
        try:
            return _Unpickler(io.BytesIO(main), buffers=parts).load()
        except Exception as error:  # whatever bytes that are no pickle lead to
            raise EOFError(f"not a message: {error}") from error

    def close(self) -> None:
        """Let the socket go."""
        self._end.close()

    def _left(self) -> float | None:
        if self._deadline is None:
            return None
        if (left := self._deadline - time.monotonic()) <= 0:
            raise Late
        return left

    def _send(self, data: Any) -> None:
        self._end.settimeout(self._left())
        try:
            self._end.sendall(data)
        except TimeoutError:
            raise Late from None
        except OSError as error:
            raise EOFError(str(error)) from None

    def _number(self, most: int | None) -> int:
        (number,) = _HEAD.unpack(self._receive(_HEAD.size))
        if most is not None and number > most:
            raise EOFError(f"a message of {number} parts or bytes")
        return number

    def _receive(self, length: int) -> bytearray:
        data = bytearray(length)
        rest = memoryview(data)
        while rest:
            self._end.settimeout(self._left())
            try:
                came = self._end.recv_into(rest)
            except TimeoutError:
                raise Late from None
            except OSError as error:
                raise EOFError(str(error)) from None
            if not came:
                raise EOFError("the other side has gone")
            rest = rest[came:]
        return data


def _dtype(name: str) -> np.dtype:
    """NumPy's dtype of numbers, or that of ``ml_dtypes``, by its name."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    if dtype.hasobject or dtype.name != name:
        raise pickle.UnpicklingError(f"{name} is no type of numbers")
    return dtype


def _array(dtype: str, shape: tuple[int, ...], data: Any) -> np.ndarray:
    array = np.frombuffer(data, np.uint8).view(_dtype(dtype)).reshape(shape)
    array.flags.writeable = False
    return array


def _number_of(dtype: str, data: bytes) -> Any:
    return np.frombuffer(data, _dtype(dtype))[0]


class _Pickler(pickle.Pickler):
    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, np.ndarray):
            flat = np.ascontiguousarray(thing).reshape(-1).view(np.uint8)
            return _array, (thing.dtype.name, thing.shape, pickle.PickleBuffer(flat.data))
        if isinstance(thing, np.generic):
            return _number_of, (thing.dtype.name, thing.tobytes())
        return NotImplemented


_CLASSES = (
    form.ParsedScalarType,
    form.ParsedTensorType,
    form.ParsedMemrefType,
    form.OtherType,
    form.FunctionType,
    form.Location,
    form.ParsedAffineExpr,
    form.ParsedAffineMap,
    form.Opaque,
    form.Dense,
    form.ParsedValue,
    form.ParsedBlock,
    form.ParsedOperation,
    form.Module,
)
_KNOWN = {
    (known.__module__, known.__qualname__): known for known in (*_CLASSES, _array, _number_of)
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a message")
        return _KNOWN[module, name]
