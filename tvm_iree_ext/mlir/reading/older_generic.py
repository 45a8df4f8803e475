"""Older spellings in generic form: ``"iree_linalg_ext.sort"(%x) ({...}) {...} : (...) -> ...``."""

import re

from tvm_iree_ext.mlir.reading.older_attributes import typed_iterators
from tvm_iree_ext.mlir.reading.older_text import (
    Refused,
    Span,
    Text,
    Unfit,
    WordCursor,
    array,
    entries,
    list_of,
)

RENAMED = {
    "iree_linalg_ext.map_gather": "iree_linalg_ext.map_load",
    "iree_linalg_ext.map_scatter": "iree_linalg_ext.map_store",
    "iree_linalg_ext.pack": "linalg.pack",
    "iree_linalg_ext.unpack": "linalg.unpack",
}
_ARRAYS = (
    "dimension_map",
    "image_dimensions",
    "inner_dims_pos",
    "kernel_dimensions",
    "outer_dims_perm",
    "static_inner_tiles",
)
# Those whose operands are inputs, then one for each result.
_GROUPED = ("custom_op", "exp_reduction", "sort")
_SAME_SCORE = '^bb0(%older.score: f32): "iree_linalg_ext.yield"(%older.score) : (f32) -> ()'
_SEGMENTS = ("operand_segment_sizes", "operandSegmentSizes")


def generic(text: Text, name: str, named: Span) -> None:
    """Arrays as ``array<i64: ...>``, today's names, and how many operands are inputs."""
    words = WordCursor(text, named.end)
    operands = text.parts(words.group().inside)
    properties = words.group() if words.peek() == "<" else None
    regions = words.at
    if words.peek() == "(":
        words.group()
    elif name.endswith("attention"):
        text.insert(regions, f" ({{ {_SAME_SCORE} }})")
    attributes = words.group() if words.peek() == "{" else None
    words.take(":")
    words.group()
    words.take("->")
    results = len(text.parts(words.group().inside)) if words.peek() == "(" else 1
    given = {
        key: value
        for one in (properties, attributes)
        if one is not None
        for key, value in entries(text, one).items()
    }
    if "static_m_offset" in given or "m_strides" in given:
        raise Refused(
            f"{name}: m_offset and k_offset are offsets = [...] output_sizes = [[...]] today"
        )
    if name in RENAMED:
        text.replace(named, f'"{RENAMED[name]}"')
    for key, value in given.items():
        if value is None:
            continue
        if key in _ARRAYS:
            text.replace(value, array("i64", list_of(text[value])))
        elif key == "iterator_types":
            typed_iterators(text, value)
        elif key in _SEGMENTS:
            sizes = list_of(text[value])
            if name == "iree_linalg_ext.pack":
                sizes = _as_of_linalg(name, sizes)
            elif name == "iree_linalg_ext.fft" and len(sizes) == 2:
                sizes = ["1", *(["1", "1"] if sizes[0] == "3" else ["0", "0"]), "1", "1"]
            text.replace(value, array("i32", sizes))
    if name.rpartition(".")[2] in _GROUPED and not any(one in given for one in _SEGMENTS):
        groups = f"operandSegmentSizes = array<i32: {len(operands) - results}, {results}>"
        if properties is not None:
            at = text.text.index("{", properties.start) + 1
            text.insert(at, f"{groups}, ")
        elif attributes is not None:
            text.insert(attributes.start + 1, f"{groups}, ")


def _as_of_linalg(name: str, sizes: list[str]) -> list[str]:
    """Padding stands behind the tiles in older text, and before them today."""
    if len(sizes) != 4 or not all(re.fullmatch(r"\d+", one) for one in sizes):
        raise Unfit
    source, target, tiles, padding = sizes
    if tiles != "0" and padding != "0":
        raise Refused(f"{name}: with a padding value and tiles of data; write linalg.pack")
    return [source, target, padding, tiles]
