"""Integers of a type's whole range are what ONNX's reference evaluator says."""

import numpy as np
import pytest

import tvm_iree_ext as ext

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx.reference")
pytest.importorskip("iree.compiler")

NODES = {
    "Abs": "y = Abs(x)",
    "Clip": "low = Constant <value_int = 2> () high = Constant <value_int = 100> ()"
    " lower = CastLike(low, x) upper = CastLike(high, x) y = Clip(x, lower, upper)",
    "MaxPool": "last = Constant <value_ints = [0]> () z = Unsqueeze(x, last)"
    " p = MaxPool <kernel_shape = [2]> (z) y = Squeeze(p, last)",
    "Neg": "y = Neg(x)",
    "PRelu": "y = PRelu(x, x)",
    "ReduceL1": "axes = Constant <value_ints = [1]> () y = ReduceL1 <keepdims = 1> (x, axes)",
    "ScatterND": "place = Constant <value = int64[3, 1] {0, 2, 0}> ()"
    ' y = ScatterND <reduction = "max"> (x, place, x)',
    "Sign": "y = Sign(x)",
    "TopK": "count = Constant <value_ints = [2]> () y, place = TopK(x, count)",
}
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
CASES = [
    *((op, kind) for op in ("Abs", "Clip", "ScatterND", "Sign", "TopK") for kind in UNSIGNED),
    *((op, kind) for op in ("PRelu", "ReduceL1") for kind in UNSIGNED[2:]),
    ("MaxPool", "uint8"),
    *(("Neg", kind) for kind in ("int32", "int64")),
]


@pytest.mark.costly
@pytest.mark.parametrize(("op", "kind"), CASES)
def test_integers_are_what_they_are(op, kind):
    text = f"g ({kind}[3, 4] x) => ({kind}[3, n] y) {{ {NODES[op]} }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}')
    info = np.iinfo(kind)
    rng = np.random.default_rng(0)
    x = rng.integers(info.min, info.max, (3, 4), dtype=kind, endpoint=True)
    (want,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    found = ext.from_onnx(model)(x)
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)


def test_floats_beside_integers_stay_as_they_are():
    text = "g (float[3] x, uint8[3] n) => (float[3] y, uint8[3] m) { y = Abs(x) m = Abs(n) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}')
    x, n = np.array([-1.5, 2, -0.0], "float32"), np.array([0, 127, 255], "uint8")
    y, m = ext.from_onnx(model)(x, n)
    np.testing.assert_array_equal(y, np.abs(x))
    np.testing.assert_array_equal(m, n)
