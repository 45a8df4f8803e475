"""Convolution: reference, tolerance, random cases."""

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.catalog.base.array_regions import numpy_region
from tvm_iree_ext.catalog.base.entry import EXACT, OpEntry, Tolerance, Values, no_examples
from tvm_iree_ext.catalog.base.random_arrays import finite_array, pick, some_dynamic
from tvm_iree_ext.catalog.base.random_epilogues import random_epilogue
from tvm_iree_ext.catalog.base.random_regions import sometimes_empty
from tvm_iree_ext.catalog.contraction import plain
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.conv_2d.conv_2d import WHOLE, Conv2d
from tvm_iree_ext.ops.families.winograd.winograd_matrices import matrices

Generator = np.random.Generator

_CHANNELS = (1, 2, 3, 7, 16, 17, 20, 33)
_DTYPES = (*["float32"] * 3, *dtypes.FLOATS * 2, *dtypes.FLOATS8, "int8", *WHOLE)
_MOST_SUMS = 20_000  # the reference takes some microseconds for each window of each


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The result by :mod:`tvm_iree_ext.reference`, in float64; of integers, as int32."""
    assert isinstance(op, Conv2d)
    taps = operands["filter"]
    if op.filter_panels is not None:
        taps = np.moveaxis(taps, 0, 3).reshape(*op.kernel, op.group_channels, op.filters)
    result = reference.conv_2d(
        plain(operands["input"]),
        plain(taps),
        channels_last=op.channels_last,
        strides=op.strides,
        dilations=op.dilations,
        padding=op.padding,
        groups=op.groups,
        operands=[operands[name] for name in op.others],
        epilogue=numpy_region(op.name, op.epilogue) if op.epilogue is not None else None,
    )
    whole = op.result_dtype not in dtypes.FLOATS
    return {"result": result.astype(op.result_dtype) if whole else result}


def tolerance(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """None for integers; otherwise from the compute type, the length of sums and the tile size.

    Errors of a sum of ``depth`` products of the largest magnitude add up as its root.  Winograd
    computes each from terms that are :func:`amplification` times as large in all.  An epilogue is
    taken to enlarge them by no more than its constants do: those of the cases here do not.
    """
    assert isinstance(op, Conv2d)
    kind = op.result_dtype
    if kind not in dtypes.FLOATS:
        return {"result": EXACT}
    wide = "float32" if op.is_whole else op.compute_dtype

    def largest(name: str) -> float:
        return float(np.max(np.abs(operands[name].astype(np.float64)), initial=0.0))

    size = sqrt(op.depth) * largest("input") * largest("filter")
    if op.output_tile_size is not None:
        size *= amplification(op.output_tile_size)
    size += sum(map(largest, op.others))
    absolute = 4.0 * dtypes.eps(wide) * size + dtypes.smallest(kind)
    return {"result": Tolerance(absolute, 2.0 * dtypes.eps(kind) + 8.0 * dtypes.eps(wide))}


def amplification(output_tile_size: int) -> float:
    """How large the terms of a Winograd sum are, in all, beside the product of two numbers.

    Of one dimension, the largest row of A^T with magnitudes, times those of the rows of G and B^T
    that meet there; of two, its square.
    """
    a, g, b = (matrices(output_tile_size, 3)[kind] for kind in ("output", "filter", "input"))
    sizes = [sum(map(abs, g[p])) * sum(map(abs, b[p])) for p in range(len(b))]
    row = max(sum(abs(one) * size for one, size in zip(row, sizes, strict=True)) for row in a)
    return float(row) ** 2 / 9.0  # of the 3 x 3 products that the direct form's depth counts


def random_case(rng: Generator) -> tuple[Conv2d, dict[str, Any]]:
    """Any layout, algorithm, window, padding, groups, dtype, epilogue, with symbols."""
    dtype = pick(rng, _DTYPES)
    whole_dtype = dtype in WHOLE
    winograd = dtype in dtypes.FLOATS and bool(rng.random() < 0.45)
    while True:
        groups = pick(rng, (1, 1, 1, 2, 3))
        depthwise = rng.random() < 0.15
        n, channels, filters = sometimes_empty(
            rng, [int(rng.integers(1, 4)), *(pick(rng, _CHANNELS) for _ in range(2))]
        )
        if depthwise:
            groups, filters = max(channels, 1), channels * pick(rng, (1, 1, 2))
        else:
            channels, filters = channels * groups, filters * groups
        pads = [[int(p) for p in rng.integers(0, 4, 2)] for _ in range(2)]
        kernel, strides, dilations = [3, 3], [1, 1], [1, 1]
        if not winograd:
            kernel = [int(k) for k in rng.integers(1, 5, 2)]
            strides, dilations = ([int(e) for e in rng.integers(1, 4, 2)] for _ in range(2))
        sizes = [
            max(1, (kernel[d] - 1) * dilations[d] + 1 - sum(pads[d])) + int(rng.integers(0, 24))
            for d in range(2)
        ]
        last = bool(rng.random() < 0.5)
        image = (n, *sizes, channels) if last else (n, channels, *sizes)
        seen = channels // groups
        taps = (*kernel, seen, filters) if last else (filters, seen, *kernel)
        named = some_dynamic(rng, image, 0.25, static=[3 if last else 1])
        attributes: dict[str, Any] = {
            "layout": "NHWC" if last else "NCHW",
            "strides": tuple(strides),
            "dilations": tuple(dilations),
            "padding": tuple(map(tuple, pads)),
            "groups": groups,
            "algorithm": "winograd" if winograd else pick(rng, ("im2col", "fastest", None)),
        }
        if winograd and rng.random() < 0.8:
            attributes["output_tile_size"] = pick(rng, (2, 4, 6))
        whole = ops.conv_2d(TensorType(image, dtype), TensorType(taps, dtype), **attributes)
        if prod(map(int, whole.output[1:])) * prod(kernel) <= _MOST_SUMS:
            break
    attributes["epilogue"], count = random_epilogue(rng, whole=whole_dtype)
    floats = tuple(one for one in dtypes.FLOATS if dtype == "float64" or one != "float64")
    if not whole_dtype and rng.random() < 0.3:
        attributes["result_dtype"] = pick(rng, floats)
    result = whole.signature.results[0].shape
    kinds = ("int32",) if whole_dtype else floats
    others = [_epilogue_operand(rng, result, kinds) for _ in range(count)]
    may = last and attributes["algorithm"] == "im2col" and dtype in ("float32", "float64")
    if may and rng.random() < 0.5:
        widths = [n for n in (1, 2, 4, 16, 32) if whole.group_filters % n == 0]
        attributes["filter_panels"] = width = pick(rng, widths)
        taps = (filters // width, *taps[:3], width)
    op = ops.conv_2d(
        TensorType(named, dtype),
        TensorType(taps, dtype),
        [TensorType(tuple(e if e == 1 else "?" for e in shape), kind) for shape, kind in others],
        **attributes,
    )
    operands = {"input": finite_array(rng, image, dtype), "filter": finite_array(rng, taps, dtype)}
    for number, (shape, kind) in enumerate(others):
        operands[f"operand{number}"] = finite_array(rng, shape, kind)
    return op, operands


def _epilogue_operand(
    rng: Generator, result: Sequence[Extent], kinds: Sequence[str]
) -> tuple[tuple[int, ...], str]:
    """A shape that broadcasts to the result's, and a type."""
    spread = [rng.random() < 0.6 for _ in result][int(rng.integers(0, 5)) :]
    sizes = zip(result[4 - len(spread) :], spread, strict=True)
    return tuple(int(extent) if kept else 1 for extent, kept in sizes), pick(rng, kinds)


CONV_2D = OpEntry(
    name="tvm_iree_ext.conv_2d",
    summary="a convolution by im2col or by Winograd, with groups and a fused epilogue",
    make=ops.conv_2d,
    reference=run_reference,
    tolerance=tolerance,
    random_case=random_case,
    run_example=no_examples,
)
