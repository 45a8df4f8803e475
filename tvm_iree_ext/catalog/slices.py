"""Scatter and gather: reference, tolerance, random cases, JSON examples."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.catalog.base.array_regions import numpy_region
from tvm_iree_ext.catalog.base.entry import EXACT, OpEntry, Run, Tolerance, Values
from tvm_iree_ext.catalog.slices_random import EXACT_REGIONS, random_gather, random_scatter
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.slices.gather import Gather
from tvm_iree_ext.ops.families.slices.scatter import Scatter

EXACT = EXACT


def run_scatter(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The result by :mod:`tvm_iree_ext.reference`."""
    assert isinstance(op, Scatter)
    with np.errstate(all="ignore"):
        result = reference.scatter(
            operands["updates"],
            operands["indices"],
            operands["original"],
            dimension_map=op.slices.dimension_map,
            combine=_combined(op, operands),
            mask=operands.get("mask"),
            depth_dim=op.slices.depth_dim,
        )
    return {"result": result}


def _combined(op: Scatter, operands: Values) -> Callable[..., np.ndarray]:
    """The region over arrays; what TVM does not know as numbers is computed with as what it is."""
    call = numpy_region(op.name, op.region, operands)
    if op.dtype not in dtypes.WORDS:
        return call
    number = dtypes.numpy_dtype(dtypes.number_dtype(op.dtype))
    return lambda update, current: call(update.astype(number), current.astype(number))


def run_gather(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The result by :mod:`tvm_iree_ext.reference`."""
    assert isinstance(op, Gather)
    batch = operands["indices"].shape
    batch = batch[:-1] if op.slices.depth_dim else batch
    init = operands.get("output_init")
    if init is None:
        tail = operands["source"].shape[op.slices.depth :]
        init = np.zeros(batch + tail, operands["source"].dtype)
    output = reference.gather(
        operands["source"],
        operands["indices"],
        init,
        dimension_map=op.slices.dimension_map,
        mask=operands.get("mask"),
        depth_dim=op.slices.depth_dim,
    )
    return {"output": output}


def scatter_tolerance(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """Exact, but for floats in regions of several roundings: a few of them per update."""
    assert isinstance(op, Scatter)
    if op.dtype not in dtypes.FLOATS or op.region.source in EXACT_REGIONS:
        return {"result": EXACT}
    finite = np.abs(want["result"].astype(np.float64))
    largest = float(np.max(finite[np.isfinite(finite)], initial=1.0))
    updates = 1 if op.unique_indices else max(1, operands["indices"].size)
    return {"result": Tolerance(4.0 * updates * dtypes.eps(op.dtype) * largest, 0.0)}


def run_scatter_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples."""
    attributes, inputs = case["attrs"], case["inputs"]
    op = ops.scatter(
        inputs["updates"],
        inputs["indices"],
        inputs["original"],
        mask=inputs.get("mask"),
        dimension_map=attributes["dimension_map"],
        unique_indices=attributes["unique_indices"],
        region=attributes["region"]["yields"],
    )
    return run(op, inputs)


def run_gather_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples."""
    inputs = dict(case["inputs"])
    init = inputs.pop("output", None)
    op = ops.gather(
        inputs["source"],
        inputs["indices"],
        mask=inputs.get("mask"),
        output=init,
        dimension_map=case["attrs"]["dimension_map"],
    )
    return {
        "result": run(op, inputs if init is None else {**inputs, "output_init": init})["output"]
    }


SCATTER = OpEntry(
    name="iree_linalg_ext.scatter",
    summary="updates combined into the slices of a tensor that indices address",
    make=ops.scatter,
    reference=run_scatter,
    tolerance=scatter_tolerance,
    random_case=random_scatter,
    run_example=run_scatter_example,
)

GATHER = OpEntry(
    name="iree_linalg_ext.gather",
    summary="the slices of a tensor that indices address",
    make=ops.gather,
    reference=run_gather,
    tolerance=lambda op, operands, want: {"output": EXACT},
    random_case=random_gather,
    run_example=run_gather_example,
)
