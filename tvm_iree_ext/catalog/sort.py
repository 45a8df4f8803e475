"""Sort: reference, random cases, JSON examples."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.catalog.base.entry import EXACT, OpEntry, Run, Tolerance, Values
from tvm_iree_ext.catalog.base.random_arrays import pick, some_dynamic
from tvm_iree_ext.catalog.base.random_comparators import (
    comparator,
    random_elements,
    region_text,
)
from tvm_iree_ext.catalog.base.random_regions import region_form, sometimes_empty, swapped
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.sort import Sort

# 1, primes, and one below and above runs of 8 and 16, and blocks of 16 runs.
_LENGTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 97, 127, 128, 129, 160, 257)
_DTYPES = dtypes.ORDERED
_MOST_STEPS = 20_000  # of the reference, which compares every pair of a line

_PLAIN = ("<", "<=", ">", ">=", "arg1 < arg0")
_WEAK_ORDERS = (
    "abs(arg0) < abs(arg1)",
    "arg0 * arg0 <= arg1 * arg1",
    "max(arg0, 0) > max(arg1, 0)",
)
_OF_PARTS = (
    "real(arg0) < real(arg1)",
    "imag(arg0) >= imag(arg1)",
    "real(arg0 * conj(arg0)) < real(arg1 * conj(arg1))",
)
_LEXICOGRAPHIC = (
    "arg2 > arg3",
    "(arg0 < arg1) or (arg0 == arg1 and arg2 < arg3)",
    "arg0 > arg1 or (arg0 == arg1 and arg2 <= arg3)",
)


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The results by :mod:`tvm_iree_ext.reference`."""
    assert isinstance(op, Sort)
    results = reference.sort(
        [operands[f"operand{number}"] for number in range(len(op.dtypes))],
        dimension=op.dimension,
        region=comparator(op.name, op.region, op.dtypes, operands),
    )
    return {o.name: array for o, array in zip(op.signature.results, results, strict=True)}


def tolerance(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """None: elements are moved, and the order of ties is that of the operands."""
    return {operand.name: EXACT for operand in op.signature.results}


def random_case(rng: np.random.Generator) -> tuple[Sort, dict[str, Any]]:
    """One to three operands of any dtypes; weak orders, for which the result is one."""
    rank = int(rng.integers(1, 4))
    dimension = int(rng.integers(rank))
    sizes = [int(rng.integers(1, 6)) for _ in range(rank)]
    sizes[dimension] = pick(rng, [n for n in _LENGTHS if n * n < _MOST_STEPS * 4])
    if rng.random() < 0.2:
        sizes[(dimension + 1) % rank] = 37  # more lines than a cache line has elements
        sizes[dimension] = min(sizes[dimension], 40) if rank > 1 else sizes[dimension]
    sizes = sometimes_empty(rng, sizes)
    shape = some_dynamic(rng, sizes, 0.25)
    kinds = [pick(rng, _DTYPES) for _ in range(pick(rng, (1, 1, 2, 3)))]
    if rng.random() < 0.15:  # keys of parts, or what goes along
        kinds[-1] = pick(rng, dtypes.COMPLEX)
    regions = _PLAIN if rng.random() < 0.6 else _WEAK_ORDERS
    if len(kinds) > 1 and kinds[1] not in dtypes.COMPLEX and rng.random() < 0.4:
        regions = _LEXICOGRAPHIC
    if kinds[0] in dtypes.COMPLEX:
        regions = _OF_PARTS
    text = pick(rng, regions)
    narrow = "* arg" in text or "abs" in text
    region, numbers = region_form(rng, text, swapped(text))
    op = ops.sort(*(TensorType(shape, k) for k in kinds), dimension=dimension, region=region)
    operands = {
        f"operand{i}": random_elements(rng, sizes, kind, narrow) for i, kind in enumerate(kinds)
    }
    return op, operands | numbers


def run_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples.

    A strict comparator says nothing of ties: where theirs stand in another order than in the
    example, and are the same, the example's is returned.
    """
    attributes, inputs = case["attrs"], case["inputs"]
    names = [f"operand{i}" for i in range(len(inputs))]
    region = region_text(attributes["region"])
    op = ops.sort(*(inputs[n] for n in names), dimension=attributes["dimension"], region=region)
    got = run(op, inputs)
    if op.order is not None and op.order.strict and len(names) > 1:
        want = {n: np.asarray(one["data"]) for n, one in case["expected"].items()}
        if _as_multisets(got, op) == _as_multisets(want, op):
            return {name: want[name].astype(got[name].dtype) for name in got}
    return got


def _as_multisets(results: Values, op: Sort) -> list[Any]:
    """The keys of each line as they stand, and its elements in an order of their own."""
    assert op.order is not None
    columns = [np.moveaxis(results[o.name], op.dimension, -1) for o in op.signature.results]
    flat = [column.reshape(-1, column.shape[-1]).tolist() for column in columns]
    lines = zip(*flat, strict=True)
    return [(line[op.order.operand], sorted(zip(*line, strict=True))) for line in lines]


SORT = OpEntry(
    name="iree_linalg_ext.sort",
    summary="operands permuted together along one dim, in the order of any comparator",
    make=ops.sort,
    reference=run_reference,
    tolerance=tolerance,
    random_case=random_case,
    run_example=run_example,
)
