"""Slices of a tensor that indices address: scatter writes them, and gather reads them.

For batch position p and window position x, in a tensor of rank r whose windows have rank nw:

    c[r - nw + j] = x_j, all other c 0;   c[dimension_map[i]] += indices[p, i]

The usual window covers the dims that are not indexed, whole.  One that covers indexed dims, too,
has the index as its start corner.  A slice is addressed only where its whole window lies in the
tensor.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, Shape, TensorType, shape_text
from tvm_iree_ext.ops.base import shapes
from tvm_iree_ext.ops.base.operands import INDEX_DTYPES, OperandLike, as_tensor

MASK_DTYPES = ("bool", "int8")
OUT_OF_RANGE = ("skip", "error")


@dataclass(frozen=True)
class IndexedSlices:
    """The slices of a tensor that indices address.

    Attributes:
        full: extents of the indexed tensor.
        batch: extents of the batch positions, each with an index.
        window: extents of a slice.
        dimension_map: the dim of the tensor that each index component addresses.
        depth_dim: whether the indices have a last dim for their components.
    """

    full: Shape
    batch: Shape
    window: Shape
    dimension_map: tuple[int, ...]
    depth_dim: bool

    @property
    def depth(self) -> int:
        """How many dims are indexed: the first ones."""
        return len(self.dimension_map)

    @property
    def covered(self) -> int:
        """How many of the indexed dims, the last ones, the window covers."""
        return len(self.window) - (len(self.full) - self.depth)

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The window's extent over each indexed dim; 1 over those that it does not cover."""
        return (1,) * (self.depth - self.covered) + self.window[: self.covered]

    @property
    def indices(self) -> Shape:
        """The shape of the indices."""
        return (*self.batch, self.depth) if self.depth_dim else self.batch

    @property
    def slices(self) -> Shape:
        """The shape of all slices together: batch, then window."""
        return self.batch + self.window


def check_dimension_map(op: str, dimension_map: Sequence[int], rank: int, full: str) -> None:
    """Raise OpError unless it permutes the first dims of the tensor called ``full``."""
    depth = len(dimension_map)
    if depth == 0:
        raise OpError(f"{op}: dimension_map is empty; expected an entry per index component")
    if sorted(dimension_map) != list(range(depth)):
        raise OpError(
            f"{op}: dimension_map is {list(dimension_map)};"
            f" expected a permutation of 0 to {depth - 1}"
        )
    if depth > rank:
        raise OpError(f"{op}: dimension_map has {depth} entries, and {full} has rank {rank}")


def index_tensor(op: str, indices: OperandLike, dtype: str) -> TensorType:
    """The type of the indices.

    Raises:
        OpError: for another type than integers, or a scalar.
    """
    kind = as_tensor(op, "indices", indices, dtype, INDEX_DTYPES, least=0)
    if not kind.shape:
        raise OpError(f"{op}: indices is a scalar; expected rank 1 or more")
    return kind


def resolve_slices(
    op: str,
    full: tuple[str, TensorType],
    slices: tuple[str, TensorType],
    indices: TensorType,
    dimension_map: Sequence[int],
    batch_rank: int | None = None,
) -> IndexedSlices:
    """How the indices address ``full``, by the shapes of named operands; no ``?`` is left.

    With one component the depth dim may be omitted.  Where the shapes can be read in both ways,
    which mean the same, ``batch_rank`` decides, a mask's rank; without it the way by which fewer
    names stand for known numbers, and then that whose window covers no indexed dim.

    Raises:
        OpError: when the shapes fit in neither way; the message is that of the likelier one.
    """
    check_dimension_map(op, dimension_map, len(full[1].shape), full[0])
    depth, last = len(dimension_map), indices.shape[-1]
    readings = [True] if last == depth else []
    if depth == 1:
        readings.append(False)
    if not readings:
        if isinstance(last, str):
            raise OpError(
                f"{op}: the last extent of indices is {last}; expected the number {depth}"
            )
        raise OpError(
            f"{op}: the last extent of indices is {last};"
            f" expected {depth}, the number of entries of dimension_map"
        )

    def window_rank(depth_dim: bool) -> int:
        return len(slices[1].shape) - (len(indices.shape) - depth_dim)

    usual = len(full[1].shape) - depth
    readings.sort(key=lambda depth_dim: window_rank(depth_dim) != usual)
    readings.sort(key=lambda depth_dim: len(indices.shape) - depth_dim != batch_rank)
    errors, found = [], []
    for depth_dim in readings:
        try:
            one = _resolve(op, full, slices, indices, dimension_map, depth_dim)
        except OpError as error:
            errors.append(error)
            continue
        if len(indices.shape) - depth_dim == batch_rank:
            return one
        found.append(one)
    if not found:
        raise errors[0]

    def settled(one: IndexedSlices) -> int:
        """How many names of the slices' extents are numbers."""
        pairs = zip(slices[1].shape, one.slices, strict=True)
        return sum(isinstance(came, str) and isinstance(now, int) for came, now in pairs)

    return min(found, key=settled)


