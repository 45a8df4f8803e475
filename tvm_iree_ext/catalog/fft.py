"""The butterfly stage: reference, tolerance, random cases, JSON examples."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.catalog.base.entry import OpEntry, Run, Tolerance, Values
from tvm_iree_ext.catalog.base.random_regions import sometimes_empty
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.fft.fft import Fft

Generator = np.random.Generator

_DTYPES = ("float32", "float32", "float64", "float16", "bfloat16")


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The results by :mod:`tvm_iree_ext.reference`, in float64."""
    assert isinstance(op, Fft)
    wide = {name: np.asarray(value, np.float64) for name, value in operands.items()}
    stage = op.stage if isinstance(op.stage, int) else int(operands["stage"])
    coefficients = None
    if op.coefficients is not None:
        coefficients = wide["real_coeff"] + 1j * wide["imag_coeff"]
    result = reference.fft(wide["real_init"] + 1j * wide["imag_init"], stage, coefficients)
    return {"real": result.real, "imag": result.imag}


def tolerance(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """Tolerance of a butterfly: a rounded factor, two products and sums, the result's rounding."""
    assert isinstance(op, Fft)
    largest = max(
        float(np.max(np.abs(np.asarray(operands[f"{part}_init"], np.float64)), initial=0.0))
        for part in ("real", "imag")
    )
    factor = 1.0
    if op.coefficients is not None:
        factor = max(
            float(np.max(np.abs(np.asarray(operands[f"{part}_coeff"], np.float64)), initial=0.0))
            for part in ("real", "imag")
        )
    allowed = 4.0 * dtypes.eps(op.compute_dtype) * largest * (1.0 + 2.0 * factor)
    limit = Tolerance(allowed + dtypes.smallest(op.dtype), dtypes.eps(op.dtype))
    return {"real": limit, "imag": limit}


def random_case(rng: Generator) -> tuple[Fft, dict[str, Any]]:
    """Any batch, length, stage, way to give the stage and the coefficients, and symbols."""
    length = 2 ** int(rng.integers(1, 13))
    stage = int(rng.integers(1, length.bit_length()))
    batch = [int(rng.choice([1, 2, 3, 5, 7])) for _ in range(rng.integers(0, 4))]
    batch = sometimes_empty(rng, batch)
    dtype = str(rng.choice(_DTYPES))
    shape: list[Extent] = [*batch, length]
    if rng.random() < 0.4:
        shape = [f"d{axis}" if rng.random() < 0.5 else e for axis, e in enumerate(shape)]
    keywords: dict[str, Any] = {"stage": stage if rng.random() < 0.6 else "operand"}
    half: Extent = 2 ** (stage - 1)
    if rng.random() < 0.5:
        if keywords["stage"] == "operand" and rng.random() < 0.5:
            half = "half"
        keywords |= {f"{part}_coeff": TensorType((half,), dtype) for part in ("real", "imag")}
    kind = TensorType(tuple(shape), dtype)
    op = ops.fft(kind, kind, **keywords)
    operands: dict[str, Any] = {}
    for operand in op.signature.arguments:
        if operand.role == "scalar":
            operands["stage"] = stage
            continue
        extents = [2 ** (stage - 1)] if operand.name.endswith("coeff") else [*batch, length]
        value = rng.standard_normal(extents)
        operands[operand.name] = value.astype(dtypes.numpy_dtype(dtype))
    return op, operands


def run_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples, whose in/out operands are ``real`` and ``imag``."""
    inputs = case["inputs"]
    coefficients = {name: inputs[name] for name in ("real_coeff", "imag_coeff") if name in inputs}
    op = ops.fft(inputs["real"], inputs["imag"], **coefficients, stage=case["attrs"]["stage"])
    inits = {f"{part}_init": inputs[part] for part in ("real", "imag")}
    return run(op, {**coefficients, **inits})


FFT = OpEntry(
    name="iree_linalg_ext.fft",
    summary="one butterfly stage of a Fourier transform along the innermost dim",
    make=ops.fft,
    reference=run_reference,
    tolerance=tolerance,
    random_case=random_case,
    run_example=run_example,
)
