"""What makes factors of the elements of lhs and rhs, where they are not the factors themselves.

Of integers of 4 bits and floats below 8 it makes numbers of words; of elements in blocks with a
scale each it makes their products, as ``arith.scaling_extf`` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.ops.base.nibbles import widened
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor
from tvm_iree_ext.ops.base.regions import Region
from tvm_iree_ext.tir import number_words
from tvm_iree_ext.tir.tir_expressions import convert
from tvm_iree_ext.tir.tvm_modules import ir, tirx

SIDES = ("lhs", "rhs")

IN_WORDS = (*dtypes.INTEGERS4, *dtypes.NARROW_FLOATS)
"""The types of factors that kernels have as words."""

SCALED = ("float8_e4m3fn", "float8_e5m2", *dtypes.NARROW_FLOATS)
"""The types whose elements may lie in blocks with a scale each: those of OCP MX and NVFP4."""

SCALES = (dtypes.EXPONENTS, "float8_e4m3fn")
"""The types of scales: of the MX formats, and of NVFP4."""


def scales_of(side: str) -> str:
    """The name of the operand that has the scales of ``lhs`` or ``rhs``."""
    return f"{side}_scales"


def scale_types(
    op: str,
    types: Mapping[str, TensorType],
    scales: Mapping[str, OperandLike | None],
) -> dict[str, TensorType]:
    """The types of the scales that are given, by the operand's name.

    Raises:
        OpError: for a type that is none of scales, and scales beside elements that take none.
    """
    found = {}
    for side, given in scales.items():
        if given is None:
            continue
        name = scales_of(side)
        found[name] = as_tensor(op, name, given, dtypes.EXPONENTS, SCALES, least=0)
        if (kind := types[side].dtype) not in SCALED:
            raise OpError(
                f"{op}: {side} has dtype {kind}, and {name}; scaled are {', '.join(SCALED)}"
            )
    return found


def check_scales(op: str, maps: Mapping[str, IndexingMap]) -> None:
    """Refuse scales along dims that their elements do not have.

    Raises:
        OpError: naming the dim.
    """
    for side in SIDES:
        name = scales_of(side)
        foreign = sorted(set(maps[name].dims) - set(maps[side].dims)) if name in maps else []
        if foreign:
            raise OpError(
                f"{op}: the indexing map of {name} has d{foreign[0]}, which that of {side} has not"
            )


def scaled_region(dtype: str, scale: str, wide: str) -> Region:
    """An element times its scale, both as ``wide`` has them."""
    element, factor = (_parameter(name, kind) for name, kind in (("arg0", dtype), ("arg1", scale)))
    numbers = (_number(element, dtype), _number(factor, scale))
    first, second = (convert(one, wide) for one in numbers)
    return Region.of((element, factor), first * second)


def word_region(dtype: str) -> Region:
    """The number that a word stands for: an int8, or a float32."""
    if dtype in dtypes.INTEGERS4:
        return widened(dtype)
    word = _parameter("arg0", dtype)
    return Region.of((word,), _number(word, dtype))


def _parameter(name: str, dtype: str) -> tirx.Var:
    """Floats of 8 bits come as numbers."""
    return tirx.Var(name, "float32" if dtype in dtypes.FLOATS8 else dtypes.word_dtype(dtype))


def _number(parameter: tirx.Var, dtype: str) -> ir.Expr:
    return parameter if dtype in dtypes.FLOATS8 else number_words.decoded(parameter, dtype)


def word_types(types: Mapping[str, TensorType]) -> Iterator[tuple[str, str]]:
    """The factors and scales that kernels have as words, and the types of their numbers."""
    for name in (*SIDES, *map(scales_of, SIDES)):
        if name in types and types[name].dtype in (*IN_WORDS, dtypes.EXPONENTS):
            yield name, types[name].dtype
