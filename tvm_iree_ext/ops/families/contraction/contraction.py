"""Tensor contraction with a fused epilogue: matrix products of any rank, batched, transposed.

    sums[parallel dims] = init + sum over the reduction dims of lhs * rhs
    result = epilogue(sums, operand0, operand1, ...)

at each point of the parallel dims, each operand read by its indexing map.  It is what
``linalg.generic`` says of a contraction with an elementwise op behind it; IREE fuses these two.
By the operands that have it, a dim is a batch dim (lhs, rhs and result), an m dim (lhs and result),
an n dim (rhs and result), or a k dim (lhs and rhs), which is reduced; there may be several of each.

Floats are multiplied and summed in float32, or float64 where an operand or the result is, and
rounded once.  Products of int8, int4 and uint4, in any pairs, are summed in int32, which wraps as
there.  Beyond what is in the dialect, lhs or rhs may be floats of 8 bits, and one of them such an
integer beside a float: numbers that were quantised, whose scale is for the epilogue; or for the
prologue, where it is not the same for all of a sum:

    sums[parallel dims] = init + sum over the reduction dims of lhs * prologue(rhs, prologue0, ...)

Of the formats of OCP MX, and of NVFP4, the scales of blocks are operands of their own: ``lhs`` is
then its elements, each times that of ``lhs_scales`` whose block it is in, and ``rhs`` likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, Operand, Signature, TensorType
from tvm_iree_ext.ops.base.compute_dtypes import epilogue_dtype, wide_dtype
from tvm_iree_ext.ops.base.layouts import LayoutLike
from tvm_iree_ext.ops.base.maps import IndexingMap, parse_maps
from tvm_iree_ext.ops.base.op import Op, resolve
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor, resolve_extents
from tvm_iree_ext.ops.base.regions import PlainRegion, Region, trace
from tvm_iree_ext.ops.families.contraction import factors
from tvm_iree_ext.ops.families.contraction.lane_layouts import LaneLayouts, lane_layouts
from tvm_iree_ext.tir.tir_expressions import convert
from tvm_iree_ext.tir.tvm_modules import tirx, tvm_ffi

_NAME = "tvm_iree_ext.contraction"

Dims = tuple[int, ...]

_WHOLE = ("int8", *dtypes.INTEGERS4)
FACTORS = (*dtypes.FLOATS, *dtypes.FLOATS8, *_WHOLE, *dtypes.NARROW_FLOATS)
"""Element types of a product's operands."""

_OF_WHOLE = ("int32", "int8", *dtypes.FLOATS)


