"""Scan: reference, tolerance, random cases, JSON examples."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.catalog.base.array_regions import numpy_region
from tvm_iree_ext.catalog.base.entry import EXACT, OpEntry, Run, Tolerance, Values
from tvm_iree_ext.catalog.base.random_arrays import (
    lines_of_sizes,
    pick,
    random_array,
    small_numbers,
    some_dynamic,
)
from tvm_iree_ext.catalog.base.random_regions import region_form, sometimes_empty, weighted
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.scan import Scan

Generator = np.random.Generator

# Fused multiply-adds and our own exponentials round otherwise than NumPy.
_SINGLE = ("add", "mul", "min", "max", "and", "or", "xor")

_REGIONS = {
    "bool": ("and", "or", "xor", "max(arg0, arg1)"),
    "integer": (*_SINGLE, "2 * arg0 + arg1", "arg0 - arg1", "arg1 ^ arg0", "max(arg1, arg0 - 1)"),
    "complex": ("add", "mul", "arg0 - arg1", "arg0 * 0.5 + conj(arg1)"),
    "float": ("add", "add", "mul", "min", "max", "0.5 * arg0 + arg1", "arg0 - arg1"),
}
# Associative, but neither commutative nor with an identity that TVM knows: the last above 0.
_OTHER_DTYPES = tuple(one for one in dtypes.ELEMENTS if one not in dtypes.FLOATS)
_LAST = "select(arg1 > 0, arg1, arg0)"


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """By :mod:`tvm_iree_ext.reference`; in float64 where a float scan may be reassociated."""
    assert isinstance(op, Scan)
    arrays = [np.asarray(operands[name]) for name in ("input", "accumulator_init")]
    if op.reassociate and op.type.dtype in dtypes.FLOATS:
        arrays = [array.astype(np.float64) for array in arrays]
        compute = None
    else:
        compute = dtypes.numpy_dtype(dtypes.number_dtype(op.compute_dtype))
    output, accumulator = reference.scan(
        *arrays,
        dimension=op.dimension,
        inclusive=op.inclusive,
        region=numpy_region(op.name, op.region, operands),
        compute_dtype=compute,
    )
    return {"output": output, "accumulator": accumulator}


def tolerance(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """Exact for integers, and in order where the region is a single operation.

    Otherwise each step adds half an eps of the largest magnitude on the way, more or less at
    random: they grow as the root of their number.  For a sum that magnitude is at most that of
    the sum of absolute values; for a product errors are relative to the result.
    """
    assert isinstance(op, Scan)
    exact = dict.fromkeys(want, EXACT)
    region = op.region.known_as
    if op.type.dtype not in dtypes.FLOATS or region in ("min", "max"):
        return exact
    if not op.reassociate and region is not None:
        return exact
    eps = dtypes.eps(op.compute_dtype)
    steps = 4.0 + operands["input"].shape[op.dimension] ** 0.5
    finite = {name: _finite(operands[name]) for name in ("input", "accumulator_init")}
    if region == "add":
        sums = finite["input"].sum(axis=op.dimension) + finite["accumulator_init"]
        total = np.max(sums, initial=0.0)
    else:
        total = max(_largest(array) for array in (*want.values(), *finite.values()))
    stored = dtypes.eps(op.type.dtype)
    smallest = dtypes.smallest(op.type.dtype)
    absolute = eps * steps * float(total) + smallest
    if region == "mul":
        absolute = steps * smallest
    relative = stored + eps * steps
    if op.type.dtype != op.compute_dtype:
        # A step may be rounded to the element type.
        absolute += stored * steps * max(_largest(array) for array in want.values())
    return dict.fromkeys(want, Tolerance(absolute, relative))


def _finite(array: np.ndarray) -> np.ndarray:
    wide = np.abs(np.asarray(array).astype(np.float64))
    return np.where(np.isfinite(wide), wide, 0.0)


def _largest(array: np.ndarray) -> float:
    return float(np.max(_finite(array), initial=0.0))


def random_case(rng: Generator) -> tuple[Scan, dict[str, Any]]:
    """Any rank, dimension, dtype and region; some extents are symbols."""
    sizes, dimension = lines_of_sizes(rng, 300_000)
    sizes = sometimes_empty(rng, sizes)
    shape = some_dynamic(rng, sizes, 0.15)
    dtype = pick(rng, dtypes.FLOATS) if rng.random() < 0.4 else pick(rng, _OTHER_DTYPES)
    kind = "bool" if dtype == "bool" else "integer"
    if dtype in (*dtypes.FLOATS, *dtypes.FLOATS8):
        kind = "float"
    elif dtype in dtypes.COMPLEX:
        kind = "complex"
    texts = [
        _LAST
        if kind not in ("bool", "complex") and rng.random() < 0.1
        else pick(rng, _REGIONS[kind])
        for _ in range(2)
    ]
    # Sums and products of floats of 8 bits are rounded so often that brackets decide.
    brackets = (*_SINGLE, _LAST) if dtype not in dtypes.FLOATS8 else ("min", "max", _LAST)
    reassociate = bool(rng.random() < 0.5) and set(texts) <= set(brackets)
    region, numbers = region_form(rng, *texts)
    if not reassociate and dtype != "bool" and rng.random() < 0.1:
        region, numbers = weighted(rng, "weight * arg0 + arg1", dtype)
    op = ops.scan(
        TensorType(tuple(shape), dtype),
        region,
        dimension=dimension,
        inclusive=bool(rng.random() < 0.5),
        reassociate=reassociate,
    )
    line = (*sizes[:dimension], *sizes[dimension + 1 :])
    product = "mul" in texts
    return op, {
        "input": _values(rng, tuple(sizes), dtype, product),
        "accumulator_init": _values(rng, line, dtype, product),
        **numbers,
    }


def _values(rng: Generator, shape: tuple[int, ...], dtype: str, product: bool) -> np.ndarray:
    kind = dtypes.numpy_dtype(dtype)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype in dtypes.COMPLEX and product:  # of magnitude 1, for the products to stay so
        return np.asarray(1j ** rng.integers(0, 4, shape)).astype(kind)
    if dtype in (*dtypes.FLOATS8, *dtypes.COMPLEX):
        return small_numbers(rng, shape, dtype)
    if dtype in dtypes.INTEGERS4:
        return random_array(rng, shape, dtype)
    if dtype not in dtypes.FLOATS:
        limits = np.iinfo(kind)
        if rng.random() < 0.3:  # many zeros
            return np.asarray(rng.integers(0, 3, shape)).astype(kind)
        return np.asarray(rng.integers(limits.min, limits.max, shape, kind, endpoint=True))
    values = rng.standard_normal(shape)
    if product:
        values = np.sign(values) * rng.uniform(0.98, 1.02, shape)
    values = np.asarray(values)
    if rng.random() < 0.3:
        odd = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape)
        values = np.where(rng.random(shape) < 0.02, odd, values)
    return values.astype(kind)


def run_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples."""
    attributes, inputs = case["attrs"], case["inputs"]
    op = ops.scan(
        inputs["input"],
        attributes["region"]["yields"],
        dimension=attributes["dimension"],
        inclusive=attributes["inclusive"],
        accumulator=inputs["accumulator_init"],
    )
    return run(op, inputs)


SCAN = OpEntry(
    name="iree_linalg_ext.scan",
    summary="running combinations along a dimension, inclusive or exclusive",
    make=ops.scan,
    reference=run_reference,
    tolerance=tolerance,
    random_case=random_case,
    run_example=run_example,
)
