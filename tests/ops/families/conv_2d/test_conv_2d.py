"""What conv_2d accepts and refuses, which algorithm it chooses, and its canonical TensorIR."""

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops import TensorType

CONV = ops.conv_2d
NCHW = {"layout": "NCHW"}
FASTEST = {"algorithm": "fastest"}


@pytest.mark.parametrize(
    ("image", "taps", "attributes", "result"),
    [
        ((1, 56, 56, 64), (3, 3, 64, 32), {}, (1, 54, 54, 32)),
        ((1, 56, 55, 64), (3, 3, 64, 32), {"padding": 1}, (1, 56, 55, 32)),
        ((2, 3, 224, 225), (8, 3, 7, 7), {**NCHW, "padding": 3, "strides": 2}, (2, 8, 112, 113)),
        ((1, 9, 9, 4), (3, 3, 4, 5), {"dilations": (1, 3), "strides": (2, 1)}, (1, 4, 3, 5)),
        ((1, 9, 9, 4), (3, 3, 2, 6), {"padding": ((1, 0), (0, 2)), "groups": 2}, (1, 8, 9, 6)),
        ((1, 1, 1, 1), (1, 1, 1, 1), {}, (1, 1, 1, 1)),
        (("n", "h", "w", 4), (3, 3, 4, 5), {"padding": 1}, ("n", "h", "w", 5)),
        (("n", 4, "h", 9), (5, 4, 3, 3), {**NCHW, "strides": 2}, ("n", 5, "(h - 3) // 2 + 1", 4)),
        (("?", "?", 9, 4), (1, 1, 4, 5), {"padding": 2}, ("d0", "d1 + 4", 13, 5)),
    ],
)
def test_result_shapes(image, taps, attributes, result):
    assert CONV(image, taps, **attributes).signature.results[0].shape == result


@pytest.mark.parametrize(
    ("dtype", "result"), [("f16", "float16"), ("f64", "float64"), ("i8", "int32")]
)
def test_result_dtypes(dtype, result):
    assert CONV((1, 5, 5, 1), (2, 2, 1, 1), dtype=dtype).signature.results[0].dtype == result


@pytest.mark.parametrize(
    ("shape", "attributes", "settled"),
    [
        ((5,), {}, (5,)),
        ((), {}, ()),
        ((1, 1), {}, (1, 1)),
        (("?", 1, "?"), {}, (8, 1, 5)),
        (("n", "?", 1, 1), {"strides": 2}, ("n", "(h - 3) // 2 + 1", 1, 1)),
    ],
)
def test_operands_of_an_epilogue_go_along_the_last_axes(shape, attributes, settled):
    image = ("n", "h", 10, 4) if attributes else (2, 10, 10, 4)
    op = CONV(image, (3, 3, 4, 5), [shape], epilogue="arg0 + arg1", **attributes)
    assert op.signature.arguments[2].shape == settled
    assert op.attributes["epilogue"] == "arg0 + arg1"
    assert str(op).startswith("tvm_iree_ext.conv_2d(input")


@pytest.mark.parametrize(
    ("dtype", "given", "result"),
    [
        ("f32", None, "float32"),
        ("f32", "f16", "float16"),
        ("f64", "bf16", "bfloat16"),
        ("i8", None, "int32"),
        ("i8", "i8", "int8"),
        ("i8", "f32", "float32"),
    ],
)
def test_the_result_of_an_epilogue_has_a_type_of_its_own(dtype, given, result):
    scale = [TensorType((1,), "i32" if dtype == "i8" and given != "f32" else "f32")]
    sizes = (1, 5, 5, 1), (2, 2, 1, 1)
    op = CONV(*sizes, scale, epilogue="arg0 * arg1", dtype=dtype, result_dtype=given)
    assert op.signature.results[0].dtype == result


def test_flops_are_those_of_the_direct_form():
    op = CONV((1, "h", 56, 64), (3, 3, 64, 32), padding=1)
    assert op.flops({"h": 10}) == 2 * 10 * 56 * 32 * 9 * 64
    assert CONV((1, 5, 5, 6), (3, 3, 1, 6), groups=6).flops() == 2 * 9 * 6 * 9