@dataclass(frozen=True, eq=False)
class Contraction(Op):
    """A contraction; made by :func:`contraction` or :func:`matmul`, which check it.

    ``types`` and ``maps`` have ``lhs``, ``rhs``, ``lhs_scales`` and ``rhs_scales`` where there are
    any, ``prologue0`` and so on, ``init`` where there is one, ``operand0`` and so on, and
    ``result``.  ``numbers`` are the types of those of lhs, rhs and their scales that are not
    numbers to kernels, which the op over words does not say otherwise.
    """

    types: Mapping[str, TensorType]
    maps: Mapping[str, IndexingMap]
    extents: tuple[Extent, ...]
    epilogue: Region | None
    prologue: Region | None = None
    layouts: LaneLayouts | None = None
    numbers: Mapping[str, str] = field(default_factory=dict)

    name = _NAME

    own_numbers = frozenset(dtypes.FLOATS8)

    @cached_property
    def signature(self) -> Signature:
        """``lhs, rhs, [scales,] prologue0, ..., [init,] operand0, ..., result``."""
        operands = [Operand(n, kind.shape, kind.dtype) for n, kind in self.types.items()]
        kind = self.types["result"]
        is_init = self.epilogue is None and self.types.get("init") == kind
        over = tuple(self.extents[dim] for dim in self.dims("lhs", "rhs"))
        init = "init" if is_init and over else ""
        operands[-1] = Operand("result", kind.shape, kind.dtype, "result", init=init, over=over)
        return Signature(tuple(operands))

    @property
    def attributes(self) -> dict[str, Any]:
        """Maps, extents and what the regions yield."""
        found: dict[str, Any] = {
            "indexing_maps": {name: str(one) for name, one in self.maps.items()},
            "extents": list(self.extents),
        }
        if self.epilogue is not None:
            found["epilogue"] = self.epilogue.text
        if self.prologue is not None:
            found["prologue"] = self.prologue.text
        if self.layouts is not None:
            found |= self.layouts.attributes
        if self.numbers:
            found["numbers"] = dict(self.numbers)
        return found

    @property
    def accumulator_dtype(self) -> str:
        """The type of sums."""
        kinds = {
            name: TensorType(t.shape, self.number_dtype(name)) for name, t in self.types.items()
        }
        return _accumulator(kinds)

    @property
    def has_init(self) -> bool:
        """Whether sums begin with an operand."""
        return "init" in self.types

    @cached_property
    def others(self) -> tuple[str, ...]:
        """The operands that the epilogue takes beside the sum."""
        return tuple(name for name in self.types if name.startswith("operand"))

    def beside(self, side: str) -> tuple[str, ...]:
        """The operands that what makes factors of ``lhs`` or ``rhs`` takes beside its elements."""
        scales = factors.scales_of(side)
        if scales in self.types:
            return (scales,)
        return tuple(n for n in self.types if n.startswith("prologue")) if side == "rhs" else ()

    def factor_dtype(self, name: str) -> str:
        """The type that holds what is multiplied of ``lhs`` or ``rhs``."""
        if factors.scales_of(name) in self.types:
            return "bfloat16"  # has the fraction of each, and float32's range
        if self.prologue is not None:
            return self.types["lhs"].dtype
        own = self.number_dtype(name)
        return "int8" if own in dtypes.INTEGERS4 else own

    def number_dtype(self, name: str) -> str:
        """The type of an operand's numbers, where it may have words."""
        return self.numbers.get(name, self.types[name].dtype)

    @cached_property
    def factor_regions(self) -> Mapping[str, Region]:
        """What makes factors of ``lhs`` or ``rhs``, where they are not the elements of its words.

        The region takes a word, and those of :meth:`beside`, in its parameters' types.
        """
        made = {}
        for side in factors.SIDES:
            scales, own = factors.scales_of(side), self.number_dtype(side)
            if scales in self.types:
                kind = self.number_dtype(scales)
                made[side] = factors.scaled_region(own, kind, self.accumulator_dtype)
            elif own in factors.IN_WORDS:
                made[side] = factors.word_region(own)
        if self.prologue is not None:
            word = made.get("rhs")
            made["rhs"] = self.prologue if word is None else _behind(word, self.prologue)
        return made

    def dims(self, *operands: str) -> Dims:
        """The dims that of lhs, rhs and result just these have, in ascending order."""
        return tuple(
            dim
            for dim in range(len(self.extents))
            if all(
                (dim in self.maps[one].dims) == (one in operands)
                for one in ("lhs", "rhs", "result")
            )
        )

    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """Two for each product."""
        return 2 * prod(resolve(extent, extents) for extent in self.extents)


