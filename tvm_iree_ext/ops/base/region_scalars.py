"""What a region takes beside its arguments: numbers of a call, and where the element stands.

    alpha = 0.5;   ops.scatter(..., region=ops.region("arg1 + alpha * arg0", alpha="float32"))

Numbers are named, and the same for all elements.  The op has a scalar operand for each, by its
name, behind all inputs but the inits.  What a region yields names it as a free variable, which
:func:`with_bound_scalars` binds in a finished function.  Positions along iteration dims
(``iree_linalg_ext.index``) are parameters of the region, behind its arguments.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.base.dtypes import FLOATS, INTEGERS, canonical
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Operand
from tvm_iree_ext.ops.base.compute_dtypes import computed_dtype
from tvm_iree_ext.tir.tvm_modules import ir, tirx, tvm_ffi

_ARGUMENT = re.compile(r"(arg|d)\d+")


@dataclass(frozen=True)
class ScalarRegion:
    """A region with numbers that a call gives, and positions; made by :func:`region`."""

    region: str | Callable[..., Any]
    scalars: Mapping[str, str]
    dims: tuple[int, ...] = ()


def region(
    region: str | Callable[..., Any], dims: Sequence[int] = (), /, **scalars: str
) -> ScalarRegion:
    """A region that takes positions and numbers of a call beside its arguments.

    Args:
        region: text over ``arg0``, ``arg1`` and so on and the numbers by their names; or a
            callable, which takes positions and then numbers behind its arguments, in order.
        dims: the iteration dims along which a callable takes the element's position, an int64;
            a text names them ``d0``, ``d1`` and so on.  Of attention only.
        scalars: the numbers' element types, by names that become operands of the op.  Half floats
            are seen as float32, as elements are.

    Raises:
        OpError: for a name or a type that cannot be.
    """
    for name, dtype in scalars.items():
        if _ARGUMENT.fullmatch(name) or not name.isidentifier() or keyword.iskeyword(name):
            raise OpError(f"region: a scalar is named {name!r}; expected a name of its own")
        if canonical(dtype) not in FLOATS + INTEGERS:
            raise OpError(f"region: {name} is of {dtype}; expected a float, an integer or bool")
    if not isinstance(dims, Sequence) or not all(isinstance(dim, int) for dim in dims):
        raise OpError(f"region: dims are {dims!r}; expected numbers of iteration dims")
    kinds = {name: canonical(dtype) for name, dtype in scalars.items()}
    return ScalarRegion(region, kinds, tuple(dims))


@dataclass(frozen=True)
class RegionScalar:
    """A number of a call, and the variable that stands for it in what the region yields."""

    name: str
    dtype: str
    var: tirx.Var

    @staticmethod
    def of(name: str, dtype: str) -> RegionScalar:
        """A number of an element type."""
        return RegionScalar(name, dtype, tirx.Var(name, computed_dtype(dtype)))

    @property
    def operand(self) -> Operand:
        """The op's operand."""
        return Operand(self.name, (), self.dtype, "scalar")


def with_bound_scalars(function: tirx.PrimFunc, scalars: Sequence[RegionScalar]) -> tirx.PrimFunc:
    """The function whose region reads its numbers from the function's parameters."""
    parameters = {one.name: one for one in function.params}

    def bound(var: ir.Var) -> ir.Expr:
        for one in scalars:
            if var.same_as(one.var):
                return tirx.Cast(str(one.var.ty.dtype), parameters[one.name])
        return var

    return function.with_body(tvm_ffi.structural_map(function.body, (ir.Var, bound)))
