"""What TVM's C++ code logs while it compiles.

TVM writes warnings to ``std::cerr``, whose buffer is another one meanwhile.  The file descriptor
is left as it is: LLVM's last words, before it ends the process, do not go by ``std::cerr``, and are
seen.
"""

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.atomic_folder import scratch

_BUFFER_BYTES = 1024  # a std::filebuf has 240
_OUT = 16  # std::ios_base::out
_FILE = "_ZNSt13basic_filebufIcSt11char_traitsIcEE"
_SET_BUFFER = "_ZNSt9basic_iosIcSt11char_traitsIcEE5rdbufEPSt15basic_streambufIcS1_E"


@contextlib.contextmanager
def logged(into: list[str]) -> Iterator[None]:
    """Keep what C++ code writes to ``std::cerr`` meanwhile from the screen, and append its text.

    Where C++'s library is not GCC's, all goes to the screen.
    """
    library = _library()
    if library is None:
        yield
        return
    with scratch() as folder:
        path = folder / "log"
        buffer = ctypes.create_string_buffer(_BUFFER_BYTES)
        _call(library, f"{_FILE}C1Ev", buffer)
        name = str(path).encode()
        opened = _call(library, f"{_FILE}4openEPKcSt13_Ios_Openmode", buffer, name, _OUT)
        stream = ctypes.addressof(ctypes.c_char.in_dll(library, "_ZSt4cerr"))
        base = stream + _base_offset(stream)
        before = _call(library, _SET_BUFFER, ctypes.c_void_p(base), buffer) if opened else None
        try:
            yield
        finally:
            if before:
                _call(library, _SET_BUFFER, ctypes.c_void_p(base), ctypes.c_void_p(before))
            _call(library, f"{_FILE}5closeEv", buffer)
            _call(library, f"{_FILE}D1Ev", buffer)
            into.append(_text(path))


@functools.cache
def _library() -> Any:
    """GCC's C++ library, which TVM has loaded."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        getattr(library, _SET_BUFFER), ctypes.c_char.in_dll(library, "_ZSt4cerr")
    except (OSError, AttributeError, ValueError):
        return None
    return library


def _call(library: Any, name: str, *arguments: Any) -> int | None:
    function = getattr(library, name)
    function.restype = ctypes.c_void_p
    return function(*arguments)


def _base_offset(stream: int) -> int:
    """From a stream to its virtual base, std::basic_ios (Itanium C++ ABI, *Virtual Tables*)."""
    table = ctypes.c_void_p.from_address(stream).value or 0
    return ctypes.c_ssize_t.from_address(table - 3 * ctypes.sizeof(ctypes.c_void_p)).value


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
