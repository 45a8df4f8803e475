"""Older text is changed where an older operation stands, and looked at quickly, whatever it is."""

import re
import time
from random import Random

import pytest
from places import DATA

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.mlir.reading.older_spellings import up_to_date
from tvm_iree_ext.mlir.reading.reader import read

OLDER = DATA / "older" / "dialects.mlir"


def newer(text):
    """A text brought up to date."""
    today = up_to_date(text.encode())
    assert not today.refusals, today.refusals
    assert today.text is not None
    assert today.text.count(b"\n") == text.count("\n")
    return today.text.decode()


PACK = "%0 = iree_linalg_ext.pack %x inner_dims_pos = [0] inner_tiles = [2] into %o : (T U) -> U"


def test_comments_and_strings_stay():
    text = f'// {PACK}\n"test.op"() {{a = "iree_linalg_ext.pack \\" // {PACK}", b}} : () -> ()\n'
    assert up_to_date(text.encode()).text is None
    came = newer(text + PACK + "// iree_linalg_ext.pack\n")
    assert came.startswith(text)
    assert came[len(text) :] == (
        "%0 = linalg.pack %x inner_dims_pos = [0] inner_tiles = [2] into %o : T -> U "
        "// iree_linalg_ext.pack\n"
    )


def test_newer_text_stays():
    for path in sorted((DATA / "mlir").glob("*.mlir")):
        assert up_to_date(path.read_bytes()).text is None


def test_what_is_up_to_date_stays():
    today = newer(OLDER.read_text())
    assert up_to_date(today.encode()).text is None


