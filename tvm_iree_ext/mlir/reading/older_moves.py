"""Older spellings of operations that move elements: pack, unpack, im2col, transfer_gather."""

from math import prod

from tvm_iree_ext.mlir.reading.older_attributes import dictionary
from tvm_iree_ext.mlir.reading.older_forms import (
    Form,
    clauses_of,
    custom_form,
    extents,
    integers,
    map_of,
)
from tvm_iree_ext.mlir.reading.older_text import Refused, Span, Text, Unfit, WordCursor, entries


def packing(text: Text, name: str, named: Span) -> None:
    """``iree_linalg_ext.pack`` is ``linalg.pack``, whose types stand otherwise."""
    words = WordCursor(text, named.end)
    attributes = words.group() if words.peek() == "{" else None
    words.take()  # the source
    clauses = clauses_of(text, words)
    words.take("into")
    target = words.take()
    text.replace(named, f"linalg.{name.rpartition('.')[2]}")
    if "dims_pos" in clauses:
        start = clauses["dims_pos"].whole.start
        text.replace(Span(start, start + len("dims_pos")), "inner_dims_pos")
    if attributes is not None:
        text.insert(target.end, dictionary(text, entries(text, attributes).items()))
        text.replace(attributes, "")
    words.take(":")
    if words.peek() != "(":
        return
    types = words.group()
    inside = WordCursor(text, types.inside.start, types.inside.end)
    source = _type(inside)
    inside.skip(",")
    text.replace(types, f"{text[source]} -> {text[_type(inside)]}")
    if words.peek() == "->":
        start = words.place
        words.take()
        text.replace(Span(start, _type(words).end), "")


def _type(words: WordCursor) -> Span:
    start = words.take().start
    return Span(start, words.group().end if words.peek() == "<" else words.at)


def im2col(text: Text, name: str, named: Span) -> None:
    """Offsets of M and of K are offsets in all dims, and sizes in place of strides.

    The sizes are those of the whole result: numbers of windows, and extents of a window.
    """
    op = custom_form(text, name, named)
    batch, m_pos, k_pos = (_numbers(op, one) for one in ("batch_pos", "m_pos", "k_pos"))
    inner = len(m_pos) + len(k_pos)
    dims = len(batch)
    if "m_offset" in op.clauses:
        m_groups, k_groups = _sizes(op, batch, m_pos, k_pos)
        m_offset, k_offset = ([text[one] for one in _list(op, f"{x}_offset")] for x in "mk")
        _refuse_carries(op, len(batch), m_offset, m_groups)
        _refuse_carries(op, len(batch) + len(m_offset), k_offset, k_groups)
        offsets = ["0"] * len(batch) + m_offset + k_offset
        sizes = [*([one] for one in _extents(op, batch)), *m_groups, *k_groups]
        dims = len(sizes)
        new = f"offsets = [{', '.join(offsets)}] output_sizes = {sizes}"
        text.replace(op.clauses["m_offset"].whole, new)
        text.replace(op.clauses["k_offset"].whole, "")
    else:
        dims = len(_list(op, "offsets"))
    last = op.clauses["k_pos"].whole.end
    if "input_k_perm" in op.clauses:
        last = op.clauses["input_k_perm"].whole.end
    else:
        text.insert(last, f" input_k_perm = {list(range(inner))}")
    if "output_perm" not in op.clauses:
        text.insert(last, f" output_perm = {list(range(dims))}")


def _list(op: Form, name: str) -> list[Span]:
    if name not in op.clauses:
        raise Unfit
    return op.text.parts(op.clauses[name].value.inside)


def _numbers(op: Form, name: str) -> list[int]:
    return integers(op.name, name, [op.text[one] for one in _list(op, name)])


def _extents(op: Form, dims: list[int]) -> list[int]:
    """Of the image, along dims.

    Raises:
        Refused: for one that is known in a call only.
    """
    _, types = op.operands("ins")
    found = extents(types[0]) if types else []
    if any(not 0 <= dim < len(found) for dim in dims):
        raise Unfit
    known = [found[dim] for dim in dims]
    if None in known:
        raise Refused(
            f"{op.name}: the image's extents must be known in this older spelling; write offsets ="
            " [...] output_sizes = [[...]] in place of m_offset and k_offset"
        )
    return [one for one in known if one is not None]


def _sizes(
    op: Form, batch: list[int], m_pos: list[int], k_pos: list[int]
) -> tuple[list[list[int]], list[list[int]]]:
    """The sizes of each M dim, and of each K dim."""
    named = ("kernel_size", "strides", "dilations")
    kernel, strides, dilations = (_numbers(op, one) for one in named)
    image = _extents(op, m_pos)
    if not len(kernel) == len(strides) == len(dilations) == len(image) or 0 in strides:
        raise Unfit
    windows = [
        (extent - 1 - (k - 1) * d) // s + 1
        for extent, k, s, d in zip(image, kernel, strides, dilations, strict=True)
    ]
    window = dict(zip(m_pos, kernel, strict=True))
    window |= dict(zip(k_pos, _extents(op, k_pos), strict=True))
    within = [window[dim] for dim in sorted(window)]
    return _grouped(op, "m_offset", windows), _grouped(op, "k_offset", within)


