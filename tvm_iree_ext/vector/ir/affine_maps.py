"""Affine maps: which iteration dims address the dims of an operand.

Vector ops take projected permutations (rule R11): distinct plain dims; a transfer's map may also
hold the constant 0, which stands for a broadcast.  Structured ops take any linear expressions.
"""

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.vector.ir.vector_errors import VectorError

_TEXT = re.compile(r"\s*\(([^()]*)\)\s*->\s*\((.*)\)\s*")


@dataclass(frozen=True)
class Linear:
    """``sum(coefficients[i] * d_i) + constant``."""

    coefficients: tuple[int, ...]
    constant: int = 0

    @property
    def dim(self) -> int | None:
        """The dim, where this is one plain dim."""
        used = [dim for dim, by in enumerate(self.coefficients) if by]
        is_dim = len(used) == 1 and self.coefficients[used[0]] == 1 and self.constant == 0
        return used[0] if is_dim else None

    @property
    def is_zero(self) -> bool:
        """Whether this is the constant 0."""
        return not any(self.coefficients) and self.constant == 0

    def __str__(self) -> str:
        terms = [
            f"d{dim}" if by == 1 else f"d{dim} * {by}"
            for dim, by in enumerate(self.coefficients)
            if by
        ]
        if self.constant or not terms:
            terms.append(str(self.constant))
        return " + ".join(terms)


@dataclass(frozen=True)
class AffineMap:
    """A map from ``num_dims`` dims to the positions in an operand.

    >>> AffineMap.parse("(m, n, k) -> (k, n)").dims
    (2, 1)
    >>> print(AffineMap.parse("(d0, d1) -> (d0 * 2 + d1, 0)"))
    (d0, d1) -> (d0 * 2 + d1, 0)
    """

    num_dims: int
    results: tuple[Linear, ...]

    @staticmethod
    def of(num_dims: int, dims: Iterable[int | None]) -> "AffineMap":
        """The map whose results are plain dims; None stands for the constant 0."""
        return AffineMap(num_dims, tuple(_plain(num_dims, dim) for dim in dims))

    @staticmethod
    def identity(num_dims: int) -> "AffineMap":
        """``(d0, .., dn) -> (d0, .., dn)``."""
        return AffineMap.of(num_dims, range(num_dims))

    @staticmethod
    def minor_identity(num_dims: int, rank: int) -> "AffineMap":
        """The last ``rank`` dims in order: what a transfer does by default."""
        return AffineMap.of(num_dims, range(num_dims - rank, num_dims))

    @staticmethod
    def parse(text: "str | AffineMap") -> "AffineMap":
        """Read MLIR's spelling; the dims may have any names.

        Raises:
            VectorError: for what is not a linear expression of the dims.
        """
        if isinstance(text, AffineMap):
            return text
        match = _TEXT.fullmatch(text)
        if match is None:
            raise VectorError("E_MAP", f"map {text!r}: expected the form (d0, d1) -> (d1, d0)")
        dims = [name.strip() for name in match.group(1).split(",") if name.strip()]
        if len(set(dims)) != len(dims):
            raise VectorError("E_MAP", f"map {text!r}: a dim is declared twice")
        try:
            body = ast.parse(f"[{match.group(2)}]", mode="eval").body
        except SyntaxError as error:
            raise VectorError("E_MAP", f"map {text!r}: {error.msg}") from None
        assert isinstance(body, ast.List)
        return AffineMap(len(dims), tuple(_linear(text, node, dims) for node in body.elts))

    @property
    def dims(self) -> tuple[int | None, ...]:
        """The dim of each result; None for what is not one plain dim."""
        return tuple(result.dim for result in self.results)

    @property
    def used(self) -> tuple[int, ...]:
        """The plain dims among the results, in order of the results."""
        return tuple(dim for dim in self.dims if dim is not None)

    def is_projected_permutation(self, *, zero: bool = False) -> bool:
        """Whether all results are distinct plain dims; with ``zero``, or the constant 0."""
        plain = all(r.dim is not None or (zero and r.is_zero) for r in self.results)
        return plain and len(set(self.used)) == len(self.used)

    @property
    def is_minor_identity(self) -> bool:
        """Whether the results are the last dims in order."""
        return self == AffineMap.minor_identity(self.num_dims, len(self.results))

    def at(self, point: Sequence[Any]) -> tuple[Any, ...]:
        """The results at a point; arrays of coordinates are taken as well."""
        return tuple(
            sum(by * x for by, x in zip(r.coefficients, point, strict=True) if by) + r.constant
            for r in self.results
        )

    def without(self, dims: Iterable[int]) -> "AffineMap":
        """The map over the other dims; results that are one of ``dims`` are left out."""
        gone = set(dims)
        kept = [dim for dim in range(self.num_dims) if dim not in gone]
        results = tuple(
            Linear(tuple(r.coefficients[dim] for dim in kept), r.constant)
            for r in self.results
            if r.dim not in gone
        )
        return AffineMap(len(kept), results)

    def __str__(self) -> str:
        dims = ", ".join(f"d{dim}" for dim in range(self.num_dims))
        return f"({dims}) -> ({', '.join(map(str, self.results))})"


def _plain(num_dims: int, dim: int | None) -> Linear:
    return Linear(tuple(int(other == dim) for other in range(num_dims)))


def _linear(text: str, node: ast.AST, dims: Sequence[str]) -> Linear:
    match node:
        case ast.Constant(int(value)):
            return Linear((0,) * len(dims), value)
        case ast.Name(name) if name in dims:
            return _plain(len(dims), dims.index(name))
        case ast.UnaryOp(ast.USub(), ast.Constant(int(value))):
            return Linear((0,) * len(dims), -value)
        case ast.BinOp(left, ast.Add(), right):
            a, b = _linear(text, left, dims), _linear(text, right, dims)
            summed = tuple(x + y for x, y in zip(a.coefficients, b.coefficients, strict=True))
            return Linear(summed, a.constant + b.constant)
        case ast.BinOp(left, ast.Mult(), right):
            a, b = _linear(text, left, dims), _linear(text, right, dims)
            if not any(a.coefficients):
                a, b = b, a
            if not any(b.coefficients):
                return Linear(
                    tuple(x * b.constant for x in a.coefficients), a.constant * b.constant
                )
    raise VectorError("E_MAP", f"map {text!r}: {ast.unparse(node)!r} is not linear in its dims")
