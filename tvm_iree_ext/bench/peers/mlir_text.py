"""Pieces of MLIR, for the peers that take it."""

from collections.abc import Sequence

from tvm_iree_ext.base import dtypes

Shape = Sequence[object]


def tensor(shape: Shape, dtype: str = "float32") -> str:
    """A type: ``tensor<4x8xf32>``."""
    return f"tensor<{'x'.join([*map(str, shape), dtypes.mlir_name(dtype)])}>"


def affine(dims: str, *results: str) -> str:
    """Maps: ``affine_map<(m, n) -> (n)>``, for each of the results."""
    return ", ".join(f"affine_map<({dims}) -> ({one})>" for one in results)


def filled(name: str, value: float, shape: Shape, dtype: str = "float32") -> str:
    """A tensor of one number: ``%name``."""
    kind, scalar = tensor(shape, dtype), dtypes.mlir_name(dtype)
    return f"""%{name}_value = arith.constant {value!r} : {scalar}
  %{name}_empty = tensor.empty() : {kind}
  %{name} = linalg.fill ins(%{name}_value : {scalar}) outs(%{name}_empty : {kind}) -> {kind}"""
