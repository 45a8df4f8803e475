"""Checks as they are packed: an artifact, operands, and what is right."""

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.base.comparison import OpenOrder
from tvm_iree_ext.base.dtypes import WORDS, numpy_dtype
from tvm_iree_ext.base.errors import ExtError, ScheduleError
from tvm_iree_ext.base.tolerance import Tolerance
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.catalog.base.entry import Values
from tvm_iree_ext.gpu_day.large_checks import LargeCheck
from tvm_iree_ext.gpu_day.packed_plans import check_plan
from tvm_iree_ext.on_gpu.filled_arrays import some_rows
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.runtime.launch.launcher import BINARIES, PARAMETERS
from tvm_iree_ext.verify.kernel_checks import CheckCase
from tvm_iree_ext.verify.spec_examples import NotSupported

_MOST_BYTES = 32 << 20  # of the arrays of a check
_MOST_KEPT = 1 << 18  # elements of a result, where its rows are enough
# A float32 is near enough to a float64 that is compared within more than this.
_NEAR = 1e-5


@dataclass(frozen=True)
class PackTask:
    """A case to be packed for a target; ``folder`` is where to, and its folders' names there."""

    case: CheckCase
    target: str
    folder: str
    ptx: bool = False

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return self.case.id


@dataclass(frozen=True)
class Packed:
    """How many kernels of a case were packed, and why not all were, for a message."""

    id: str
    count: int
    problem: str = ""
    unsupported: bool = False


def packed(task: PackTask) -> Packed:
    """Pack the kernels that a case runs: each with operands and the reference's results."""
    counter = itertools.count()
    done = 0

    def run(op: Op, operands: Values) -> dict[str, np.ndarray]:
        nonlocal done
        want = ENTRIES[op.name].reference(op, operands)
        if _is_worth_it(operands, want):
            folder = Path(f"{task.folder}-{next(counter)}")
            _pack(op, operands, want, task, folder)
            done += 1
        types = {one.name: numpy_dtype(one.dtype) for one in op.signature.results}
        with np.errstate(over="ignore"):
            return {name: np.asarray(one).astype(types[name]) for name, one in want.items()}

    try:
        with contextlib.suppress(NotSupported):
            task.case.check(run)
    except ScheduleError as error:
        return Packed(task.case.id, done, str(error), unsupported=True)
    except ExtError as error:
        return Packed(task.case.id, done, f"{type(error).__name__}: {error}")
    except Exception as error:  # TVM raises any kind; the other cases are packed
        what = str(error).strip().rpartition("\n")[2]
        return Packed(task.case.id, done, f"{type(error).__name__}: {what}")
    return Packed(task.case.id, done)


def _is_worth_it(operands: Values, results: Mapping[str, np.ndarray]) -> bool:
    """Whether a kernel is launched for these arrays, and they have room in an archive."""
    arrays = [one for one in (*operands.values(), *results.values()) if hasattr(one, "nbytes")]
    sizes = [one.nbytes for one in arrays if np.ndim(one) or isinstance(one, np.ndarray)]
    return all(sizes) and sum(sizes) <= _MOST_BYTES


def _pack(
    op: Op, operands: Values, want: Mapping[str, np.ndarray], task: PackTask, folder: Path
) -> None:
    entry = ENTRIES[op.name]
    build(op, task.target, folder=folder)
    check_plan(folder, task.case.id)
    keep_loaded(folder, ptx=task.ptx)
    tolerance = entry.tolerance(op, operands, want)
    if isinstance(task.case, LargeCheck) and task.case.absolute is not None:
        tolerance = dict.fromkeys(tolerance, Tolerance(task.case.absolute, 0.0))
    results = [
        (one.name, one.dtype, want[one.name], tolerance[one.name]) for one in op.signature.results
    ]
    arguments = {
        one.name: _passed(value, one.dtype) if one.role == "scalar" else np.asarray(value)
        for one in op.passed_signature.arguments
        for value in (operands[one.name],)
    }
    fills = {}
    if isinstance(task.case, LargeCheck):
        fills = {one.name: task.case.filled(one) for one in op.signature.arguments}
    order = entry.open_order(op)
    write_case(folder, task.case.id, op.name, task.target, arguments, results, order, fills)


