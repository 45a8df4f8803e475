"""to_layout, to_simt and to_simd: reference, random cases, JSON examples."""

from collections.abc import Mapping
from dataclasses import asdict
from math import prod
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.catalog.base.entry import OpEntry, Run, Values, exact
from tvm_iree_ext.catalog.base.random_arrays import pick, random_array, some_dynamic
from tvm_iree_ext.layout import NestedLayout
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.distribution.distribution import Distribution
from tvm_iree_ext.ops.families.distribution.to_layout import ToLayout

Generator = np.random.Generator

_MOST = 4000  # elements that all lanes hold: the reference takes them one by one


def run_to_layout(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The value, unchanged."""
    return {"result": operands["input"].copy()}


def run_distribution(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The result by :mod:`tvm_iree_ext.reference`."""
    assert isinstance(op, Distribution)
    lists, hardware = asdict(op.layout), (op.num_subgroups, op.subgroup_size)
    given = operands["input"]
    if op.distributes:
        padding = operands["padding"] if op.padding == "operand" else op.padding
        result = reference.to_simt(given, lists, *hardware, packed=op.packed, padding=padding)
    else:
        result = reference.to_simd(given, lists, *hardware, packed=op.packed, shape=op.extents)
    return {"result": result}


def random_layout(rng: Generator) -> NestedLayout:
    """A layout of any rank that has an owner for each element; its strides may have gaps."""
    rank = int(pick(rng, (0, 1, 1, 2, 2, 2, 3)))

    def tile(*options: int) -> list[int]:
        return [int(pick(rng, options)) for _ in range(rank)]

    subgroups, threads = tile(1, 1, 2, 3), tile(1, 2, 4, 5)
    rest = [tile(1, 1, 2, 3), tile(1, 1, 2), tile(1, 2, 4, 7)]
    while prod(subgroups) * prod(threads) * prod(prod(one) for one in rest) > _MOST // 2:
        for one in (*rest, threads, subgroups):
            one[int(rng.integers(rank))] = 1
    gaps = [rng.random() < 0.2 for _ in range(2)]
    strides = [
        _strides(rng, tiles, gap) for tiles, gap in zip((subgroups, threads), gaps, strict=True)
    ]
    lists = (subgroups, rest[0], rest[1], threads, rest[2], *strides)
    return NestedLayout(*map(tuple, lists))


def _strides(rng: Generator, tiles: list[int], gap: bool) -> list[int]:
    strides, span = [0] * len(tiles), 1
    for dim in map(int, rng.permutation(len(tiles))):
        if tiles[dim] > 1:
            span *= int(pick(rng, (1, 2))) if gap else 1
            strides[dim] = span
            span *= tiles[dim]
    return strides


def _hardware(rng: Generator, layout: NestedLayout) -> tuple[int, int]:
    """Subgroups and lanes that fit: as many as there are tiles, more, or fewer subgroups."""
    tiles, period = prod(layout.subgroup_tile), layout.subgroup_period
    subgroups = [period, period, 2 * period]
    if tiles == period:
        subgroups += [count for count in range(1, tiles) if tiles % count == 0]
    return int(pick(rng, tuple(subgroups))), layout.lane_period * int(pick(rng, (1, 1, 2)))


def _smaller(rng: Generator, layout: NestedLayout) -> tuple[int, ...]:
    """The layout's shape, or that of a tensor which ends before it."""
    shape = layout.undistributed_shape
    if rng.random() < 0.6:
        return shape
    return tuple(int(rng.integers(1, extent + 1)) for extent in shape)


def _other_layout(rng: Generator, layout: NestedLayout) -> NestedLayout:
    """A layout of the same shape: tiles of each dimension in another order, or lanes in it."""
    first = int(pick(rng, (0, 1, 5)))  # of the levels that change places
    dims = [
        [*tiles[:first], *rng.permutation(tiles[first:]).tolist()]
        for tiles in zip(*layout.tiles, strict=True)
    ]
    tiles = [[dim[level] for dim in dims] for level in range(5)]
    strides = [_strides(rng, tiles[level], gap=False) for level in (0, 3)]
    return NestedLayout(*map(tuple, (*tiles, *strides)))


def _on_gpus(layout: NestedLayout) -> bool:
    """Whether few subgroups of any GPU hold it in their registers."""
    lanes, subgroups = prod(layout.thread_tile), prod(layout.subgroup_tile)
    each = prod(layout.undistributed_shape) // (lanes * subgroups)
    return 32 % layout.lane_period == 0 and layout.subgroup_period <= 8 and each <= 48


_LHS = NestedLayout((1, 1), (2, 1), (1, 1), (16, 4), (1, 4), (0, 0), (1, 16))  # of the instruction


def random_to_layout(rng: Generator) -> tuple[ToLayout, dict[str, Any]]:
    """Any layout, dtype and kind of operand; extents of tensors and buffers may be symbols."""
    layout, dtype = random_layout(rng), str(pick(rng, dtypes.ELEMENTS))
    mma_kind = "MFMA_F32_16x16x16_F16" if rng.random() < 0.2 else None
    if mma_kind:
        layout = _LHS
    source = _other_layout(rng, layout)
    lanes_know = not mma_kind and _on_gpus(layout) and _on_gpus(source)
    kind = str(pick(rng, ("tensor", "vector", "buffer")))
    shape = _smaller(rng, layout) if kind == "tensor" else layout.undistributed_shape
    extents = shape if kind == "vector" else some_dynamic(rng, shape, 0.3)
    op = ops.vector_ext.to_layout(
        TensorType(extents, dtype),
        layout,
        shared_memory_conversion=lanes_know and bool(rng.random() < 0.5),
        mma_kind=mma_kind,
        source_layout=source if lanes_know and rng.random() < 0.7 else None,
        operand_kind=kind,  # type: ignore[arg-type]
    )
    return op, {"input": np.asarray(random_array(rng, shape, dtype))}


def random_to_simt(rng: Generator) -> tuple[Distribution, dict[str, Any]]:
    """Any layout, hardware, form and dtype; the input may end before the layout."""
    layout, dtype = random_layout(rng), str(pick(rng, dtypes.ELEMENTS))
    count, size = _hardware(rng, layout)
    whole = np.asarray(random_array(rng, _smaller(rng, layout), dtype))
    operands: dict[str, Any] = {"input": whole}
    padding: Any = bool(rng.random() < 0.5) if dtype == "bool" else int(rng.integers(0, 5))
    if rng.random() < 0.3:
        operands["padding"], padding = padding, "operand"
    op = ops.vector_ext.to_simt(
        whole,
        layout,
        num_subgroups=count,
        subgroup_size=size,
        packed=bool(rng.random() < 0.4),
        padding=padding,
    )
    return op, operands


def random_to_simd(rng: Generator) -> tuple[Distribution, dict[str, Any]]:
    """A random to_simd case, drawn like to_simt's; only the owners of an element agree on parts."""
    made, operands = random_to_simt(rng)
    operands.setdefault("padding", made.padding)
    parts = run_distribution(made, operands)["result"]
    op = ops.vector_ext.to_simd(
        parts,
        made.layout,
        num_subgroups=made.num_subgroups,
        subgroup_size=made.subgroup_size,
        result=made.whole,
    )
    return op, {"input": parts}


def run_to_layout_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples."""
    given = case["inputs"]["input"]
    op = ops.vector_ext.to_layout(given, case["attrs"]["layout"], operand_kind="vector")
    return run(op, {"input": given})


def run_to_simt_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples."""
    op = ops.vector_ext.to_simt(case["inputs"]["input"], **case["attrs"])
    return {"per_subgroup_per_thread": run(op, case["inputs"])["result"]}


def run_to_simd_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples."""
    parts = case["inputs"]["per_subgroup_per_thread"]
    return run(ops.vector_ext.to_simd(parts, **case["attrs"]), {"input": parts})


TO_LAYOUT = OpEntry(
    name="iree_vector_ext.to_layout",
    summary="a value with a layout: which lane holds which element",
    make=ops.vector_ext.to_layout,
    reference=run_to_layout,
    tolerance=exact,
    random_case=random_to_layout,
    run_example=run_to_layout_example,
)
TO_SIMT = OpEntry(
    name="iree_vector_ext.to_simt",
    summary="what each lane holds of a vector, by a layout",
    make=ops.vector_ext.to_simt,
    reference=run_distribution,
    tolerance=exact,
    random_case=random_to_simt,
    run_example=run_to_simt_example,
)
TO_SIMD = OpEntry(
    name="iree_vector_ext.to_simd",
    summary="the whole vector, from what each lane holds of it",
    make=ops.vector_ext.to_simd,
    reference=run_distribution,
    tolerance=exact,
    random_case=random_to_simd,
    run_example=run_to_simd_example,
)
