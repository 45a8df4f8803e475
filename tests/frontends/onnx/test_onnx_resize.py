"""Resize of ONNX in its modes, beside ``onnx``'s own reference."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import OnnxError

onnx = pytest.importorskip("onnx", reason="pip install 'tvm-iree-ext[onnx]'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

MODES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
SHAPE, OPEN = (1, 2, 7, 10), ("a", "b", "c", "d")


def resized(name, *, scales=None, sizes=None, roi=None, **options):
    """A node, and the constants that it reads."""
    given = {
        "roi": None if roi is None else np.array(roi, "f4"),
        "scales": None if scales is None else np.array(scales, "f4"),
        "sizes": None if sizes is None else np.array(sizes, "i8"),
    }
    tensors = {f"{name}_{what}": one for what, one in given.items() if one is not None}
    inputs = ["x", *(f"{name}_{what}" if given[what] is not None else "" for what in given)]
    node = helper.make_node("Resize", inputs, [name], **options)
    return node, [numpy_helper.from_array(one, what) for what, one in tensors.items()]


def nodes():
    for mode in MODES:
        place = {"coordinate_transformation_mode": mode}
        yield resized(f"{mode}_up", scales=(1, 1, 1.7, 2), mode="linear", **place)
        yield resized(f"{mode}_down", sizes=(1, 2, 3, 4), mode="cubic", **place)
    for mode in MODES[::2]:
        place = {"coordinate_transformation_mode": mode}
        yield resized(f"{mode}_nearest", sizes=(1, 2, 12, 3), mode="nearest", **place)
    outside = {"mode": "cubic", "exclude_outside": 1}
    yield resized("outside", scales=(1, 1, 0.6, 1), **outside)
    for mode in ("floor", "ceil", "round_prefer_ceil"):
        yield resized(f"nearest_{mode}", scales=(1, 1, 1.5, 0.5), mode="nearest", nearest_mode=mode)
    for mode in ("linear", "cubic"):
        yield resized(f"smooth_{mode}", scales=(1, 1, 0.4, 0.15), mode=mode, antialias=1)
        policy = {"axes": [3, 2], "keep_aspect_ratio_policy": "not_larger"}
        yield resized(f"kept_{mode}", sizes=(9, 9), mode=mode, **policy)
    region = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.5}
    roi = (0, 0, -0.2, 0.3, 1, 1, 0.8, 1.3)
    yield resized("region", sizes=(1, 2, 5, 6), roi=roi, mode="linear", **region)


def model_of(some, shape, kind=TensorProto.FLOAT):
    x = helper.make_tensor_value_info("x", kind, shape)
    results = [helper.make_tensor_value_info(node.output[0], kind, OPEN) for node, _ in some]
    constants = [one for _, tensors in some for one in tensors]
    graph = helper.make_graph([node for node, _ in some], "main", [x], results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])


def test_each_mode_is_as_the_reference_has_it():
    model = model_of([*nodes()], SHAPE)
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("f4")
    results = ext.from_onnx(model)(x)
    wanted = ReferenceEvaluator(model).run(None, {"x": x})
    for node, got, want in zip(model.graph.node, results, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=node.output[0])


def test_weights_are_of_the_image_s_type():
    """``onnx``'s reference weighs float64 by float32; NumPy does not."""
    place = {"coordinate_transformation_mode": "asymmetric", "mode": "linear"}
    model = model_of([resized("y", scales=(1, 1, 1, 3), **place)], SHAPE, TensorProto.DOUBLE)
    x = np.random.default_rng(0).standard_normal(SHAPE)

    def tripled(row):
        return np.interp(np.arange(3 * len(row)) / 3, np.arange(len(row)), row)

    want = np.apply_along_axis(tripled, 3, x)
    np.testing.assert_allclose(ext.from_onnx(model)(x), want, rtol=1e-13, atol=1e-13)


def test_a_batch_may_be_open():
    some = [resized("y", scales=(1, 1, 2, 0.5), mode="linear")]
    program = ext.from_onnx(model_of(some, ("n", *SHAPE[1:])))
    for count in (1, 3):
        x = np.random.default_rng(0).standard_normal((count, *SHAPE[1:])).astype("f4")
        (want,) = ReferenceEvaluator(model_of(some, x.shape)).run(None, {"x": x})
        np.testing.assert_allclose(program(x), want, rtol=1e-5, atol=1e-5)


def test_scales_that_a_call_says_are_refused():
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")
    kind = TensorProto.FLOAT
    inputs = [
        helper.make_tensor_value_info("x", kind, SHAPE),
        helper.make_tensor_value_info("scales", kind, (4,)),
    ]
    y = helper.make_tensor_value_info("y", kind, OPEN)
    graph = helper.make_graph([node], "main", inputs, [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    with pytest.raises(OnnxError, match="axes and extents as constants="):
        ext.from_onnx(model)
    x = np.ones(SHAPE, "f4")
    scales = np.array([1, 1, 2, 2], "f4")
    assert ext.from_onnx(model, constants={"scales": scales})(x).shape == (1, 2, 14, 20)
