"""Operands for the trials of an op of which only the types are known."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.base.signature import Operand
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.topk.topk import Topk


def random_operands(op: Op, seed: int = 0) -> dict[str, Any]:
    """An array or a number for each argument: normal floats, small integers, indices in range.

    The inits of a top-k lose to everything, as those of a plain one do.

    Raises:
        TuningError: for an op with extents that are known at call time, or with indices that must
            not repeat: those need operands of the caller's.
    """
    if op.signature.symbols:
        names = ", ".join(op.signature.symbols)
        raise TuningError(f"{op.name}: {names} are known when the kernel is called; give operands")
    if op.attributes.get("unique_indices"):
        raise TuningError(f"{op.name}: indices are unique; give operands")
    rng = np.random.default_rng(seed)
    extents = [int(e) for one in op.signature.operands for e in one.shape]
    found = {one.name: _values(rng, one, min(extents, default=1)) for one in op.signature.arguments}
    if isinstance(op, Topk) and op.order is not None:
        least, most = _range(found["output_values_init"].dtype)
        found["output_values_init"][...] = least if op.order.descending else most
        if "output_indices_init" in found:
            found["output_indices_init"][...] = _range(found["output_indices_init"].dtype)[1]
    return found


def _range(kind: np.dtype) -> tuple[Any, Any]:
    if kind.kind in "iu":
        return np.iinfo(kind).min, np.iinfo(kind).max
    return (False, True) if kind.kind == "b" else (-np.inf, np.inf)


def _values(rng: np.random.Generator, operand: Operand, least: int) -> Any:
    kind = dtypes.numpy_dtype(operand.dtype)
    if operand.role == "scalar":
        return 0 if kind.kind in "biu" else 0.5
    shape = tuple(int(extent) for extent in operand.shape)
    if operand.dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if operand.dtype in dtypes.INTEGERS:
        # An index may be for any axis, and whether an integer is one only its name tells.
        most = least if "ind" in operand.name else 8
        low = 0 if "ind" in operand.name or kind.kind == "u" else -8
        return rng.integers(low, max(most, 1), shape).astype(kind)
    return np.asarray(rng.standard_normal(shape)).astype(kind)


def check_operands(op: Op, operands: Mapping[str, Any]) -> None:
    """Make sure that there is a value for each argument.

    Raises:
        TuningError: naming those that are missing or strange.
    """
    names = {one.name for one in op.signature.arguments}
    if wrong := sorted(names ^ operands.keys()):
        raise TuningError(
            f"{op.name}: operands given are {', '.join(operands)}; {wrong[0]} is missing or strange"
        )
