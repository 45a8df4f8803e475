"""One check on the GPU: a kernel's results, and what it wrote beside them.

Each array lies between two bands of bytes that no kernel may write, and results begin as noise.
The kernel runs twice, with another noise: results that differ are a finding, even where both are
right.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.base.comparison import OpenOrder, first_difference
from tvm_iree_ext.base.tolerance import Tolerance
from tvm_iree_ext.on_gpu.archive_file import ArchiveFile
from tvm_iree_ext.on_gpu.filled_arrays import filled, some_rows
from tvm_iree_ext.runtime.launch.launcher import Kernels, numpy_type
from tvm_iree_ext.runtime.launch.plan_steps import bind

_BAND = 4096  # bytes before and after each array
_BAND_BYTE = 0xA5


def checked(archive: ArchiveFile, folder: str) -> Iterator[dict[str, Any]]:
    """How a check ended: ``status`` is passed or failed, ``message`` says what is wrong."""
    start = time.monotonic()
    case = archive.case(folder)
    with tempfile.TemporaryDirectory() as place:
        message = _wrong(archive, folder, case, archive.extract(folder, Path(place)))
    yield {
        **{key: case[key] for key in ("id", "op", "target")},
        "case": folder,
        "status": "failed" if message else "passed",
        "message": message,
        "seconds": round(time.monotonic() - start, 3),
    }


def _wrong(archive: ArchiveFile, folder: str, case: Mapping[str, Any], extracted: Path) -> str:
    """What is wrong, for a message; empty when nothing is."""
    operands = archive.arrays(f"{folder}/operands.npz")
    for name, fill in case["fills"].items():
        operands[name] = filled(fill, archive.as_numbers)
    want = archive.arrays(f"{folder}/results.npz")
    kernels = Kernels(extracted)
    parameters = kernels.plan["parameters"]
    arguments: dict[str, Any] = {}
    for one, name in zip(parameters, [*case["arguments"], *want], strict=True):
        if name in want:
            shape, _, dtype = case["results"][name]
            parts = [2] if dtype == "complex128" else []  # which is two words
            arguments[one["name"]] = np.empty([*shape, *parts], numpy_type(one["dtype"]))
        else:
            arguments[one["name"]] = case["scalars"].get(name, operands.get(name))
    names = dict(zip([*case["arguments"], *want], parameters, strict=True))
    runs = []
    for noise in (1, 2):
        results, wrong = _run(kernels, arguments, {names[name]["name"] for name in want}, noise)
        if wrong:
            return wrong
        runs.append(results)
    for one in runs[0]:
        if runs[0][one].tobytes() != runs[1][one].tobytes() and not case["may_differ"]:
            count = int((runs[0][one] != runs[1][one]).sum())
            return f"{one}: {count} elements differ from one run to the next"
    got: dict[str, np.ndarray] = {}
    for name, (_, step, dtype) in case["results"].items():
        numbers = archive.as_numbers(runs[0][names[name]["name"]], dtype)
        got[name] = some_rows(numbers, step)
    if order := case["open_order"]:
        order = OpenOrder(order["axis"], tuple(order["keys"]))
        got, want = order.settled(got), order.settled(want)
    tolerances = {name: Tolerance(*case["tolerance"][name]) for name in want}
    every = (first_difference(name, got[name], want[name], tolerances[name]) for name in want)
    return next(filter(None, every), "")


def _run(
    kernels: Kernels, arguments: Mapping[str, Any], results: set[str], noise: int
) -> tuple[dict[str, np.ndarray], str]:
    """The results of one call, and what was written where nothing may be."""
    arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
    numbers = {name: value for name, value in arguments.items() if name not in arrays}
    numbers |= bind(kernels.plan, {name: one.shape for name, one in arrays.items()}, numbers)
    rng = np.random.default_rng(noise)
    with kernels.gpu.current(), kernels.memory() as allocate:
        placed: dict[str, tuple[int, np.ndarray]] = {}
        for name, value in arrays.items():
            bytes_ = (
                rng.integers(0, 256, value.nbytes, np.uint8)
                if name in results
                else np.frombuffer(value.tobytes(), np.uint8)
            )
            band = np.full(_BAND, _BAND_BYTE, np.uint8)
            whole = np.concatenate([band, bytes_, band])
            placed[name] = allocate(whole.nbytes), whole
            kernels.gpu.write(placed[name][0], whole.ctypes.data, whole.nbytes)
        addresses = {name: address + _BAND for name, (address, _) in placed.items()}

        def noisy(size: int) -> int:
            address = allocate(size)
            filling = rng.integers(0, 256, size, np.uint8)
            kernels.gpu.write(address, filling.ctypes.data, size)
            kernels.gpu.wait()
            return address

        kernels.enqueue(addresses, numbers, allocate=noisy)
        kernels.gpu.wait()
        found: dict[str, np.ndarray] = {}
        for name, (address, before) in placed.items():
            after = np.empty_like(before)
            kernels.gpu.read(after.ctypes.data, address, after.nbytes)
            kernels.gpu.wait()
            own = slice(_BAND, len(after) - _BAND)
            if name in results:
                found[name] = after[own].copy().view(arrays[name].dtype).reshape(arrays[name].shape)
                before[own] = after[own]
            if (before != after).any():
                at = int(np.argmax(before != after)) - _BAND
                return {}, f"{name}: byte {at} of {arrays[name].nbytes} was written"
    return found, ""
