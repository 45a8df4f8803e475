"""Kernels and tensors as Relax knows them: fusion patterns, tensor types."""

from typing import Any

from tvm import relax

from tvm_iree_ext.mlir.base.ir_values import Shape, extent

ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, FUSABLE, OPAQUE = 0, 1, 2, 3, 4, 8
"""TVM's OpPatternKind: what Relax fuses by."""

MOST_EXTENT = 1 << 47  # no tensor in memory has more elements


def tensor_type(shape: Shape, dtype: str) -> Any:
    """Relax's type of a tensor."""
    return relax.TensorType([extent(one) for one in shape], dtype)
