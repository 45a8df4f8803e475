"""A region's integers as a GPU computes them: they wrap as their types do.

C computes types below 32 bits in ``int``: each sum is cut to its type by a register of that type.
TVM makes ``x - c`` of unsigned types ``x + (-c)``, which they have not: ``c`` hides in a register.
"""

from typing import Any

import tvm_ffi
from tvm import DataType, tirx

from tvm_iree_ext.schedules.gpu.emit.chip_math import held

_C_INT_BITS = 32


def wrapped(value: Any) -> Any:
    """``value``, in the code that is being emitted."""

    def arithmetic(node: Any) -> Any:
        dtype = DataType(str(node.ty.dtype))
        if "int" not in str(dtype):
            return node
        if isinstance(node, tirx.Sub) and isinstance(node.b, tirx.IntImm):
            node = node.a - held(node.b)
        return held(node) if dtype.bits < _C_INT_BITS else node

    return tvm_ffi.structural_map(value, ((tirx.Add, tirx.Sub, tirx.Mul), arithmetic))
