import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import TensorType
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.cli.operands import make_op, parse_type, parse_value

TYPES = ["1x2x16x8xf32"] * 3


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("1x8xSEQx64xf32", TensorType((1, 8, "SEQ", 64), "f32")),
        ("?xMAX_LEN2xbf16", TensorType(("?", "MAX_LEN2"), "bf16")),
        ("4xbool", TensorType((4,), "bool")),
        ("f64", TensorType((), "f64")),
        ("2xSEQxcomplex<f32>", TensorType((2, "SEQ"), "complex<f32>")),
        ("complex128", TensorType((), "complex128")),
        ("3xf8E4M3FN", TensorType((3,), "f8E4M3FN")),
        ("3xui4", TensorType((3,), "ui4")),
        ("1x8", (1, 8)),
        ("64", (64,)),
    ],
)
def test_reads_types(text, parsed):
    assert parse_type(text) == parsed


@pytest.mark.parametrize("text", ["", "1x8x", "x", "1xseqxf32", "-1xf32", "1,8", "f32x4", "1xf32 "])
def test_refuses_other_types(text):
    with pytest.raises(OpError, match="is not a type such as 1x8xSEQx64xf32"):
        parse_type(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("null", None),
        ("-0.5", -0.5),
        ("[3, null]", (3, None)),
        ('["a"]', ("a",)),
        ("lower_right", "lower_right"),
        ("2 * tanh(arg0)", "2 * tanh(arg0)"),
        ("", ""),
    ],
)
def test_reads_values(text, value):
    assert parse_value(text) == value


def test_makes_the_op_that_the_words_describe():
    words = ["BATCHx2xSEQx8xf16"] * 3
    settings = ["causal=lower_right", "scale=operand", "region=2*tanh(arg0)", "window=[3,null]"]
    op = make_op("attention", [*words, "mask=SEQxSEQxi1"], settings)
    assert op.signature.symbols == ("BATCH", "SEQ")
    assert [str(operand) for operand in op.signature.arguments][-2:] == [
        "scale: float32[]",
        "mask: bool[SEQ, SEQ]",
    ]
    assert op.attributes["band"] == {"left": 3, "right": 0, "align_end": True}
    assert op.region.source == "2*tanh(arg0)"


def test_operands_may_be_named_and_shapes_bare():
    op = make_op(
        "online_attention", ["value=1x2x16x8", "query=1x2x4x8", "key=1x2x16x8"], ["dtype=f64"]
    )
    assert str(op.signature.arguments[0]) == "query: float64[1, 2, 4, 8]"


@pytest.mark.parametrize(
    ("operands", "settings", "message"),
    [
        (TYPES[:2], [], "missing a required argument: 'value'; operands are query, key, value"),
        ([*TYPES, "1xf32"], [], "too many positional arguments; operands are query"),
        ([*TYPES, "query=1xf32"], [], "multiple values for argument 'query'"),
        ([*TYPES, "maks=1xi1"], [], "no operand 'maks'; there are query, key, value, mask"),
        ([*TYPES, "causal=true"], [], "no operand 'causal'"),
        ([*TYPES, "mask=1xi1", "mask=1xi1"], [], "operand 'mask' came twice"),
        (TYPES, ["casual=true"], "no attribute 'casual'; there are dtype, output_dtype, scale"),
        (TYPES, ["mask=1xi1"], "no attribute 'mask'"),
        (TYPES, ["causal"], "'causal' is not NAME=VALUE; names are dtype"),
        (TYPES, ["scale=1", "scale=2"], "attribute 'scale' came twice"),
        (TYPES, ["causal=maybe"], "causal is 'maybe'; expected a bool"),
        (TYPES, ["indexing_maps=7"], "attention: "),
        ([*TYPES[:2], "1x2x15x8xf32"], [], "value axis 2 .* has extent 15; expected 16"),
        ([*TYPES[:2], "1x2x16x8xi32"], [], "value has dtype int32; supported are float16"),
    ],
)
def test_refuses_what_does_not_fit(operands, settings, message):
    with pytest.raises(OpError, match=message):
        make_op("attention", operands, settings)


def test_refuses_an_op_that_is_not_registered():
    with pytest.raises(OpError, match="no op 'softmax'; registered are "):
        make_op("softmax", [], [])


def test_matmul_is_short_for_its_contraction():
    made = make_op("matmul", ["Mx8xf16", "4x8xf16"], ["transpose_rhs=true"])
    wanted = ext.ops.matmul(("M", 8), (4, 8), transpose_rhs=True, dtype="float16")
    assert made.describe() == wanted.describe()
