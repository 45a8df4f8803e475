"""Attributes where older spellings have them, and today's do not: the rules for such operations."""

import re
from collections.abc import Callable, Iterable, Sequence

from tvm_iree_ext.mlir.reading.older_forms import Form, custom_form, extents, map_of
from tvm_iree_ext.mlir.reading.older_text import Refused, Span, Text, Unfit, list_of

Rule = Callable[[Text, str, Span], None]

_OF_ATTENTION = ("indexing_maps", "decomposition_config")
_MOST_DEPTH = 16  # of indices, which name as many dims


def dictionary(text: Text, known: Iterable[tuple[str, Span | None]]) -> str:
    """Attributes as ``{a, b = 1}``; nothing where there are none."""
    inside = ", ".join(k if v is None else f"{k} = {text[v]}" for k, v in known)
    return f" {{{inside}}}" if inside else ""


def in_clauses(*fields: str, equals: Sequence[str] = ()) -> Rule:
    """A rule for ``{name = value}`` that is ``name(value)``, or ``name = value``, in this order."""

    def rule(text: Text, name: str, named: Span) -> None:
        op = custom_form(text, name, named)
        given = {one: _plain(text, op, one) for one in fields if one in (*op.known, *op.clauses)}
        if "dimension_map" in fields and "dimension_map" not in given:
            given["dimension_map"] = _first_dims(op)
        if "unique_indices" in fields:
            given.setdefault("unique_indices", "true")
        if name.endswith(".sort"):
            _drop_inputs(op)
        if all(one in op.clauses for one in given):
            return
        said = [
            f"{k} = {given[k]}" if k in equals else f"{k}({given[k]})" for k in fields if k in given
        ]
        rest = [(k, v) for k, v in op.known.items() if k not in fields]
        for one in fields:
            if one in op.clauses:
                text.replace(op.clauses[one].whole, "")
        _replace_attributes(op, f"{dictionary(text, rest)} {' '.join(said)} ")

    return rule


def _replace_attributes(op: Form, new: str) -> None:
    """Put ``new`` behind the name, and in the place of what attributes there are."""
    if op.properties is not None and op.attributes is not None:
        op.text.replace(op.properties, "")
    place = op.attributes or op.properties or Span(op.named.end, op.named.end)
    op.text.replace(place, new)


def _plain(text: Text, op: Form, name: str) -> str:
    """The value of a clause or an attribute, without types of its own."""
    if name in op.clauses:
        value = op.of(name)
        return value[1:-1] if value[:1] == "(" else value
    span = op.known[name]
    if span is None:
        return "true"
    value = text[span]
    number = re.fullmatch(r"(-?\d+|true|false)(?: ?: ?\w+)?", value)
    return number[1] if number else f"[{', '.join(list_of(value))}]"


def _first_dims(op: Form) -> str:
    """The dimension map that an older scatter or gather meant: the first dims, in order."""
    _, types = op.operands("ins")
    if len(types) < 2:
        raise Unfit
    depth = extents(types[1])[-1:]
    if not depth or depth[0] is None or depth[0] > _MOST_DEPTH:
        raise Refused(
            f"{op.name}: without a dimension_map the last extent of indices must be known"
        )
    return str(list(range(depth[0])))


def _drop_inputs(op: Form) -> None:
    """What ``outs`` of a sort names is what is sorted; older text names it in ``ins`` as well."""
    if "ins" not in op.clauses:
        return
    if op.operands("ins") != op.operands("outs"):
        raise Refused(f"{op.name}: what is sorted stands in outs(...); ins(...) names other values")
    op.text.replace(op.clauses["ins"].whole, "")


def iterator_types(text: Text, name: str, named: Span) -> None:
    """``["parallel"]`` is ``[#iree_linalg_ext.iterator_type<parallel>]``."""
    op = custom_form(text, name, named)
    kinds = op.known.get("iterator_types")
    if kinds is not None:
        typed_iterators(text, kinds)


def typed_iterators(text: Text, kinds: Span) -> None:
    """The same, where the list stands."""
    for word in text.words(kinds):
        if found := re.fullmatch(r'"(parallel|reduction)"', text[word]):
            text.replace(word, f"#iree_linalg_ext.iterator_type<{found[1]}>")


def attention(text: Text, name: str, named: Span) -> None:
    """Maps in ``<{...}>``, one of them the scale's, and a region; older text leaves these out."""
    op = custom_form(text, name, named)
    inputs, types = op.operands("ins")
    outs, _ = op.operands("outs")
    if len(inputs) < 4:
        raise Refused(f"{name}: without a scale, which is the fourth of ins(...) today")
    span = op.known.get("indexing_maps")
    given = [] if span is None else text.parts(span.inside)
    maps = [text[one] for one in given] or _maps_by_rank(op, types)
    if len(maps) == len(inputs) + len(outs) - 1:
        scale = f"affine_map<({', '.join(map_of(text, maps[0]).dims)}) -> ()>"
        maps.insert(3, scale)
        if given:
            text.insert(given[2].end, f", {scale}")
    _as_properties(op, maps)
    if op.words.peek() != "{":
        region = "^bb0(%older.score: f32): iree_linalg_ext.yield %older.score : f32"
        text.insert(op.words.at, f" {{ {region} }}")


def _as_properties(op: Form, maps: list[str]) -> None:
    """Put ``<`` and ``>`` around the attributes, or write those anew that hold others as well."""
    rest = [(k, v) for k, v in op.known.items() if k not in (*_OF_ATTENTION, "transpose_v")]
    if op.properties is not None and "indexing_maps" in op.known:
        return
    if op.attributes is not None and "indexing_maps" in op.known and not rest:
        op.text.insert(op.attributes.start, "<")
        op.text.insert(op.attributes.end, ">")
        return
    ours = f"indexing_maps = [{', '.join(maps)}]"
    config = op.known.get("decomposition_config")
    ours += f", decomposition_config = {op.text[config]}" if config is not None else ""
    _replace_attributes(op, f" <{{{ours}}}>{dictionary(op.text, rest)} ")


def _maps_by_rank(op: Form, types: list[str]) -> list[str]:
    """The maps of an attention that has none: batch dims in front, then rows, then columns."""
    rank = len(extents(types[0]))
    if rank < 2 or op.name.endswith("online_attention") or len(types) > 4:
        raise Refused(f"{op.name}: without maps; write <{{indexing_maps = [...]}}>")
    batch = [f"b{axis}" for axis in range(rank - 2)]
    transposed = "transpose_v" in op.known and _plain(op.text, op, "transpose_v") != "false"
    value = ["n", "k2"] if transposed else ["k2", "n"]
    inner = (["m", "k1"], ["k2", "k1"], value)
    results = [*([*batch, *dims] for dims in inner), [], [*batch, "m", "n"]]
    dims = ", ".join([*batch, "m", "n", "k1", "k2"])
    return [f"affine_map<({dims}) -> ({', '.join(one)})>" for one in results]
