"""A whole program's time on the GPU, beside PyTorch's: of the GPU alone, and of a call.

A call is what a user pays: the host's work is in it, which a graph of launches saves both.
"""

import contextlib
import importlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.on_gpu.archive_file import ArchiveFile
from tvm_iree_ext.on_gpu.gpu_timer import GpuTimer, Timing, described, gpu_timer
from tvm_iree_ext.on_gpu.resident_call import ResidentCall
from tvm_iree_ext.on_gpu.torch_graphs import replay, torch_on_gpu
from tvm_iree_ext.runtime.launch.launcher import Kernels, numpy_type
from tvm_iree_ext.runtime.launch_graph import Launches

_CALLS = 50
_PEER = "PyTorch"


def timed_program(archive: ArchiveFile, folder: str) -> Iterator[dict[str, Any]]:
    """Rows of ours and of PyTorch's: times and errors.

    Raises:
        RuntimeError: where weights are to be drawn, and PyTorch is not there.
    """
    case, torch = archive.case(folder), torch_on_gpu()
    is_torch = case["framework"] == "torch"
    model = _model(case) if torch is not None and is_torch else None
    with tempfile.TemporaryDirectory() as place:
        extracted = archive.extract(folder, Path(place))
        if case["weights"]:
            _draw(archive, folder, case["weights"], model, extracted)
        kernels = Kernels(extracted)
        operands = list(archive.arrays(f"{folder}/operands.npz").values())
        want = list(archive.arrays(f"{folder}/results.npz").values())
        with kernels.gpu.current(), gpu_timer(kernels.gpu) as timer:
            yield _ours(archive, kernels, timer, case, operands, want)
            if model is not None:
                with contextlib.suppress(RuntimeError):  # one that makes tensors on the CPU itself
                    yield _torchs(torch, timer, case, model)


def _row(
    case: Mapping[str, Any], who: str, timing: Timing, call_us: float, message: str = ""
) -> dict[str, Any]:
    return {
        "id": case["id"],
        "config": "",
        "target": case["target"],
        "who": who,
        **described(timing),
        "call_us": call_us,
        "status": "failed" if message else "passed",
        "message": message,
    }


def _model(case: Mapping[str, Any]) -> Any:
    return getattr(importlib.import_module(case["module"]), case["id"])()


def _draw(
    archive: ArchiveFile, folder: str, weights: Mapping[str, Any], model: Any, extracted: Path
) -> None:
    """Write the file of constants: small ones of the pack, large ones of the model."""
    if weights["named"] and model is None:
        raise RuntimeError("the program's weights are drawn by PyTorch, which is not here")
    state = model.function.state_dict() if weights["named"] else {}
    file = np.memmap(extracted / weights["file"], np.uint8, "w+", shape=(weights["size"],))
    for offset, content in archive.arrays(f"{folder}/raw.npz").items():
        file[int(offset) : int(offset) + content.nbytes] = content
    for offset, name, order in weights["named"]:
        content = _words(state[name].detach().permute(order).contiguous())
        content = content.reshape(-1).view(np.uint8)
        file[offset : offset + content.nbytes] = content
    file.flush()


def _words(tensor: Any) -> np.ndarray:
    """A tensor of the host's as NumPy's, bfloat16 as integers."""
    if str(tensor.dtype) == "torch.bfloat16":
        tensor = tensor.view(importlib.import_module("torch").uint16)
    return np.asarray(tensor.numpy())


def _ours(
    archive: ArchiveFile,
    kernels: Kernels,
    timer: GpuTimer,
    case: Mapping[str, Any],
    operands: Sequence[np.ndarray],
    want: Sequence[np.ndarray],
) -> dict[str, Any]:
    gpu, parameters = kernels.gpu, kernels.plan["parameters"]
    results = [np.empty(shape, numpy_type(dtype)) for shape, dtype in case["results"]]
    values = [*operands, *results]
    given = {
        one["name"]: np.ascontiguousarray(value) if "shape" in one else value.item()
        for one, value in zip(parameters, values, strict=True)
    }
    with kernels.memory() as allocate:
        call = ResidentCall(kernels, given, allocate)
        call()
        gpu.wait()
        message = _wrong(archive, gpu, case, parameters, call.addresses, results, want)
        timing = timer.time(timer.recorded(call))
        launches = Launches(kernels, call.numbers)
        place, ordered = allocate(launches.bytes), list(call.addresses.values())
        call_us = _call_us(lambda: launches(ordered, place, 0), gpu.wait)
        message = message or _wrong(archive, gpu, case, parameters, call.addresses, results, want)
        launches.close()
    return {**_row(case, "", timing, call_us, message), "launches": call.launches}


def _wrong(
    archive: ArchiveFile,
    gpu: Any,
    case: Mapping[str, Any],
    parameters: Sequence[Mapping[str, Any]],
    addresses: Mapping[str, int],
    results: Sequence[np.ndarray],
    want: Sequence[np.ndarray],
) -> str:
    """What is wrong of the results that are on the GPU, for a message."""
    relative, absolute = case["tolerance"]
    for number, (one, right) in enumerate(zip(results, want, strict=True)):
        parameter = parameters[len(parameters) - len(results) + number]
        gpu.read(one.ctypes.data, addresses[parameter["name"]], one.nbytes)
        gpu.wait()
        got = archive.as_numbers(one, parameter["dtype"])
        largest = float(np.abs(right).max(initial=0.0))
        if not np.allclose(got, right, rtol=relative, atol=absolute * largest):
            off = float(np.abs(got - right).max(initial=0.0))
            return f"result {number} is off by {off:.3g} of at most {largest:.3g}"
    return ""


def _torchs(torch: Any, timer: GpuTimer, case: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """PyTorch's own: its launches as a graph, and calls as they come."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    function = model.function.cuda() if hasattr(model.function, "cuda") else model.function
    arguments = torch.utils._pytree.tree_map(
        lambda one: one.cuda() if isinstance(one, torch.Tensor) else one, model.arguments
    )
    stream = torch.cuda.ExternalStream(timer.stream)

    def call() -> Any:
        return function(*arguments)

    with torch.cuda.stream(stream), torch.no_grad():
        call()
        timing = timer.time(replay(torch, stream, call))
        return _row(case, _PEER, timing, _call_us(call, torch.cuda.synchronize))


def _call_us(call: Callable[[], Any], wait: Callable[[], Any]) -> float:
    """Time of a call among many, host and GPU, in us."""
    for _ in range(3):
        call()
    wait()
    start = time.perf_counter()
    for _ in range(_CALLS):
        call()
    wait()
    return (time.perf_counter() - start) / _CALLS * 1e6
