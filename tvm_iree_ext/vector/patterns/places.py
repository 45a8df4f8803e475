"""Boxes of memory that transfers touch: index expressions compared, whether boxes overlap."""

from dataclasses import dataclass

from tvm_iree_ext.vector.ir.affine_maps import AffineMap
from tvm_iree_ext.vector.ir.core import Operation, Value

READS = ("vector.transfer_read", "vector.load")
WRITES = ("vector.transfer_write", "vector.store")


@dataclass(frozen=True)
class Sum:
    """``sum(coefficient * value) + constant``: what an index is computed as."""

    terms: tuple[tuple[Value, int], ...]
    constant: int


def sum_of(value: Value) -> Sum:
    """An index as a sum, as far as additions and multiplications with constants tell."""
    terms: dict[Value, int] = {}
    constant = _collect(value, 1, terms)
    ordered = sorted(((v, by) for v, by in terms.items() if by), key=lambda pair: id(pair[0]))
    return Sum(tuple(ordered), constant)


def _collect(value: Value, by: int, terms: dict[Value, int]) -> int:
    if value.constant is not None:
        return by * int(value.constant)
    op = value.op
    if op is not None and op.name in ("arith.addi", "arith.subi"):
        a, b = op.operands
        return _collect(a, by, terms) + _collect(b, by if op.name == "arith.addi" else -by, terms)
    if op is not None and op.name == "arith.muli":
        for one, other in (op.operands, op.operands[::-1]):
            if other.constant is not None:
                return _collect(one, by * int(other.constant), terms)
    terms[value] = terms.get(value, 0) + by
    return 0


def difference(a: Value, b: Value) -> int | None:
    """``a - b`` where it is the same number at run time, too; None where that is not known."""
    first, second = sum_of(a), sum_of(b)
    return first.constant - second.constant if first.terms == second.terms else None


@dataclass(frozen=True)
class AccessedBox:
    """The box of memory that a transfer, load or store touches.

    Attributes:
        op: the operation.
        memory: the tensor or buffer that it reads or writes.
        indices: where the box starts, for each dim of the memory.
        sizes: how far it goes, for each dim of the memory.
        map: from the memory's dims to the vector's.
        is_whole: whether each position of the vector is sure to be touched.
    """

    op: Operation
    memory: Value
    indices: tuple[Value, ...]
    sizes: tuple[int, ...]
    map: AffineMap
    is_whole: bool

    @property
    def is_write(self) -> bool:
        """Whether this writes."""
        return self.op.name in WRITES

    @property
    def vector(self) -> Value:
        """The vector that is written, or that is read."""
        if not self.is_write:
            return self.op.result
        return self.op.operand("vector" if self.op.name == "vector.transfer_write" else "value")

    def offsets_in(self, other: "AccessedBox") -> tuple[int | None, ...]:
        """For each dim how far this starts behind the other; None where it is not known."""
        return tuple(map(difference, self.indices, other.indices))

    def is_disjoint(self, other: "AccessedBox") -> bool:
        """Whether this is sure to touch nothing of what the other one touches."""
        return any(
            by is not None and (by >= theirs or -by >= own)
            for by, own, theirs in zip(self.offsets_in(other), self.sizes, other.sizes, strict=True)
        )

    def is_same(self, other: "AccessedBox") -> bool:
        """Whether both touch the same elements, and have them at the same lanes."""
        return (
            self.map == other.map
            and self.vector.type == other.vector.type
            and all(by == 0 for by in self.offsets_in(other))
        )

    def is_inside(self, other: "AccessedBox") -> bool:
        """Whether all that this touches is sure to be touched by the other."""
        return all(
            by is not None and 0 <= by <= theirs - own
            for by, own, theirs in zip(self.offsets_in(other), self.sizes, other.sizes, strict=True)
        )


def access_of(op: Operation) -> AccessedBox | None:
    """The access of a transfer, load or store; None for other ops."""
    if op.name not in READS + WRITES:
        return None
    is_transfer = op.name.startswith("vector.transfer")
    memory = op.operand({READS[0]: "source", WRITES[0]: "dest"}.get(op.name, "base"))
    shape = op.result.shape if op.name in READS else op.operands[0].shape
    map = AffineMap.minor_identity(memory.rank, len(shape))
    is_whole = True
    if is_transfer:
        map = op.attributes["permutation_map"]
        is_whole = all(op.attributes["in_bounds"]) and not op.group("mask")
    sizes = [1] * memory.rank
    for extent, dim in zip(shape, map.dims, strict=True):
        if dim is not None:
            sizes[dim] = extent
    return AccessedBox(op, memory, tuple(op.group("indices")), tuple(sizes), map, is_whole)
