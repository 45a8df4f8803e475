"""Indexing maps: which iteration dims address the axes of an operand."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm_iree_ext.base.errors import OpError

_TEXT = re.compile(r"\s*(?:affine_map<)?\s*\(([^()]*)\)\s*->\s*\(([^()]*)\)\s*>?\s*")


@dataclass(frozen=True)
class IndexingMap:
    """A map from ``num_dims`` iteration dims to the axes of one operand.

    In the dialect each axis is one dim (a projected permutation).  An axis of several dims stands
    for their row-major collapse: an axis ``(1, 2)`` is addressed by ``d1 * extent(d2) + d2``.

    >>> IndexingMap.parse("(d0, d1, d2) -> (d0, d2)").axes
    ((0,), (2,))
    """

    num_dims: int
    axes: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        """Check the dims.

        Raises:
            OpError: for a dim that is none of ``num_dims``, or that appears twice.
        """
        if unknown := [dim for dim in self.dims if not 0 <= dim < self.num_dims]:
            raise OpError(f"indexing map {self}: d{unknown[0]} is none of its {self.num_dims} dims")
        if len(set(self.dims)) != len(self.dims):
            raise OpError(f"indexing map {self}: a dim appears twice among the results")

    @property
    def dims(self) -> tuple[int, ...]:
        """The dims that appear, in the order of the axes."""
        return tuple(dim for axis in self.axes for dim in axis)

    def __str__(self) -> str:
        def collapse(axis: tuple[int, ...]) -> str:
            names = ", ".join(f"d{dim}" for dim in axis)
            return names if len(axis) == 1 else f"[{names}]"

        dims = ", ".join(f"d{dim}" for dim in range(self.num_dims))
        return f"({dims}) -> ({', '.join(map(collapse, self.axes))})"

    @staticmethod
    def parse(text: str) -> "IndexingMap":
        """Read a projected permutation in MLIR's spelling.

        Raises:
            OpError: for another form, a dim declared twice, or a result that is not a plain dim.
        """
        if not isinstance(text, str):
            raise OpError(f"indexing map {text!r}: expected a text or an IndexingMap")
        match = _TEXT.fullmatch(text)
        if match is None:
            raise OpError(f"indexing map {text!r}: expected the form (d0, d1) -> (d1, d0)")
        dims, results = (
            [item.strip() for item in part.split(",") if item.strip()] for part in match.groups()
        )
        if len(set(dims)) != len(dims):
            raise OpError(f"indexing map {text!r}: a dim is declared twice")
        for result in results:
            if result not in dims:
                raise OpError(
                    f"indexing map {text!r}: result {result!r} is not one of the dims"
                    f" {', '.join(dims)}; results must be plain dims"
                )
        return IndexingMap(len(dims), tuple((dims.index(result),) for result in results))


def map_text(num_dims: int, dims: Sequence[int]) -> str:
    """The text of the map from ``num_dims`` dims to some of them."""
    return str(IndexingMap(num_dims, tuple((dim,) for dim in dims)))


def parse_maps(
    op: str, maps: Sequence[str | IndexingMap], operands: Sequence[str]
) -> dict[str, IndexingMap]:
    """One map per operand name, all over the same dims.

    Raises:
        OpError: when their number, or the number of dims of one, does not fit.
    """
    if len(maps) != len(operands):
        raise OpError(
            f"{op}: {len(maps)} indexing maps; expected one for each of {', '.join(operands)}"
        )
    parsed = [m if isinstance(m, IndexingMap) else IndexingMap.parse(m) for m in maps]
    for name, one in zip(operands, parsed, strict=True):
        if one.num_dims != parsed[0].num_dims:
            raise OpError(
                f"{op}: the indexing map of {name} has {one.num_dims} dims;"
                f" expected {parsed[0].num_dims} as for {operands[0]}"
            )
    return dict(zip(operands, parsed, strict=True))


def fuse_dims(
    maps: Sequence[Sequence[int]],
    count: int,
    may_follow: Callable[[tuple[int, ...], tuple[int, ...]], bool] = lambda first, second: True,
) -> tuple[tuple[int, ...], ...]:
    """The dims ``0 .. count - 1`` in groups that lie next to each other in every operand.

    ``maps`` are the dims of each operand, in the order of its axes; ``may_follow`` can refuse to
    join a group to another.
    """

    def fit(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
        a, b = first[-1], second[0]
        for dims in maps:
            if (a in dims) != (b in dims):
                return False
            if a in dims and dims.index(b) != dims.index(a) + 1:
                return False
        return may_follow(first, second)

    groups: list[tuple[int, ...]] = [(dim,) for dim in range(count)]
    while pair := next(((a, b) for a in groups for b in groups if a != b and fit(a, b)), None):
        a, b = pair
        groups[groups.index(a)] = a + b
        groups.remove(b)
    return tuple(groups)
