from tvm_iree_ext.base.text_tables import table_lines

HEADER = ("case", "ours us", "of peak", "PyTorch", "computes")
BODY = [
    ("attention 1x8x1024x64 f32", "1234.5", "61%", "1.25x", "contraction: layer.mlir:3"),
    ("sort 1000", "7.5", "", "2.00x", "sort"),
]


def test_columns_where_they_fit():
    lines = table_lines(HEADER, BODY, 100, left=(0, 4))
    assert lines == [
        "case                       ours us  of peak  PyTorch  computes",
        "─────────────────────────  ───────  ───────  ───────  ─────────────────────────",
        "attention 1x8x1024x64 f32   1234.5      61%    1.25x  contraction: layer.mlir:3",
        "sort 1000                      7.5             2.00x  sort",
    ]
    assert table_lines(HEADER, BODY, None, left=(0, 4)) == lines


def test_a_block_for_each_row_where_not():
    assert table_lines(HEADER, BODY, 50) == [
        "attention 1x8x1024x64 f32",
        "    ours us 1234.5  of peak 61%  PyTorch 1.25x",
        "    computes contraction: layer.mlir:3",
        "sort 1000",
        "    ours us 7.5  PyTorch 2.00x  computes sort",
    ]


def test_nothing_is_cut_at_any_width():
    words = {word for row in (HEADER[1:], *BODY) for cell in row for word in cell.split()}
    words -= {"peak", "us"}
    for width in (24, 40, 80):
        lines = table_lines(HEADER, BODY, width)
        assert max(map(len, lines)) <= max(width, 28), width
        assert words <= set(" ".join(lines).split())
