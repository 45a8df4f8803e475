"""Top-k in both of its forms: reference, random cases, JSON examples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.comparison import OpenOrder
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.catalog.base.entry import EXACT, OpEntry, Run, Tolerance, Values
from tvm_iree_ext.catalog.base.random_arrays import pick, some_dynamic
from tvm_iree_ext.catalog.base.random_comparators import (
    comparator,
    random_elements,
    region_text,
)
from tvm_iree_ext.catalog.base.random_regions import region_form, sometimes_empty, swapped
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.base.operands import INDEX_DTYPES
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.ops.families.topk.topk_v2 import TopkV2

# 1, primes, and one below and above blocks of 4 and 8 vectors.
_CANDIDATES = (1, 2, 3, 7, 16, 17, 31, 63, 65, 127, 129, 200, 257)
_KEPT = (1, 2, 3, 5, 8, 17)
_DTYPES = (*dtypes.ORDERED, *dtypes.COMPLEX)
_REGIONS = (">", ">", "<", "<", ">=", "<=", "arg1 < arg0", "abs(arg0) > abs(arg1)")
_OF_PARTS = ("real(arg0) > real(arg1)", "imag(arg0) < imag(arg1)")
_INDEX_DTYPES = ("int32", "int32", "int64", *INDEX_DTYPES)


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The results by :mod:`tvm_iree_ext.reference`."""
    assert isinstance(op, Topk)
    values, indices = reference.topk(
        operands["values"],
        operands.get("indices"),
        operands["output_values_init"],
        operands["output_indices_init"],
        dimension=op.dimension,
        region=comparator(op.name, op.region, [op.types["values"].dtype], operands),
    )
    return {"output_values": values, "output_indices": indices}


