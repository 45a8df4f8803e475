"""The dialects' arg_compare: reference, random cases, JSON examples; results are exact."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.catalog.base.array_regions import numpy_region
from tvm_iree_ext.catalog.base.entry import OpEntry, Run, Values, exact
from tvm_iree_ext.catalog.base.random_arrays import (
    lines_of_sizes,
    pick,
    small_numbers,
    some_dynamic,
)
from tvm_iree_ext.catalog.base.random_regions import region_form, sometimes_empty, swapped
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.base.operands import INDEX_DTYPES
from tvm_iree_ext.ops.families.arg_compare.arg_compare import NAN_FIRST, ArgCompare

Generator = np.random.Generator

_OTHER_DTYPES = tuple(one for one in dtypes.ELEMENTS if one not in dtypes.FLOATS)
_OF_PARTS = ("real(arg0) > real(arg1)", "imag(arg0) <= imag(arg1)", "arg0 != arg1")
_COMPARATORS = (">", ">=", "<", "<=", ">", "arg1 < arg0")
# In the order of the loop only; the last is no order at all.
_OTHERS = ("max(arg0, arg1) == arg0", "abs(arg0) > abs(arg1)", "arg0 != arg1")


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """By :mod:`tvm_iree_ext.reference`."""
    assert isinstance(op, ArgCompare)
    base = operands["index_base"] if op.index_base is None else op.index_base
    value, index = reference.arg_compare(
        operands["input_value"],
        operands["init_value"],
        operands["init_index"],
        dimension=op.dimension,
        region=numpy_region(op.name, op.region, operands),
        input_index=operands.get("input_index"),
        index_base=int(base),
        compute_dtype=dtypes.numpy_dtype(dtypes.number_dtype(op.compute_dtype)),
    )
    return {"value": value, "index": index}


def random_case(
    make: Callable[..., ArgCompare], rng: Generator, *, dynamic: bool
) -> tuple[ArgCompare, dict[str, Any]]:
    """Any rank, dimension, dtypes, comparator and kind of index; some extents may be symbols."""
    sizes, dimension = lines_of_sizes(rng, 100_000)
    sizes = sometimes_empty(rng, sizes) if dynamic else sizes
    shape = some_dynamic(rng, sizes, 0.15 if dynamic else 0)
    dtype = pick(rng, dtypes.FLOATS) if rng.random() < 0.6 else pick(rng, _OTHER_DTYPES)
    comparator = (
        pick(rng, _COMPARATORS) if rng.random() < 0.7 or dtype == "bool" else pick(rng, _OTHERS)
    )
    if dtype in dtypes.FLOATS and rng.random() < 0.2:
        comparator = pick(rng, tuple(NAN_FIRST.values()))
    if dtype in dtypes.COMPLEX:
        comparator = pick(rng, _OF_PARTS)
    if "abs" in comparator and dtype.startswith("uint"):
        comparator = ">="
    index_dtype = pick(rng, ("int32", "int32", "int64", *INDEX_DTYPES))
    keywords: dict[str, Any] = {"index_dtype": index_dtype}
    kind = rng.random()
    if kind < 0.3:
        keywords["input_index"] = shape
    elif kind < 0.7:
        keywords["index_base"] = pick(rng, ("operand", 0, 100, -7, 2**40))
    region, numbers = region_form(rng, comparator, swapped(comparator))
    op = make(TensorType(shape, dtype), region, dimension=dimension, **keywords)
    line = (*sizes[:dimension], *sizes[dimension + 1 :])
    operands: dict[str, Any] = {"input_value": _values(rng, tuple(sizes), dtype)}
    if op.explicit:
        operands["input_index"] = _indices(rng, tuple(sizes), index_dtype)
    if op.index_base is None:
        operands["index_base"] = int(rng.integers(-1000, 1000))
    operands["init_value"] = _values(rng, line, dtype)
    operands["init_index"] = _indices(rng, line, index_dtype)
    return op, operands | numbers


def _values(rng: Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few different numbers, so that many are equal; some floats that are no numbers."""
    kind = dtypes.numpy_dtype(dtype)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype not in (*dtypes.FLOATS, *dtypes.INTEGERS):
        return small_numbers(rng, shape, dtype)
    low = 0 if dtype.startswith("uint") else -20
    values = np.asarray(rng.integers(low, 20, shape)).astype(kind)
    if dtype in dtypes.FLOATS and rng.random() < 0.5:
        odd = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape).astype(kind)
        values = np.where(rng.random(shape) < 0.1, odd, values)
    return np.asarray(values, kind)


def _indices(rng: Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.asarray(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))


def run_example(
    make: Callable[..., ArgCompare], case: Mapping[str, Any], run: Run
) -> dict[str, np.ndarray]:
    """A case of a dialect's examples."""
    attributes, inputs = case["attrs"], case["inputs"]
    op = make(
        inputs["input_value"],
        attributes["region"]["yields"].removesuffix("(ordered)").strip(),
        dimension=attributes["dimension"],
        input_index=inputs.get("input_index"),
        index_base=attributes.get("index_base"),
        init_value=inputs["init_value"],
        init_index=inputs["init_index"],
    )
    return run(op, inputs)


ARG_COMPARE = OpEntry(
    name="iree_linalg_ext.arg_compare",
    summary="the element of each line that a comparator selects, and its index",
    make=ops.arg_compare,
    reference=run_reference,
    tolerance=exact,
    random_case=partial(random_case, ops.arg_compare, dynamic=True),
    run_example=partial(run_example, ops.arg_compare),
)
VECTOR_ARG_COMPARE = OpEntry(
    name="iree_vector_ext.arg_compare",
    summary="the element of each line of a vector that a comparator selects, and its index",
    make=ops.vector_ext.arg_compare,
    reference=run_reference,
    tolerance=exact,
    random_case=partial(random_case, ops.vector_ext.arg_compare, dynamic=False),
    run_example=partial(run_example, ops.vector_ext.arg_compare),
)
