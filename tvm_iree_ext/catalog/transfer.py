"""transfer_gather and transfer_scatter: reference, random cases, JSON examples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.catalog.base.entry import OpEntry, Run, Values, exact
from tvm_iree_ext.catalog.base.random_arrays import pick, random_array, small_numbers, some_dynamic
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.base.operands import INDEX_DTYPES
from tvm_iree_ext.ops.families.transfer.transfer import Transfer

Generator = np.random.Generator

_EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 24, 31, 33, 40)
_FAR = (-(2**63), -(2**62), -1, 5, 2**62, 2**63 - 1)
"""Offsets with which positions lie outside."""
_MOST = 6000  # elements: the reference takes them one by one


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The result by :mod:`tvm_iree_ext.reference`."""
    assert isinstance(op, Transfer)
    indices = [operands[f"index{t}"] for t in range(len(op.index_vecs))]
    maps = [one.results for one in op.maps]
    offsets = [
        operands[f"offset{axis}"] if offset == "operand" else offset
        for axis, offset in enumerate(op.offsets)
    ]
    mask = operands.get("mask")
    if not op.gathers:
        vector, base = operands["vector"], operands["base"]
        result = reference.transfer_scatter(vector, base, indices, mask, maps=maps, offsets=offsets)
        return {"result": result}
    padding = operands["padding"] if op.padding == "operand" else op.padding
    result = reference.transfer_gather(
        operands["base"],
        indices,
        mask,
        shape=op.extents,
        maps=maps,
        offsets=offsets,
        padding=padding,
    )
    return {"result": result}


def _padding(rng: Generator, dtype: str) -> Any:
    """A number that the type holds."""
    if dtype in dtypes.FLOATS:
        return float(pick(rng, (0.0, -1.0, 2.5, -0.0, np.inf, np.nan)))
    if dtype not in dtypes.INTEGERS:
        return small_numbers(rng, (), dtype).item()
    value = random_array(rng, (1,), dtype)[0]
    # As large as a call can pass; a constant may be larger.
    return bool(value) if dtype == "bool" else min(int(value), 2**63 - 1)


@dataclass
class _Draft:
    """A transfer in the making: the results of map 0, and for each symbol dims and indices."""

    extents: list[int]
    axes: list[str]
    rooms: dict[str, int]
    restricted: list[list[int]]
    indices: list[np.ndarray]

    def text(self, results: list[str]) -> str:
        """An indexing map in MLIR's spelling."""
        dims, symbols = (
            ", ".join(f"{kind}{i}" for i in range(count))
            for kind, count in (("d", len(self.extents)), ("s", len(self.restricted)))
        )
        return f"({dims})[{symbols}] -> ({', '.join(results)})"


def random_gather(rng: Generator) -> tuple[Transfer, dict[str, Any]]:
    """Any rank, maps, kinds of indices, mask, padding and offsets; some base extents symbols.

    Some lie outside of the base.
    """
    extents = _extents(rng)
    rank, count = len(extents), int(rng.integers(0, 3))
    axes = [f"d{dim}" for dim in map(int, rng.permutation(rank)) if rng.random() < 0.7]
    for t in range(count):
        for _ in range(int(pick(rng, (0, 1, 1, 1, 2)))):
            axes.insert(int(rng.integers(len(axes) + 1)), f"s{t}")
    rooms = {f"s{t}": int(rng.integers(1, 13)) for t in range(count)}
    restricted = [_dims(rng, rank) for _ in range(count)]
    indices = [
        rng.integers(0, rooms[f"s{t}"], [extents[dim] for dim in dims])
        for t, dims in enumerate(restricted)
    ]
    draft = _Draft(extents, axes, rooms, restricted, list(map(np.asarray, indices)))
    operands, maps, keywords, base = _finish(rng, draft)
    padding = _padding(rng, base.dtype)
    if rng.random() < 0.3:
        operands["padding"], padding = padding, "operand"
    op = ops.vector_ext.transfer_gather(
        base,
        *draft.indices,
        result=extents,
        indexing_maps=maps,
        padding=padding,
        **keywords,
    )
    return op, operands


def random_scatter(rng: Generator) -> tuple[Transfer, dict[str, Any]]:
    """Any rank, order, indices, mask and offsets that make destinations unique."""
    extents = _extents(rng)
    draft = _Draft(extents, [], {}, [], [])
    done: list[int] = []
    for dim in map(int, rng.permutation(len(extents))):
        if rng.random() < 0.5:
            draft.axes.append(f"d{dim}")
        else:
            # Distinct along the dim for each position of dims that are already told apart.
            symbol, room = f"s{len(draft.restricted)}", extents[dim] + int(rng.integers(0, 4))
            dims = [dim, *(other for other in done if rng.random() < 0.3)]
            shape = [room, *(extents[other] for other in dims[1:])]
            every = np.broadcast_to(np.arange(room).reshape(-1, *[1] * len(dims[1:])), shape)
            order = list(map(int, rng.permutation(len(dims))))
            draft.axes.append(symbol)
            draft.rooms[symbol] = room
            draft.restricted.append([dims[place] for place in order])
            chosen = rng.permuted(every, axis=0)[: extents[dim]]
            draft.indices.append(chosen.transpose(order))
        done.append(dim)
    operands, maps, keywords, base = _finish(rng, draft)
    vector = random_array(rng, tuple(extents), base.dtype)
    op = ops.vector_ext.transfer_scatter(
        vector, base, *draft.indices, indexing_maps=maps, **keywords
    )
    return op, {"vector": vector, **operands}


