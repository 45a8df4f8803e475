"""The Winograd transforms: reference, tolerance, random cases, JSON examples."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.catalog.base.entry import OpEntry, Run, Tolerance, Values
from tvm_iree_ext.catalog.base.random_arrays import pick, some_dynamic
from tvm_iree_ext.catalog.base.random_regions import sometimes_empty
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.winograd.winograd import Winograd

Generator = np.random.Generator
Make = Callable[..., Winograd]

_REFERENCE = {
    "input": reference.input_transform,
    "filter": reference.filter_transform,
    "output": reference.output_transform,
}
_CHANNELS = (1, 2, 3, 7, 8, 15, 16, 17, 20, 33)


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The result by :mod:`tvm_iree_ext.reference`, in float64."""
    assert isinstance(op, Winograd)
    compute = _REFERENCE[op.kind]
    sizes = {"r": op.output_tile_size, "m": op.kernel_size}
    return {"result": compute(operands["input"], **sizes, channels_last=op.channels_last)}


def tolerance(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """From the compute type and the largest sum of magnitudes that the matrices make of a tile.

    Each of the products, one for each dim, adds up at most i terms, so its rounding errors are
    below some i eps of that sum; the result's own type then rounds once.
    """
    assert isinstance(op, Winograd)
    largest = float(np.max(np.abs(operands["input"].astype(np.float64)), initial=0.0))
    row = max(float(sum(map(abs, row))) for row in op.matrix)
    steps = 2.0 * max(8, op.input_tile_size)
    absolute = steps * dtypes.eps(op.compute_dtype) * row ** len(op.dims) * largest
    dtype = op.output.dtype
    return {"result": Tolerance(absolute + dtypes.smallest(dtype), 2.0 * dtypes.eps(dtype))}


def random_case(rng: Generator, *, make: Make, kind: str) -> tuple[Winograd, dict[str, Any]]:
    """An op and operands that fit it: each size, one dim or two, both layouts, one tile or many."""
    dtype = pick(rng, ("float32", *dtypes.FLOATS))
    r, m = pick(rng, (2, 4, 6, 6)), pick(rng, (3, 3, 3, 5, 7))
    i = r + m - 1
    last, count = bool(rng.random() < 0.5), 1 if rng.random() < 0.3 else 2
    first = (0 if last else 2) if kind == "filter" else 1 if last else 2
    name = "kernel_dimensions" if kind == "filter" else "image_dimensions"
    dims: dict[str, Any] = {name: tuple(range(first, first + count))}
    shape: tuple[int, ...]
    is_tile = rng.random() < 0.15
    if is_tile:
        low = i if kind == "output" else m if kind == "filter" else 1
        high = m if kind == "filter" else i
        shape = tuple(int(e) for e in rng.integers(low, high + 1, count))
    elif kind == "filter":
        c, f = sometimes_empty(rng, [pick(rng, _CHANNELS), pick(rng, _CHANNELS)])
        shape = (*[m] * count, c, f) if last else (f, c, *[m] * count)
    elif kind == "input":
        n, pixels = int(rng.integers(1, 3)), [int(e) for e in rng.integers(m, 30, count)]
        n, c = sometimes_empty(rng, [n, pick(rng, _CHANNELS)])
        shape = (n, *pixels, c) if last else (n, c, *pixels)
    else:
        n, *tiles = (int(e) for e in rng.integers(1, 4, count + 1))
        n, c = sometimes_empty(rng, [n, pick(rng, _CHANNELS)])
        shape = (*[i] * count, n, *tiles, c)
    fixed: tuple[int, ...] = {
        "input": (),
        "filter": dims[name],
        "output": tuple(range(count)),
    }[kind]
    named = some_dynamic(rng, shape, 0.2, static=range(len(shape)) if is_tile else fixed)
    op = make(TensorType(named, dtype), output_tile_size=r, kernel_size=m, **dims)
    return op, {"input": rng.standard_normal(shape).astype(dtypes.numpy_dtype(dtype))}


def run_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples."""
    make = _MAKE[case["op"].rpartition(".")[2].partition("_")[0]]
    return run(make(case["inputs"]["input"], **case["attrs"]), case["inputs"])


_MAKE: dict[str, Make] = {
    "input": ops.winograd_input_transform,
    "filter": ops.winograd_filter_transform,
    "output": ops.winograd_output_transform,
}


def _entry(kind: str, summary: str) -> OpEntry:
    make = _MAKE[kind]
    return OpEntry(
        name=f"iree_linalg_ext.winograd.{kind}_transform",
        summary=summary,
        make=make,
        reference=run_reference,
        tolerance=tolerance,
        random_case=lambda rng: random_case(rng, make=make, kind=kind),
        run_example=run_example,
    )


WINOGRAD_INPUT = _entry("input", "transform the windows of an image for a Winograd convolution")
WINOGRAD_FILTER = _entry("filter", "transform the kernels of a Winograd convolution")
WINOGRAD_OUTPUT = _entry("output", "transform the tiles of a Winograd convolution to an image")