@pytest.mark.parametrize(
    ("image", "taps", "attributes", "chosen"),
    [
        ((1, 56, 56, 64), (3, 3, 64, 64), {"padding": 1}, ("im2col", None)),
        ((1, 56, 56, 64), (3, 3, 64, 64), {**FASTEST, "padding": 1}, ("winograd", 4)),
        ((1, "h", "w", 64), (3, 3, 64, 64), {**FASTEST, "padding": 1}, ("winograd", 4)),
        ((1, 4, 4, 64), (3, 3, 64, 64), FASTEST, ("im2col", None)),
        ((1, 56, 56, 1), (3, 3, 1, 1), FASTEST, ("im2col", None)),
        ((1, 56, 56, 64), (3, 3, 64, 64), {"algorithm": "im2col"}, ("im2col", None)),
        ((1, 56, 56, 64), (3, 3, 64, 64), {**FASTEST, "strides": 2}, ("im2col", None)),
        ((1, 56, 56, 64), (3, 3, 64, 64), {**FASTEST, "dtype": "i8"}, ("im2col", None)),
        ((1, 56, 56, 64), (3, 3, 1, 64), {**FASTEST, "groups": 64}, ("im2col", None)),
        ((1, 56, 56, 4096), (3, 3, 4096, 4096), FASTEST, ("im2col", None)),
        ((1, 4, 4, 3), (3, 3, 3, 8), {"algorithm": "winograd"}, ("winograd", 2)),
        ((1, 4, 4, 3), (3, 3, 3, 8), {"output_tile_size": 6}, ("winograd", 6)),
    ],
)
def test_the_choice_of_algorithm(image, taps, attributes, chosen):
    op = CONV(image, taps, **attributes)
    assert (op.algorithm, op.output_tile_size) == chosen
    assert op.attributes["algorithm"] == chosen[0]


def test_is_composed_of_the_dialects_ops():
    op = CONV((1, 10, 10, 6), (3, 3, 3, 8), padding=1, groups=2, algorithm="winograd")
    assert op.columns.signature.results[0].shape == (1, 2, 100, 27)
    assert {one.name.rpartition(".")[2] for one in op.transforms.values()} == {
        "input_transform",
        "filter_transform",
        "output_transform",
    }


IMAGE, TAPS = (1, 8, 8, 4), (3, 3, 4, 6)


def panels(taps, width, **attributes):
    """A convolution of an image of four channels with a filter in panels."""
    return CONV((1, 9, 9, 4), taps, filter_panels=width, **{"algorithm": "im2col", **attributes})


