"""Arguments of a function where none are recorded: noise in floats, zeros in all else."""

from typing import Any

import numpy as np

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import RecordError
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.runtime.strided_arrays import laid


def noise(name: str, signature: Signature) -> list[Any]:
    """Arguments of a call of the function ``name``, in order, the same at every call.

    Integers are 0: as places or counts, all others might be out of range.

    Raises:
        RecordError: where an extent is known in a call only.
    """
    rng = np.random.default_rng(0)
    return [_argument(name, operand, rng) for operand in signature.arguments]


def _argument(name: str, operand: Operand, rng: np.random.Generator) -> Any:
    if operand.role == "unused":
        return None
    open_extents = [extent for extent in operand.shape if not isinstance(extent, int)]
    if open_extents:
        raise RecordError(
            f"{name}: the extent {open_extents[0]} of {operand} is known in a call only; expected"
            " arrays of a file, or numbers for all extents"
        )
    dtype = numpy_dtype(operand.dtype)
    shape = tuple(extent for extent in operand.shape if isinstance(extent, int))
    if dtype.kind in "iub":
        array = np.zeros(shape, dtype)
    else:
        array = np.asarray(rng.standard_normal(shape)).astype(dtype)
    return array[()] if operand.role == "scalar" else laid(array, operand.strides)