def _outside(rng: Generator, indices: np.ndarray) -> np.ndarray:
    """Some of the indices so that they lie outside of any base."""
    limits = np.iinfo(indices.dtype)
    below = (limits.min, max(limits.min, -(2**62) - 7)) if limits.min else ()
    chosen = np.array(
        [int(pick(rng, (limits.max, *below))) for _ in range(indices.size)], indices.dtype
    )
    return np.where(rng.random(indices.shape) < 0.3, chosen.reshape(indices.shape), indices)


def _extents(rng: Generator) -> list[int]:
    extents = [int(pick(rng, _EXTENTS)) for _ in range(int(rng.integers(0, 4)))]
    while np.prod(extents) > _MOST:
        extents[int(np.argmax(extents))] //= 2
    return extents


def _dims(rng: Generator, rank: int) -> list[int]:
    return [dim for dim in map(int, rng.permutation(rank)) if rng.random() < 0.6]


def _finish(
    rng: Generator, draft: _Draft
) -> tuple[dict[str, Any], list[str], dict[str, Any], TensorType]:
    """Operands, maps, other arguments and the type of the base; the draft's indices get a type."""
    if rng.random() < 0.3 or not draft.axes:
        draft.axes.insert(int(rng.integers(len(draft.axes) + 1)), "0")
    dtype = str(pick(rng, dtypes.ELEMENTS))
    offsets = [int(pick(rng, (0, 0, 1, 3))) for _ in draft.axes]
    shape = []
    for axis, offset in zip(draft.axes, offsets, strict=True):
        room = draft.extents[int(axis[1:])] if axis[0] == "d" else draft.rooms.get(axis, 1)
        shape.append(room + offset + int(pick(rng, (0, 0, 2))))
    maps = [draft.text(draft.axes)]
    maps += [draft.text([f"d{dim}" for dim in dims]) for dims in draft.restricted]
    keywords: dict[str, Any] = {}
    operands: dict[str, Any] = {"base": random_array(rng, tuple(shape), dtype)}
    draft.indices = [one.astype(str(pick(rng, ("int32", *INDEX_DTYPES)))) for one in draft.indices]
    if rng.random() < 0.5:
        dims = list(draft.restricted[0]) if draft.restricted else _dims(rng, len(draft.extents))
        mask = np.asarray(rng.random([draft.extents[dim] for dim in dims]) < 0.6)
        operands["mask"] = keywords["mask"] = mask
        maps.append(draft.text([f"d{dim}" for dim in dims]))
        for t, restricted in enumerate(draft.restricted):
            if restricted == dims:  # indices of what is left out may be anything
                index = draft.indices[t]
                wrong = np.array(np.iinfo(index.dtype).max, index.dtype)
                draft.indices[t] = np.where(mask, index, wrong)
    given: list[Any] = list(offsets)
    is_wild = rng.random() < 0.4
    for place, offset in enumerate(offsets):
        if rng.random() < 0.2:
            far = is_wild and rng.random() < 0.5
            operands[f"offset{place}"] = int(pick(rng, _FAR)) if far else offset
            given[place] = "operand"
    if is_wild:
        draft.indices = [_outside(rng, one) for one in draft.indices]
    for t, one in enumerate(draft.indices):
        operands[f"index{t}"] = one if one.shape else min(int(one), 2**63 - 1)
    keywords["offsets"] = given
    extents = some_dynamic(rng, shape, 0.2)
    return operands, maps, keywords, TensorType(extents, dtype)


def run_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples of transfer_gather."""
    attributes, inputs = case["attrs"], dict(case["inputs"])
    indices = [value for name, value in inputs.items() if name.startswith("index")]
    op = ops.vector_ext.transfer_gather(
        inputs["base"],
        *indices,
        result=attributes["result_shape"],
        indexing_maps=attributes["indexing_maps"],
        offsets=attributes["offsets"],
        padding=attributes["padding"],
        mask=inputs.get("mask"),
    )
    return run(op, inputs)


def run_scatter_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case in the form of those of transfer_gather, with a vector among the inputs."""
    attributes, inputs = case["attrs"], dict(case["inputs"])
    indices = [value for name, value in inputs.items() if name.startswith("index")]
    op = ops.vector_ext.transfer_scatter(
        inputs["vector"],
        inputs["base"],
        *indices,
        indexing_maps=attributes["indexing_maps"],
        offsets=attributes["offsets"],
        mask=inputs.get("mask"),
    )
    return run(op, inputs)


TRANSFER_GATHER = OpEntry(
    name="iree_vector_ext.transfer_gather",
    summary="a vector of the elements of memory that maps and indices say",
    make=ops.vector_ext.transfer_gather,
    reference=run_reference,
    tolerance=exact,
    random_case=random_gather,
    run_example=run_example,
)
TRANSFER_SCATTER = OpEntry(
    name="iree_vector_ext.transfer_scatter",
    summary="memory with the elements of a vector where maps and indices say",
    make=ops.vector_ext.transfer_scatter,
    reference=run_reference,
    tolerance=exact,
    random_case=random_scatter,
    run_example=run_scatter_example,
)
