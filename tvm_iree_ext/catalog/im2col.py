"""Im2col: reference, random cases, JSON examples."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.catalog.base.entry import OpEntry, Run, Values, exact
from tvm_iree_ext.catalog.base.random_arrays import pick, random_array, some_dynamic
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.im2col import Im2col

Generator = np.random.Generator

_DTYPES = ("float32", *dtypes.FLOATS, *dtypes.INTEGERS)
_MOST_ELEMENTS = 20_000  # the reference takes some microseconds for each
_LINEAR = ("m_offset", "m_strides", "k_offset", "k_strides")


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The result by :mod:`tvm_iree_ext.reference`."""
    assert isinstance(op, Im2col)
    source = operands["input"]
    bound = op.signature.bind(op.name, [source.shape, *[None] * len(op.scalars)])
    (shape,) = op.signature.result_shapes(bound)
    attributes = op.attributes
    for name in _LINEAR:
        attributes[name] = [operands[v] if isinstance(v, str) else v for v in attributes[name]]
    return {"result": reference.im2col(source, shape, **attributes)}


def random_case(rng: Generator) -> tuple[Im2col, dict[str, Any]]:
    """An op and operands that fit it: any order of dims, tiles, expanded dims, symbols."""
    dtype = pick(rng, _DTYPES)
    while True:
        roles = "m" * int(rng.integers(1, 4)) + "b" * int(rng.integers(0, 3))
        roles += "k" * int(rng.integers(0, 3))
        order = ("".join(rng.permutation(list(roles))), "bmmk", "bkmm")[rng.integers(3)]
        kernel, strides, dilations, shape = [], [], [], []
        for role in order:
            if role == "m":
                kernel.append(int(rng.integers(1, 4)))
                strides.append(int(rng.integers(1, 4)))
                dilations.append(int(rng.integers(1, 3)))
                shape.append((kernel[-1] - 1) * dilations[-1] + 1 + int(rng.integers(0, 7)))
            else:
                shape.append(pick(rng, (1, 2, 3, 5, 17) if role == "k" else (1, 2, 3)))
        dims = {role: [d for d, r in enumerate(order) if r == role] for role in "bmk"}
        attributes: dict[str, Any] = {
            "kernel_size": kernel,
            "strides": strides,
            "dilations": dilations,
            "batch_pos": [int(d) for d in rng.permutation(dims["b"])],
            "m_pos": dims["m"],
            "k_pos": [int(d) for d in rng.permutation(dims["k"])],
        }
        whole = ops.im2col(tuple(shape), **attributes)
        if prod(map(int, whole.output.shape)) <= _MOST_ELEMENTS:
            break
    named = some_dynamic(rng, shape, 0.2)
    operands: dict[str, Any] = {"input": random_array(rng, tuple(shape), dtype)}
    source = TensorType(named, dtype)
    if rng.random() < 0.4:
        return ops.im2col(source, **attributes), operands
    batch, (m, k) = whole.output.shape[:-2], whole.output.shape[-2:]
    tiles = {letter: _part(rng, int(count)) for letter, count in (("m", m), ("k", k))}
    for letter, (offsets, steps, _) in tiles.items():
        attributes[f"{letter}_offset"], attributes[f"{letter}_strides"] = offsets, steps
    for name in _LINEAR:
        values = attributes[name]
        for place in range(len(values) - (1 if name.endswith("strides") else 0)):
            if rng.random() < 0.3:
                scalar = f"{name}_{place}"
                operands[scalar] = values[place]
                values[place] = scalar
    batch = tuple(named[dim] for dim in attributes["batch_pos"])
    return ops.im2col(source, (*batch, *tiles["m"][2], *tiles["k"][2]), **attributes), operands


def _part(rng: Generator, count: int) -> tuple[list[int], list[int], list[int]]:
    """Offsets, strides and extents of dims that cover some of ``count`` positions, or more."""
    if rng.random() < 0.5:
        offset = int(rng.integers(0, count))
        extent = int(rng.integers(1, count - offset + 1)) + (rng.random() < 0.1)
        return [offset], [1], [int(extent)]
    inner = int(rng.integers(1, count + 1))
    outer = max(1, count // inner)
    if rng.random() < 0.5:
        return [0, 0], [inner, 1], [outer, inner]
    first = int(rng.integers(0, outer))
    begin = int(rng.integers(0, inner))
    return [first, begin], [inner, 1], [outer - first, inner - begin]


def run_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples."""
    attributes = dict(case["attrs"])
    shape = attributes.pop("output_shape")
    return run(ops.im2col(case["inputs"]["input"], shape, **attributes), case["inputs"])


IM2COL = OpEntry(
    name="iree_linalg_ext.im2col",
    summary="gather the windows of a convolution into the rows of a matrix",
    make=ops.im2col,
    reference=run_reference,
    tolerance=exact,
    random_case=random_case,
    run_example=run_example,
)
