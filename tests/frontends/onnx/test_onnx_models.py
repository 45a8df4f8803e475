"""Models of ONNX are programs: its own node tests, constants, axes, and refusals."""

import numpy as np
import onnx_node_tests
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import OnnxError
from tvm_iree_ext.frontends.onnx import onnx_doors, onnx_reading

onnx = pytest.importorskip("onnx")
pytest.importorskip("iree.compiler")


def model(text, opset=21):
    head = f'<ir_version: 10, opset_import: ["" : {opset}]>'
    return onnx.parser.parse_model(f"{head}\n{text}")


@pytest.fixture(scope="module")
def node_tests():
    return onnx_node_tests.loaded(
        *("add", "argmax", "attention", "conv", "cumsum", "dynamicquantizelinear", "gelu"),
        *("gridsample", "image_decoder", "layernormalization", "reshape", "softmax"),
        *("softmax_cross_entropy_loss", "where"),
    )


@pytest.mark.parametrize(
    "name",
    [
        "test_add_uint8",
        "test_argmax_keepdims_example",
        "test_attention_4d",  # by its definition
        "test_basic_conv_with_padding",
        "test_dynamicquantizelinear",  # by its definition: IREE computes another
        "test_gelu_tanh_2",
        "test_gridsample_nearest",  # by TVM: IREE computes another
        "test_layer_normalization_4d_axis2",
        "test_reshape_reordered_all_dims",
        "test_sce_mean_weight",
        "test_softmax_axis_2",
        "test_where_example",
    ],
)
def test_node_tests(node_tests, name):
    case = node_tests[name]
    arguments, wanted = case.data_sets[0]
    results = ext.from_onnx(case.model)(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    for result, want in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, want, rtol=case.rtol, atol=case.atol)
        assert result.dtype == want.dtype


def test_an_axis_that_is_an_input_is_refused_until_it_is_a_constant(node_tests):
    case = node_tests["test_cumsum_1d"]
    (x, axis), (want,) = case.data_sets[0]
    with pytest.raises(OnnxError, match=r"axes and extents as constants=[^$]*CumSum y"):
        ext.from_onnx(case.model)
    program = ext.from_onnx(case.model, constants={"axis": axis})
    np.testing.assert_array_equal(program(x), want)


def test_both_front_ends_take_a_model():
    add = onnx_reading.read_model(model("g (float[n, 3] x) => (float[n, 3] y) { y = Add(x, x) }"))
    x = np.arange(6, dtype="float32").reshape(2, 3)
    for door in (onnx_doors.through_iree, onnx_doors.through_tvm):
        np.testing.assert_array_equal(ext.build_program(door(add))(x), x + x)


@pytest.mark.parametrize("external", [False, True], ids=["inside", "external data"])
def test_a_file_with_large_weights_and_an_open_axis(tmp_path, external):
    rng = np.random.default_rng(0)
    weights = {
        "a": rng.standard_normal((32, 64)).astype("float32"),
        "b": rng.standard_normal((64, 16)).astype("float32"),
    }
    proto = model(
        "mlp (float[batch, 32] x) => (float[batch, 16] y, float[batch, 64] h)"
        " { p = MatMul(x, a)  h = Relu(p)  y = MatMul(h, b) }"
    )
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(w, n) for n, w in weights.items())
    path = tmp_path / "mlp.onnx"
    onnx.save(proto, path, save_as_external_data=external, location="weights", size_threshold=0)
    program = ext.from_onnx(path)
    for rows in (1, 5):
        x = rng.standard_normal((rows, 32)).astype("float32")
        h = np.maximum(x @ weights["a"], 0)
        y, hidden = program(x)
        np.testing.assert_allclose(y, h @ weights["b"], rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(hidden, h, rtol=1e-5, atol=1e-5)


def test_weights_stand_beside_what_is_lowered():
    proto = model("g (float[2, 32] x) => (float[2, 32] y) { y = MatMul(x, w) }")
    w = np.random.default_rng(0).standard_normal((32, 32)).astype("float32")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    imported = ext.frontends.import_onnx(proto)
    assert any(np.array_equal(w, array) for array in imported.parameters.values())


def test_shapes_and_constants_of_inputs():
    proto = model("g (float[n, m] x, int64[2] shape) => (float[a, b] y) { y = Reshape(x, shape) }")
    program = ext.from_onnx(proto, shapes={"x": (4, 3)}, constants={"shape": [2, 6]})
    assert [str(one) for one in program.main.signature.arguments] == ["arg0: float32[4, 3]"]
    x = np.arange(12, dtype="float32").reshape(4, 3)
    np.testing.assert_array_equal(program(x), x.reshape(2, 6))


def test_functions_of_a_model_are_put_in_their_place():
    proto = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21, "mine" : 1]>
        g (float[3] x) => (float[3] y) { y = mine.twice(x) }
        <domain: "mine", opset_import: ["" : 21]>
        twice (a) => (b) { b = Add(a, a) }
    """)
    np.testing.assert_array_equal(ext.from_onnx(proto)(np.ones(3, "float32")), np.full(3, 2.0))


GOOD = "g (float[n, 3] x) => (float[n, 3] y) { y = Add(x, x) }"


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (3, {}, "expected a path, bytes or an onnx.ModelProto; int came"),
        (b"none", {}, "the model cannot be read"),
        ("absent.onnx", {}, "absent.onnx cannot be read"),
        (model(GOOD), {"shapes": {"z": (2, 3)}}, "shapes: the model has no input 'z'; it has x"),
        (model(GOOD), {"shapes": {"x": (2,)}}, "x has 1 extents; the model's has 2"),
        (model(GOOD), {"constants": {"z": 1}}, "constants: the model has no input 'z'"),
        (
            model("g (int64[1] x) => (int64[1] y) { y = Add(x, x) }"),
            {"constants": {"x": [0.5]}},
            "constants: x is float64; expected int64",
        ),
        (model("g (string[1] x) => (string[1] y) { y = Identity(x) }"), {}, "x is of type string"),
        (
            model("g (float[2, 2] x) => (float[2, 2] y) { y = Nonsense(x) }"),
            {},
            "not valid: No Op registered for Nonsense",
        ),
        (
            model("g (float[17, 17] x) => (float y) { y = Det(x) }"),  # 16 rows are taken
            {},
            r"IREE's front end: Det of node 'Det y' would be computed wrongly\n"
            r"TVM's front end: .* not supported for frontend ONNX: Det",
        ),
    ],
)
def test_refusals_say_why(source, options, said):
    with pytest.raises(OnnxError, match=said):
        ext.from_onnx(source, **options)


def test_a_node_test_that_is_refused(node_tests):
    with pytest.raises(OnnxError, match="ImageDecoder of node"):
        ext.from_onnx(node_tests["test_image_decoder_decode_bmp_rgb"].model)
