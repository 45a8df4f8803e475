"""Text of mhlo, and of older StableHLO, as today's StableHLO."""

import re

from tvm_iree_ext.mlir.reading.older_text import (
    STRING,
    Span,
    Text,
    Unfit,
    WordCursor,
    array,
    entries,
    list_of,
)

_NAMES = re.compile(
    rf'//[^\n]*|"(?P<generic>(?:mhlo|stablehlo)\.\w+)"(?=\s*\()|{STRING}'
    r"|(?<![\w.$%@^-])[#!]?(?P<custom>mhlo)(?=\.\w|<)",
    re.ASCII,
)
# Attributes of one dimension, which older text has as dense<...>.
_ARRAYS = {
    *("base_dilations", "broadcast_dimensions", "broadcast_sizes", "dimensions"),
    *("edge_padding_high", "edge_padding_low", "fft_length", "interior_padding"),
    *("lhs_dilation", "limit_indices", "permutation", "rhs_dilation", "slice_sizes"),
    *("start_indices", "strides", "window_dilations", "window_dimensions", "window_reversal"),
    *("window_strides",),
}


def as_stablehlo(source: str) -> str:
    """The text with mhlo by today's name, and lists as arrays; comments and strings stay."""
    text = Text(source)
    for found in _NAMES.finditer(source):
        kind = found.lastgroup
        if kind is None:
            continue
        if found[kind].startswith("mhlo"):
            start = found.start(kind)
            text.replace(Span(start, start + len("mhlo")), "stablehlo")
        if kind == "generic":
            before = len(text.changes)
            try:
                _arrays(text, found.end())
            except Unfit:
                del text.changes[before:]
    return text.changed()


def _arrays(text: Text, at: int) -> None:
    """Lists behind the operands of an operation in generic form."""
    words = WordCursor(text, at)
    words.group()
    dictionaries = [words.group()] if words.peek() == "<" else []
    if words.peek() == "(":
        words.group()
    if words.peek() == "{":
        dictionaries.append(words.group())
    for dictionary in dictionaries:
        for name, value in entries(text, dictionary).items():
            if value is not None and name in _ARRAYS and text[value].startswith("dense"):
                elements = list_of(text[value])
                kind = "i1" if set(elements) & {"true", "false"} else "i64"
                text.replace(value, array(kind, elements))