REFUSED = {
    "input's rank": (lambda: CONV((8, 8, 4), TAPS), "input has rank 3; expected 4"),
    "filter's rank": (lambda: CONV(IMAGE, (3, 3, 4)), "filter has rank 3; expected 4"),
    "dtype": (lambda: CONV(IMAGE, TAPS, dtype="i16"), "input has dtype int16; supported are"),
    "mixed dtypes": (
        lambda: CONV(IMAGE, ops.TensorType(TAPS, "float16")),
        "filter has dtype float16; expected float32 as input",
    ),
    "layout": (
        lambda: CONV(IMAGE, TAPS, layout="HWCN"),
        "layout is 'HWCN'; expected one of 'NHWC', 'NCHW'",
    ),
    "algorithm": (
        lambda: CONV(IMAGE, TAPS, algorithm="fft"),
        "algorithm is 'fft'; expected one of 'im2col', 'winograd', 'fastest', None",
    ),
    "dynamic channels": (
        lambda: CONV((1, 8, 8, "c"), TAPS),
        "input's channels are 'c'; expected a number",
    ),
    "dynamic filter": (
        lambda: CONV(IMAGE, (3, 3, 4, "f")),
        "filter axis 3 is 'f'; expected a number",
    ),
    "channels": (
        lambda: CONV(IMAGE, (3, 3, 5, 6)),
        "filter has 5 channels; expected 4: the input has 4, in 1 groups",
    ),
    "groups": (
        lambda: CONV(IMAGE, TAPS, groups=3),
        "groups is 3; expected a divisor of 4 channels and 6 filters",
    ),
    "groups from 1": (lambda: CONV(IMAGE, TAPS, groups=0), "groups is 0; expected a number from 1"),
    "strides": (
        lambda: CONV(IMAGE, TAPS, strides=(1, 0)),
        r"strides is \(1, 0\); expected one or two numbers from 1",
    ),
    "dilations": (
        lambda: CONV(IMAGE, TAPS, dilations=(1, 1, 1)),
        r"dilations is \(1, 1, 1\); expected one or two numbers from 1",
    ),
    "padding": (
        lambda: CONV(IMAGE, TAPS, padding=-1),
        "padding is -1; expected one or two numbers",
    ),
    "padding's sides": (
        lambda: CONV(IMAGE, TAPS, padding=(1, 1, 1)),
        r"padding is \(1, 1, 1\); expected a number, \(rows, columns\) or \(\(top",
    ),
    "a small image": (
        lambda: CONV((1, 8, 2, 4), TAPS, dilations=2, padding=1),
        "input has 2 columns, 4 with padding; the window spans 5",
    ),
    "winograd's kernel": (
        lambda: CONV(IMAGE, (5, 3, 4, 6), algorithm="winograd"),
        "winograd takes kernels of 3 x 3 .*; the kernel is 5 x 3",
    ),
    "winograd's strides": (
        lambda: CONV(IMAGE, TAPS, algorithm="winograd", strides=2),
        r"strides are \[2, 2\]",
    ),
    "winograd's dtype": (
        lambda: CONV(IMAGE, TAPS, algorithm="winograd", dtype="i8"),
        "the operands are int8",
    ),
    "tile size": (
        lambda: CONV(IMAGE, TAPS, output_tile_size=3),
        "output_tile_size is 3; expected 2, 4 or 6, or None",
    ),
    "tile size of im2col": (
        lambda: CONV(IMAGE, TAPS, output_tile_size=2, algorithm="im2col"),
        "output_tile_size is 2; expected None with im2col",
    ),
    "tile size without winograd": (
        lambda: CONV(IMAGE, TAPS, output_tile_size=2, strides=2),
        r"output_tile_size is 2; by im2col, since strides are \[2, 2\], there is none",
    ),
    "operands without an epilogue": (
        lambda: CONV(IMAGE, TAPS, [(6,)]),
        "has 1 operands for an epilogue, and no epilogue",
    ),
    "an operand's rank": (
        lambda: CONV(IMAGE, TAPS, [(1, 1, 1, 1, 6)], epilogue="arg0 + arg1"),
        "operand0 has rank 5; expected at most 4 as the result has",
    ),
    "an operand's extent": (
        lambda: CONV(IMAGE, TAPS, [(6,), (5,)], epilogue="arg0 + arg1 + arg2"),
        r"operand1 axis 0 has extent 5; expected 6 as the result \[1, 6, 6, 6\] has, or 1",
    ),
    "a number for a name": (
        lambda: CONV(("n", 8, 8, 4), TAPS, [(3, 1, 1, 1)], epilogue="arg0 + arg1"),
        "operand0 axis 0 has extent 3; expected n",
    ),
    "an operand's dtype": (
        lambda: CONV(IMAGE, TAPS, [TensorType((6,), "f64")], epilogue="arg0 + arg1"),
        "operand0 has dtype float64; supported are float16, bfloat16, float32",
    ),
    "the result's dtype": (
        lambda: CONV(IMAGE, TAPS, epilogue="arg0", result_dtype="i32"),
        "result has dtype int32; supported are float16, bfloat16, float32",
    ),
    "what the epilogue yields": (
        lambda: CONV(IMAGE, TAPS, epilogue="arg0 > 0"),
        "region yields bool; expected float32",
    ),
    "no panels": (
        lambda: panels((3, 3, 3, 4, 0), 0),
        "filter_panels is 0; expected",
    ),
    "panels that are no number": (
        lambda: panels((3, 3, 3, 4, 2), "2"),
        "filter_panels is '2'; expected",
    ),
    "panels of a filter in its usual shape": (
        lambda: panels(TAPS, 2),
        r"filter is .*; expected \(F / 2, KH, KW, C / groups, 2\), numbers",
    ),
    "panels of another width": (
        lambda: panels((3, 3, 3, 4, 4), 2),
        r"filter is .*; expected \(F / 2, KH, KW, C / groups, 2\), numbers",
    ),
    "panels whose number is known at the call only": (
        lambda: panels(("?", 3, 3, 4, 2), 2),
        r"filter is .*; expected \(F / 2, KH, KW, C / groups, 2\), numbers",
    ),
    "panels across groups": (
        lambda: panels((3, 3, 3, 2, 4), 4, groups=2),
        "filter_panels is 4; expected a divisor of 6, the filters of a group",
    ),
    "panels of a type that is converted": (
        lambda: panels((3, 3, 3, 4, 2), 2, dtype="f16"),
        "filter_panels is 2 with float16; expected float32 or float64",
    ),
    "panels with channels first": (
        lambda: panels((3, 3, 3, 4, 2), 2, layout="NCHW"),
        "filter_panels is 2 with layout 'NCHW' and algorithm 'im2col'; expected 'NHWC' and",
    ),
    "panels by Winograd": (
        lambda: panels((3, 3, 3, 4, 2), 2, algorithm="winograd"),
        "filter_panels is 2 with layout 'NHWC' and algorithm 'winograd'; expected",
    ),
    "an epilogue of other arguments": (
        lambda: CONV(IMAGE, TAPS, [(6,)], epilogue="arg0 + arg2"),
        "region 'arg0 \\+ arg2': 'arg2' is unknown",
    ),
}