def _grouped(op: Form, name: str, sizes: list[int]) -> list[list[int]]:
    """The sizes of the dims that a stride goes over, for each stride.

    Raises:
        Refused: for strides that are no products of sizes.
    """
    given_offsets = _list(op, name)
    clause = op.clauses[name]
    given = ["1"] if clause.factor is None else _texts(op.text, clause.factor)
    strides = integers(op.name, f"the strides of {name}", given)
    if len(strides) != len(given_offsets) or strides[-1:] != [1]:
        raise Unfit
    groups: list[list[int]] = []
    left = list(sizes)
    for outer, stride in zip(strides[-2::-1], strides[:0:-1], strict=True):
        group: list[int] = []
        while left and (not group or stride * prod(group) < outer):
            group.insert(0, left.pop())
        if stride * prod(group) != outer:
            break
        groups.insert(0, group)
    if len(groups) != len(strides) - 1 or not left:
        raise Refused(
            f"{op.name}: {name} has strides {strides}, which are no products of the sizes {sizes};"
            " write offsets = [...] output_sizes = [[...]]"
        )
    return [left, *groups]


def _refuse_carries(op: Form, first: int, offsets: list[str], groups: list[list[int]]) -> None:
    """Refuse a result whose inner dim goes beyond its sizes: only strides carry into the outer one.

    ``first`` is the dim of the result that the offsets begin with.
    """
    _, types = op.operands("outs")
    shape = extents(types[0]) if types and "output_perm" not in op.clauses else []
    inner = zip(offsets[1:], groups[1:], shape[first + 1 :], strict=False)
    for offset, sizes, extent in inner:
        if extent is not None and offset.isdecimal() and int(offset[:18]) + extent > prod(sizes):
            raise Refused(
                f"{op.name}: {extent} elements from {offset} on go beyond the sizes {sizes};"
                " write offsets = [...] output_sizes = [[...]]"
            )


def _texts(text: Text, group: Span) -> list[str]:
    return [text[one] for one in text.parts(group.inside)]


def transfer(text: Text, name: str, named: Span) -> None:
    """Maps in ``<{...}>``; and one for each index vector in place of ``indexed_maps``."""
    words = WordCursor(text, named.end)
    words.take()  # what is gathered from, or the vector that is scattered
    if words.skip("into"):
        words.take()
    words.group()  # offsets
    indices = words.group()
    commas = 0
    while words.peek() not in ("{", "<", ":", ""):
        commas += words.peek() == ","
        words.take()
    if words.peek() != "{":
        raise Unfit
    attributes = words.group()
    known = entries(text, attributes)
    if "indexing_maps" in known and len(known) == 1:
        text.insert(attributes.start, "<")
        text.insert(attributes.end, ">")
        return
    maps = known.pop("indexing_maps", None)
    ours = _maps_of_indexed(text, name, indices, known, commas == 2) if maps is None else text[maps]
    rest = dictionary(text, known.items())
    text.replace(attributes, f"<{{indexing_maps = {ours}}}>{rest}")


def _maps_of_indexed(
    text: Text, name: str, indices: Span, known: dict[str, Span | None], masked: bool
) -> str:
    """The maps for ``[None, %rows : vector<4xindex>]``; the dims of the source are loops there."""
    indexed, order = known.pop("indexed_maps", None), known.pop("permutation_map", None)
    known.pop("in_bounds", None)
    if order is None:
        raise Refused(f"{name}: without maps; write <{{indexing_maps = [...]}}>")
    permutation = map_of(text, text[order])
    place = {dim: f"d{axis}" for axis, dim in enumerate(permutation.results)}
    parts = text.parts(indices.inside)
    gathered = [one for one in parts if text[one] != "None"]
    inner = [] if indexed is None else text.parts(indexed.inside)
    if len(parts) != len(permutation.dims) or len(inner) != len(gathered):
        raise Unfit
    symbols = iter(range(len(gathered)))
    source = [
        place.get(dim, "0") if text[part] == "None" else f"s{next(symbols)}"
        for part, dim in zip(parts, permutation.dims, strict=True)
    ]
    vectors = []
    for one in inner:
        found = map_of(text, text[one])
        loops = dict(zip(found.dims, permutation.dims, strict=False))
        wanted = [place.get(loops.get(dim, "")) for dim in found.results]
        if None in wanted:
            raise Unfit
        vectors.append([dim for dim in wanted if dim is not None])
    if masked:  # by the loops of the source, in their order
        vectors.append([place[dim] for dim in permutation.dims if dim in place])
    dims = ", ".join(f"d{axis}" for axis in range(len(permutation.results)))
    names = ", ".join(f"s{number}" for number in range(len(gathered)))
    head = f"({dims})[{names}]" if names else f"({dims})"
    halves = [text.parts(one, ":") for one in gathered]
    if any(len(half) != 2 for half in halves):
        raise Unfit
    values, types = ([text[half[at]] for half in halves] for at in (0, 1))
    text.replace(indices.inside, f"{', '.join(values)} : {', '.join(types)}" if values else "")
    maps = [f"affine_map<{head} -> ({', '.join(one)})>" for one in [source, *vectors]]
    return f"[{', '.join(maps)}]"
