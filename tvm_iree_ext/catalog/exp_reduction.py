"""exp_reduction: reference, tolerance, JSON cases."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.catalog.base.array_regions import numpy_region
from tvm_iree_ext.catalog.base.entry import EXACT, OpEntry, Run, Tolerance, Values
from tvm_iree_ext.catalog.base.inits import inits_of_nothing
from tvm_iree_ext.catalog.exp_reduction_random import random_case
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.exp_reduction.exp_reduction import ExpReduction

Region = Callable[..., Any]


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """By :mod:`tvm_iree_ext.reference`; the inits where nothing is combined with them."""
    assert isinstance(op, ExpReduction)
    if (found := inits_of_nothing(op, operands)) is not None:
        return found
    return _run(op, operands, [numpy_region(op.name, region, operands) for region in op.regions])


def _run(op: ExpReduction, operands: Values, regions: list[Region]) -> dict[str, np.ndarray]:
    count = len(op.inputs)
    results = reference.exp_reduction(
        [operands[f"input{i}"] for i in range(count)],
        [operands[f"init{j}"] for j in range(len(op.outputs))],
        input_dims=[op.maps[f"input{i}"].dims for i in range(count)],
        output_dims=[op.maps[f"output{j}"].dims for j in range(len(op.outputs))],
        exp_reduced_operands=op.exp_reduced_operands,
        regions=regions,
        reads=[op.reads(j) for j in range(len(op.outputs))],
        base=2.0 if op.score_domain == "log2" else math.e,
    )
    return {f"result{j}": result for j, result in enumerate(results)}


def _magnitudes(op: ExpReduction, operands: Values) -> dict[str, float]:
    """The largest sum of the sizes of all that an output is made of."""
    count = len(op.inputs)

    def sized(j: int) -> Region:
        region = numpy_region(op.name, op.regions[j], operands)

        def step(*arguments: Any) -> Any:
            given = list(arguments)
            given[count + j] = np.zeros_like(arguments[count + j])
            return arguments[count + j] + np.abs(region(*given))

        return step

    inits = {
        name: value if name == "init0" or value.dtype.kind in "biu" else np.abs(value)
        for name, value in operands.items()
        if name.startswith("init")
    }
    sizes = _run(op, {**operands, **inits}, [sized(j) for j in range(len(op.outputs))])
    # What an output starts from counts in full: a factor of e^-80 is wrong by 80 times eps.
    return {
        name: _largest(size) + _largest(operands[name.replace("result", "init")])
        for name, size in sizes.items()
    }


def _largest(array: np.ndarray) -> float:
    """The largest size of a finite element."""
    sizes = np.abs(array.astype(np.float64))
    return float(np.max(sizes[np.isfinite(sizes)], initial=0.0))


def tolerance(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """From dtypes, the lengths of the sums, and the sizes of what is summed.

    A weight is at most 1 and wrong by a few eps; below the smallest normal number it is zero.
    Integers are exact.
    """
    assert isinstance(op, ExpReduction)
    tiny = float(np.finfo(op.compute_dtype).tiny)
    magnitudes = _magnitudes(op, operands)
    extents: dict[str, int] = {}
    for operand in op.signature.arguments:
        pairs = zip(operand.shape, np.shape(operands[operand.name]), strict=True)
        extents |= {name: extent for name, extent in pairs if isinstance(name, str)}

    def of(j: int) -> Tolerance:
        kind = op.outputs[j]
        if kind.dtype not in dtypes.FLOATS:
            return EXACT
        relative, least = 2.0 * dtypes.eps(kind.dtype), dtypes.smallest(kind.dtype)
        if j == 0:
            return Tolerance(least, relative)
        steps = op.visits(j, extents) / max(1, want[f"result{j}"].size)
        error = sum_error(op.compute_dtype, steps)
        # Where a region rounds, numbers that differ little may be rounded apart.
        error += sum(dtypes.eps(one) for one in ("float16", "bfloat16") if one in region_text(j))
        largest = [1.0]
        for i in op.reads(j):
            largest.append(max(1.0, _largest(operands[f"input{i}"])) if i else 1.0)
        lost = 2.0 * tiny * steps * math.prod(largest)
        return Tolerance(error * magnitudes[f"result{j}"] + lost + least, relative)

    def region_text(j: int) -> str:
        return op.regions[j].text

    return {f"result{j}": of(j) for j in range(len(op.outputs))}


def sum_error(dtype: str, steps: float) -> float:
    """How far off a sum of so many weighted terms may be, as a share of the sum of their sizes."""
    return dtypes.eps(dtype) * (8.0 + 2.0 * math.sqrt(steps))


def run_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case in the format of the dialect's examples: its text yields all values, with commas."""
    attributes, inputs = case["attrs"], case["inputs"]

    def some(prefix: str) -> list[np.ndarray]:
        return [inputs[name] for name in inputs if name.startswith(prefix)]

    op = ops.exp_reduction(
        some("input"),
        some("init"),
        indexing_maps=attributes["indexing_maps"],
        iterator_types=attributes["iterator_types"],
        exp_reduced_operands=attributes["exp_reduced_operands"],
        region=attributes["region"]["yields"],
        score_domain=attributes.get("score_domain", "log2"),
    )
    return run(op, inputs)


EXP_REDUCTION = OpEntry(
    name="iree_linalg_ext.exp_reduction",
    summary="sums over powers of scores less their maximum, in one pass over the scores",
    make=ops.exp_reduction,
    reference=run_reference,
    tolerance=tolerance,
    random_case=random_case,
    run_example=run_example,
)
