"""A driver of both vendors that computes nothing, and fails at a call that a test chooses."""

import ctypes
from pathlib import Path

import pytest
from native_compiler import compile_native

from tvm_iree_ext.runtime.launch import driver as gpu_driver
from tvm_iree_ext.runtime.launch.driver import DRIVERS

REFUSED, FAULT = 2, 719
SAID = {
    **{status: f"{status}, SOME_ERROR: refused" for status in (REFUSED, 46, 700)},
    FAULT: "719, LAUNCH_FAILURE: unspecified launch failure",
}


@pytest.fixture(scope="session")
def failing_library(tmp_path_factory):
    place = tmp_path_factory.mktemp("driver")
    source = Path(__file__).with_name("failing_driver.c")
    compile_native("c", "-shared", "-fPIC", "-w", source, "-o", place / "libamdhip64.so")
    return place / "libamdhip64.so"


@pytest.fixture
def failing_driver(failing_library, monkeypatch):
    """``driver_reset(at, status)`` chooses the call; ``driver_failed()`` is its name."""
    for kind in ("rocm", "cuda"):
        monkeypatch.setitem(DRIVERS[kind], "libraries", (str(failing_library),))
    monkeypatch.setattr(gpu_driver, "_losses", [])
    driver = ctypes.CDLL(str(failing_library))
    driver.driver_failed.restype = ctypes.c_char_p
    return driver
