"""What attention accepts, what it refuses and in which words, and what it says of itself."""

import math
import re

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.ops.base.maps import IndexingMap

MAPS = [
    "(d0, d1, d2, d3, d4) -> (d0, d1, d2)",
    "(d0, d1, d2, d3, d4) -> (d0, d3, d2)",
    "(d0, d1, d2, d3, d4) -> (d0, d3, d4)",
    "(d0, d1, d2, d3, d4) -> ()",
    "(d0, d1, d2, d3, d4) -> (d0, d1, d4)",
]
STATE = "(d0, d1, d2, d3, d4) -> (d0, d1)"
Q, K, V = (2, 3, 4), (2, 5, 4), (2, 5, 6)
BHSD = (1, 2, 8, 16)
# Query and output collapse d1 and d2, which no operand has alone.
COLLAPSED = [
    IndexingMap(6, axes)
    for axes in (
        ((0,), (1, 2), (3,)),
        ((0,), (4,), (3,)),
        ((0,), (4,), (5,)),
        (),
        ((0,), (1, 2), (5,)),
    )
]


def changed(index, text):
    return [text if i == index else one for i, one in enumerate(MAPS)]


def test_classifies_the_dims_and_derives_the_result():
    op = ops.attention(Q, K, V, indexing_maps=MAPS)
    assert op.dims == {"b": (0,), "m": (1,), "k1": (2,), "k2": (3,), "n": (4,)}
    assert [str(o) for o in op.signature.operands] == [
        "query: float32[2, 3, 4]",
        "key: float32[2, 5, 4]",
        "value: float32[2, 5, 6]",
        "output: float32[2, 3, 6]",
    ]
    assert op.scale == 0.5


def test_grouped_query_shares_key_and_value_among_the_group():
    maps = [
        "(b, h, g, m, k1, k2, n) -> (b, h, g, m, k1)",
        "(b, h, g, m, k1, k2, n) -> (b, h, k2, k1)",
        "(b, h, g, m, k1, k2, n) -> (b, h, k2, n)",
        "(b, h, g, m, k1, k2, n) -> ()",
        "(b, h, g, m, k1, k2, n) -> (b, h, g, m, n)",
    ]
    op = ops.attention((1, 2, 3, 4, 5), (1, 2, 6, 5), (1, 2, 6, 7), indexing_maps=maps)
    assert op.dims["m"] == (2, 3)
    assert op.signature.results[0].shape == (1, 2, 3, 4, 7)


def test_layout_groups_query_heads_by_key_heads():
    op = ops.attention((1, 6, 8, 16), (1, 2, 9, 16), (1, 2, 9, 16))
    assert str(op.maps["query"]) == "(d0, d1, d2, d3, d4, d5, d6) -> (d0, [d1, d2], d3, d4)"
    assert op.signature.results[0].shape == (1, 6, 8, 16)


def test_a_number_and_a_name_on_one_dim_make_the_number():
    op = ops.attention(("b", 2, 8, 16), (3, 2, "n", 16), (3, 2, "n", 16))
    assert op.types["query"].shape == (3, 2, 8, 16)
    assert op.signature.symbols == ("n",)


def test_one_name_is_one_extent():
    shape = ("b", 4, "s", 64)
    op = ops.attention(shape, shape, shape, mask=(128, "s"))
    assert op.types["key"].shape == ("b", 4, 128, 64)
    assert op.signature.symbols == ("b",)


def test_names_of_one_dim_are_one_name():
    keys = ("b", 4, "t", 64)
    op = ops.attention(("b", 4, "s", 64), keys, keys, mask=("t", "t"))
    assert op.types["key"].shape == ("b", 4, "s", 64)


def test_question_marks_are_independent_extents():
    op = ops.attention(("?", 2, "?", 16), ("?", 2, "?", 16), ("?", 2, "?", 16))
    assert len(op.signature.symbols) == 3