def contraction(
    lhs: OperandLike,
    rhs: OperandLike,
    operands: Sequence[OperandLike] = (),
    *,
    indexing_maps: Sequence[str | IndexingMap],
    lhs_scales: OperandLike | None = None,
    rhs_scales: OperandLike | None = None,
    prologue: PlainRegion | None = None,
    prologue_operands: Sequence[OperandLike] = (),
    init: OperandLike | None = None,
    epilogue: PlainRegion | None = None,
    layouts: Mapping[str, LayoutLike] | None = None,
    mma_kind: Any = None,
    dtype: str = "float32",
    result_dtype: str | None = None,
) -> Contraction:
    """Contract two tensors, and put each sum through an epilogue.

    Args:
        lhs, rhs: shapes (of ``dtype``), :class:`TensorType`, or anything with ``shape`` and
            ``dtype``: floats, those of 8, 6 and 4 bits among them, int8, int4 or uint4.  Extents
            are numbers, names of extents known at call time, or ``"?"``.
        operands: what the epilogue takes beside the sum; the same, of any type.
        indexing_maps: of lhs, rhs, the scales that there are, each of ``prologue_operands`` and of
            ``operands``, and the result, as ``"(d0, d1, d2) -> (d0, d2)"``: projected permutations.
        lhs_scales, rhs_scales: a scale for each block of elements: of f8E8M0FNU, as bare shapes
            are, or f8E4M3FN, along some dims of ``lhs`` or ``rhs``, whose elements are then of
            f8E4M3FN, f8E5M2, f6E2M3FN, f6E3M2FN or f4E2M1FN.
        prologue: takes an element of rhs as ``arg0`` and one of each of ``prologue_operands`` as
            ``arg1`` and so on, all in the type of sums; yields the factor of lhs' element in that
            type, which is rounded to lhs' type at most.  Then lhs is float16 or wider, and rhs may
            be uint8, too.
        prologue_operands: what the prologue takes beside rhs, of any type and of rhs' dims.
        init: what sums begin with, of the result's shape; bare shapes are of the type of sums.
        epilogue: takes the sum as ``arg0`` and an element of each of ``operands`` as ``arg1`` and
            so on; yields the element of the result.  Floats come in the type of sums (float32
            where sums are int32), integers below int32 as int32.  It yields the type of sums, or
            float32 where sums are int32 and the result is a float.
        layouts: which lane holds which element of a workgroup's tile, along the axes of ``lhs``,
            of ``rhs``, and of the sums, ``acc``, which lie as the result does: two or all of
            these.  A GPU multiplies by the matrix instruction that has them.
        mma_kind: the name of that, or IREE's attribute; by default one that the GPU has.
        dtype: element type of operands given as bare shapes.
        result_dtype: by default that of lhs and rhs, float32 or float64 where they differ or have
            8 bits, and int32 where both are integers.

    Returns:
        The op.  Its kernel takes lhs, rhs, ``prologue_operands``, init where there is one, then
        ``operands``.

    Raises:
        OpError: for an operand, extent, dtype, map or region that does not fit.
    """
    made = prologue is not None
    scales = {"lhs": lhs_scales, "rhs": rhs_scales}
    if made and any(given is not None for given in scales.values()):
        raise OpError(f"{_NAME}: has a prologue, and scales; expected one of these")
    if prologue_operands and not made:
        count = len(prologue_operands)
        raise OpError(f"{_NAME}: has {count} operands for a prologue, and no prologue")
    every = dtypes.FLOATS + dtypes.INTEGERS
    types = {
        "lhs": as_tensor(_NAME, "lhs", lhs, dtype, dtypes.FLOATS if made else FACTORS, least=0),
        "rhs": as_tensor(
            _NAME, "rhs", rhs, dtype, (*FACTORS, "uint8") if made else FACTORS, least=0
        ),
    }
    types |= factors.scale_types(_NAME, types, scales)
    whole = _whole(types)
    result = _result_dtype(types["lhs"], types["lhs" if made else "rhs"], result_dtype)
    beside = {
        f"prologue{i}": as_tensor(_NAME, f"prologue{i}", one, dtype, every, least=0)
        for i, one in enumerate(prologue_operands)
    }
    types |= beside
    others = {
        f"operand{i}": as_tensor(_NAME, f"operand{i}", one, dtype, every, least=0)
        for i, one in enumerate(operands)
    }
    if others and epilogue is None:
        raise OpError(f"{_NAME}: has {len(others)} operands for an epilogue, and no epilogue")
    maps = parse_maps(_NAME, indexing_maps, [*types, *others, "result"])
    _check_maps(maps)
    scalar = {"result": TensorType((), result)}
    if init is not None:
        sums = _accumulator({**types, **others, **scalar})
        allowed = ("int32",) if whole else dtypes.FLOATS
        types["init"] = as_tensor(_NAME, "init", init, sums, allowed, least=0)
        maps = {
            **{name: maps.pop(name) for name in list(types)[:-1]},
            "init": maps["result"],
            **maps,
        }
    types |= others
    settled, extents = resolve_extents(_NAME, types, {name: maps[name] for name in types}, {})
    shape = tuple(extents[axis[0]] if axis else 1 for axis in maps["result"].axes)
    settled["result"] = TensorType(shape, result)
    if layouts is None and mma_kind is not None:
        raise OpError(f"{_NAME}: mma_kind is {mma_kind!r}, and there are no layouts")
    lanes = None if layouts is None else lane_layouts(_NAME, layouts, mma_kind, maps)
    end = _epilogue(settled, others, epilogue)
    numbers = dict(factors.word_types(settled))
    if prologue is None:
        return Contraction(settled, maps, extents, end, layouts=lanes, numbers=numbers)
    wide = wide_dtype(settled.values())
    factor = trace(_NAME, prologue, [wide] * (1 + len(beside)), wide)
    used: list[tirx.Var] = []
    tvm_ffi.structural_walk(factor.body, (tirx.Var, used.append))
    if not any(var.same_as(factor.parameters[0]) for var in used):
        raise OpError(f"{_NAME}: the prologue {factor.text} has no arg0, the element of rhs")
    return Contraction(settled, maps, extents, end, factor, lanes, numbers)


