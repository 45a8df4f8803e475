"""Contraction: reference, tolerance, random cases."""

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.catalog.base.array_regions import numpy_region
from tvm_iree_ext.catalog.base.entry import EXACT, OpEntry, Tolerance, Values, no_examples
from tvm_iree_ext.catalog.base.random_arrays import finite_array, pick
from tvm_iree_ext.catalog.base.random_epilogues import random_epilogue
from tvm_iree_ext.catalog.base.random_regions import sometimes_empty
from tvm_iree_ext.catalog.contraction_blocks_random import random_of_blocks
from tvm_iree_ext.catalog.contraction_layouts_random import random_with_layouts
from tvm_iree_ext.ops.base.maps import map_text
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.ops.families.contraction.factors import SCALED, SCALES, SIDES, scales_of

Generator = np.random.Generator

# 1, primes, and extents around vectors and register tiles.
_EXTENTS = (1, 2, 3, 5, 7, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100)
_MOST_PRODUCTS = 400_000

# Texts, and of what types the operands of each are.  They make small factors of bytes, too.
_PROLOGUES = (
    ("(arg0 - arg2) * (arg1 * 0.0078125)", (dtypes.FLOATS[:3], ("int8", "uint8", "float16"))),
    ("arg0 * arg1 * 0.0078125", (dtypes.FLOATS[:3],)),
    ("(arg0 - 8) * 0.0078125", ()),
)


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The result by :mod:`tvm_iree_ext.reference`, in float64; integers as they are stored."""
    assert isinstance(op, Contraction)
    result = reference.contraction(
        _factors(op, operands, "lhs"),
        _factors(op, operands, "rhs"),
        [operands[name] for name in op.others],
        lhs_axes=_axes(op, "lhs"),
        rhs_axes=_axes(op, "rhs"),
        operand_axes=[_axes(op, name) for name in op.others],
        result_axes=op.maps["result"].dims,
        init=operands.get("init"),
        epilogue=numpy_region(op.name, op.epilogue) if op.epilogue is not None else None,
    )
    kind = op.types["result"].dtype
    return {"result": result if kind in dtypes.FLOATS else result.astype(kind)}


def _axes(op: Contraction, name: str) -> list[int | None]:
    return [axis[0] if axis else None for axis in op.maps[name].axes]


def plain(array: np.ndarray) -> np.ndarray:
    """Integers of 4 bits as int8, which NumPy knows for integers."""
    return array.astype(np.int8) if str(array.dtype) in dtypes.INTEGERS4 else array


def _factors(op: Contraction, operands: Values, side: str) -> np.ndarray:
    """Factors of the elements of ``lhs`` or ``rhs``, with its axes."""
    names = op.beside(side)
    if not names and (op.prologue is None or side == "lhs"):
        return plain(operands[side])
    elements, beside = operands[side], [operands[name] for name in names]
    if names == (scales_of(side),):
        made: Any = np.multiply
        elements, *beside = map(reference.block_scaled.decoded, (elements, *beside))
    else:
        assert op.prologue is not None
        made = numpy_region(op.name, op.prologue)
    return reference.prologue_factors(
        elements,
        beside,
        rhs_axes=_axes(op, side),
        operand_axes=[_axes(op, name) for name in names],
        prologue=made,
    )


def tolerance(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """None for integers; otherwise from the type of sums, their length, and the epilogue.

    Errors of a sum of products of the largest magnitude add up as its root.  An epilogue is taken
    to enlarge them by no more than its constants do: those of the cases here do not.
    """
    assert isinstance(op, Contraction)
    return {"result": sums_tolerance(op, operands)}


def sums_tolerance(op: Contraction, operands: Values) -> Tolerance:
    """Tolerance of a contraction's sums, or of a part of it; see :func:`tolerance`.

    What a prologue yields is rounded to lhs' type at most.
    """
    kind, wide = op.types["result"].dtype, op.accumulator_dtype
    if kind not in dtypes.FLOATS:
        return EXACT
    wide = "float32" if wide == "int32" else wide

    def largest(name: str) -> float:
        values = _factors(op, operands, name) if name in SIDES else operands[name]
        return float(np.max(np.abs(values.astype(np.float64)), initial=0.0))

    shapes = {name: operands[name].shape for name in ("lhs", "rhs")}
    depth = prod(
        shapes["lhs"][axis]
        for axis, dims in enumerate(op.maps["lhs"].axes)
        if dims and dims[0] in op.dims("lhs", "rhs")
    )
    products = sqrt(depth) * largest("lhs") * largest("rhs")
    size = products + sum(largest(name) for name in ("init", *op.others) if name in operands)
    absolute = 4.0 * dtypes.eps(wide) * size + dtypes.smallest(kind)
    if op.prologue is not None:
        absolute += dtypes.eps(op.types["lhs"].dtype) * products
    return Tolerance(absolute, 2.0 * dtypes.eps(kind) + 8.0 * dtypes.eps(wide))


def _roles(rng: Generator) -> tuple[str, list[int]]:
    """A letter of b, m, n, k for each dim, and its extent."""
    while True:
        counts = [pick(rng, (0, 0, 1, 2)), *(pick(rng, (0, 1, 1, 1, 2)) for _ in range(3))]
        roles = "".join(role * count for role, count in zip("bmnk", counts, strict=True))
        sizes = sometimes_empty(rng, [pick(rng, _EXTENTS) for _ in roles])
        if roles and prod(sizes) <= _MOST_PRODUCTS:
            return roles, sizes


def random_case(rng: Generator) -> tuple[Contraction, dict[str, Any]]:
    """Any maps, dtypes, scales, init, prologues, epilogues, with symbols, of extent 0 too; or
    layouts; or blocks as the MX formats have them.
    """
    if rng.random() < 0.08:
        return random_with_layouts(rng)
    if rng.random() < 0.08:
        return random_of_blocks(rng)
    whole = rng.random() < 0.15
    floats = ("float32", "float32", *dtypes.FLOATS)
    small = ("int8", "int8", *dtypes.INTEGERS4)
    kinds = (
        [pick(rng, small), pick(rng, small)]
        if whole
        else [pick(rng, (*floats, *floats, *dtypes.FLOATS8))] * 2
    )
    if not whole and rng.random() < 0.2:
        kinds[1] = pick(rng, (*floats, *dtypes.FLOATS8, *small))
        kinds = [kinds[at] for at in rng.permutation(2)]
    made = not whole and rng.random() < 0.25
    if made:
        kinds = [pick(rng, floats), pick(rng, (*small, "uint8", "uint8", *floats))]
    scaled: dict[str, str] = {}
    if not (whole or made) and rng.random() < 0.25:
        kinds, scaled = _scaled_types(rng, floats)
    roles, sizes = _roles(rng)
    dims = {
        name: [dim for dim, role in enumerate(roles) if role in having]
        for name, having in (("lhs", "bmk"), ("rhs", "bnk"), ("result", "bmn"))
    }
    if rng.random() < 0.5:
        dims = {name: [int(dim) for dim in rng.permutation(own)] for name, own in dims.items()}
    named: list[Extent] = [f"s{d}" if rng.random() < 0.2 else e for d, e in enumerate(sizes)]

    def typed(own: list[int], extents: list[Any], dtype: str) -> TensorType:
        return TensorType(tuple(extents[dim] for dim in own), dtype)

    attributes: dict[str, Any] = {}
    beside: list[tuple[list[int], str]] = []
    if made:
        attributes["prologue"], kinds_beside = pick(rng, _PROLOGUES)
        beside = [
            ([dim for dim in dims["rhs"] if rng.random() < 0.7], pick(rng, among))
            for among in kinds_beside
        ]
        attributes["prologue_operands"] = [typed(own, named, kind) for own, kind in beside]
    for side, kind in scaled.items():
        own = _scaled_dims(rng, dims[side], roles)
        beside.append((own, kind))
        attributes[scales_of(side)] = typed(own, named, kind)
    others: list[tuple[list[int], str]] = []
    attributes["epilogue"], count = random_epilogue(rng, whole=whole)
    for _ in range(count):
        own = [dim for dim in dims["result"] if rng.random() < 0.7]
        others.append((own, "int32" if whole else pick(rng, floats)))
    if rng.random() < 0.3:
        kind = "int32" if whole else pick(rng, ("float32", "float64", "float16"))
        attributes["init"] = typed(dims["result"], named, kind)
    if not whole and rng.random() < 0.3:
        attributes["result_dtype"] = pick(rng, dtypes.FLOATS)
    mapped = (dims["lhs"], dims["rhs"], *(own for own, _ in (*beside, *others)), dims["result"])
    op = ops.contraction(
        typed(dims["lhs"], named, kinds[0]),
        typed(dims["rhs"], named, kinds[1]),
        [typed(own, named, kind) for own, kind in others],
        indexing_maps=[map_text(len(roles), own) for own in mapped],
        **attributes,
    )
    given = dict(enumerate(sizes))
    operands = {
        name: finite_array(rng, tuple(given[dim] for dim in op.maps[name].dims), kind.dtype)
        for name, kind in op.types.items()
        if name != "result"
    }
    return op, operands


def _scaled_types(rng: Generator, floats: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Types of lhs and rhs, of which one at least is scaled, and of the scales."""
    sides = pick(rng, (SIDES, SIDES, SIDES[:1], SIDES[1:]))
    others = (*floats, *dtypes.FLOATS8, *SCALED)
    kinds = [pick(rng, SCALED if side in sides else others) for side in SIDES]
    return kinds, {side: pick(rng, SCALES) for side in sides}


def _scaled_dims(rng: Generator, dims: Sequence[int], roles: str) -> list[int]:
    """The dims of scales: mostly all but the last that is reduced, as MX has them."""
    reduced = [dim for dim in dims if roles[dim] == "k"]
    if rng.random() < 0.6:
        return [dim for dim in dims if dim not in reduced[-1:]]
    return [dim for dim in dims if rng.random() < 0.7]


CONTRACTION = OpEntry(
    name="tvm_iree_ext.contraction",
    summary="matrix products of any rank, batched and transposed, with a fused epilogue",
    make=ops.contraction,
    reference=run_reference,
    tolerance=tolerance,
    random_case=random_case,
    run_example=no_examples,
)
