"""What a butterfly stage accepts, what it refuses and in which words; its canonical form."""

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops import TensorType

N8 = (3, 8)


def test_the_kernel_takes_the_stage_then_coefficients_then_inits():
    op = ops.fft(("b", "n"), ("b", "n"), ("h",), ("h",), stage="operand")
    assert [str(o) for o in op.signature.operands] == [
        "stage: int64[]",
        "real_coeff: float32[h]",
        "imag_coeff: float32[h]",
        "real_init: float32[b, n]",
        "imag_init: float32[b, n]",
        "real: float32[b, n]",
        "imag: float32[b, n]",
    ]


def test_a_constant_stage_is_an_attribute():
    op = ops.fft(N8, N8, stage=3)
    assert [o.name for o in op.signature.arguments] == ["real_init", "imag_init"]
    assert op.attributes == {"stage": 3}
    assert op.flops() == 10 * 3 * 4
    assert op.bytes() == 4 * 24 * 4


def test_names_and_numbers_of_both_parts_are_joined():
    op = ops.fft(("b", "?"), (3, 8), stage=1)
    assert op.shape == (3, 8)
    assert ops.fft(("?", 8), ("rows", 8), stage=1).shape == ("rows", 8)
    assert ops.fft(("?", 8), ("?", 8), stage=1).shape == ("d0", 8)
    assert ops.fft((8,), (8,), ("?",), (4,), stage="operand").coefficients == 4


@pytest.mark.parametrize(
    ("real", "imag", "keywords", "message"),
    [
        ((3, 6), (3, 6), {"stage": 1}, "real has innermost extent 6; expected a power of two"),
        ((), (), {"stage": 1}, "real has rank 0; expected at least the dim to transform"),
        (N8, (3, 4), {"stage": 1}, r"imag has shape \[3, 4\]; expected \[3, 8\] as for real"),
        (N8, (8,), {"stage": 1}, r"imag has shape \[8\]; expected \[3, 8\] as for real"),
        (N8, TensorType(N8, "float64"), {"stage": 1}, "imag has dtype float64; expected float32"),
        (N8, N8, {"stage": 1, "dtype": "int32"}, "real has dtype int32; supported are float16"),
        (N8, N8, {"stage": 0}, "stage is 0; expected a number from 1, or 'operand'"),
        (N8, N8, {"stage": 1.5}, "stage is 1.5; expected a number from 1, or 'operand'"),
        (N8, N8, {"stage": True}, "stage is True; expected a number from 1"),
        (N8, N8, {"stage": "last"}, "stage is 'last'; expected a number from 1, or 'operand'"),
        (N8, N8, {"stage": 2**63}, "stage is 9223372036854775808; an extent has at most 62"),
        (N8, N8, {"stage": 4}, "stage is 4, of blocks of 16; the innermost extent is 8"),
        (N8, N8, {"stage": 1, "real_coeff": (1,)}, "real_coeff came without imag_coeff; inputs"),
        (N8, N8, {"stage": 1, "imag_coeff": (1,)}, "imag_coeff came without real_coeff; inputs"),
        (
            N8,
            N8,
            {"stage": 2, "real_coeff": (2,), "imag_coeff": (4,)},
            r"imag_coeff has extent 4; expected 2\^\(stage - 1\) = 2",
        ),
        (
            N8,
            N8,
            {"stage": "operand", "real_coeff": (2,), "imag_coeff": (4,)},
            "imag_coeff has extent 4; expected 2",
        ),
        (
            N8,
            N8,
            {"stage": 2, "real_coeff": (2, 1), "imag_coeff": (2,)},
            r"real_coeff is float32\[2, 1\]; expected float32 of rank 1",
        ),
        (
            N8,
            N8,
            {"stage": 2, "real_coeff": TensorType((2,), "float64"), "imag_coeff": (2,)},
            r"real_coeff is float64\[2\]; expected float32 of rank 1",
        ),
    ],
)
def test_refuses(real, imag, keywords, message):
    with pytest.raises(OpError, match=f"iree_linalg_ext.fft: {message}"):
        ops.fft(real, imag, **keywords)


@pytest.mark.costly
@pytest.mark.parametrize("stage", [1, 3, "operand"])
@pytest.mark.parametrize("with_coefficients", [False, True])
def test_canonical_stages_make_a_transform(stage, with_coefficients):
    """Stages 1, 2, 3 of a bit-reversed row are its DFT; the others of the three are constant."""
    order = [0, 4, 2, 6, 1, 5, 3, 7]
    signal = np.random.default_rng(0).standard_normal((2, 8)).astype("float32")
    parts = [np.ascontiguousarray(signal[:, order]), np.zeros((2, 8), "float32")]
    for number in (1, 2, 3):
        half = 2 ** (number - 1)
        w = np.exp(-1j * np.pi * np.arange(half) / half)
        coefficients = [w.real.astype("f4"), w.imag.astype("f4")] if with_coefficients else []
        kinds = [(half,)] * len(coefficients)
        given = number if isinstance(stage, int) else stage
        op = ops.fft((2, 8), (2, 8), *kinds, stage=given)
        library = tvm.compile(tvm.IRModule({"fft": op.prim_func()}), target="llvm")
        results = [tvm.runtime.tensor(part) for part in parts]
        scalars = [number] if given == "operand" else []
        library["fft"](*scalars, *map(tvm.runtime.tensor, (*coefficients, *parts)), *results)
        parts = [result.numpy() for result in results]
    np.testing.assert_allclose(parts[0] + 1j * parts[1], np.fft.fft(signal), atol=1e-5)


def test_the_canonical_block_is_complete():
    """So that a schedule may bind and reorder its loops."""
    sch = tvm.s_tir.Schedule(ops.fft((4, 16), (4, 16), stage=2).prim_func())
    row, _, _ = sch.get_loops(sch.get_sblock("butterfly"))
    sch.parallel(row)
