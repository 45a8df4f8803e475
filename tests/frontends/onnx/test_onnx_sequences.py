"""Sequences and options of ONNX become the tensors in them; what hangs on a call is refused."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import OnnxError
from tvm_iree_ext.frontends.onnx.onnx_reading import read_model

onnx = pytest.importorskip("onnx")
pytest.importorskip("iree.compiler")

X = np.arange(12, dtype="f4").reshape(4, 3)


def model(text, opset=21):
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')


def called(text, *arguments, opset=21, **given):
    results = ext.from_onnx(model(text, opset), **given)(*arguments)
    return [*results] if isinstance(results, tuple) else [results]


def same(results, wanted):
    for result, want in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("opset", [11, 21])
def test_parts_are_results_and_are_joined_again(opset):
    text = """parts (float[4, 3] x) => (seq(float) xs, float[1, 3, 4] y, int64 n) {
      xs = SplitToSequence <axis = 1, keepdims = 0> (x)
      y0 = ConcatFromSequence <axis = 1, new_axis = 1> (xs)
      shape = Constant <value = int64[3] {1, 3, 4}> ()
      y1 = Transpose <perm = [1, 0]> (y0)
      y = Reshape (y1, shape)
      n = SequenceLength (xs)
    }"""
    wanted = [*(X[:, k] for k in range(3)), X.T[None], np.int64(3)]
    same(called(text, X, opset=opset), wanted)


def test_parts_of_a_size_end_with_a_smaller_one():
    text = """parts (float[4, 3] x) => (seq(float) xs) {
      size = Constant <value = int64 {3}> ()
      xs = SplitToSequence <axis = 0> (x, size)
    }"""
    same(called(text, X), [X[:3], X[3:]])


def test_places_count_from_either_end():
    text = """places (float[4, 3] x, float[3] y) => (seq(float) zs, float[3] last) {
      first = Constant <value = int64 {-2}> ()
      minus = Constant <value = int64 {-1}> ()
      xs = SequenceConstruct (x, y)
      ys = SequenceInsert (xs, y, first)
      zs = SequenceErase (ys, minus)
      zero = Constant <value = int64 {0}> ()
      last = SequenceAt (zs, zero)
    }"""
    y = X[0] + 1
    same(called(text, X, y), [y, X, y])


def test_a_sequence_that_is_an_input_has_the_extents_that_are_said():
    text = """mapped (seq(float[]) xs, float[1] y) => (seq(float) zs) {
      zs = SequenceMap (xs, y) <body = body (float[n] a, float[1] b) => (float[n] c) {
        c = Mul (a, b)
      }>
    }"""
    xs = [np.arange(count, dtype="f4") for count in (2, 5, 1)]
    three = np.array([3], "f4")
    given = {"xs": [one.shape for one in xs]}
    same(called(text, *xs, three, shapes=given), [one * 3 for one in xs])
    with pytest.raises(OnnxError, match=r"input xs is a sequence; say the extents of each"):
        read_model(model(text))


def test_an_option_is_there_unless_its_shape_is_none():
    text = """option (optional(float[3]) x) => (float[3] y) {
      has = OptionalHasElement (x)
      y = If (has) <then_branch = there () => (float[3] a) { a = OptionalGetElement (x) },
                    else_branch = absent () => (float[3] b) {
                      b = Constant <value = float[3] {7, 8, 9}> () }>
    }"""
    same(called(text, X[1]), [X[1]])
    same(called(text, shapes={"x": None}), [[7, 8, 9]])


def test_branches_give_sequences_of_one_length():
    text = """branches (bool c, float[4, 3] x) => (seq(float) ys) {
      one = Constant <value = float {1}> ()
      ys = If (c) <then_branch = yes () => (seq(float) a) { a = SequenceConstruct (x, one) },
                   else_branch = no () => (seq(float) b) {
                     other = Neg (x)
                     b = SequenceConstruct (other, one) }>
    }"""
    same(called(text, np.True_, X), [X, 1])
    same(called(text, np.False_, X), [-X, 1])
    other = text.replace("SequenceConstruct (other, one)", "SequenceConstruct (other)")
    with pytest.raises(OnnxError, match=r"If of node 'ys': its branches .* different lengths"):
        ext.from_onnx(model(other))
    same(called(other, X, constants={"c": True}), [X, 1])


def test_a_loop_grows_a_sequence_step_after_step():
    text = """grown (int64 steps, float[4, 3] x) => (seq(float) ys, float[3, 3] rows) {
      true = Constant <value = bool {1}> ()
      none = SequenceEmpty ()
      ys, rows = Loop (steps, true, none) <body = body (int64 i, bool c, seq(float) so_far)
          => (bool goes_on, seq(float) longer, float[3] row) {
        goes_on = Identity (c)
        row = Gather <axis = 0> (x, i)
        longer = SequenceInsert (so_far, row)
      }>
    }"""
    same(called(text, X, constants={"steps": 3}), [*X[:3], X[:3]])
    with pytest.raises(
        OnnxError, match=r"Loop of node 'ys': its number of steps .* steps as const"
    ):
        ext.from_onnx(model(text))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("y = SequenceAt (xs, place)", r"SequenceAt of node 'y': the place .*place as constants="),
        ("y = SequenceAt (xs, far)", r"SequenceAt of node 'y': place 2 of a sequence of 2 tensors"),
        ("y = Relu (xs)", r"Relu of node 'y': expected tensors; a sequence or an option came"),
    ],
)
def test_refuses(node, message):
    text = f"""refused (float[3] x, int64 place) => (float[3] y) {{
      far = Constant <value = int64 {{2}}> ()
      xs = SequenceConstruct (x, x)
      {node}
    }}"""
    with pytest.raises(OnnxError, match=message):
        read_model(model(text))


@pytest.mark.parametrize("shapes", [{"xs": None}, {"xs": [2, 3]}, {"xs": "ab"}, {}])
def test_extents_of_a_sequence_are_those_of_each_of_its_tensors(shapes):
    text = """one (seq(float[]) xs) => (float[n] y) {
      z = Constant <value_int = 0> ()
      y = SequenceAt (xs, z)
    }"""
    with pytest.raises(OnnxError, match=r"input xs is a sequence; say the extents of each"):
        read_model(model(text), shapes)


def test_an_option_has_the_extents_that_are_said():
    text = "option (optional(float[n]) x) => (float[n] y) { y = OptionalGetElement (x) }"
    (found,) = read_model(model(text), {"x": (5,)}).inputs
    assert [one.dim_value for one in found.type.tensor_type.shape.dim] == [5]
    with pytest.raises(OnnxError, match="x has 2 extents; the model's has 1"):
        read_model(model(text), {"x": (5, 1)})


def test_sequences_of_other_lengths_are_not_mapped_together():
    text = """mapped (float[3] x) => (seq(float) zs) {
      xs = SequenceConstruct (x, x)
      ys = SequenceConstruct (x)
      zs = SequenceMap (xs, ys) <body = body (float[3] a, float[3] b) => (float[3] c) {
        c = Mul (a, b)
      }>
    }"""
    with pytest.raises(OnnxError, match=r"SequenceMap of node 'zs': its sequences have \[1, 2\]"):
        read_model(model(text))


def test_long_chains_before_a_condition_take_no_time():
    adds = "".join(f"x{i + 1} = Add (x{i}, x{i})\n" for i in range(1500))
    text = f"""long (float[3] x0, float[3] y) => (float[3] z) {{
      xs = SequenceConstruct (x0, y)
      {adds}
      c = ReduceSum <keepdims = 0> (x1500)
      d = Cast <to = 9> (c)
      z = If (d) <then_branch = a () => (float[3] p) {{ p = Identity (y) }},
                  else_branch = b () => (float[3] q) {{ q = Neg (y) }}>
    }}"""
    assert len(read_model(model(text)).proto.graph.node) == 1504


def test_a_loop_without_a_condition_goes_on_to_its_count():
    text = """grown (float[4, 3] x) => (seq(float) ys) {
      steps = Constant <value_int = 3> ()
      none = SequenceEmpty ()
      ys = Loop (steps, , none) <body = body (int64 i, bool c, seq(float) so_far)
          => (bool goes_on, seq(float) longer) {
        goes_on = Constant <value = bool {0}> ()
        row = Gather <axis = 0> (x, i)
        longer = SequenceInsert (so_far, row)
      }>
    }"""
    same(called(text, X), X[:3])


def test_a_loop_of_tensors_may_read_a_sequence():
    text = """summed (int64 steps, float[3] x) => (float[3] y) {
      true = Constant <value = bool {1}> ()
      place = Constant <value_int = 1> ()
      two = Add (x, x)
      xs = SequenceConstruct (x, two)
      y = Loop (steps, true, x) <body = body (int64 i, bool c, float[3] so_far)
          => (bool goes_on, float[3] more) {
        goes_on = Identity (c)
        one = SequenceAt (xs, place)
        more = Add (so_far, one)
      }>
    }"""
    kept = read_model(model(text))
    assert "Loop" in {node.op_type for node in kept.proto.graph.node}
    same(called(text, X[1], constants={"steps": 2}), [X[1] * 5])
