"""Pack and unpack: reference, random cases, JSON examples."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.catalog.base.entry import OpEntry, Run, Values, exact
from tvm_iree_ext.catalog.base.random_arrays import pick, random_array, small_numbers
from tvm_iree_ext.catalog.base.random_regions import sometimes_empty
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.pack import Packing

Generator = np.random.Generator

# 1, primes, and one below and above the vectors and tiles that schedules like.
_EXTENTS = (1, 2, 3, 7, 8, 13, 16, 17, 31, 33, 40, 64, 67)
_TILES = (1, 2, 3, 4, 7, 8, 16, 17, 32, 33)
_DTYPES = dtypes.ELEMENTS
_MOST_ELEMENTS = 20_000  # the reference takes a microsecond for each


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The result by :mod:`tvm_iree_ext.reference`."""
    assert isinstance(op, Packing)
    source = operands["input"]
    given = op.signature.arguments
    bound = op.signature.bind(
        op.name, [None if o.role == "scalar" else operands[o.name].shape for o in given]
    )
    (shape,) = op.signature.result_shapes(bound)
    tiling: dict[str, Any] = {
        "inner_dims_pos": op.inner_dims_pos,
        "outer_dims_perm": op.outer_dims_perm,
    }
    if not op.packs:
        return {"result": reference.unpack(source, shape, **tiling)}
    padding = operands["padding_value"] if op.padding == "operand" else op.padding
    padding = np.array(padding or 0).astype(source.dtype)
    return {"result": reference.pack(source, shape, padding=padding, **tiling)}


def random_case(rng: Generator, *, packs: bool) -> tuple[Packing, dict[str, Any]]:
    """An op and operands that fit it; some extents of the op are symbols."""
    dtype = pick(rng, _DTYPES)
    rank = int(rng.integers(1, 5))
    while True:
        shape = tuple(sometimes_empty(rng, [pick(rng, _EXTENTS) for _ in range(rank)]))
        positions = tuple(map(int, rng.permutation(rank)[: rng.integers(0, rank + 1)]))
        tiles = tuple(pick(rng, _TILES) for _ in positions)
        by_dim = _by_dim(rank, positions, tiles)
        padded = np.prod([-(-e // t) * t for e, t in zip(shape, by_dim, strict=True)])
        if padded <= _MOST_ELEMENTS:
            break
    order = tuple(map(int, rng.permutation(rank))) if rng.random() < 0.5 else ()
    tiling: dict[str, Any] = {
        "inner_dims_pos": positions,
        "inner_tiles": tiles,
        "outer_dims_perm": order,
    }
    # An unpacked extent that no argument of unpack has would need an array to be written to.
    named: tuple[Extent, ...] = tuple(
        f"n{dim}" if packs and rng.random() < 0.3 else extent for dim, extent in enumerate(shape)
    )
    divisible = all(e % t == 0 for e, t in zip(shape, by_dim, strict=True))
    if packs:
        padding = pick(rng, ("operand", _value(rng, dtype), None))
        if padding is None and not divisible:
            padding = "operand"
        # A tile may be as long as an extent that a call tells, and there may be more tiles.
        lengths = {e: name for e, name in zip(shape, named, strict=True) if isinstance(name, str)}
        tiling["inner_tiles"] = tuple(
            lengths.get(tile, tile) if rng.random() < 0.5 else tile for tile in tiles
        )
        wanted = None
        if rng.random() < 0.3 and 0 not in shape:
            least = [-(-shape[d] // by_dim[d]) for d in order or range(rank)]
            wanted = (*(n + int(rng.random() < 0.4) for n in least), *tiling["inner_tiles"])
        op = ops.pack(TensorType(named, dtype), wanted, **tiling, padding_value=padding)
        operands = {"input": random_array(rng, shape, dtype)}
        if padding == "operand":
            operands["padding_value"] = _value(rng, dtype)
        return op, operands
    counts = tuple(-(-shape[d] // by_dim[d]) for d in order or range(rank))
    surplus = tuple(count + int(rng.random() < 0.1) for count in counts)
    packed = (*surplus, *tiles)
    dynamic = tuple(f"p{a}" if rng.random() < 0.2 else e for a, e in enumerate(packed))
    by_name = tuple(
        extent if isinstance(extent, str) and rng.random() < 0.5 else tile
        for extent, tile in zip(dynamic[rank:], tiles, strict=True)
    )
    # Of a dim without a tile the extent may be that of its axis.
    result: list[Extent] = list(shape)
    for axis, dim in enumerate(order or range(rank)):
        if dim not in positions and surplus[axis] == shape[dim] and rng.random() < 0.7:
            result[dim] = dynamic[axis]
    op = ops.unpack(TensorType(dynamic, dtype), result, **{**tiling, "inner_tiles": by_name})
    return op, {"input": random_array(rng, packed, dtype)}


def _by_dim(rank: int, positions: tuple[int, ...], tiles: tuple[int, ...]) -> list[int]:
    by_dim = dict(zip(positions, tiles, strict=True))
    return [by_dim.get(dim, 1) for dim in range(rank)]


def _value(rng: Generator, dtype: str) -> Any:
    """A number that the type holds exactly."""
    if dtype == "bool":
        return bool(rng.random() < 0.5)
    if dtype in dtypes.FLOATS:
        return pick(rng, (0.0, 1.5, -2.0, float("inf")))
    if dtype not in dtypes.INTEGERS:
        return small_numbers(rng, (), dtype).item()
    return int(rng.integers(0 if dtype.startswith("u") else -100, 100))


def run_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples."""
    attributes = dict(case["attrs"])
    source = case["inputs"]["input"]
    if case["op"].endswith(".unpack"):
        return run(ops.unpack(source, attributes.pop("output_shape"), **attributes), case["inputs"])
    return run(ops.pack(source, **attributes), case["inputs"])


PACK = OpEntry(
    name="iree_linalg_ext.pack",
    summary="copy an array into tiles, padded at its end",
    make=ops.pack,
    reference=run_reference,
    tolerance=exact,
    random_case=lambda rng: random_case(rng, packs=True),
    run_example=run_example,
)

UNPACK = OpEntry(
    name="iree_linalg_ext.unpack",
    summary="copy tiles back into an array, without their padding",
    make=ops.unpack,
    reference=run_reference,
    tolerance=exact,
    random_case=lambda rng: random_case(rng, packs=False),
    run_example=run_example,
)