def tolerance(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """None: elements are moved, and ties are settled by their indices."""
    return {operand.name: EXACT for operand in op.signature.results}


def run_reference_v2(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """Run the second form's reference; see :func:`run_reference`."""
    assert isinstance(op, TopkV2)
    values, indices = reference.topk_v2(
        operands["values"],
        operands.get("input_indices"),
        operands["output_values_init"],
        operands.get("output_indices_init"),
        dimension=op.dimension,
        is_sorted=op.is_sorted,
        region=comparator(op.name, op.region, [op.types["values"].dtype], operands),
    )
    results = {"output_values": values, "output_indices": indices}
    return {name: array for name, array in results.items() if array is not None}


def open_order_v2(op: Op) -> OpenOrder | None:
    """By value and index, where results need not be sorted."""
    assert isinstance(op, TopkV2)
    if op.is_sorted:
        return None
    indices = ("output_indices",) if op.has_output_indices else ()
    return OpenOrder(op.dimension, (*indices, "output_values"))


@dataclass(frozen=True)
class _Sizes:
    """Static sizes of inputs and outputs, and the shapes that an op is told."""

    inputs: list[int]
    outputs: list[int]
    input_shape: tuple[Extent, ...]
    output_shape: tuple[Extent, ...]
    dimension: int


def _random_sizes(rng: np.random.Generator, *, beyond: bool, most: int = 1000) -> _Sizes:
    """Lines of any length up to ``most``; K above it only where ``beyond``."""
    rank = int(rng.integers(1, 4))
    dimension = int(rng.integers(rank))
    sizes = [int(rng.integers(1, 6)) for _ in range(rank)]
    if rng.random() < 0.2:
        sizes[(dimension + 1) % rank] = 37  # more lines than a cache line has elements
    sizes[dimension] = min(most, pick(rng, _CANDIDATES))
    sizes = sometimes_empty(rng, sizes)
    kept = pick(rng, (*_KEPT, sizes[dimension])) if rng.random() < 0.97 else 0
    kept = kept if beyond else min(kept, sizes[dimension])
    shape = some_dynamic(rng, sizes, 0.25)
    outputs = list(shape)
    outputs[dimension] = "k" if rng.random() < 0.2 else kept
    out_sizes = list(sizes)
    out_sizes[dimension] = kept
    return _Sizes(sizes, out_sizes, tuple(shape), tuple(outputs), dimension)


def _random_inits(rng: np.random.Generator, sizes: _Sizes, kind: str, region: str) -> np.ndarray:
    """Values that are in order along the dim, or are not."""
    inits = random_elements(rng, sizes.outputs, kind, "abs" in region)
    if rng.random() < 0.7:
        wide = inits if kind in dtypes.COMPLEX else inits.astype(np.float64)
        inits = np.sort(wide, axis=sizes.dimension).astype(inits.dtype)
        inits = inits if region.startswith("<") else np.flip(inits, sizes.dimension).copy()
    return inits


def _random_places(rng: np.random.Generator, sizes: _Sizes, kind: str) -> np.ndarray:
    """Indices in order along the dim, negative ones where the type has them."""
    limits = np.iinfo(kind)
    drawn = rng.integers(max(limits.min, -300), min(limits.max, 300), sizes.outputs)
    return np.sort(drawn, axis=sizes.dimension).astype(kind)


def _pools(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Indices for inputs, those of positions among them, and others for inits."""
    limits = np.iinfo(kind)
    count = 100 if limits.bits == 8 else 300
    before = np.arange(max(limits.min, -200), 0)
    return np.arange(count), np.concatenate([before, np.arange(count, min(600, limits.max))])


def _distinct(
    rng: np.random.Generator, shape: list[int], axis: int, numbers: np.ndarray, kind: str
) -> np.ndarray:
    """Some of the numbers along each line, none twice: where indices tie, too, a result is open."""
    lines = np.broadcast_to(numbers, (*shape[:axis], *shape[axis + 1 :], len(numbers)))
    drawn = rng.permuted(lines, axis=-1)[..., : shape[axis]]
    return np.moveaxis(drawn, -1, axis).astype(kind)


def random_case(rng: np.random.Generator) -> tuple[Topk, dict[str, Any]]:
    """Any dtypes, with and without indices; inits in order and not."""
    sizes = _random_sizes(rng, beyond=True)
    kind = pick(rng, _DTYPES)
    text = pick(rng, _OF_PARTS if kind in dtypes.COMPLEX else _REGIONS)
    region, numbers = region_form(rng, text, swapped(text))
    has_indices = rng.random() < 0.4
    index_kind = "int32" if has_indices else pick(rng, _INDEX_DTYPES)
    op = ops.topk(
        TensorType(sizes.input_shape, kind),
        TensorType(sizes.output_shape, kind),
        TensorType(sizes.output_shape, index_kind),
        indices=TensorType(sizes.input_shape, "int32") if has_indices else None,
        dimension=sizes.dimension,
        region=region,
    )
    operands = {"values": random_elements(rng, sizes.inputs, kind, "abs" in text)}
    if has_indices:
        operands["indices"] = rng.integers(-300, 300, sizes.inputs, dtype=np.int32)
    operands["output_values_init"] = _random_inits(rng, sizes, kind, text)
    operands["output_indices_init"] = _random_places(rng, sizes, index_kind)
    return op, operands | numbers


def random_case_v2(rng: np.random.Generator) -> tuple[TopkV2, dict[str, Any]]:
    """Any dtypes, indices in and out, out alone, or none; in order or not."""
    indices = pick(rng, ("in and out", "out", "none"))
    index_kind = pick(rng, _INDEX_DTYPES)
    of_inputs, of_inits = _pools(index_kind)
    most = 1000 if indices == "none" else len(of_inputs)
    sizes = _random_sizes(rng, beyond=False, most=most)
    kind = pick(rng, _DTYPES)
    text = pick(rng, _OF_PARTS if kind in dtypes.COMPLEX else _REGIONS)
    region, scalars = region_form(rng, text, swapped(text))
    outputs = TensorType(sizes.output_shape, index_kind)
    op = ops.topk_v2(
        TensorType(sizes.input_shape, kind),
        TensorType(sizes.output_shape, kind),
        None if indices == "none" else outputs,
        input_indices=TensorType(sizes.input_shape, index_kind)
        if indices == "in and out"
        else None,
        dimension=sizes.dimension,
        is_sorted=bool(rng.random() < 0.5),
        region=region,
    )
    operands = {"values": random_elements(rng, sizes.inputs, kind, "abs" in text)}
    if indices == "in and out":
        drawn = _distinct(rng, sizes.inputs, sizes.dimension, of_inputs, index_kind)
        operands["input_indices"] = drawn
    operands["output_values_init"] = _random_inits(rng, sizes, kind, text)
    if indices != "none":
        drawn = _distinct(rng, sizes.outputs, sizes.dimension, of_inits, index_kind)
        operands["output_indices_init"] = drawn
    return op, operands | scalars


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


def run_example_v2(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples."""
    attributes, inputs = case["attrs"], case["inputs"]
    op = ops.topk_v2(
        inputs["values"],
        inputs["output_values_init"],
        inputs.get("output_indices_init"),
        input_indices=inputs.get("input_indices"),
        dimension=attributes["dimension"],
        is_sorted=attributes.get("is_sorted", False),
        region=region_text(attributes["region"]),
    )
    return run(op, inputs)


TOPK = OpEntry(
    name="iree_linalg_ext.topk",
    summary="the K best elements along one dim with their indices, competing with the inits",
    make=ops.topk,
    reference=run_reference,
    tolerance=tolerance,
    random_case=random_case,
    run_example=run_example,
)

TOPK_V2 = OpEntry(
    name="iree_linalg_ext.topk_v2",
    summary="the K first elements along one dim, indices and order on request",
    make=ops.topk_v2,
    reference=run_reference_v2,
    tolerance=tolerance,
    random_case=random_case_v2,
    run_example=run_example_v2,
    open_order=open_order_v2,
)