def matmul(
    lhs: OperandLike,
    rhs: OperandLike,
    operands: Sequence[OperandLike] = (),
    *,
    transpose_lhs: bool = False,
    transpose_rhs: bool = False,
    lhs_scales: OperandLike | None = None,
    rhs_scales: OperandLike | None = None,
    init: OperandLike | None = None,
    epilogue: PlainRegion | None = None,
    layouts: Mapping[str, LayoutLike] | None = None,
    mma_kind: Any = None,
    dtype: str = "float32",
    result_dtype: str | None = None,
) -> Contraction:
    """The contraction that ``numpy.matmul`` is: of the last two axes, for each batch.

    Args:
        lhs: (..., m, k), or (..., k, m) with ``transpose_lhs``; or (k,) alone.
        rhs: (..., k, n), or (..., n, k) with ``transpose_rhs``; or (k,) alone.
        lhs_scales, rhs_scales: as of :func:`contraction`.  With any, k is two axes of lhs and rhs,
            blocks and places in a block: (..., m, blocks, block); scales are (..., m, blocks), or
            (..., blocks, m) with ``transpose_lhs``, and (..., blocks, n).
        operands: of the epilogue; their axes are the result's last ones, and where an extent is 1
            and the result's is not, or an axis is not there, one element goes for all.
        init, epilogue, layouts, mma_kind, dtype, result_dtype: as of :func:`contraction`.

    Batches broadcast as in NumPy: an extent of 1 goes with any.

    Raises:
        OpError: as there, and for operands of rank 0, batches that do not fit, and more axes than
            the result has.
    """
    every = dtypes.FLOATS + dtypes.INTEGERS
    given = {
        "lhs": as_tensor(_NAME, "lhs", lhs, dtype, FACTORS, least=0),
        "rhs": as_tensor(_NAME, "rhs", rhs, dtype, FACTORS, least=0),
    }
    others = [
        as_tensor(_NAME, f"operand{i}", o, dtype, every, least=0) for i, o in enumerate(operands)
    ]
    scales = {"lhs": lhs_scales, "rhs": rhs_scales}
    given |= factors.scale_types(_NAME, given, scales)
    is_scaled = len(given) > len(factors.SIDES)
    batches = _batches(given, depth := 1 + is_scaled)
    count = max(map(len, batches.values()))
    m, n = count, count + 1
    k = list(range(count + 2, count + 2 + depth))
    ends = {
        "lhs": [*k, m] if transpose_lhs else [m, *k],
        "rhs": [n, *k] if transpose_rhs else [*k, n],
    }
    batch = [_broadcast(batches, count, dim) for dim in range(count)]
    result = list(range(count))
    full = list(batch)
    for side, own in zip(factors.SIDES, (m, n), strict=True):
        shape = given[side].shape
        if len(shape) == depth:
            ends[side] = k
        else:
            result.append(own)
            full.append(shape[-1 - depth :][ends[side].index(own)])
        ends[factors.scales_of(side)] = [dim for dim in ends[side] if dim != k[-1]]
    used = sorted({*result, *k})

    def axes(shape: Sequence[Extent], dims: Sequence[int], against: Sequence[Extent]) -> Any:
        """Axes of a shape that broadcasts to the last extents of another."""
        first = len(dims) - len(shape)
        return tuple(
            () if extent == 1 and wide != 1 else (used.index(dim),)
            for extent, dim, wide in zip(shape, dims[first:], against[first:], strict=True)
        )

    maps = []
    for name, lead in batches.items():
        own = axes(lead, range(count), batch)
        maps.append(IndexingMap(len(used), own + tuple((used.index(d),) for d in ends[name])))
    for i, one in enumerate(others):
        if len(one.shape) > len(result):
            raise OpError(
                f"{_NAME}: operand{i} has rank {len(one.shape)}; expected at most {len(result)}"
                " as the result has"
            )
        maps.append(IndexingMap(len(used), axes(one.shape, result, full)))
    maps.append(IndexingMap(len(used), tuple((used.index(dim),) for dim in result)))
    return contraction(
        given["lhs"],
        given["rhs"],
        others,
        indexing_maps=maps,
        lhs_scales=given.get("lhs_scales"),
        rhs_scales=given.get("rhs_scales"),
        init=init,
        epilogue=epilogue,
        layouts=layouts,
        mma_kind=mma_kind,
        result_dtype=result_dtype,
    )


