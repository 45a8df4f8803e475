"""Top-k: reference, random cases, JSON examples."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_iree_ext import dtypes, ops, reference
from tvm_iree_ext.catalog.entry import OpEntry, Run, Tolerance, Values
from tvm_iree_ext.catalog.order import comparator, pick, random_elements, region_text
from tvm_iree_ext.ops.base import Op
from tvm_iree_ext.ops.topk import Topk
from tvm_iree_ext.signature import Extent, TensorType

# 1, primes, and one below and above blocks of 4 and 8 vectors.
_CANDIDATES = (1, 2, 3, 7, 16, 17, 31, 63, 65, 127, 129, 200, 257)
_KEPT = (1, 2, 3, 5, 8, 17)
_DTYPES = (*dtypes.FLOATS, *dtypes.INTEGERS)
_REGIONS = (">", ">", "<", "<", ">=", "<=", "arg1 < arg0", "abs(arg0) > abs(arg1)")
_INDEX_DTYPES = ("int32", "int32", "int64", "int16", "uint32")


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The results by :mod:`tvm_iree_ext.reference`."""
    assert isinstance(op, Topk)
    values, indices = reference.topk(
        operands["values"],
        operands.get("indices"),
        operands["output_values_init"],
        operands["output_indices_init"],
        dimension=op.dimension,
        region=comparator(op.name, op.region, [op.types["values"].dtype]),
    )
    return {"output_values": values, "output_indices": indices}


def tolerance(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """None: elements are moved, and ties are settled by their indices."""
    return {operand.name: Tolerance(0.0, 0.0) for operand in op.signature.results}


def random_case(rng: np.random.Generator) -> tuple[Topk, dict[str, Any]]:
    """Any dtypes, with and without indices; inits in order and not."""
    rank = int(rng.integers(1, 4))
    dimension = int(rng.integers(rank))
    sizes = [int(rng.integers(1, 6)) for _ in range(rank)]
    if rng.random() < 0.2:
        sizes[(dimension + 1) % rank] = 37  # more lines than a cache line has elements
    sizes[dimension] = pick(rng, _CANDIDATES)
    kept = pick(rng, (*_KEPT, sizes[dimension]))
    shape: list[Extent] = [
        f"n{axis}" if rng.random() < 0.25 else size for axis, size in enumerate(sizes)
    ]
    outputs = list(shape)
    outputs[dimension] = "k" if rng.random() < 0.2 else kept
    out_sizes = list(sizes)
    out_sizes[dimension] = kept
    kind, region = pick(rng, _DTYPES), pick(rng, _REGIONS)
    has_indices = rng.random() < 0.4
    index_kind = "int32" if has_indices else pick(rng, _INDEX_DTYPES)
    op = ops.topk(
        TensorType(tuple(shape), kind),
        TensorType(tuple(outputs), kind),
        TensorType(tuple(outputs), index_kind),
        indices=TensorType(tuple(shape), "int32") if has_indices else None,
        dimension=dimension,
        region=region,
    )
    narrow = "abs" in region
    operands = {"values": random_elements(rng, sizes, kind, narrow)}
    if has_indices:
        operands["indices"] = rng.integers(-300, 300, sizes, dtype=np.int32)
    inits = random_elements(rng, out_sizes, kind, narrow)
    if rng.random() < 0.7:
        inits = np.sort(inits.astype(np.float64), axis=dimension).astype(inits.dtype)
        inits = inits if region.startswith("<") else np.flip(inits, dimension).copy()
    operands["output_values_init"] = inits
    least = 0 if index_kind.startswith("u") else -300
    places = np.sort(rng.integers(least, 300, out_sizes), axis=dimension)
    operands["output_indices_init"] = places.astype(index_kind)
    return op, operands


def run_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples."""
    attributes, inputs = case["attrs"], case["inputs"]
    op = ops.topk(
        inputs["values"],
        inputs["output_values_init"],
        inputs["output_indices_init"],
        indices=inputs.get("indices"),
        dimension=attributes["dimension"],
        region=region_text(attributes["region"]),
    )
    results = run(op, inputs)
    return {"values": results["output_values"], "indices": results["output_indices"]}


TOPK = OpEntry(
    name="iree_linalg_ext.topk",
    summary="the K best elements along one dim with their indices, competing with the inits",
    make=ops.topk,
    reference=run_reference,
    tolerance=tolerance,
    random_case=random_case,
    run_example=run_example,
)
