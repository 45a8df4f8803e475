"""Whole transforms: reference, tolerance, random cases."""

import math
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.catalog.base.entry import OpEntry, Tolerance, Values, no_examples
from tvm_iree_ext.catalog.base.random_regions import sometimes_empty
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.fft.fft_transform import FftTransform

Generator = np.random.Generator

_DTYPES = ("float32", "float32", "float64", "float16", "bfloat16")
_KINDS = ("forward", "forward", "inverse", "real_to_complex", "complex_to_real")


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The results by :mod:`tvm_iree_ext.reference`, in float64."""
    assert isinstance(op, FftTransform)
    data = operands["real"].astype(np.complex128)
    if "imag" in operands:
        data = data + 1j * operands["imag"].astype(np.float64)
    result = reference.fft_transform(data, op.kind, op.axis, op.length, op.norm)
    found = {"result_real": result.real, "result_imag": result.imag}
    return {operand.name: found[operand.name] for operand in op.signature.results}


def tolerance(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """A result is a sum of magnitude ``norm of the row``; errors add up as sqrt(log n) eps of it.

    The factor covers the largest of all elements, the three transforms in a row of a length with
    large prime factors, and the plain sums of the canonical function.
    """
    assert isinstance(op, FftTransform)
    squares = sum(a.astype(np.float64) ** 2 for a in operands.values())
    row = math.sqrt(float(np.max(np.sum(squares, axis=op.axis), initial=0.0)))
    steps = 8.0 + 4.0 * math.sqrt(math.log2(op.length) + 1.0)
    allowed = steps * dtypes.eps(op.compute_dtype) * row * op.scale
    limit = Tolerance(allowed + dtypes.smallest(op.dtype), dtypes.eps(op.dtype))
    return dict.fromkeys(want, limit)


def random_length(rng: Generator) -> int:
    """Short ones, powers of two, products of small primes, and any up to 700."""
    choice = rng.integers(4)
    if choice == 0:
        return int(rng.integers(1, 40))
    if choice == 1:
        return 2 ** int(rng.integers(4, 12))
    if choice == 2:
        return int(np.prod(rng.choice([2, 2, 3, 4, 5, 7, 8, 11, 13], rng.integers(1, 4))))
    return int(rng.integers(40, 700))


def random_case(rng: Generator) -> tuple[FftTransform, dict[str, Any]]:
    """Any kind, length, axis, batch, norm and dtype, with symbols."""
    kind = str(rng.choice(_KINDS))
    length = random_length(rng)
    extent = length // 2 + 1 if kind == "complex_to_real" else length
    sizes = [int(rng.choice([1, 2, 3, 5, 17, 18, 33])) for _ in range(rng.integers(0, 3))]
    axis = int(rng.integers(0, len(sizes) + 1))
    sizes = sometimes_empty(rng, sizes)
    sizes.insert(axis, extent)
    shape: list[Extent] = list(sizes)
    if rng.random() < 0.4:
        shape = [f"d{i}" if i != axis and rng.random() < 0.5 else e for i, e in enumerate(sizes)]
    dtype = str(rng.choice(_DTYPES))
    op = ops.fft_transform(
        TensorType(tuple(shape), dtype),
        kind=kind,  # type: ignore[arg-type]
        axis=axis - len(sizes) if rng.random() < 0.5 else axis,
        length=length,
        norm=str(rng.choice(["backward", "backward", "ortho", "forward"])),  # type: ignore[arg-type]
    )
    return op, {
        operand.name: rng.standard_normal(sizes).astype(dtypes.numpy_dtype(dtype))
        for operand in op.signature.arguments
    }


FFT_TRANSFORM = OpEntry(
    name="tvm_iree_ext.fft_transform",
    summary="a whole discrete Fourier transform of any length along any axis",
    make=ops.fft_transform,
    reference=run_reference,
    tolerance=tolerance,
    random_case=random_case,
    run_example=no_examples,
)