def write_case(
    folder: Path,
    name: str,
    op: str,
    target: str,
    arguments: Values,
    results: Sequence[tuple[str, str, np.ndarray, Tolerance]],
    order: OpenOrder | None = None,
    fills: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write beside an artifact what it is called with, and what is right.

    Arguments and results are in the order of the signature; a result has a name, a type, the right
    elements, and a tolerance.  Arguments of which ``fills`` say how they are made are not written;
    of large results each so many-th row is.
    """
    arrays = {key: one for key, one in arguments.items() if isinstance(one, np.ndarray)}
    kept = {key: in_words(one) for key, one in arrays.items() if key not in (fills or {})}
    _save(folder / "operands.npz", kept)
    steps = {key: _step(want) for key, _, want, _ in results}
    stored = {
        key: _stored(some_rows(want, steps[key]), dtype, allowed)
        for key, dtype, want, allowed in results
    }
    _save(folder / "results.npz", stored)
    described = {
        "id": name,
        "op": op,
        "target": target,
        "arguments": list(arguments),
        "scalars": {key: _plain(one) for key, one in arguments.items() if key not in arrays},
        "fills": fills or {},
        "results": {key: (want.shape, steps[key], dtype) for key, dtype, want, _ in results},
        "tolerance": {key: (one.absolute, one.relative) for key, *_, one in results},
        "open_order": order and {"axis": order.axis, "keys": order.keys},
        "may_differ": order is not None,
    }
    (folder / "case.json").write_text(json.dumps(described))


def _step(want: np.ndarray) -> int:
    """Each so many-th row of a result is kept: an odd number, so that each place of a tile is."""
    return -(-want.size // _MOST_KEPT) | 1


def _save(path: Path, arrays: Mapping[str, Any]) -> None:
    np.savez(path, **arrays)


def keep_loaded(folder: Path, *, ptx: bool = False) -> None:
    """Keep the manifest and the binary of an artifact, or its PTX for a driver to compile."""
    binaries = [name for name in BINARIES if (folder / name).exists()]
    if ptx:
        binaries = [name for name in binaries if name == "kernel.ptx"]
    for path in folder.iterdir():
        if path.name not in ("manifest.json", PARAMETERS, *binaries[:1]):
            path.unlink()


def in_words(array: np.ndarray) -> np.ndarray:
    """The array; where NumPy's files have no such type, its bits as integers."""
    array = np.array(array, order="C")
    if array.dtype.kind == "c":  # of 128 bits two words
        words = array[..., None].view("uint64")
        return words if array.dtype.itemsize == 16 else words[..., 0]
    is_known = array.dtype.kind in "biufc" and array.dtype.isbuiltin == 1
    return array if is_known else array.view(f"u{array.dtype.itemsize}")


def _stored(want: np.ndarray, dtype: str, tolerance: Tolerance) -> np.ndarray:
    """What is right, as numbers of NumPy's; what the result's type rounds to infinity is that."""
    kind = numpy_dtype(dtype)
    if want.dtype.kind in "biuc":
        return np.array(want, order="C")
    want = want.astype(np.float64)
    if kind.kind not in "biu":
        with np.errstate(over="ignore"):
            rounded = want.astype(kind).astype(np.float64)
        want = np.where(np.isinf(rounded), rounded, want)
    if min(filter(None, (tolerance.absolute, tolerance.relative)), default=0.0) < _NEAR:
        return want
    with np.errstate(over="ignore"):
        narrow = want.astype(np.float32)
    is_held = np.isfinite(narrow) == np.isfinite(want)
    return narrow if is_held.all() else want


def _passed(value: Any, dtype: str) -> Any:
    """A number as a kernel takes it: where TVM has no such numbers, its word."""
    if dtype not in WORDS:
        return _plain(value)
    return int(np.asarray(value).astype(numpy_dtype(dtype)).view(WORDS[dtype]))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def tasks(
    cases: Iterable[CheckCase], target: str, place: Path, *, ptx: bool = False
) -> Iterator[PackTask]:
    """A task for each case, with folders of their own in ``place``."""
    chip = target.rpartition(":")[2]
    for number, case in enumerate(cases):
        yield PackTask(case, target, str(place / f"{chip}-{number:04}"), ptx)