def _resolve(
    op: str,
    full: tuple[str, TensorType],
    slices: tuple[str, TensorType],
    indices: TensorType,
    dimension_map: Sequence[int],
    depth_dim: bool,
) -> IndexedSlices:
    (full_name, full_type), (slices_name, slices_type) = full, slices
    rank, depth = len(full_type.shape), len(dimension_map)
    batch = indices.shape[:-1] if depth_dim else indices.shape
    window_rank = len(slices_type.shape) - len(batch)
    if not rank - depth <= window_rank <= rank:
        raise OpError(
            f"{op}: {slices_name} {shape_text(slices_type.shape)} has a window of rank"
            f" {window_rank} after the {len(batch)} batch dims of indices;"
            f" expected {rank - depth} to {rank} for {full_name} {shape_text(full_type.shape)}"
        )

    def agree(axis: int, one: Extent, other_name: str, other: Extent) -> Extent:
        if isinstance(one, int) and isinstance(other, int) and one != other:
            raise OpError(
                f"{op}: {slices_name} axis {axis} has extent {one};"
                f" expected {other} as in {other_name}"
            )
        if isinstance(one, int) or other == "?":
            return one
        return other

    shape = [agree(i, slices_type.shape[i], f"indices axis {i}", e) for i, e in enumerate(batch)]
    tensor = list(full_type.shape)
    for j in range(window_rank):
        axis, dim = len(batch) + j, rank - window_rank + j
        extent, whole = slices_type.shape[axis], tensor[dim]
        if dim >= depth:
            extent = tensor[dim] = agree(axis, extent, f"{full_name} axis {dim}", whole)
        elif isinstance(extent, int) and isinstance(whole, int) and extent > whole:
            raise OpError(
                f"{op}: {slices_name} axis {axis} has extent {extent};"
                f" expected at most {whole} as in {full_name} axis {dim}"
            )
        shape.append(extent)

    # An unnamed extent gets the name of where it stands.
    named = shapes.named(tuple(shape), slices_name, tensor)
    if rank > depth:
        tensor[depth:] = named[depth - rank :]
    return IndexedSlices(
        full=shapes.named(tuple(tensor), full_name, named),
        batch=named[: len(batch)],
        window=named[len(batch) :],
        dimension_map=tuple(dimension_map),
        depth_dim=depth_dim,
    )


def mask_tensor(op: str, mask: OperandLike) -> TensorType:
    """The type of a mask; a bare shape means bool.

    Raises:
        OpError: for another type than i1 or i8.
    """
    return as_tensor(op, "mask", mask, "bool", MASK_DTYPES, least=0)


def check_mask(op: str, kind: TensorType, batch: Shape) -> None:
    """Raise OpError unless the mask has the shape of the batch."""
    if len(kind.shape) != len(batch):
        raise OpError(
            f"{op}: mask {shape_text(kind.shape)} has rank {len(kind.shape)};"
            f" expected the batch, {shape_text(batch)}"
        )
    for axis, (extent, want) in enumerate(zip(kind.shape, batch, strict=True)):
        if isinstance(extent, int) and isinstance(want, int) and extent != want:
            raise OpError(
                f"{op}: mask axis {axis} has extent {extent}; expected {want} as in the batch"
            )


def check_out_of_range(op: str, out_of_range: str) -> None:
    """Raise OpError for another value than those of :data:`OUT_OF_RANGE`."""
    if out_of_range not in OUT_OF_RANGE:
        raise OpError(f"{op}: out_of_range is {out_of_range!r}; expected 'skip' or 'error'")
