"""What a whole transform accepts, what it refuses and in which words; its canonical form."""

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops import TensorType


def names(operands):
    return [str(operand) for operand in operands]


def test_real_sides_are_one_buffer_and_half_as_long():
    op = ops.fft_transform(("b", 10), kind="real_to_complex")
    assert names(op.signature.operands) == [
        "real: float32[b, 10]",
        "result_real: float32[b, 6]",
        "result_imag: float32[b, 6]",
    ]
    back = ops.fft_transform(("b", 6), kind="complex_to_real")
    assert names(back.signature.operands) == [
        "real: float32[b, 6]",
        "imag: float32[b, 6]",
        "result_real: float32[b, 10]",
    ]
    assert ops.fft_transform((6,), kind="complex_to_real", length=11).length == 11
    assert ops.fft_transform((1,), kind="complex_to_real").length == 1


def test_the_axis_may_count_from_the_last():
    op = ops.fft_transform((4, 5, 6), axis=-2)
    assert op.attributes == {"kind": "forward", "axis": 1, "length": 5, "norm": "backward"}


def test_flops_are_the_usual_measure():
    assert ops.fft_transform((3, 8)).flops() == 3 * 5 * 8 * 3
    assert ops.fft_transform((3, 8), kind="real_to_complex").flops() == 3 * 5 * 8 * 3 // 2


@pytest.mark.parametrize(
    ("norm", "forward", "inverse"),
    [("backward", 1.0, 0.25), ("forward", 0.25, 1.0), ("ortho", 0.5, 0.5)],
)
def test_norms(norm, forward, inverse):
    assert ops.fft_transform((4,), norm=norm).scale == forward
    assert ops.fft_transform((4,), norm=norm, kind="inverse").scale == inverse
    assert ops.fft_transform((3,), norm=norm, kind="complex_to_real").scale == inverse


@pytest.mark.parametrize(
    ("operands", "keywords", "message"),
    [
        ([(8,)], {"kind": "both"}, "kind is 'both'; expected one of 'forward', 'inverse'"),
        ([(8,)], {"norm": None}, "norm is None; expected one of 'backward', 'ortho', 'forward'"),
        ([(8,), (8,)], {"kind": "real_to_complex"}, "imag came for real_to_complex; its input is"),
        ([(8,), (9,)], {}, r"imag has shape \[9\]; expected \[8\] as for real"),
        ([(8,), TensorType((8,), "f64")], {}, "imag has dtype float64; expected float32"),
        ([(8,)], {"axis": 1}, r"axis is 1; expected one of real \[8\]"),
        ([(8,)], {"axis": True}, r"axis is True; expected one of real \[8\]"),
        ([()], {}, r"axis is -1; expected one of real \[\]"),
        ([(8, "n")], {}, "real axis 1 has extent 'n'; the transformed axis is static"),
        ([(8,)], {"dtype": "i32"}, "real has dtype int32; supported are float16"),
        ([(8,)], {"length": 4}, "length is 4; expected 8 for axis 0 of 8"),
        ([(8,)], {"length": 16, "kind": "complex_to_real"}, "length is 16; expected 14 or 15"),
    ],
)
def test_refuses(operands, keywords, message):
    with pytest.raises(OpError, match=f"tvm_iree_ext.fft_transform: {message}"):
        ops.fft_transform(*operands, **keywords)


@pytest.mark.costly
@pytest.mark.parametrize("kind", ["forward", "inverse", "real_to_complex", "complex_to_real"])
@pytest.mark.parametrize("length", [1, 5, 6])
def test_the_canonical_sums_are_the_transform(kind, length):
    extent = length // 2 + 1 if kind == "complex_to_real" else length
    op = ops.fft_transform((2, extent, 3), kind=kind, axis=1, length=length)
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((2, extent, 3)).astype("f4") for _ in op.signature.arguments]
    shapes = op.signature.result_shapes({})
    results = [tvm.runtime.tensor(np.empty(shape, "f4")) for shape in shapes]
    library = tvm.compile(tvm.IRModule({op.entry: op.prim_func()}), target="llvm")
    library[op.entry](*map(tvm.runtime.tensor, parts), *results)
    got = [result.numpy() for result in results]
    signal = parts[0] + 1j * parts[1] if len(parts) == 2 else parts[0]
    functions = {"forward": np.fft.fft, "inverse": np.fft.ifft, "real_to_complex": np.fft.rfft}
    if kind == "complex_to_real":
        np.testing.assert_allclose(got[0], np.fft.irfft(signal, length, axis=1), atol=1e-5)
    else:
        want = functions[kind](signal, axis=1)
        np.testing.assert_allclose(got[0] + 1j * got[1], want, atol=1e-5)