SORT = """func.func @f(%k: tensor<4xf32>) -> tensor<4xf32> {
  %0 = iree_linalg_ext.sort {
    // along the only dimension
    dimension = 0 : i64
  } ins(%k : tensor<4xf32>)
    outs(%k : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf oge, %a, %b : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def test_lines_keep_their_numbers():
    (function,) = read(SORT).operations
    assert [one.location.line for one in function.block().operations] == [2, 11]
    with pytest.raises(MlirError, match=r"^<text>:11:\d+: use of undeclared SSA value name"):
        read(SORT.replace("return %0", "return %1"))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("func.func @f() { oops }", "<text>:1:18: custom op 'oops' is unknown"),
        (
            SORT.replace("{\n    // along the only dimension\n    dimension = 0 : i64\n  }", "(["),
            "<text>:2:29: ",
        ),
    ],
)
def test_text_that_no_rule_knows_keeps_its_error(text, error):
    assert up_to_date(text.encode()).text is None
    with pytest.raises(MlirError, match=error):
        read(text)


def test_mutated_text_is_brought_up_to_date_or_left():
    random, text = Random(5), OLDER.read_text()
    parts = [re.findall(r"\w+|\s+|.", one) for one in text.split("\nfunc.func")]
    others = [*'[]{}<>()",=:', "->", "None", "//", "9" * 5000]
    for _ in range(2000):
        words = list(random.choice(parts))
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(words))
            words[at] = random.choice([*others, *random.sample(words, 10), ""])
        mutated = "".join(words)
        today = up_to_date(mutated.encode()).text
        assert today is None or today.count(b"\n") == mutated.count("\n")


def im2col(**changed):
    clauses = {
        **{"strides": "[1, 1]", "dilations": "[1, 1]", "kernel_size": "[3, 3]"},
        **{"m_offset": "[0] * [1]", "k_offset": "[0] * [1]", "batch_pos": "[0]"},
        **{"m_pos": "[1, 2]", "k_pos": "[3]"},
        **changed,
    }
    kind, out = clauses.pop("kind", "tensor<2x6x5x3xf32>"), clauses.pop("out", "tensor<2x?x?xf32>")
    given = " ".join(f"{name} = {value}" for name, value in clauses.items())
    return f"%0 = iree_linalg_ext.im2col {given} ins(%x : {kind}) outs(%o : {out}) -> {out}"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            SORT.replace("ins(%k", "ins(%other"),
            "2:8: iree_linalg_ext.sort: what is sorted stands in outs(...);"
            " ins(...) names other values",
        ),
        (
            "%0 = iree_linalg_ext.attention ins(%q, %k, %v : T, T, T) outs(%o : T) -> T",
            "1:6: iree_linalg_ext.attention: without a scale, which is the fourth of"
            " ins(...) today",
        ),
        (
            "%0 = iree_linalg_ext.reverse dimensions(D) ins(%x : T) outs(%o : T)",
            "1:6: iree_linalg_ext.reverse: is gone; write linalg.generic with tensor.extract of the"
            " reversed index",
        ),
        (
            im2col(kind="tensor<2x?x5x3xf32>"),
            "1:6: iree_linalg_ext.im2col: the image's extents must be known in this older spelling;"
            " write offsets = [...] output_sizes = [[...]] in place of m_offset and k_offset",
        ),
        (
            im2col(m_offset="[0, 0] * [5, 1]"),
            "1:6: iree_linalg_ext.im2col: m_offset has strides [5, 1], which are no products of the"
            " sizes [4, 3]; write offsets = [...] output_sizes = [[...]]",
        ),
        (
            im2col(m_offset="[0, 2] * [3, 1]", out="tensor<2x4x3x27xf32>"),
            "1:6: iree_linalg_ext.im2col: 3 elements from 2 on go beyond the sizes [3]; write"
            " offsets = [...] output_sizes = [[...]]",
        ),
        (
            im2col(kernel_size="[%k, 3]"),
            "1:6: iree_linalg_ext.im2col: kernel_size must be numbers in this older spelling",
        ),
        (
            "%0 = iree_linalg_ext.scatter ins(%u, %i : T, tensor<3x?xi32>) outs(%o : T) -> T",
            "1:6: iree_linalg_ext.scatter: without a dimension_map the last extent of indices must"
            " be known",
        ),
        (
            '%0 = "iree_linalg_ext.im2col"(%x, %o) {m_strides = [1]} : (T, T) -> T',
            "1:6: iree_linalg_ext.im2col: m_offset and k_offset are offsets = [...] output_sizes ="
            " [[...]] today",
        ),
        (
            'func.func @f() {\n  // here\n  %0 = "mhlo.dot"(%x, %y) : (T, T) -> T\n}',
            "3:8: mhlo.dot: mhlo is today's stablehlo, which IREE's input pipeline takes: --input"
            ' stablehlo; in Python, tvm_iree_ext.frontends.import_lowered(source, "stablehlo")',
        ),
    ],
)
def test_what_has_no_meaning_today_is_refused(text, error):
    with pytest.raises(MlirError, match=rf"^<text>:{re.escape(error)}$"):
        read(text)


HOSTILE = {
    "open": "iree_linalg_ext.sort " + "<" * 1_000_000,
    "deep": "iree_linalg_ext.sort dimension" + "(" * 200_000 + ")" * 200_000,
    "many": "iree_linalg_ext.scan dimension(" * 20_000,
    "wrong": "iree_linalg_ext.scan dimension(]" * 20_000,
    "spaces": ("iree_linalg_ext.scan dimension(" + " " * 5_000) * 200,
    "strings": 'iree_linalg_ext.scan dimension("' + '\\"' * 500_000,
    "quotes": '"' * 500_001,
    "names": "tensor." * 100_000,
    "lists": "iree_linalg_ext.scatter {dimension_map = dense<1> : tensor<99999999999xi64>}",
    "lines": "iree_linalg_ext.attention ins(%a, %b, %c, %d : T, T, T, T) outs(%o : T)"
    " {indexing_maps = [#a, #b, #c]}\n" * 100 + "\n" * 500_000,
    "maps": "#a = " * 1000 + "iree_linalg_ext.attention {indexing_maps = [#a, #a]} " * 1000,
    "end": "iree_linalg_ext.im2col",
    "bytes": "iree_linalg_ext.pack \xff\u2028 {",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_looked_at_quickly(text):
    began = time.process_time()
    up_to_date(text.encode())
    assert time.process_time() - began < 8
