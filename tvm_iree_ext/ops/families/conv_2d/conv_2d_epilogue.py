"""The epilogue of a convolution: its operands, and the region that takes the sums."""

from collections.abc import Sequence
from dataclasses import replace

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, TensorType, shape_text
from tvm_iree_ext.ops.base.compute_dtypes import epilogue_dtype
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor
from tvm_iree_ext.ops.base.regions import PlainRegion, trace
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d

_RANK = 4


def with_epilogue(
    op: Conv2d,
    operands: Sequence[OperandLike],
    epilogue: PlainRegion | None,
    dtype: str,
    result_dtype: str | None,
) -> Conv2d:
    """The convolution whose sums go through an epilogue on their way to the result.

    Raises:
        OpError: for an operand, dtype or region that does not fit.
    """
    sums = op.compute_dtype
    wide = "float64" if sums == "float64" else "float32"
    floats = tuple(one for one in dtypes.FLOATS if one != "float64" or wide == "float64")
    if result_dtype is not None:
        allowed = ("int32", "int8", *floats) if sums == "int32" else floats
        op = replace(op, result_dtype=as_tensor(op.name, "result", (), result_dtype, allowed).dtype)
    elif operands and epilogue is None:
        raise OpError(f"{op.name}: has {len(operands)} operands for an epilogue, and no epilogue")
    types, maps = {}, {}
    result = op.in_layout(op.output)
    for number, given in enumerate(operands):
        name = f"operand{number}"
        kind = as_tensor(op.name, name, given, dtype, floats + dtypes.INTEGERS, least=0)
        types[name], maps[name] = _broadcast(op, name, kind, result)
    region = None
    if epilogue is not None:
        seen = [sums, *(epilogue_dtype(one.dtype, wide) for one in types.values())]
        yields = wide if op.result_dtype in dtypes.FLOATS else sums
        region = trace(op.name, epilogue, seen, yields)
    return replace(op, others=types, maps=maps, epilogue=region)


def _broadcast(
    op: Conv2d, name: str, kind: TensorType, result: Sequence[Extent]
) -> tuple[TensorType, IndexingMap]:
    """The operand along the last axes of the result, and its map over the result's axes."""
    lead = _RANK - len(kind.shape)
    if lead < 0:
        raise OpError(
            f"{op.name}: {name} has rank {len(kind.shape)}; expected at most {_RANK}"
            " as the result has"
        )
    shape: list[Extent] = []
    axes: list[tuple[int, ...]] = []
    for axis, (came, want) in enumerate(zip(kind.shape, result[lead:], strict=True)):
        if came == 1:
            shape.append(1)
            axes.append(())
            continue
        if came not in (want, "?"):
            raise OpError(
                f"{op.name}: {name} axis {axis} has extent {came}; expected {want} as the result"
                f" {shape_text(result)} has, or 1"
            )
        shape.append(want)
        axes.append((lead + axis,))
    return TensorType(tuple(shape), kind.dtype), IndexingMap(_RANK, tuple(axes))
