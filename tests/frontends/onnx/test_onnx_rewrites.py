"""Operators that no front end takes are others: ONNX's node tests of them, and what stays."""

import numpy as np
import onnx_node_tests
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.frontends.onnx.onnx_folding import folded
from tvm_iree_ext.frontends.onnx.onnx_integers import INTEGER_REWRITES
from tvm_iree_ext.frontends.onnx.onnx_reading import read_model
from tvm_iree_ext.frontends.onnx.onnx_rewrites import REWRITES
from tvm_iree_ext.frontends.onnx.onnx_rewriting import rewritten

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx.reference")
pytest.importorskip("iree.compiler")


def model(text, opset=21):
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')


@pytest.fixture(scope="module")
def node_tests():
    return onnx_node_tests.loaded(
        *("affinegrid", "ai_onnx_ml.array_feature_extractor", "ai_onnx_ml.binarizer", "col2im"),
        *("compress", "cumprod", "det", "dft", "gru", "linear_attention", "lpnormalization"),
        *("lstm", "unique"),
    )


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "constants"),
    [
        ("test_affine_grid_2d_expanded", ["size"]),  # a branch of a condition that is known
        ("test_ai_onnx_ml_array_feature_extractor", []),
        ("test_ai_onnx_ml_binarizer", []),
        ("test_col2im_pads", ["image_shape", "block_shape"]),
        ("test_col2im_strides", ["image_shape", "block_shape"]),
        ("test_compress_0", []),
        ("test_cumprod_1d_reverse_exclusive", ["axis"]),
        ("test_cumprod_2d_axis_1", ["axis"]),
        ("test_det_nd", []),
        ("test_dft_inverse", ["axis"]),
        ("test_dft_opset19", []),
        ("test_gru_reverse", []),
        ("test_l2normalization_axis_0", []),
        ("test_linear_attention_linear", []),  # a scan
        ("test_lstm_with_peepholes", ["sequence_lens"]),
        ("test_unique_bfloat16_sorted_without_axis", []),
        ("test_unique_length_1", []),
        ("test_unique_not_sorted_without_axis", []),
        ("test_unique_sorted_with_negative_axis", []),
    ],
)
def test_node_tests(node_tests, name, constants):
    case = node_tests[name]
    arguments, wanted = case.data_sets[0]
    given = dict(zip((one.name for one in case.model.graph.input), arguments, strict=True))
    program = ext.from_onnx(case.model, constants={name: given.pop(name) for name in constants})
    results = program(*given.values())
    results = results if isinstance(results, tuple) else (results,)
    for result, want in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, want, rtol=case.rtol, atol=1e-5)
        assert result.dtype == want.dtype


def evaluated(read, *arguments):
    whole = read.whole()
    names = [one.name for one in whole.graph.input]
    run = onnx.reference.ReferenceEvaluator(whole)
    return run.run(None, dict(zip(names, arguments, strict=True)))