def test_question_marks_take_no_name_of_the_users():
    shape = ("?", 4, "d0", 64)
    assert ops.attention(shape, shape, shape).types["query"].shape == ("d0_", 4, "d0", 64)


@pytest.mark.parametrize("heads", ["x", "?"])
def test_grouped_heads_are_a_number_in_the_mask_too(heads):
    keys = (1, 2, 16, 64)
    op = ops.attention((1, 8, 16, 64), keys, keys, mask=(1, heads, 16, 16))
    assert op.types["mask"].shape == (1, 8, 16, 16)
    assert op.signature.symbols == ()


def test_extents_scale_and_window_may_be_numpy_numbers():
    shape = tuple(np.array(BHSD))
    op = ops.attention(shape, shape, shape, scale=np.float32(0.125), window=[np.int64(3), None])
    assert (
        op.describe() == ops.attention(BHSD, BHSD, BHSD, scale=0.125, window=(3, None)).describe()
    )


def test_a_dtype_may_be_numpys():
    assert ops.attention(BHSD, BHSD, BHSD, dtype=np.float16).types["key"].dtype == "float16"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_scale_given_at_call_time_is_of_the_scores_type(dtype):
    op = ops.attention(BHSD, BHSD, BHSD, scale="operand", dtype=dtype)
    assert [str(o) for o in op.signature.operands if o.role == "scalar"] == [f"scale: {dtype}[]"]


def test_takes_arrays_and_their_dtypes():
    array = np.zeros(BHSD, np.float16)
    op = ops.attention(array, array, array)
    assert {t.dtype for t in op.types.values()} == {"float16"}
    assert op.compute_dtype == "float32"


def test_a_double_operand_makes_the_arithmetic_double():
    op = ops.attention(BHSD, BHSD, TensorType(BHSD, "f64"))
    assert op.compute_dtype == "float64"


def test_online_attention_has_state_in_and_out():
    op = ops.online_attention(Q, K, V, indexing_maps=[*MAPS, STATE, STATE], dtype="f16")
    names = [f"{o.name}:{o.dtype}" for o in op.signature.operands]
    assert names[3:] == [
        "output_init:float32",
        "max_init:float32",
        "sum_init:float32",
        "output:float32",
        "max:float32",
        "sum:float32",
    ]


def test_the_identity_region_is_no_region():
    assert ops.attention(BHSD, BHSD, BHSD, region="arg0").region is None
    assert ops.attention(BHSD, BHSD, BHSD, region=lambda score: score).region is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("text", ["select(arg0 < 0.5, arg0, 2)", "max(arg0, 2.0)", "2 + 3.5"])
def test_numbers_of_a_region_are_of_the_scores_type(text, dtype):
    op = ops.attention(BHSD, BHSD, BHSD, region=text, dtype=dtype)
    assert op.region.body.ty.dtype == dtype
    assert set(re.findall(r"float\d+", op.region.text)) <= {dtype}


def test_equal_ops_describe_themselves_equally():
    one, two = (ops.attention(BHSD, BHSD, BHSD, causal=True, region="tanh(arg0)") for _ in "ab")
    assert one.describe() == two.describe()
    assert one.describe() != ops.attention(BHSD, BHSD, BHSD, causal=True).describe()


@pytest.mark.parametrize(
    ("keywords", "pairs"),
    [
        ({}, 64),
        ({"causal": True}, 36),
        ({"causal": True, "window": 2}, 21),
        ({"window": (0, 0)}, 8),
        ({"window": (None, 1)}, 43),
    ],
)
def test_flops_count_the_keys_that_the_band_leaves(keywords, pairs):
    assert ops.attention(BHSD, BHSD, BHSD, **keywords).flops() == 2 * 2 * pairs * (16 + 16)


def test_bytes_count_each_operand_once():
    assert ops.attention(BHSD, BHSD, BHSD, dtype="f16").bytes() == 4 * 2 * 8 * 16 * 2


