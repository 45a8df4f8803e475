"""Long lines by NumPy are what the references say."""

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.tuning.measuring import expected_results


@pytest.mark.parametrize("region", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint32"])
def test_long_sorts_are_those_of_the_reference(monkeypatch, region, dtype):
    monkeypatch.setattr(expected_results, "LONG", 8)
    kinds = (TensorType((3, 40), dtype), TensorType((3, 40), "int32"))
    op = ops.sort(*kinds, dimension=1, region=region)
    values = np.random.default_rng(1).integers(0, 6, (3, 40)).astype(numpy_dtype(dtype))
    operands = {"operand0": values, "operand1": np.arange(120, dtype="int32").reshape(3, 40)}
    got, want = expected_results.wanted(op, operands), ENTRIES[op.name].reference(op, operands)
    assert list(got) == list(want)
    for name in want:
        np.testing.assert_array_equal(got[name], want[name])


def test_a_line_of_a_million_elements_ends():
    op = ops.sort((1 << 20,), dimension=0)
    values = np.random.default_rng(1).standard_normal(1 << 20, dtype=np.float32)
    (got,) = expected_results.wanted(op, {"operand0": values}).values()
    np.testing.assert_array_equal(got, np.sort(values))


@pytest.mark.costly
@pytest.mark.parametrize("make", [ops.topk, ops.topk_v2])
@pytest.mark.parametrize("region", ["<", ">"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
@pytest.mark.parametrize("k", [5, 40])
def test_the_best_of_long_lines_are_those_of_the_reference(monkeypatch, make, region, dtype, k):
    """With many ties, along the first dim, competing with inits in order."""
    monkeypatch.setattr(expected_results, "LONG", 8)
    kind, best = TensorType((40, 3), dtype), TensorType((k, 3), dtype)
    op = make(kind, best, TensorType((k, 3), "int32"), dimension=0, region=region)
    rng, element = np.random.default_rng(1), numpy_dtype(dtype)
    inits = np.sort(rng.integers(0, 4, (k, 3)), axis=0)
    operands = {
        "values": rng.integers(0, 6, (40, 3)).astype(element),
        "output_values_init": (inits if region == "<" else inits[::-1]).astype(element),
        "output_indices_init": np.sort(rng.integers(-9, 99, (k, 3)), axis=0).astype("int32"),
    }
    entry = ENTRIES[op.name]
    monkeypatch.setattr(expected_results, "ENTRIES", {})  # so that it is NumPy, or nothing
    got, want = expected_results.wanted(op, operands), entry.reference(op, operands)
    got, want = entry.settled(op, got), entry.settled(op, want)
    assert list(got) == list(want)
    for name in want:
        np.testing.assert_array_equal(got[name], want[name])


@pytest.mark.parametrize("kind", ["forward", "inverse", "real_to_complex", "complex_to_real"])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("length", [12, 13])
def test_long_transforms_are_those_of_the_reference(monkeypatch, kind, norm, length):
    monkeypatch.setattr(expected_results, "LONG", 8)
    shape = (length // 2 + 1 if kind == "complex_to_real" else length, 3)
    imag = None if kind == "real_to_complex" else shape
    how = {"length": length} if kind == "complex_to_real" else {}
    op = ops.fft_transform(shape, imag, kind=kind, axis=0, norm=norm, **how)
    rng = np.random.default_rng(1)
    operands = {
        one.name: rng.standard_normal(shape, dtype=np.float32) for one in op.signature.arguments
    }
    got, want = expected_results.wanted(op, operands), ENTRIES[op.name].reference(op, operands)
    assert list(got) == list(want)
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=0, atol=1e-13)