@pytest.mark.parametrize(
    "text",
    [
        "g (float[4, 5, 5] x) => (float[4] y) { y = Det(x) }",
        "g (float[3, 4] x) => (float[3, 4] y) { y = LpNormalization <axis = 1> (x) }",
        "g (float[2, 5, 1] x) => (float[2, 3, 2] y) { a = Constant <value_int = 1> ()"
        ' y = DFT <onesided = 1> (x, "", a) }',
        "g (float[2, 5] x) => (float[2, 5] y) { a = Constant <value_int = -1> ()"
        " y = CumProd <exclusive = 1> (x, a) }",
        "g (float[2, 3] x) => (float[11, 8] y) { a = Constant <value_ints = [1, 0]> ()"
        " p = Constant <value_ints = [1, 5, 4, 4]> () n = Constant <value_float = 0.0> ()"
        ' y = Pad <mode = "wrap"> (x, p, n, a) }',
        "g (float[3, 2] x) => (float[2] s, float[3, 2] y) {"
        " z = Constant <value_floats = [1.0, 2.0]> ()"
        " s, y = Scan <num_scan_inputs = 1,"
        " body = b (float[2] c, float[2] e) => (float[2] d, float[2] f)"
        " { d = Add(c, e) f = Mul(d, e) }> (z, x) }",
    ],
    ids=["Det", "LpNormalization", "DFT", "CumProd", "Pad", "Scan"],
)
def test_rewritten_models_mean_the_same(text):
    read = read_model(model(text, 27))
    other = rewritten(read, set(REWRITES), REWRITES)
    written = {node.op_type for node in other.nodes()}
    assert not written & (set(REWRITES) - {"CastLike"} - set(INTEGER_REWRITES))
    rng = np.random.default_rng(0)
    shape = [one.dim_value for one in read.inputs[0].type.tensor_type.shape.dim]
    x = rng.standard_normal(shape).astype("f4")
    for got, want in zip(evaluated(other, x), evaluated(read, x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        assert got.dtype == want.dtype


@pytest.mark.parametrize("kind", ["float", "float16", "bfloat16", "double"])
def test_floats_become_bytes_without_sign(kind):
    text = f"g ({kind}[4] x) => (uint8[4] y) {{ y = Cast <to = 2> (x) }}"
    program = ext.from_onnx(model(text))
    dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
    x = np.array([0, 127.9, 128, 255]).astype(numpy_dtype(dtype))
    np.testing.assert_array_equal(program(x), np.trunc(x.astype("f8")))


def unique(x, axis, *, is_sorted):
    """As ONNX says it: by dictionaries."""
    lines = x.ravel() if axis is None else np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
    keys = [tuple(np.atleast_1d(line).tolist()) for line in lines]
    kinds = sorted({*keys}) if is_sorted else [*dict.fromkeys(keys)]
    first = [keys.index(kind) for kind in kinds]
    inverse, counts = [kinds.index(key) for key in keys], [keys.count(kind) for kind in kinds]
    return x.ravel()[first] if axis is None else x.take(first, axis), first, inverse, counts


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_unique_by_others_means_the_same(axis, is_sorted):
    said = "" if axis is None else f"axis = {axis}, "
    text = (
        f"g (int64[6, 2] x) => (int64[{'a' if axis is None else 'a, b'}] y, int64[c] i,"
        f" int64[d] v, int64[e] n) {{ y, i, v, n = Unique <{said}sorted = {is_sorted}> (x) }}"
    )
    other = rewritten(read_model(model(text, 27)), {"Unique"}, REWRITES)
    for seed in range(8):
        x = np.random.default_rng(seed).integers(-1, 2, (6, 2))
        wanted = unique(x, axis, is_sorted=is_sorted)
        for got, want in zip(evaluated(other, x), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def test_extents_that_are_known_are_computed():
    read = read_model(
        model(
            "g (float[2, 6] x) => (float[a, b, c] y) { s = Shape(x)"
            " two = Constant <value_ints = [2]> () t = Div(s, two)"
            " u = Concat <axis = 0> (two, t) y = Reshape(x, u) }"
        )
    )
    known = folded(read)
    assert [node.op_type for node in known.nodes() if node.op_type != "Constant"] == ["Reshape"]
    assert folded(known) is None


@pytest.mark.parametrize(
    "text",
    [
        "g (float[17, 17] x) => (float y) { y = Det(x) }",
        "g (float[2, n] x, int64 a) => (float[2, n] y) { y = CumProd(x, a) }",
        "g (float[300, 1, 2] x, float[1, 5, 2] w, float[1, 5, 5] r) => (float[300, 1, 1, 5] y)"
        " { y = RNN <hidden_size = 5> (x, w, r) }",
    ],
    ids=["many rows", "an axis that a call says", "many steps"],
)
def test_nodes_of_which_too_little_is_known_stay(text):
    assert rewritten(read_model(model(text, 26)), set(REWRITES), REWRITES) is None
