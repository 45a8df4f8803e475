"""Older spellings of each op over every element type: they are read as today's are."""

import re

from typed_texts import TEXTS

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.mlir.reading.older_spellings import SPELLINGS
from tvm_iree_ext.mlir.reading.reader import read
from tvm_iree_ext.registry import element_types

ITERATORS = (r"#iree_linalg_ext\.iterator_type<(\w+)>", r'"\1"')
DIMENSION = (r"dimension\(1\)", "{dimension = 1 : i64}")
TILES = (
    r"output_tile_size\(2\) kernel_size\(3\)\s+(\w+)_dimensions\((.*?)\)",
    r"{output_tile_size = 2 : i64, kernel_size = 3 : i64, \1_dimensions = \2}",
)
MAPS_OF_LOOPS = """indexed_maps = [affine_map<(d0, d1) -> (d0)>], in_bounds = [true, true],
   permutation_map = affine_map<(d0, d1) -> (d0, d1)>"""
WITHOUT_SCALE = (r"affine_map<\(b, h, m, n, k1, k2\) -> \(\)>, ", "")

OLDER = {
    "attention": [WITHOUT_SCALE],
    "online_attention": [WITHOUT_SCALE],
    "exp_reduction": [ITERATORS],
    "custom_op": [ITERATORS],
    "fft": [
        (
            r"= iree_linalg_ext.fft ins\(%n : index\) outs\(%re, %im : (\S+), (\S+)\) : .*",
            r'= "iree_linalg_ext.fft"(%n, %re, %im) {operand_segment_sizes = array<i32: 1, 2>} :'
            r" (index, \1, \2) -> (\1, \2)",
        )
    ],
    "pack": [
        (r"linalg\.pack", "iree_linalg_ext.pack"),
        (r"into %e : (\S+) -> (\S+)", r"into %e : (\1 \2) -> \2"),
    ],
    "unpack": [
        (r"linalg\.unpack", "iree_linalg_ext.unpack"),
        ("inner_dims_pos", "dims_pos"),
        (r"into %e : (\S+) -> (\S+)", r"into %e : (\1 \2) -> \2"),
    ],
    "scatter": [
        (
            r"dimension_map = \[0\] unique_indices\(true\)",
            "{dimension_map = array<i64: 0>, unique_indices = true}",
        )
    ],
    "gather": [(r"dimension_map = \[0\]", "{dimension_map = [0]}")],
    "scan": [
        (r"dimension\(1\) inclusive\(true\)", "{dimension = 1 : i64, inclusive = true}"),
    ],
    "map_load": [("map_load", "map_gather")],
    "map_store": [("map_store", "map_scatter")],
    "sort": [DIMENSION, (r"outs\((.*?)\)", r"ins(\1) outs(\1)")],
    "topk": [(r"dimension\(1\)", "<{dimension = 1}>")],
    "im2col": [
        (r"offsets = .*\s+", "m_offset = [0] k_offset = [0]\n "),
        (r" input_k_perm = .*", ""),
    ],
    "arg_compare": [DIMENSION],
    "filter_transform": [TILES],
    "input_transform": [TILES],
    "output_transform": [TILES],
    "transfer_gather": [
        (r"\[%i : (\S+)\]", r"[%i: \1, None]"),
        (r"indexing_maps = \[affine_map.*\]", MAPS_OF_LOOPS),
    ],
    "transfer_scatter": [
        (r"\[%i : (\S+)\]", r"[%i: \1, None]"),
        (r"indexing_maps = \[affine_map.*\]", MAPS_OF_LOOPS),
    ],
    "to_layout": [
        (r"layout\((#.*?>)\)", r"\1"),
        ("subgroup_tile", "subgroups_per_workgroup"),
        ("batch_tile", "batches_per_subgroup"),
        ("outer_tile", "outers_per_batch"),
        ("thread_tile", "threads_per_outer"),
        ("element_tile", "elements_per_thread"),
    ],
}
"""By an op's own name: what becomes of today's text."""


def own(op):
    return op.rpartition(".")[2]


def older(op, text):
    for newer, spelling in OLDER[own(op)]:
        changed = re.sub(newer, spelling, text, flags=re.DOTALL if "layout" in newer else 0)
        assert changed != text, (op, newer)
        text = changed
    return text


def told(module):
    """All that a module says but where it stands, and how values are called."""
    numbers = {}

    def value(one):
        return numbers.setdefault(id(one), len(numbers)), str(one.type)

    def operation(op):
        blocks = [block for region in op.regions for block in region]
        return (
            op.name,
            [value(one) for one in (*op.operands, *op.results)],
            sorted((name, repr(one)) for name, one in op.attributes.items()),
            op.segments,
            [
                ([value(one) for one in block.arguments], [operation(o) for o in block.operations])
                for block in blocks
            ],
        )

    return [operation(op) for op in module.operations]


def test_each_op_that_had_another_spelling_has_one_here():
    spelled = {own(op) for op in TEXTS if op in SPELLINGS}
    assert spelled <= set(OLDER)
    assert set(OLDER) - spelled == {"fft", "map_load", "map_store"}  # generic, and by other names


def test_each_is_read_as_todays_of_every_type():
    cells, newer, texts = [], [], []
    for dtype in [*dtypes.ELEMENTS, "index"]:
        kind = dtype if dtype == "index" else dtypes.mlir_name(dtype)
        for op, text in TEXTS.items():
            if own(op) in OLDER and dtype not in element_types(op).refused_in_text:
                given = text(kind).replace("@f(", f"@f{len(texts)}(")
                cells.append((op, dtype))
                newer.append(given)
                texts.append(older(op, given))
    today, found = (told(read("\n".join(one))) for one in (newer, texts))
    assert len(today) == len(found) == len(texts) > 300
    pairs = zip(cells, found, today, strict=True)
    assert not [cell for cell, spelled, now in pairs if spelled != now]
