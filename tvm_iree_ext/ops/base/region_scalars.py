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
from typing import Any, Protocol, runtime_checkable

from tvm_iree_ext.base.dtypes import WORDS, canonical, word_dtype
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Operand
from tvm_iree_ext.ops.base.compute_dtypes import computed_dtype
from tvm_iree_ext.tir import number_words
from tvm_iree_ext.tir.tir_expressions import cast
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
            and those of 8 bits are seen as float32, integers of 4 bits as those of 8, and complex
            numbers as such, as elements are.

    Raises:
        OpError: for a name or a type that cannot be.
    """
    for name in scalars:
        if _ARGUMENT.fullmatch(name) or not name.isidentifier() or keyword.iskeyword(name):
            raise OpError(f"region: a scalar is named {name!r}; expected a name of its own")
    if not isinstance(dims, Sequence) or not all(isinstance(dim, int) for dim in dims):
        raise OpError(f"region: dims are {dims!r}; expected numbers of iteration dims")
    kinds = {name: canonical(dtype) for name, dtype in scalars.items()}
    return ScalarRegion(region, kinds, tuple(dims))


@dataclass(frozen=True)
class RegionScalar:
    """A number of a call, and the variables that stand for it in what the region yields.

    Attributes:
        name: of the op's operand.
        dtype: the number's element type.
        variables: one, or two for the parts of a complex number.
        passed: the type of the operand of an op over words; by default the element type.
    """

    name: str
    dtype: str
    variables: tuple[tirx.Var, ...]
    passed: str = ""

    @staticmethod
    def of(name: str, dtype: str) -> RegionScalar:
        """A number of an element type."""
        word = tirx.Var(name, word_dtype(computed_dtype(dtype)))
        return RegionScalar(name, dtype, number_words.parts_of(number_words.seen(word, dtype)))

    @property
    def number(self) -> Any:
        """What the region is given."""
        if len(self.variables) == 1:
            return self.variables[0]
        return number_words.ComplexNumber(*self.variables)

    @property
    def operand(self) -> Operand:
        """The op's operand."""
        return Operand(self.name, (), self.passed or self.dtype, "scalar")

    def values(self, passed: ir.Expr) -> dict[ir.Var, ir.Expr]:
        """What the variables are, of what a kernel is passed: the number, or its word."""
        if self.dtype in WORDS:
            if str(passed.ty.dtype) == "float64":  # to an op that takes the type as numbers
                word = number_words.encoded(tirx.Cast("float32", passed), self.dtype)
            else:
                word = cast(passed, WORDS[self.dtype])
            number = number_words.decoded(word, self.dtype)
            return dict(zip(self.variables, number_words.parts_of(number), strict=True))
        (own,) = self.variables
        return {own: tirx.Cast(str(own.ty.dtype), passed)}


@runtime_checkable
class TakesScalars(Protocol):
    """A region of any kind, which is a dataclass."""

    @property
    def scalars(self) -> tuple[RegionScalar, ...]:
        """The numbers that it takes of a call."""


def with_bound_scalars(function: tirx.PrimFunc, scalars: Sequence[RegionScalar]) -> tirx.PrimFunc:
    """The function whose region reads its numbers from the function's parameters.

    Those that it has in memory are bound already.
    """
    parameters = {p.name: p for p in function.params if isinstance(p.ty, ir.PrimType)}
    values: dict[ir.Var, ir.Expr] = {}
    for one in scalars:
        if one.name in parameters:
            values |= one.values(parameters[one.name])
    return function.with_body(
        tvm_ffi.structural_map(function.body, (ir.Var, lambda var: values.get(var, var)))
    )
