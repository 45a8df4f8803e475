"""Costs of vector ops, by which the best of several legal shapes and tiles is chosen.

Costs are in native operations and rank alternatives.  What cannot be done costs infinity, and never
wins.  What a processor has comes in as a :class:`VectorProcessor`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod
from typing import Protocol

from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import element_type, extents, short

DYNAMIC_EXTRACT = 2.0
"""Cost of extracting a lane that is known at run time."""

_DETOUR = 4.0  # of a register that is written to memory, or read from there


class VectorProcessor(Protocol):
    """Vectors of a core, or of a GPU thread; ``targets.vector_units`` has a table of them."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def registers(self) -> int:
        """How many vector registers there are."""

    @property
    def bits(self) -> int:
        """Bits of a vector register."""

    @property
    def memory_bits(self) -> int:
        """Bits that one instruction loads or stores."""

    def lanes(self, dtype: str) -> int:
        """How many elements one instruction computes; 0 for a type without arithmetic."""


def registers(shape: Sequence[int], native: int) -> int:
    """How many registers of ``native`` lanes a vector takes: none is shared between rows."""
    minor = shape[-1] if shape else 1
    return prod(shape[:-1]) * -(-minor // native)


def elementwise_cost(shape: Sequence[int], native: int) -> float:
    """One for each register."""
    return float(registers(shape, native))


def shuffle_cost(shape: Sequence[int], native: int) -> float:
    """One for each register of the result."""
    return float(registers(shape, native))


def detour_cost(written: int, read: int) -> float:
    """Cost of going through memory, never done unasked (rule R7): registers in and out."""
    return _DETOUR * (written + read)


def cast_cost(old: Sequence[int], new: Sequence[int], native: int) -> float:
    """Cost of flattening minor dims (rule R9); infinity for any other change of shape.

    Free where rows are whole registers, one where the borders of registers move.

    >>> cast_cost((4, 8), (32,), 4), cast_cost((4, 6), (24,), 4), cast_cost((4, 8), (16,), 4)
    (0.0, 1.0, inf)
    """
    lead = len(new) - 1
    if not new or tuple(new[:lead]) != tuple(old[:lead]) or new[lead] != prod(old[lead:]):
        return inf
    return 0.0 if tuple(old) == tuple(new) or old[-1] % native == 0 else 1.0


@dataclass(frozen=True)
class ContractionTile:
    """Part of a contraction that is unrolled: ``rows`` x ``columns`` sums, ``depth`` steps.

    Attributes:
        live: how many registers it keeps: sums, a row of the operand for each step, one more.
        cost: native operations for the whole contraction.
    """

    rows: int
    columns: int
    depth: int
    live: int
    cost: float

    @property
    def size(self) -> int:
        """How many products are unrolled."""
        return self.rows * self.columns * self.depth


def cheapest(tiles: Sequence[ContractionTile], what: str) -> ContractionTile:
    """The tile of least cost; of equal ones that with fewer live registers, then the smaller.

    Raises:
        VectorError: E_NO_LEGAL_SHAPE when there is none, or each costs infinity.
    """
    best = min(tiles, key=lambda one: (one.cost, one.live, one.size), default=None)
    if best is None or best.cost == inf:
        raise VectorError("E_NO_LEGAL_SHAPE", f"{what}: none of {len(tiles)} shapes is legal")
    return best


def native_lanes(unit: VectorProcessor, dtype: str, what: str) -> int:
    """The lanes of a native op.

    Raises:
        VectorError: E_NO_NATIVE_SHAPE when the processor has no arithmetic of that type.
    """
    lanes = unit.lanes(element_type(dtype))
    if lanes < 1:
        raise VectorError(
            "E_NO_NATIVE_SHAPE", f"{what}: {unit.name} has no arithmetic of {short(dtype)}"
        )
    return lanes


def check_native(shape: Sequence[int], dtype: str, unit: VectorProcessor, what: str) -> None:
    """Refuse a value that is larger than one native op, where it is not to be unrolled (rule R8).

    Raises:
        VectorError: E_NO_NATIVE_SHAPE.
    """
    lanes = native_lanes(unit, dtype, what)
    if registers(shape, lanes) > 1:
        raise VectorError(
            "E_NO_NATIVE_SHAPE",
            f"{what}: vector<{extents(shape)}x{short(dtype)}> is {registers(shape, lanes)}"
            f" registers of {lanes} lanes on {unit.name}",
        )


def native_piece(
    shape: Sequence[int], dtype: str, unit: VectorProcessor, what: str
) -> tuple[int, ...]:
    """The shape to which a value is unrolled: 1 in all dims but the last.

    The last one is the most lanes that a native op has and that divide the extent.

    Raises:
        VectorError: E_NO_NATIVE_SHAPE when the processor has no arithmetic of that type.
    """
    lanes = native_lanes(unit, dtype, what)
    if not shape:
        return ()
    return (*(1 for _ in shape[:-1]), max(d for d in divisors(shape[-1]) if d <= lanes))


def contraction_tiles(
    rows: int, columns: int, depth: int, native: int
) -> Iterator[ContractionTile]:
    """All tiles that divide a contraction, each with its registers and its cost.

    A step of a tile loads the vectors of a row of rhs, spreads an element of lhs for each row, and
    multiplies and adds.
    """
    for r, c, d in product(divisors(rows), divisors(columns), divisors(depth)):
        vectors = -(-c // native)
        live = r * vectors + d * vectors + 1
        step = vectors + r + r * vectors
        cost = rows // r * (columns // c) * depth * step
        yield ContractionTile(r, c, d, live, float(cost))


def contraction_tile(
    rows: int,
    columns: int,
    depth: int,
    dtype: str,
    unit: VectorProcessor,
    *,
    tiles: Sequence[tuple[int, int, int]] | None = None,
) -> ContractionTile:
    """The tile to which a contraction of rows x columns x depth is unrolled.

    Its sums, the rows of rhs for its steps, and one temporary fit into the registers.

    Args:
        rows: the extent of the parallel dims of lhs.
        columns: of the last parallel dim, which goes along the lanes.
        depth: of the reduction.
        dtype: of the sums.
        unit: the processor.
        tiles: (rows, columns, depth) of those to choose from; by default all that divide.

    Raises:
        VectorError: E_NO_NATIVE_SHAPE when the processor has no arithmetic of that type,
            E_NO_LEGAL_SHAPE when no tile divides the extents and fits into the registers.
    """
    what = f"contract {rows}x{columns}x{depth} of {short(dtype)}"
    native = native_lanes(unit, dtype, what)
    every = list(contraction_tiles(rows, columns, depth, native))
    if tiles is not None:
        every = [one for one in every if (one.rows, one.columns, one.depth) in set(tiles)]
    fitting = [one for one in every if one.live <= unit.registers]
    return cheapest(fitting, f"{what} on {unit.name} with {unit.registers} registers")


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    return [d for d in range(1, number + 1) if number % d == 0]
