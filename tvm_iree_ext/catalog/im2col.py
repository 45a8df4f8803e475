"""Im2col: reference, random cases, JSON examples."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import TensorType, extent_value
from tvm_iree_ext.catalog.base.entry import OpEntry, Run, Values, exact
from tvm_iree_ext.catalog.base.random_arrays import pick, random_array, some_dynamic
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.im2col.im2col import Im2col

Generator = np.random.Generator

_DTYPES = ("float32", *dtypes.ELEMENTS)
_MOST_ELEMENTS = 20_000  # the reference takes some microseconds for each
_LINEAR = ("m_offset", "m_strides", "k_offset", "k_strides")
_PADS = ("input_pad_low", "input_pad_high", "output_pad_low", "output_pad_high")
_NUMBERS = ("kernel_size", "offsets", *_LINEAR, *_PADS)


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The result by :mod:`tvm_iree_ext.reference`."""
    assert isinstance(op, Im2col)
    source = operands["input"]
    given = op.signature.arguments
    bound = op.signature.bind(
        op.name, [None if o.role == "scalar" else operands[o.name].shape for o in given]
    )
    numbers = bound | {name: int(operands[name]) for name in op.scalars}
    (shape,) = op.signature.result_shapes(numbers)
    attributes = op.attributes
    for name in _NUMBERS:
        if name in attributes:
            attributes[name] = [extent_value(one, numbers) for one in attributes[name]]
    if op.is_strided:
        return {"result": reference.im2col(source, shape, **attributes)}
    sizes = attributes["output_sizes"]
    attributes["output_sizes"] = [[extent_value(one, numbers) for one in group] for group in sizes]
    padding = operands["pad_value"] if op.padding == "operand" else op.padding
    attributes["pad_value"] = np.array(padding or 0).astype(source.dtype)
    return {"result": reference.im2col_of_sizes(source, shape, **attributes)}


def random_case(rng: Generator) -> tuple[Im2col, dict[str, Any]]:
    """An op and operands that fit it: any order of dims, tiles, expanded dims, symbols, padding."""
    dtype = pick(rng, _DTYPES)
    while True:
        shape, attributes = _windows(rng)
        whole = ops.im2col(tuple(shape), **attributes)
        if prod(map(int, whole.output.shape)) <= _MOST_ELEMENTS:
            break
    operands: dict[str, Any] = {"input": random_array(rng, tuple(shape), dtype)}
    source = TensorType(some_dynamic(rng, shape, 0.2), dtype)
    if rng.random() < 0.5:
        return _of_sizes(rng, source, attributes, operands), operands
    if rng.random() < 0.4:
        return ops.im2col(source, **attributes), operands
    m, k = whole.output.shape[-2:]
    tiles = {letter: _part(rng, int(count)) for letter, count in (("m", m), ("k", k))}
    for letter, (offsets, steps, _) in tiles.items():
        attributes[f"{letter}_offset"], attributes[f"{letter}_strides"] = offsets, steps
    for name in (*_LINEAR, "kernel_size"):
        last = 1 if name.endswith("strides") else 0
        attributes[name] = _some_passed(rng, name, attributes[name], operands, last)
    batch = tuple(source.shape[dim] for dim in attributes["batch_pos"])
    return ops.im2col(source, (*batch, *tiles["m"][2], *tiles["k"][2]), **attributes), operands


def _windows(rng: Generator) -> tuple[list[int], dict[str, Any]]:
    """The shape of an image, and the windows of a convolution of it."""
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
    if dims["b"] and rng.random() < 0.06:
        shape[pick(rng, dims["b"])] = 0
    return shape, {
        "kernel_size": kernel,
        "strides": strides,
        "dilations": dilations,
        "batch_pos": [int(d) for d in rng.permutation(dims["b"])],
        "m_pos": dims["m"],
        "k_pos": [int(d) for d in rng.permutation(dims["k"])],
    }


def _some_passed(
    rng: Generator, name: str, values: list[int], operands: dict[str, Any], last: int = 0
) -> list[Any]:
    """Numbers of which some, but for the ``last`` ones, are passed at call time."""
    found: list[Any] = list(values)
    for place in range(len(found) - last):
        if rng.random() < 0.2:
            found[place] = f"{name}_{place}"
            operands[found[place]] = values[place]
    return found


def _of_sizes(
    rng: Generator, source: TensorType, attributes: dict[str, Any], operands: dict[str, Any]
) -> Im2col:
    """An op of the newer form: dims of M and K, any order, offsets, padding."""
    shape = operands["input"].shape
    rank, m_pos = len(shape), attributes["m_pos"]
    pads = [[int(rng.random() < 0.3) * int(rng.integers(1, 3)) for _ in shape] for _ in range(2)]
    if rng.random() < 0.5:
        pads = [[0] * rank, [0] * rank]
    padded = [extent + low + high for extent, low, high in zip(shape, *pads, strict=True)]
    inner = sorted({*m_pos, *attributes["k_pos"]})
    order = [int(one) for one in rng.permutation(len(inner))]
    plain = ops.im2col(tuple(padded), **attributes, input_k_perm=order)
    groups = [[int(e) for e in line.sizes] for line in plain.lines]
    sizes = [*groups[:-2], *_split(rng, groups[-2]), *_split(rng, groups[-1])]
    offsets, extents = [], []
    for group in sizes:
        most = prod(group)
        offset = 0 if rng.random() < 0.6 else int(rng.integers(-1, most))
        offsets.append(offset)
        extents.append(most if rng.random() < 0.5 else int(rng.integers(1, most - offset + 2)))
    axes = [int(one) for one in rng.permutation(len(sizes))]
    ends = [[int(rng.random() < 0.2) for _ in axes] for _ in range(2)]
    made = [extents[axis] + ends[0][i] + ends[1][i] for i, axis in enumerate(axes)]
    flat = _some_passed(rng, "size", [one for group in sizes for one in group], operands)
    named = iter(flat)
    kernel = attributes.pop("kernel_size")
    padding = pick(rng, ("operand", 1, None))
    if padding == "operand":
        operands["pad_value"] = source.dtype == "bool" or pick(rng, (0, 3))
    elif source.dtype == "bool" and padding:
        padding = True
    return ops.im2col(
        source,
        made,
        **attributes,
        kernel_size=_some_passed(rng, "kernel_size", kernel, operands),
        offsets=_some_passed(rng, "offsets", offsets, operands),
        output_sizes=[[next(named) for _ in group] for group in sizes],
        input_k_perm=order,
        output_perm=axes,
        input_pad_low=_some_passed(rng, "input_pad_low", pads[0], operands),
        input_pad_high=_some_passed(rng, "input_pad_high", pads[1], operands),
        output_pad_low=_some_passed(rng, "output_pad_low", ends[0], operands),
        output_pad_high=_some_passed(rng, "output_pad_high", ends[1], operands),
        pad_value=padding,
    )


def _split(rng: Generator, sizes: list[int]) -> list[list[int]]:
    """The sizes of one dim, or of several."""
    if rng.random() < 0.5:
        return [sizes]
    found: list[list[int]] = []
    for size in sizes:
        if found and rng.random() < 0.5:
            found[-1].append(size)
        else:
            found.append([size])
    return found


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
