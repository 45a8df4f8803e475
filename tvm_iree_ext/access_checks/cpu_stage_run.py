"""Checked kernels and programs, built and called; and which pass is at fault."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvm_iree_ext.access_checks import check_library
from tvm_iree_ext.access_checks.cpu_stages import LAST, SCHEDULED, STAGES, cut_after
from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.codegen import pass_seam
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.targets.names import TargetLike


def first_wrong(check: Callable[[str], str]) -> str:
    """The message that ``check(stage)`` gives for the first wrong stage; empty when none is."""
    if wrong := check(SCHEDULED):
        return f"after {SCHEDULED}: {wrong}"
    if not (wrong := check(LAST)):
        return ""
    for stage in STAGES[1:-1]:
        if wrong_before := check(stage):
            return f"after {stage}: {wrong_before}"
    return f"after {LAST}: {wrong}"


@contextmanager
def checks_after(stage: str) -> Iterator[None]:
    """Check kernels built in this context in the form they have after a stage."""
    check_library.load()
    with pass_seam.edited(cut_after(stage)):
        yield


def run_op(
    op: Op, operands: Mapping[str, Any], target: TargetLike, stage: str
) -> dict[str, np.ndarray]:
    """The results, by name, of a kernel whose accesses are checked as they are after a stage.

    Raises:
        SimulationError: for an access outside of a buffer, or a result that depends on memory that
            nobody wrote.
        ExtError: when the kernel cannot be built or called.
    """
    with scratch() as place:
        with checks_after(stage):
            kernel = build(op, target, folder=place / "kernel")
        arguments = [operands[operand.name] for operand in op.signature.arguments]
        results = results_twice(kernel, arguments)
    return dict(zip((operand.name for operand in op.signature.results), results, strict=True))


def results_twice(call: Callable[..., Any], arguments: Sequence[Any]) -> list[np.ndarray]:
    """The results of a checked function, which is called with two noises.

    Raises:
        SimulationError: as :func:`run_op`.
    """
    check_library.begin(1)
    results = call(*arguments)
    first = [np.asarray(one) for one in (results if isinstance(results, tuple) else (results,))]
    check_library.begin(2, keep=True)
    if any(result.dtype.kind == "c" for result in first):  # which no call writes in place
        call(*arguments)
        second = first
    else:
        second = [_noise(result) for result in first]
        call(*arguments, out=tuple(second) if len(second) > 1 else second[0])
    if finding := check_library.finding():
        raise SimulationError(finding)
    for one, other in zip(first, second, strict=True):
        if one.tobytes() != other.tobytes():
            raise SimulationError("the results depend on memory that nobody wrote")
    return first


def _noise(like: np.ndarray) -> np.ndarray:
    """An array of the same kind that holds anything."""
    content = np.frombuffer(np.random.default_rng(1).bytes(like.nbytes), np.uint8)
    if like.dtype == bool:  # whose bytes are 0 or 1
        content = content % 2
    return content.copy().view(like.dtype).reshape(like.shape)
