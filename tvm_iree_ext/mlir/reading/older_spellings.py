"""Older spellings of the dialects' operations, and what each is today.

The dialects' pages of recent years show operations as the parser of their day took them; the one in
use refuses many.  A rule for each brings it up to date where it stands.  A text is looked at only
after the parser has refused it, so that newer text is never changed.
"""

import re
from dataclasses import dataclass

from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.reading.older_attributes import (
    Rule,
    attention,
    dictionary,
    in_clauses,
    iterator_types,
)
from tvm_iree_ext.mlir.reading.older_generic import RENAMED, generic
from tvm_iree_ext.mlir.reading.older_moves import im2col, packing, transfer
from tvm_iree_ext.mlir.reading.older_text import (
    STRING,
    Refused,
    Span,
    Text,
    Unfit,
    WordCursor,
    entries,
)

_NAMES = re.compile(
    r"//[^\n]*"
    r'|"(?P<generic>(?:iree_linalg_ext|mhlo)\.[\w.]+)"(?=\s*\()'
    rf"|{STRING}"
    r"|(?P<attribute>#iree_vector_ext\.nested_layout)\b"
    r"|(?<![\w.$%@#!^-])(?P<custom>(?:iree_linalg_ext|iree_vector_ext|tensor|mhlo)\.[\w.]+)"
    r"(?![\w.]|\s*[=,}])",  # an attribute's name is followed by these
    re.ASCII,
)
_WINOGRAD = "output_tile_size", "kernel_size"
_LAYOUT = {
    "subgroups_per_workgroup": "subgroup_tile",
    "batches_per_subgroup": "batch_tile",
    "outers_per_batch": "outer_tile",
    "threads_per_outer": "thread_tile",
    "elements_per_thread": "element_tile",
}
_MHLO = (
    "mhlo is today's stablehlo, which IREE's input pipeline takes: --input stablehlo; in Python,"
    ' tvm_iree_ext.frontends.import_lowered(source, "stablehlo")'
)
_SHARED = "shared_memory_conversion"
_MOST_REFUSALS = 20


def _renamed(text: Text, name: str, named: Span) -> None:
    text.replace(named, RENAMED[name])


def _of_linalg(text: Text, name: str, named: Span) -> None:
    """``tensor.pack`` is ``linalg.pack``."""
    text.replace(named, f"linalg.{name.rpartition('.')[2]}")


def _reverse(text: Text, name: str, named: Span) -> None:
    raise Refused(
        f"{name}: is gone; write linalg.generic with tensor.extract of the reversed index"
    )


def _to_layout(text: Text, name: str, named: Span) -> None:
    """``to #layout`` is ``to layout(#layout)``; ``{shared_memory_conversion}`` stands in ``<>``."""
    words = WordCursor(text, named.end)
    words.take()
    words.take("to")
    if words.skip("layout"):
        words.group()
    else:
        start = words.take().start
        end = words.group().end if words.peek() == "<" else words.at
        text.insert(start, "layout(")
        text.insert(end, ")")
    if words.peek() != "{":
        return
    attributes = words.group()
    known = entries(text, attributes)
    if _SHARED not in known:
        return
    span = known.pop(_SHARED)
    value = "unit" if span is None else text[span]
    text.replace(attributes, f"<{_SHARED} = {value}>{dictionary(text, known.items())}")


def _nested_layout(text: Text, name: str, named: Span) -> None:
    """The names of a layout's tiles."""
    for word in text.words(WordCursor(text, named.end).group()):
        if (newer := _LAYOUT.get(text[word])) is not None:
            text.replace(word, newer)


SPELLINGS: dict[str, Rule] = {
    "iree_linalg_ext.arg_compare": in_clauses("dimension"),
    "iree_linalg_ext.attention": attention,
    "iree_linalg_ext.custom_op": iterator_types,
    "iree_linalg_ext.exp_reduction": iterator_types,
    "iree_linalg_ext.gather": in_clauses("dimension_map", equals=("dimension_map",)),
    "iree_linalg_ext.im2col": im2col,
    "iree_linalg_ext.map_gather": _renamed,
    "iree_linalg_ext.map_scatter": _renamed,
    "iree_linalg_ext.online_attention": attention,
    "iree_linalg_ext.pack": packing,
    "iree_linalg_ext.reverse": _reverse,
    "iree_linalg_ext.scan": in_clauses("dimension", "inclusive"),
    "iree_linalg_ext.scatter": in_clauses(
        "dimension_map", "unique_indices", equals=("dimension_map",)
    ),
    "iree_linalg_ext.sort": in_clauses("dimension"),
    "iree_linalg_ext.topk": in_clauses("dimension"),
    "iree_linalg_ext.unpack": packing,
    "iree_linalg_ext.winograd.filter_transform": in_clauses(*_WINOGRAD, "kernel_dimensions"),
    "iree_linalg_ext.winograd.input_transform": in_clauses(*_WINOGRAD, "image_dimensions"),
    "iree_linalg_ext.winograd.output_transform": in_clauses(*_WINOGRAD, "image_dimensions"),
    "iree_vector_ext.arg_compare": in_clauses("dimension"),
    "iree_vector_ext.to_layout": _to_layout,
    "iree_vector_ext.transfer_gather": transfer,
    "iree_vector_ext.transfer_scatter": transfer,
    "tensor.pack": _of_linalg,
    "tensor.unpack": _of_linalg,
}
"""Operation -> the rule for its older spellings."""

_OTHERS: dict[str, Rule] = {"attribute": _nested_layout, "generic": generic}


@dataclass(frozen=True)
class Today:
    """What became of a text: the newer one, if anything changed, and what has no meaning today."""

    text: bytes | None
    refusals: list[tuple[form.Location, str]]


def up_to_date(source: bytes) -> Today:
    """Bring the older spellings of a text up to date; each line keeps its number."""
    text = Text(source.decode("latin-1"))  # a character for each byte
    refusals = []
    for found in _NAMES.finditer(text.text):
        kind = found.lastgroup
        if kind is None:
            continue
        name = found[kind]
        if name.startswith("mhlo."):
            return Today(None, [(_location(text.text, found.start()), f"{name}: {_MHLO}")])
        rule = SPELLINGS.get(name) if kind == "custom" else _OTHERS[kind]
        if rule is None:
            continue
        before = len(text.changes)
        try:
            rule(text, name, Span(*found.span()))
        except Unfit:
            del text.changes[before:]
        except Refused as error:
            del text.changes[before:]
            refusals.append((_location(text.text, found.start()), str(error)))
            if len(refusals) == _MOST_REFUSALS:
                break
    return Today(text.changed().encode("latin-1") if text.changes else None, refusals)


def _location(text: str, at: int) -> form.Location:
    line = text.rfind("\n", 0, at) + 1
    return form.Location(text.count("\n", 0, at) + 1, at - line + 1)