def test_flops_of_a_dynamic_op_need_its_extents():
    op = ops.attention(("b", 2, 8, 16), ("b", 2, 8, 16), ("b", 2, 8, 16))
    assert op.flops({"b": 3}) == 3 * ops.attention(BHSD, BHSD, BHSD).flops()


REFUSED = {
    "rank by maps": (
        lambda: ops.attention((2, 3), K, V, indexing_maps=MAPS),
        r"attention: query \[2, 3\] has rank 2; its indexing map has 3 results: rank mismatch",
    ),
    "rank by layout": (
        lambda: ops.attention((2, 3, 4), BHSD, BHSD),
        r"query \[2, 3, 4\] has rank 3; expected 4 for layout 'bhsd'",
    ),
    "extent": (
        lambda: ops.attention(Q, (2, 5, 7), V, indexing_maps=MAPS),
        r"key axis 2 \(d2\) has extent 7; expected 4 as in query axis 2",
    ),
    "value's extent": (
        lambda: ops.attention(BHSD, BHSD, (1, 2, 9, 16)),
        r"value axis 2 \(d4\) has extent 9; expected 8 as in key axis 2",
    ),
    "one name for two numbers": (
        lambda: ops.attention((1, 4, "s", 64), (1, 4, 100, 64), (1, 4, "s", 64), mask=(128, "s")),
        r"mask axis 0 \(d2\) has extent 128; expected 100 as in key axis 2",
    ),
    "collapsed extent": (
        lambda: ops.attention((1, 6, 8), (1, 5, 8), (1, 5, 7), indexing_maps=COLLAPSED),
        "query axis 1 collapses d1, whose extent is not a number",
    ),
    "an unknown dim": (
        lambda: IndexingMap(2, ((2,),)),
        r"indexing map \(d0, d1\) -> \(d2\): d2 is none of its 2 dims",
    ),
    "a dim twice": (
        lambda: IndexingMap(2, ((1,), (0, 1))),
        r"\(d0, d1\) -> \(d1, \[d0, d1\]\): a dim appears twice among the results",
    ),
    "a dim declared twice": (
        lambda: ops.attention(Q, K, V, indexing_maps=changed(0, "(a, a, b) -> (a, b)")),
        r"indexing map '\(a, a, b\) -> \(a, b\)': a dim is declared twice",
    ),
    "no map": (
        lambda: ops.attention(Q, K, V, indexing_maps=changed(0, 3)),
        "indexing map 3: expected a text or an IndexingMap",
    ),
    "layout and maps": (
        lambda: ops.attention(Q, K, V, indexing_maps=MAPS, layout="bhsd"),
        "layout and indexing_maps came both",
    ),
    "keys without rows": (
        lambda: ops.attention(BHSD, (1, 2, 0, 16), (1, 2, 0, 16)),
        r"key is empty, \[1, 2, 0, 16\], and a result is not: its value is undefined",
    ),
    "huge extent": (
        lambda: ops.attention((1, 2, 2**70, 16), BHSD, BHSD),
        r"query axis 2 has extent 1180591620717411303424; extents end at 2\*\*63 - 1",
    ),
    "name of an extent": (
        lambda: ops.attention((1, 2, "a b", 16), BHSD, BHSD),
        "query axis 2: extent 'a b' is not a name",
    ),
    "dtype": (
        lambda: ops.attention(BHSD, BHSD, BHSD, dtype="int32"),
        "query has dtype int32; supported are float16, bfloat16, float32, float64",
    ),
    "unknown dtype": (
        lambda: ops.attention(BHSD, BHSD, BHSD, dtype="float7"),
        "query: dtype 'float7' is unknown",
    ),
    "no dtype": (
        lambda: ops.attention(BHSD, BHSD, BHSD, dtype=None),
        "query: dtype 'None' is unknown; known are bool",
    ),
    "a number for a dtype": (
        lambda: ops.attention(BHSD, BHSD, BHSD, output_dtype=3),
        "output: dtype '3' is unknown; known are bool",
    ),
    "output dtype": (
        lambda: ops.attention(BHSD, BHSD, BHSD, output_dtype="i8"),
        "output has dtype int8; supported are",
    ),
    "not a shape": (lambda: ops.attention(7, BHSD, BHSD), "query is 7; expected a shape"),
    "number of maps": (
        lambda: ops.attention(Q, K, V, indexing_maps=MAPS[:4]),
        "4 indexing maps; expected one for each of query, key, value, scale, output",
    ),
    "number of maps with a mask": (
        lambda: ops.attention(Q, K, V, mask=(3, 5), indexing_maps=MAPS),
        "5 indexing maps; expected one for each of query, key, value, scale, mask, output",
    ),
    "dims of a map": (
        lambda: ops.attention(Q, K, V, indexing_maps=changed(1, "(d0, d1) -> (d0, d1)")),
        "the indexing map of key has 2 dims; expected 5 as for query",
    ),
    "result of a map": (
        lambda: ops.attention(Q, K, V, indexing_maps=changed(0, "(d0, d1) -> (d0, d1 + 1)")),
        "result 'd1 . 1' is not one of the dims",
    ),
    "text of a map": (
        lambda: ops.attention(Q, K, V, indexing_maps=changed(0, "d0, d1")),
        "expected the form",
    ),
    "scale's map": (
        lambda: ops.attention(Q, K, V, indexing_maps=changed(3, MAPS[4])),
        "the indexing map of scale has results; scale is a scalar",
    ),
    "output's map": (
        lambda: ops.attention(
            Q, K, V, indexing_maps=changed(4, "(d0, d1, d2, d3, d4) -> (d0, d1, d3)")
        ),
        r"the indexing map of output uses \{d0, d1, d3\}; expected",
    ),
    "max's map": (
        lambda: ops.online_attention(Q, K, V, indexing_maps=[*MAPS, MAPS[4], STATE]),
        r"the indexing map of max uses \{d0, d1, d4\}; expected \{d0, d1\}",
    ),
    "mask's map": (
        lambda: ops.attention(Q, K, V, mask=(2, 6), indexing_maps=[*MAPS[:4], MAPS[4], MAPS[4]]),
        r"the indexing map of mask uses \{d0, d1, d4\}; expected a part of \{d0, d1, d3\}",
    ),
    "mask's shape": (
        lambda: ops.attention(BHSD, BHSD, BHSD, mask=(8, 9)),
        r"mask \[8, 9\] does not broadcast to \[1, 2, 8, 8\]",
    ),
    "mask's rank": (
        lambda: ops.attention(BHSD, BHSD, BHSD, mask=(1, 1, 1, 8, 8)),
        "mask .* has rank 5; expected 1 to 4",
    ),
    "heads": (
        lambda: ops.attention((1, 3, 8, 16), BHSD, BHSD),
        "query has 3 heads and key 2; expected a multiple, both numbers",
    ),
    "layout": (
        lambda: ops.attention(BHSD, BHSD, BHSD, layout="sbhd"),
        "layout is 'sbhd'; expected 'bhsd' or 'bshd'",
    ),
    "scale": (
        lambda: ops.attention(BHSD, BHSD, BHSD, scale="big"),
        "scale is 'big'; expected a finite number, 'operand' or None",
    ),
    "scale not finite": (
        lambda: ops.attention(BHSD, BHSD, BHSD, scale=float("nan")),
        "scale is nan; expected a finite number",
    ),
    "scale beyond float32": (
        lambda: ops.attention(BHSD, BHSD, BHSD, scale=1e300),
        "scale is not finite in float32; expected a finite number",
    ),
    "scale beyond any float": (
        lambda: ops.attention(BHSD, BHSD, BHSD, scale=10**5000, dtype="f64"),
        "scale is not finite in float64",
    ),
    "scale is a bool": (
        lambda: ops.attention(BHSD, BHSD, BHSD, scale=np.True_),
        "scale is .*True.*; expected a finite number",
    ),
    "score domain": (
        lambda: ops.attention(BHSD, BHSD, BHSD, score_domain="base10"),
        "score_domain is 'base10'; expected 'natural' or 'log2'",
    ),
    "causal": (
        lambda: ops.attention(BHSD, BHSD, BHSD, causal="yes"),
        "causal is 'yes'; expected a bool, 'upper_left' or 'lower_right'",
    ),
    "window": (
        lambda: ops.attention(BHSD, BHSD, BHSD, window=-1),
        "window is -1; its sides are numbers from 0",
    ),
    "window's side": (
        lambda: ops.attention(BHSD, BHSD, BHSD, window=(True, 2**63)),
        r"window is \(True, 9223372036854775808\); its sides are numbers from 0 to 2\*\*62",
    ),
    "window is a bool": (
        lambda: ops.attention(BHSD, BHSD, BHSD, window=True),
        "window is True; expected a number or",
    ),
    "window's form": (
        lambda: ops.attention(BHSD, BHSD, BHSD, window=(1, 2, 3)),
        r"window is \(1, 2, 3\); expected a number or \(left, right\)",
    ),
    "region's value": (
        lambda: ops.attention(BHSD, BHSD, BHSD, region="arg0 > 1"),
        "region yields bool; expected float32",
    ),
    "two values": (
        lambda: ops.attention(BHSD, BHSD, BHSD, region=lambda score: (score, score)),
        "region yields 2 values; expected one",
    ),
    "region's arguments": (
        lambda: ops.attention(BHSD, BHSD, BHSD, region=lambda a, b: a),
        "region takes 1 arguments",
    ),
    "region of another kind": (
        lambda: ops.attention(BHSD, BHSD, BHSD, region=3),
        "attention: region is 3; expected a text or a callable",
    ),
    "region's own error": (
        lambda: ops.attention(BHSD, BHSD, BHSD, region=lambda score: math.tanh(score)),
        "attention: region fails: must be real number, not Var",
    ),
    "region's missing function": (
        lambda: ops.attention(BHSD, BHSD, BHSD, region=lambda score: score.tanh()),
        "attention: region fails: .*tanh",
    ),
    "region's arithmetic": (
        lambda: ops.attention(BHSD, BHSD, BHSD, region="arg0 & 3"),
        "attention: region fails: Expected integer argument as LHS of &",
    ),
    "region's call": (
        lambda: ops.attention(BHSD, BHSD, BHSD, region="tanh(arg0, 2)"),
        "attention: region fails: tanh.* takes 1 positional argument but 2 were given",
    ),
    "region's division": (
        lambda: ops.attention(BHSD, BHSD, BHSD, region="1 / 0"),
        "'1 / 0' divides integers; write // for a whole quotient",
    ),
    "region's text": (
        lambda: ops.attention(BHSD, BHSD, BHSD, region="arg1 + 1"),
        "'arg1' is unknown; arguments are arg0",
    ),
    "region's function": (
        lambda: ops.attention(BHSD, BHSD, BHSD, region="gelu(arg0)"),
        "calls no known function; known are abs",
    ),
    "causal without rows": (
        lambda: ops.attention(
            (4,),
            (5, 4),
            (5, 6),
            causal=True,
            indexing_maps=[
                "(k1, k2, n) -> (k1)",
                "(k1, k2, n) -> (k2, k1)",
                "(k1, k2, n) -> (k2, n)",
                "(k1, k2, n) -> ()",
                "(k1, k2, n) -> (n)",
            ],
        ),
        "causal and window need row positions and one key dim; there are 0 m dims",
    ),
    "no keys": (
        lambda: ops.attention(
            (3, 4),
            (4,),
            (6,),
            indexing_maps=[
                "(m, k1, n) -> (m, k1)",
                "(m, k1, n) -> (k1)",
                "(m, k1, n) -> (n)",
                "(m, k1, n) -> ()",
                "(m, k1, n) -> (m, n)",
            ],
        ),
        "no dim of key is left to attend over",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_and_says_why(case):
    make, message = REFUSED[case]
    with pytest.raises(OpError, match=message):
        make()
