"""Narrow types of ONNX: as ``onnx``'s own reference converts, rounds and quantises them."""

import itertools

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import OnnxError

onnx = pytest.importorskip("onnx", reason="pip install 'tvm-iree-ext[onnx]'")
from onnx import TensorProto as T  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

FLOATS = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")
INTEGERS = ("INT4", "UINT4", "INT2", "UINT2")


def model_of(nodes, inputs, outputs, initializers=()):
    def values(many):
        return [
            helper.make_tensor_value_info(name, T.DataType.Value(kind), shape)
            for name, kind, shape in many
        ]

    graph = helper.make_graph(nodes, "main", values(inputs), values(outputs), list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])


def words_of(array):
    kind = array.dtype
    if kind.itemsize > 1 or kind.kind in "iu":
        return array
    return array.astype("int8") if str(kind).startswith("int") else array.view("uint8")


def agrees(model, *arguments):
    program = ext.from_onnx(model)
    results = program(*(words_of(one) for one in arguments))
    names = [one.name for one in model.graph.input]
    wanted = ReferenceEvaluator(model).run(None, dict(zip(names, arguments, strict=True)))
    for output, got, want in zip(model.graph.output, results, wanted, strict=True):
        np.testing.assert_array_equal(
            np.asarray(got).view(np.uint8 if want.dtype.itemsize == 1 else got.dtype),
            words_of(want).view(np.uint8 if want.dtype.itemsize == 1 else want.dtype),
            err_msg=output.name,
        )


def floats():
    """Numbers of each size and sign, those in the middle of two neighbours, and no numbers."""
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal(400) * np.exp2(rng.integers(-20, 20, 400))
    ties = [(a + b) / 2 for kind in FLOATS for a, b in _neighbours(kind)]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 464, 465, 448, 61440, 57344, 3e38]
    return np.array([*drawn, *ties, *(-np.array(ties)), *special], "f4")


def _neighbours(kind):
    dtype = helper.tensor_dtype_to_np_dtype(T.DataType.Value(kind))
    numbers = np.arange(128, dtype="u1").view(dtype).astype("f4")
    numbers = numbers[np.isfinite(numbers)]
    return itertools.pairwise(numbers)


def test_conversions_to_narrow_floats():
    x = floats()
    nodes, outputs = [], []
    for kind in (*FLOATS, "FLOAT4E2M1"):
        for saturate in (0, 1):
            name = f"{kind}_{saturate}"
            nodes.append(
                helper.make_node(
                    "Cast", ["x"], [name], to=T.DataType.Value(kind), saturate=saturate
                )
            )
            outputs.append((name, kind, x.shape))
    for mode in ("up", "down", "nearest"):
        for saturate in (0, 1):
            name = f"{mode}_{saturate}"
            to = {"to": T.FLOAT8E8M0, "round_mode": mode, "saturate": saturate}
            nodes.append(helper.make_node("Cast", ["x"], [name], **to))
            outputs.append((name, "FLOAT8E8M0", x.shape))
    agrees(model_of(nodes, [("x", "FLOAT", x.shape)], outputs), x)


def test_all_numbers_of_narrow_types_and_integers_of_few_bits():
    nodes, inputs, outputs, arguments = [], [], [], []
    for kind in (*FLOATS, "FLOAT4E2M1", "FLOAT8E8M0", *INTEGERS):
        dtype = helper.tensor_dtype_to_np_dtype(T.DataType.Value(kind))
        count = {"2": 4, "4": 16}.get(kind[-1] if kind in INTEGERS else "", 256)
        count = 16 if kind == "FLOAT4E2M1" else count
        numbers = np.arange(count).astype("u1")
        arguments.append(numbers.astype(dtype) if kind in INTEGERS else numbers.view(dtype))
        inputs.append((kind, kind, numbers.shape))
        nodes.append(helper.make_node("Cast", [kind], [f"{kind}_wide"], to=T.FLOAT))
        outputs.append((f"{kind}_wide", "FLOAT", numbers.shape))
    x = np.arange(-40, 40, dtype="f4") / 2
    for kind in INTEGERS:
        nodes.append(helper.make_node("Cast", ["x"], [f"{kind}_of"], to=T.DataType.Value(kind)))
        outputs.append((f"{kind}_of", kind, x.shape))
    agrees(model_of(nodes, [*inputs, ("x", "FLOAT", x.shape)], outputs), *arguments, x)


def test_quantised_along_an_axis_and_by_blocks():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((6, 10)).astype("f4") * 9
    scales = {"row": rng.uniform(0.5, 2, 6), "block": rng.uniform(0.5, 2, (6, 4))}
    tensors = [numpy_helper.from_array(one.astype("f4"), name) for name, one in scales.items()]
    nodes, outputs = [], []
    ways = {"row": {"axis": 0}, "block": {"axis": 1, "block_size": 3}}
    for way, options in ways.items():
        for kind in ("INT4", "UINT2", "FLOAT4E2M1", "FLOAT8E4M3FN", "UINT8"):
            words, back = f"{way}_{kind}", f"{way}_{kind}_back"
            to = {**options, "output_dtype": T.DataType.Value(kind)}
            nodes.append(helper.make_node("QuantizeLinear", ["x", way], [words], **to))
            nodes.append(helper.make_node("DequantizeLinear", [words, way], [back], **options))
            outputs += [(words, kind, x.shape), (back, "FLOAT", x.shape)]
    agrees(model_of(nodes, [("x", "FLOAT", x.shape)], outputs, tensors), x)


def test_weights_of_4_bits_that_are_moved_and_multiplied():
    rng = np.random.default_rng(2)
    x, weights = rng.standard_normal((3, 8)).astype("f4"), rng.integers(-8, 8, (5, 8))
    tensors = [
        helper.make_tensor("weights", T.INT4, weights.shape, weights.flatten()),
        numpy_helper.from_array(rng.uniform(0.5, 2, 5).astype("f4"), "scales"),
        numpy_helper.from_array(np.array([1], "i8"), "axis"),
    ]
    nodes = [
        helper.make_node("Transpose", ["weights"], ["turned"], perm=[1, 0]),
        helper.make_node("DequantizeLinear", ["turned", "scales"], ["wide"], axis=1),
        helper.make_node("MatMul", ["x", "wide"], ["y"]),
    ]
    model = model_of(nodes, [("x", "FLOAT", x.shape)], [("y", "FLOAT", (3, 5))], tensors)
    (want,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(ext.from_onnx(model)(x), want, rtol=1e-5, atol=1e-5)


def test_what_computes_with_narrow_numbers_is_refused():
    node = helper.make_node("Add", ["x", "x"], ["y"])
    model = model_of([node], [("x", "INT4", (3,))], [("y", "INT4", (3,))])
    with pytest.raises(OnnxError, match="x is of int4"):
        ext.from_onnx(model)
