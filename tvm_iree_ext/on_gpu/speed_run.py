"""A kernel's time on the GPU, beside PyTorch's where it is there, and how near both are."""

import contextlib
import functools
import math
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.on_gpu import torch_peers
from tvm_iree_ext.on_gpu.archive_file import ArchiveFile
from tvm_iree_ext.on_gpu.filled_arrays import filled
from tvm_iree_ext.on_gpu.gpu_timer import GpuTimer, Timing, described, gpu_timer
from tvm_iree_ext.on_gpu.resident_call import ResidentCall
from tvm_iree_ext.on_gpu.torch_graphs import replay, torch_on_gpu
from tvm_iree_ext.runtime.launch.launcher import Kernels, numpy_type

# ‖got - exact‖ / ‖exact‖ beyond which a result is wrong, by the type of what was multiplied.
_MOST_ERROR = {"float64": 1e-12, "float32": 2e-3, "float16": 5e-3, "bfloat16": 2e-2}


def timed(archive: ArchiveFile, folder: str) -> Iterator[dict[str, Any]]:
    """Times and errors of a kernel, then of each peer."""
    case = archive.case(folder)
    operands = {one["name"]: filled(one, archive.as_numbers) for one in case["operands"]}
    with tempfile.TemporaryDirectory() as place:
        kernels = Kernels(archive.extract(folder, Path(place)))
    with kernels.gpu.current(), gpu_timer(kernels.gpu) as timer:
        results, timing = _ours(kernels, timer, case, operands)
        torch = torch_on_gpu()
        first = case["results"][0]
        if torch and kernels.gpu.cuda:
            truth = _truth(torch, case, operands)
            got = _tensor(torch, results[first["name"]], first["dtype"])
            yield _row(case, "", timing, _error(torch, got, truth))
            if not case["config"]:
                yield from _peers(torch, timer, case, operands, truth)
        else:
            yield _row(case, "", timing, None)


def _row(case: Mapping[str, Any], who: str, timing: Timing, error: float | None) -> dict[str, Any]:
    kind = case["operands"][0]["dtype"]
    most = _MOST_ERROR.get(kind, 5e-2 if kind.startswith("float8") else 0.0)
    wrong = error is not None and not error <= most
    return {
        "id": case["id"],
        "config": case["config"],
        "target": case["target"],
        "op": case["op"],
        "dtype": kind,
        "who": who,
        **described(timing),
        "operations": case["operations"],
        "bytes": case["bytes"],
        "error": error,
        "status": "failed" if wrong and not who else "passed",
        "message": f"‖got - exact‖ / ‖exact‖ is {error:.3g}; at most {most:g}" if wrong else "",
    }


def _ours(
    kernels: Kernels, timer: GpuTimer, case: Mapping[str, Any], operands: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], Timing]:
    results = {
        one["name"]: np.empty(one["shape"], numpy_type(one["dtype"])) for one in case["results"]
    }
    given = {**operands, **results}
    names = [one["name"] for one in kernels.plan["parameters"]]
    own = dict(zip(given, names, strict=True))
    with kernels.memory() as allocate:
        call = ResidentCall(kernels, {own[name]: one for name, one in given.items()}, allocate)
        call()
        kernels.gpu.wait()
        timing = timer.time(timer.recorded(call))
        for name, one in results.items():
            call.read(own[name], one)
    return results, timing


def _peers(
    torch: Any,
    timer: GpuTimer,
    case: Mapping[str, Any],
    operands: Mapping[str, np.ndarray],
    truth: Any,
) -> Iterator[dict[str, Any]]:
    tensors = [_tensor(torch, operands[one["name"]], one["dtype"]) for one in case["operands"]]
    dtype = case["operands"][0]["dtype"]
    stream = torch.cuda.ExternalStream(timer.stream)
    for who, peer in torch_peers.torch_peers(torch, case["peer"], case["settings"], dtype).items():
        with contextlib.suppress(RuntimeError), torch.cuda.stream(stream), torch.no_grad():
            got = peer(*tensors)
            error = _error(torch, got, truth)
            run = replay(torch, stream, functools.partial(peer, *tensors))
            yield _row(case, who, timer.time(run), error)


def _tensor(torch: Any, words: np.ndarray, dtype: str) -> Any:
    return torch.from_numpy(words).cuda().view(getattr(torch, dtype))


def _truth(torch: Any, case: Mapping[str, Any], operands: Mapping[str, np.ndarray]) -> Any:
    """What is right, of float64; integers are exact there, too."""
    tensors = []
    for one in case["operands"]:
        tensor = _tensor(torch, operands[one["name"]], one["dtype"])
        is_index = one["fill"].startswith("below")
        tensors.append(tensor.long() if is_index else tensor.double())
    return torch_peers.exact(torch, case["peer"], case["settings"])(*tensors)


def _error(torch: Any, got: Any, truth: Any) -> float:
    """‖got - exact‖ / ‖exact‖ of what can be compared: an FFT's real part where it stands alone."""
    if truth.ndim == got.ndim + 1:
        truth = truth[..., 0]
    got, truth = got.double(), truth.double()
    norm = float(torch.linalg.vector_norm(truth))
    error = float(torch.linalg.vector_norm(got - truth)) / (norm or 1.0)
    return error if math.isfinite(error) else math.inf