def test_a_filter_in_panels():
    op = panels((3, 3, 3, 4, 2), 2)
    assert op.filters == 6
    assert op.signature.arguments[1].shape == (3, 3, 3, 4, 2)
    assert op.signature.results[0].shape == (1, 7, 7, 6)
    assert op.attributes["filter_panels"] == 2
    plain = CONV((1, 9, 9, 4), (3, 3, 4, 6), algorithm="im2col")
    assert op.flops() == plain.flops()
    assert op.bytes() == plain.bytes()
    assert "filter_panels" not in plain.attributes
    assert op.describe() != plain.describe()


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_and_says_why(case):
    make, message = REFUSED[case]
    with pytest.raises(OpError, match=message):
        make()


@pytest.mark.parametrize(
    ("image", "taps", "attributes"),
    [
        ((2, 6, 7, 3), (3, 2, 3, 4), {"padding": ((1, 0), (2, 1)), "strides": (1, 2)}),
        ((1, 4, 6, 7), (6, 2, 3, 3), {**NCHW, "groups": 2, "dilations": (2, 1), "dtype": "i8"}),
        (
            (2, 6, 7, 3),
            (3, 2, 3, 4),
            {"operands": [(4,), (4, 1, 1)], "epilogue": "max(arg0 + arg1, 0) - arg2"},
        ),
        (
            (2, 6, 7, 4),
            (4, 3, 2, 2, 3),
            {
                "filter_panels": 3,
                "groups": 2,
                "algorithm": "im2col",
                "operands": [(12,)],
                "epilogue": "arg0 + arg1",
            },
        ),
    ],
)
def test_the_canonical_function_is_the_op(image, taps, attributes):
    op = CONV(image, taps, **attributes)
    rng = np.random.default_rng(0)
    values = {
        name: rng.integers(-9, 9, shape).astype(op.dtype)
        for name, shape in ((operand.name, operand.shape) for operand in op.signature.arguments)
    }
    want = registry.find(op.name).reference(op, values)["result"]
    library = tvm.compile(tvm.IRModule({op.entry: op.prim_func()}), target="llvm")
    result = tvm.runtime.tensor(np.zeros(want.shape, op.result_dtype))
    library[op.entry](*map(tvm.runtime.tensor, values.values()), result)
    np.testing.assert_array_equal(result.numpy(), want)
