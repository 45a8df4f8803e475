"""Shorthand arguments of attention: layouts and pools for maps, causal and window for a band."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, Shape, TensorType, shape_text
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.ops.base.operands import resolve_extents, whole_number

Layout = Literal["bhsd", "bshd"]
Pages = Literal["phsd", "pshd"]
Causal = bool | Literal["upper_left", "lower_right"]
Window = int | Sequence[int | None] | None


# Iteration dims of the layouts: batch, head of key, query head within its group, row, k1, page of a
# sequence where there are pages, k2, n.
_B, _H, _G, _M, _K1, _P, _K2, _N = range(8)
_POOLS = ("key", "value")


def layout_maps(
    op: str,
    layout: Layout,
    types: Mapping[str, TensorType],
    results: Sequence[str],
    pages: Pages | None,
) -> tuple[dict[str, IndexingMap], dict[int, Extent]]:
    """The maps of a head layout, and the extents of the dims that share an axis.

    The first axis of a pool is of the pages that sequences have, one sequence after the other, as
    the table would number them that leaves all where it is.

    Raises:
        OpError: for an unknown layout, a wrong rank, or heads that do not group.
    """
    if layout not in ("bhsd", "bshd"):
        raise OpError(f"{op}: layout is {layout!r}; expected 'bhsd' or 'bshd'")
    for name in ("query", "key", "value"):
        if len(types[name].shape) != 4:
            raise OpError(
                f"{op}: {name} {shape_text(types[name].shape)} has rank {len(types[name].shape)};"
                f" expected 4 for layout {layout!r} (other ranks: indexing_maps)"
            )
    key_layout = _pool_layout(op, layout, types, pages) if "block_table" in types else layout
    heads = types["query"].shape[layout.index("h")]
    key_heads = types["key"].shape[key_layout.index("h")]
    known: dict[int, Extent] = {_G: 1}
    query_heads: tuple[int, ...] = (_H,)
    if heads != key_heads:
        if isinstance(heads, str) or isinstance(key_heads, str) or heads % key_heads:
            raise OpError(
                f"{op}: query has {heads} heads and key {key_heads};"
                " expected a multiple, both numbers"
            )
        known, query_heads = {_G: heads // key_heads, _H: key_heads}, (_H, _G)

    def axes(
        layout: str, head: tuple[int, ...], row: int, column: int
    ) -> tuple[tuple[int, ...], ...]:
        by_letter = {"b": (_B,), "p": (_B, _P), "h": head, "s": (row,), "d": (column,)}
        return tuple(by_letter[letter] for letter in layout)

    operand_axes = {
        "query": axes(layout, query_heads, _M, _K1),
        "key": axes(key_layout, (_H,), _K2, _K1),
        "value": axes(key_layout, (_H,), _K2, _N),
        "output": axes(layout, query_heads, _M, _N),
    }
    for name in results[1:]:
        operand_axes[name] = tuple(axis for axis in operand_axes["output"] if axis != (_N,))
    if "mask" in types:
        full: tuple[tuple[int, ...], ...] = ((_B,), query_heads, (_M,), (_K2,))
        wants = [types["query"].shape[layout.index(letter)] for letter in "bhs"]
        keys = types["key"].shape[key_layout.index("s")]
        if "block_table" in types:
            full, width = (*full[:-1], (_P, _K2)), types["block_table"].shape[1]
            keys = "?" if isinstance(width, str) else width * int(keys)
        wants.append(keys)
        operand_axes["mask"] = _mask_axes(op, types["mask"].shape, full, tuple(wants))
    if "key_lengths" in types:
        shape = types["key_lengths"].shape
        if len(shape) != 1:
            raise OpError(
                f"{op}: key_lengths {shape_text(shape)} has rank {len(shape)};"
                f" expected 1, the batch, for layout {layout!r}"
            )
        operand_axes["key_lengths"] = ((_B,),)
    if "block_table" in types:
        operand_axes["block_table"] = ((_B,), (_P,))
    # Unused dims (a group of one) are dropped, so that the maps read as a user would write them.
    used = sorted({dim for one in operand_axes.values() for axis in one for dim in axis})
    renumber = {dim: index for index, dim in enumerate(used)}
    maps = {
        name: IndexingMap(len(used), tuple(tuple(renumber[d] for d in axis) for axis in one))
        for name, one in operand_axes.items()
    }
    return maps, {renumber[dim]: extent for dim, extent in known.items() if dim in renumber}


def _pool_layout(
    op: str, layout: Layout, types: Mapping[str, TensorType], pages: Pages | None
) -> Pages:
    """The layout of pools of pages: by default the query's, with pages for the batch.

    Raises:
        OpError: for an unknown one, a table of another rank, a pool without pages, and keys of a
            page that are no number.
    """
    found: Pages = ("phsd" if layout == "bhsd" else "pshd") if pages is None else pages
    if found not in ("phsd", "pshd"):
        raise OpError(f"{op}: pages is {pages!r}; expected 'phsd' or 'pshd'")
    if len(table := types["block_table"].shape) != 2:
        raise OpError(
            f"{op}: block_table {shape_text(table)} has rank {len(table)};"
            " expected 2, the batch and the pages of a sequence"
        )
    for name in _POOLS:
        shape, place = types[name].shape, found.index("s")
        if shape[0] == 0:
            raise OpError(f"{op}: {name} {shape_text(shape)} has no page; expected 1 or more")
        if isinstance(shape[place], str) or shape[place] == 0:
            raise OpError(
                f"{op}: {name} axis {place} has extent {shape[place]!r};"
                " expected the keys of a page, a number from 1 on"
            )
    return found


def resolve_pools(
    op: str,
    types: Mapping[str, TensorType],
    maps: Mapping[str, IndexingMap],
    known: Mapping[int, Extent],
) -> tuple[dict[str, TensorType], tuple[Extent, ...]]:
    """:func:`.resolve_extents`, with one extent for the pages of key and value, which no dim has.

    Raises:
        OpError: as there.
    """
    if "block_table" not in types:
        return resolve_extents(op, types, maps, known)
    count = maps["query"].num_dims
    wider = {
        name: IndexingMap(count + 1, ((count,), *one.axes[1:]) if name in _POOLS else one.axes)
        for name, one in maps.items()
    }
    settled, extents = resolve_extents(op, types, wider, known)
    return settled, extents[:-1]


def _mask_axes(
    op: str, shape: Shape, full: Sequence[tuple[int, ...]], wants: Shape
) -> tuple[tuple[int, ...], ...]:
    """The axes of a mask that broadcasts to ``wants``, whose axes are ``full``."""
    if not 1 <= len(shape) <= 4:
        raise OpError(f"{op}: mask {shape_text(shape)} has rank {len(shape)}; expected 1 to 4")
    axes: list[tuple[int, ...]] = []
    for axis, extent, want in zip(full[-len(shape) :], shape, wants[-len(shape) :], strict=True):
        if extent != want and extent != 1 and isinstance(extent, int) and isinstance(want, int):
            raise OpError(
                f"{op}: mask {shape_text(shape)} does not broadcast to {shape_text(wants)}"
            )
        axes.append(() if extent == 1 and want != 1 else axis)
    return tuple(axes)


@dataclass(frozen=True)
class Band:
    """The keys that row i sees: ``i + offset - left .. i + offset + right``; None is unbounded.

    ``offset`` is 0, or keys - rows when ``align_end`` (the last row stands at the last key), where
    a batch point's length is the number of its keys.
    """

    left: int | None
    right: int | None
    align_end: bool

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"left": self.left, "right": self.right, "align_end": self.align_end}

    def pairs(self, rows: int, keys: int) -> int:
        """How many (row, key) pairs the band leaves."""
        offset = keys - rows if self.align_end else 0
        total = 0
        for row in range(rows):
            low = 0 if self.left is None else max(0, row + offset - self.left)
            high = keys if self.right is None else min(keys, row + offset + self.right + 1)
            total += max(0, high - low)
        return total


def band_of(
    op: str, causal: Causal, window: Window, dims: Mapping[str, tuple[int, ...]], *, paged: bool
) -> Band | None:
    """The band that ``causal`` and ``window`` ask for, or None.

    Key dims that are ``paged``, pages and places in them, give a key one position.

    Raises:
        OpError: for other values, or when rows or keys have no single position.
    """
    if causal not in (False, True, "upper_left", "lower_right"):
        raise OpError(f"{op}: causal is {causal!r}; expected a bool, 'upper_left' or 'lower_right'")
    left, right = _sides(op, window)
    if causal:
        right = 0
    if left is None and right is None:
        return None
    if not dims["m"] or (len(dims["k2"]) != 1 and not paged):
        raise OpError(
            f"{op}: causal and window need row positions and one key dim;"
            f" there are {len(dims['m'])} m dims and {len(dims['k2'])} k2 dims"
        )
    return Band(left, right, align_end=causal == "lower_right")


def _sides(op: str, window: Window) -> tuple[int | None, int | None]:
    if window is None:
        return None, None
    both = (window, window) if whole_number(window) is not None else window
    if not isinstance(both, tuple | list) or len(both) != 2:
        raise OpError(f"{op}: window is {window!r}; expected a number or (left, right)")
    left, right = (side if side is None else whole_number(side) for side in both)
    for given, side in zip(both, (left, right), strict=True):
        # Positions are int64, and a side is added to one.
        if given is not None and (side is None or not 0 <= side <= 2**62):
            raise OpError(
                f"{op}: window is {window!r}; its sides are numbers from 0 to 2**62, or None"
            )
    return left, right