def _batches(given: Mapping[str, TensorType], depth: int) -> dict[str, tuple[Extent, ...]]:
    """The extents of each operand before its matrix, whose k is so many axes; scales have one."""
    least = {1: "a vector, a matrix or more", 2: "blocks of k and places in them at least"}
    batches = {}
    for name, kind in given.items():
        side = name.partition("_")[0]
        own = depth - (name != side)
        if len(kind.shape) < own:
            came = "is a scalar" if not kind.shape else f"has rank {len(kind.shape)}"
            expected = least[depth] if name == side else "blocks of k at least"
            raise OpError(f"{_NAME}: {name} {came}; expected {expected}")
        if name != side and len(kind.shape) != len(given[side].shape) - 1:
            raise OpError(
                f"{_NAME}: {name} has rank {len(kind.shape)};"
                f" expected {len(given[side].shape) - 1}, one less than {side}"
            )
        batches[name] = kind.shape[: -1 - own]
    return batches


def _broadcast(batches: Mapping[str, Sequence[Extent]], count: int, dim: int) -> Extent:
    """The extent of a batch dim of all operands."""
    found: Extent = 1
    for batch in batches.values():
        axis = dim - (count - len(batch))
        extent = batch[axis] if axis >= 0 else 1
        if extent == 1 or extent == found:
            continue
        if isinstance(found, int) and isinstance(extent, int) and found != 1:
            raise OpError(
                f"{_NAME}: rhs axis {axis} has extent {extent}; expected {found} as in lhs, or 1"
            )
        found = extent if found == 1 or isinstance(extent, int) else found
    return found


def _accumulator(types: Mapping[str, TensorType]) -> str:
    """The type of sums."""
    return "int32" if _whole(types) else wide_dtype(types.values())


def _whole(types: Mapping[str, TensorType]) -> bool:
    """Whether products are of integers."""
    return all(types[side].dtype in _WHOLE for side in factors.SIDES)


def _behind(word: Region, prologue: Region) -> Region:
    """A prologue whose first argument is made of a word."""
    first, *rest = prologue.parameters
    number = convert(word.body, str(first.ty.dtype))
    return Region.of((*word.parameters, *rest), prologue(number, *rest))


def _result_dtype(lhs: TensorType, rhs: TensorType, given: str | None) -> str:
    types = {"lhs": lhs, "rhs": rhs}
    kinds = {lhs.dtype, rhs.dtype}
    if given is not None:
        allowed = _OF_WHOLE if _whole(types) else dtypes.FLOATS
        return as_tensor(_NAME, "result", (), given, allowed).dtype
    if _whole(types):
        return "int32"
    return (
        kinds.pop()
        if len(kinds) == 1 and kinds <= set(dtypes.FLOATS)
        else wide_dtype(types.values())
    )


def _check_maps(maps: Mapping[str, IndexingMap]) -> None:
    dims = {name: set(one.dims) for name, one in maps.items()}
    factors.check_scales(_NAME, maps)
    for name, one in maps.items():
        if any(len(axis) > 1 for axis in one.axes):
            raise OpError(f"{_NAME}: the indexing map of {name} is no projected permutation: {one}")
    for dim in range(maps["lhs"].num_dims):
        homes = [name for name in ("lhs", "rhs", "result") if dim in dims[name]]
        if len(homes) < 2:
            where = f"of {homes[0]} alone" if homes else "of none"
            raise OpError(
                f"{_NAME}: d{dim} is in the indexing map {where}; expected two or all of"
                " lhs, rhs and result"
            )
    if any(not axis for axis in maps["result"].axes):
        raise OpError(f"{_NAME}: the indexing map of result has an axis without a dim")
    for name, own in dims.items():
        if name.startswith("operand") and (reduced := sorted(own - dims["result"])):
            raise OpError(
                f"{_NAME}: the indexing map of {name} has d{reduced[0]}, which is reduced"
            )
        if name.startswith("prologue") and (foreign := sorted(own - dims["rhs"])):
            raise OpError(
                f"{_NAME}: the indexing map of {name} has d{foreign[0]}, which that of rhs has not"
            )


def _epilogue(
    types: Mapping[str, TensorType], others: Mapping[str, TensorType], region: PlainRegion | None
) -> Region | None:
    if region is None:
        return None
    sums, wide = _accumulator(types), wide_dtype(types.values())
    seen = [sums, *(epilogue_dtype(one.dtype, wide) for one in others.values())]
    yields = wide if types["result"].dtype in dtypes.FLOATS else sums
    return trace(_NAME, region, seen, yields)
