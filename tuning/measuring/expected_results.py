"""Expected results of a trial: by the op's reference, or, where it would take hours, by NumPy.

The reference of sort compares every pair of a line, that of top-k offers each element to each kept
one, and that of a transform multiplies by its whole matrix: a line of a million would never end.
"""

from collections.abc import Callable, Mapping

import numpy as np

from tvm_iree_ext.base.dtypes import FLOATS
from tvm_iree_ext.catalog.base.entry import Values
from tvm_iree_ext.ops.base.comparators import PlainOrder
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.fft.fft_transform import FftTransform
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.registry import ENTRIES

LONG = 512
"""Elements of a line from which on it is NumPy that computes it."""


def wanted(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The results by name, as the op's reference gives them."""
    for kind, computed in _LONG_LINES.items():
        if isinstance(op, kind) and (found := computed(op, operands)) is not None:
            return found
    return ENTRIES[op.name].reference(op, operands)


def _sorted(op: Sort, operands: Values) -> dict[str, np.ndarray] | None:
    """A long sort by a plain comparison, whose ties keep their order; None for any other."""
    names = [operand.name for operand in op.signature.arguments]
    if op.order is None or operands[names[0]].shape[op.dimension] < LONG:
        return None
    keys = _keys(operands[names[op.order.operand]], op.order, op.dtypes[op.order.operand])
    if keys is None:
        return None
    places = np.argsort(keys, op.dimension, kind="stable")
    results = (operand.name for operand in op.signature.results)
    return {
        result: np.take_along_axis(operands[name], places, op.dimension)
        for result, name in zip(results, names, strict=True)
    }


def _best(op: Topk, operands: Values) -> dict[str, np.ndarray] | None:
    """The best of long lines by a plain comparison from inits in order; None for any other."""
    if op.order is None or not op.order.strict or operands["values"].shape[op.dimension] < LONG:
        return None
    values, inits = (
        np.moveaxis(operands[name], op.dimension, -1) for name in ("values", "output_values_init")
    )
    kind, kept = op.types["values"].dtype, inits.shape[-1]
    keys, init_keys = _keys(values, op.order, kind), _keys(inits, op.order, kind)
    if keys is None or init_keys is None or not op.has_output_indices:
        return None
    places = np.moveaxis(operands["output_indices_init"], op.dimension, -1)
    ahead, behind = (init_keys[..., :-1], places[..., :-1]), (init_keys[..., 1:], places[..., 1:])
    if not np.all((ahead[0] < behind[0]) | ((ahead[0] == behind[0]) & (ahead[1] <= behind[1]))):
        return None
    given = operands.get(op.input_indices)
    best, where = np.empty_like(inits), np.empty_like(places)
    for line in np.ndindex(*inits.shape[:-1]):
        last = min(kept, keys.shape[-1]) - 1
        near = np.flatnonzero(keys[line] <= np.partition(keys[line], last)[last])
        numbers = near if given is None else np.moveaxis(given, op.dimension, -1)[line][near]
        indices = np.concatenate([places[line], numbers.astype(places.dtype)])
        order = np.lexsort((indices, np.concatenate([init_keys[line], keys[line][near]])))[:kept]
        best[line] = np.concatenate([inits[line], values[line][near]])[order]
        where[line] = indices[order]
    return {
        "output_values": np.moveaxis(best, -1, op.dimension),
        "output_indices": np.moveaxis(where, -1, op.dimension),
    }


def _transformed(op: FftTransform, operands: Values) -> dict[str, np.ndarray] | None:
    """A long transform; None for a short one."""
    if op.length < LONG:
        return None
    real, axis, norm = operands["real"].astype(np.float64), op.axis, op.norm
    match op.kind:
        case "real_to_complex":
            result = np.fft.rfft(real, axis=axis, norm=norm)
        case "complex_to_real":
            spectrum = real + 1j * operands["imag"].astype(np.float64)
            return {"result_real": np.fft.irfft(spectrum, op.length, axis=axis, norm=norm)}
        case kind:
            transform = np.fft.fft if kind == "forward" else np.fft.ifft
            spectrum = real + 1j * operands["imag"].astype(np.float64)
            result = transform(spectrum, axis=axis, norm=norm)
    return {"result_real": result.real, "result_imag": result.imag}


def _keys(values: np.ndarray, order: PlainOrder, dtype: str) -> np.ndarray | None:
    """Numbers that ascend in an order; None where there are none for all elements."""
    if dtype in ("int64", "uint64"):
        return None  # to be negated they would need one bit more
    wide = values.astype("float64" if dtype in FLOATS else "int64")
    if np.isnan(wide).any():
        return None
    return -wide if order.descending else wide


_LONG_LINES: Mapping[type[Op], Callable[..., dict[str, np.ndarray] | None]] = {
    Sort: _sorted,
    Topk: _best,
    FftTransform: _transformed,
}
