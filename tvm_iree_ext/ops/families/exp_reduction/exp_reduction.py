"""``iree_linalg_ext.exp_reduction``: reductions over 2^S, safe from overflow.

Inputs are the scores S and any others; outputs are their running maximum and any accumulators.
Over the dims of ``iterator_types``, each operand read by its indexing map:

    max' = max(max, max over the reduction dims of S)
    P = 2^(S - max')        norm = 2^(max - max')
    acc_j = norm * acc_j    for the outputs j of ``exp_reduced_operands``
    acc_j = f_j(P, the other inputs' elements, acc_j)    at each point of the dims of output j

The region yields a value for each output: the maximum as it came, then f_1, f_2 and so on; it sees
the elements of the inputs, with P in place of S, then those of the outputs.  A sum of the weights,
``arg0 + arg3``, and one of weighted values, ``arg0 * arg1 + arg4``, make the softmax of attention.

This is the dialect's own decomposition (``ExpReductionOp::decomposeOperation``), which it applies
to the op as a whole.  The text of its definition has both differences the other way round.  From
there, too: an f_j that reads another output has no meaning; output j is visited at each point of
the dims in its own map and in those of the inputs that f_j reads, in the order of the dims, so
that a dim of another output does not count twice.

Where the maximum stays -inf, P and norm are NaN, as in ``online_attention``; a NaN among the scores
makes a NaN of the maximum.  Differences to the dialect:

- ``outs``, which are read and written, are two operands each: ``init0`` and ``result0``.
- Floats are computed and accumulated in float32, or float64 where an operand is, and rounded once;
  there in each operand's type, where a sum of f16 stalls.  The region sees them so.
- ``score_domain="natural"`` takes e for the base.
- What the dialect's verifier lets pass and its decomposition gets wrong is refused: maps of the
  maximum and of rescaled outputs that do not fit, a parallel dim that an output would sum over, a
  reduction dim among an output's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, Operand, Signature, TensorType
from tvm_iree_ext.ops.base.compute_dtypes import wide_dtype
from tvm_iree_ext.ops.base.maps import IndexingMap, parse_maps
from tvm_iree_ext.ops.base.op import Op, resolve
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor, resolve_extents, whole_number
from tvm_iree_ext.ops.base.region_scalars import RegionScalar
from tvm_iree_ext.ops.base.regions import Region, RegionsLike, trace_several
from tvm_iree_ext.ops.families.attention.attention import ScoreDomain
from tvm_iree_ext.ops.families.custom_op.custom_op import IteratorType
from tvm_iree_ext.tir.tvm_modules import ir, tirx, tvm_ffi

_NAME = "iree_linalg_ext.exp_reduction"


@dataclass(frozen=True, eq=False)
class ExpReduction(Op):
    """A reduction over exponentials; made by :func:`exp_reduction`, which checks it.

    ``maps`` has ``input0``, ..., ``output0``, ...; ``regions`` the yield for each output, all with
    the same parameters.
    """

    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    maps: Mapping[str, IndexingMap]
    iterator_types: tuple[IteratorType, ...]
    extents: tuple[Extent, ...]
    exp_reduced_operands: tuple[int, ...]
    regions: tuple[Region, ...]
    score_domain: ScoreDomain

    name = _NAME

    @property
    def compute_dtype(self) -> str:
        """The type in which floats are computed."""
        return wide_dtype([*self.inputs, *self.outputs])

    @cached_property
    def signature(self) -> Signature:
        """``input0, ..., [scalars], init0, ..., result0, ...``."""
        operands = [Operand(f"input{i}", one.shape, one.dtype) for i, one in enumerate(self.inputs)]
        operands += [scalar.operand for scalar in self.regions[0].scalars]
        for i, one in enumerate(self.outputs):
            operands.append(Operand(f"init{i}", one.shape, one.dtype))
        kinds = enumerate(self.iterator_types)
        reduced = tuple(dim for dim, kind in kinds if kind is IteratorType.REDUCTION)
        over = tuple(self.extents[dim] for dim in reduced)
        for i, one in enumerate(self.outputs):
            init = f"init{i}" if set(reduced) <= set(self._combined_over(i)) else ""
            operands.append(
                Operand(f"result{i}", one.shape, one.dtype, "result", init=init, over=over)
            )
        return Signature(tuple(operands))

    def _combined_over(self, output: int) -> tuple[int, ...]:
        """The dims of which any of extent 0 leaves an output as it was.

        What is rescaled changes with the maximum, too.
        """
        own = self.regions[output].parameters[len(self.inputs) + output]
        is_kept = self.regions[output].body.same_as(own)
        dims = self.key_dims if is_kept else self.reduced(output)
        if output in self.exp_reduced_operands:
            dims = tuple(dim for dim in dims if dim in self.key_dims)
        return dims

    @property
    def region_scalars(self) -> tuple[RegionScalar, ...]:
        """The numbers that the region takes of a call, with each yield's variables for them."""
        return tuple(one for region in self.regions for one in region.scalars)

    @property
    def attributes(self) -> dict[str, Any]:
        """Maps, iterator types, extents, rescaled outputs, yields and the score domain."""
        return {
            "indexing_maps": {name: str(one) for name, one in self.maps.items()},
            "iterator_types": [one.name.lower() for one in self.iterator_types],
            "extents": list(self.extents),
            "exp_reduced_operands": list(self.exp_reduced_operands),
            "region": [one.text for one in self.regions],
            "score_domain": self.score_domain,
        }

    @property
    def row_dims(self) -> tuple[int, ...]:
        """The dims of the maximum, in ascending order."""
        return tuple(sorted(self.maps["output0"].dims))

    @property
    def key_dims(self) -> tuple[int, ...]:
        """The dims that the maximum is taken over, in ascending order."""
        return tuple(sorted(set(self.maps["input0"].dims) - set(self.row_dims)))

    def reads(self, output: int) -> tuple[int, ...]:
        """The inputs that the yield for an output reads; 0 are the weights."""
        return read_inputs(self.regions[output], len(self.inputs))

    def reduced(self, output: int) -> tuple[int, ...]:
        """The dims that an output is reduced over, in ascending order."""
        if output == 0:
            return self.key_dims
        dims = {dim for i in self.reads(output) for dim in self.maps[f"input{i}"].dims}
        return tuple(sorted(dims - set(self.maps[f"output{output}"].dims)))

    def accumulators(self) -> Iterator[int]:
        """The outputs but the maximum."""
        return iter(range(1, len(self.outputs)))

    def visits(self, output: int, extents: Mapping[str, int] | None = None) -> int:
        """How many points an output is visited at."""
        dims = {*self.maps[f"output{output}"].dims, *self.reduced(output)}
        return math.prod(resolve(self.extents[dim], extents) for dim in dims)

    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """Flops of the region, at each point of each accumulator."""
        return sum(
            _operations(self.regions[j].body) * self.visits(j, extents) for j in self.accumulators()
        )


def read_inputs(region: Region, count: int) -> tuple[int, ...]:
    """Indices of those of the first ``count`` parameters that a region reads."""
    names = _variables(region.body)
    return tuple(i for i in range(count) if region.parameters[i].name in names)


def _variables(body: ir.Expr) -> set[str]:
    names: set[str] = set()
    tvm_ffi.structural_walk(body, (tirx.Var, lambda var: names.add(var.name)))
    return names


def _operations(body: ir.Expr) -> int:
    arithmetic = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min, tirx.Select, ir.Call)
    count = 0

    def one(_: Any) -> None:
        nonlocal count
        count += 1

    tvm_ffi.structural_walk(body, (arithmetic, one))
    return count


def exp_reduction(
    inputs: Sequence[OperandLike],
    outputs: Sequence[OperandLike],
    *,
    indexing_maps: Sequence[str | IndexingMap],
    iterator_types: Sequence[str | IteratorType],
    exp_reduced_operands: Sequence[int],
    region: RegionsLike,
    score_domain: ScoreDomain = "log2",
    dtype: str = "float32",
    output_dtype: str | None = None,
) -> ExpReduction:
    """Reductions over ``2^(S - max S)``, with accumulators that follow the maximum.

    Args:
        inputs: the scores S, then any others: shapes (of ``dtype``), :class:`TensorType`, or
            anything with ``shape`` and ``dtype``.  Extents are numbers, names of extents known at
            call time, or ``"?"``.
        outputs: the maximum, then any accumulators; the same, bare shapes being of
            ``output_dtype``.
        indexing_maps: one for each input and output, as ``"(d0, d1) -> (d0)"``: projected
            permutations.
        iterator_types: ``"parallel"`` or ``"reduction"`` for each dim.
        exp_reduced_operands: the outputs that are rescaled with the maximum; never 0.
        region: takes an element of each input, with the weight in place of the score, and of each
            output, and yields one for each output, the maximum unchanged.  A callable over TIR
            expressions that returns a tuple, a text over ``arg0, arg1, ...`` with commas, or a
            text for each value.  It may take numbers of a call (:func:`.region`), which are
            operands behind the inputs.
        score_domain: ``"log2"``: weights are powers of 2, as in IREE; ``"natural"``: of e.
        dtype: element type of inputs given as bare shapes.
        output_dtype: of outputs given so; by default float32, or float64 where an input is.

    Returns:
        The op.  Its kernel takes the inputs, then the outputs' initial contents.

    Raises:
        OpError: for an operand, extent, dtype, map, index or region that does not fit.
    """
    every = dtypes.FLOATS + dtypes.INTEGERS
    ins = [
        as_tensor(_NAME, f"input{i}", one, dtype, every, least=0) for i, one in enumerate(inputs)
    ]
    fallback = output_dtype or wide_dtype(ins)
    outs = [
        as_tensor(_NAME, f"output{i}", one, fallback, every, least=0)
        for i, one in enumerate(outputs)
    ]
    if not ins or not outs:
        lacking = "input; input0 are the scores" if not ins else "output; output0 is the maximum"
        raise OpError(f"{_NAME}: has no {lacking}")
    for name, kind in (("input0", ins[0]), ("output0", outs[0])):
        if kind.dtype not in dtypes.FLOATS:
            role = "scores" if name == "input0" else "maximum"
            raise OpError(f"{_NAME}: {name}, the {role}, has dtype {kind.dtype}; expected a float")
    rescaled = _rescaled(exp_reduced_operands, outs)
    types = {f"input{i}": one for i, one in enumerate(ins)}
    types |= {f"output{i}": one for i, one in enumerate(outs)}
    maps = parse_maps(_NAME, indexing_maps, tuple(types))
    iterators = tuple(IteratorType.parse(one) for one in iterator_types)
    if len(iterators) != maps["input0"].num_dims:
        raise OpError(
            f"{_NAME}: {len(iterators)} iterator types; expected one for each of"
            f" {maps['input0'].num_dims} dims"
        )
    if score_domain not in ("natural", "log2"):
        raise OpError(f"{_NAME}: score_domain is {score_domain!r}; expected 'natural' or 'log2'")
    for name, one in maps.items():
        if any(len(axis) != 1 for axis in one.axes):
            raise OpError(f"{_NAME}: the indexing map of {name} is no projected permutation: {one}")
    settled, extents = resolve_extents(_NAME, types, maps, {})
    _check_dims(maps, iterators, rescaled, len(outs))

    compute = wide_dtype([*ins, *outs])
    elements = [compute if one.dtype in dtypes.FLOATS else one.dtype for one in (*ins, *outs)]
    regions = trace_several(_NAME, region, elements, elements[len(ins) :])
    op = ExpReduction(
        tuple(settled[f"input{i}"] for i in range(len(ins))),
        tuple(settled[f"output{i}"] for i in range(len(outs))),
        maps,
        iterators,
        extents,
        rescaled,
        regions,
        score_domain,
    )
    _check_yields(op)
    return op


def _rescaled(given: Sequence[int], outs: Sequence[TensorType]) -> tuple[int, ...]:
    found = set()
    for one in given:
        index = whole_number(one)
        if index is None:
            raise OpError(f"{_NAME}: exp_reduced_operands has {one!r}; expected indices of outputs")
        if index == 0:
            raise OpError(
                f"{_NAME}: exp_reduced_operands has 0, which is the maximum; it is never rescaled"
            )
        if not 0 < index < len(outs):
            raise OpError(
                f"{_NAME}: exp_reduced_operands has {index}; it must index the outputs,"
                f" of which there are {len(outs)}"
            )
        if outs[index].dtype not in dtypes.FLOATS:
            raise OpError(
                f"{_NAME}: output{index} has dtype {outs[index].dtype};"
                " what is rescaled must be a float"
            )
        found.add(index)
    return tuple(sorted(found))


def _check_dims(
    maps: Mapping[str, IndexingMap],
    iterators: Sequence[IteratorType],
    rescaled: Sequence[int],
    outputs: int,
) -> None:
    scores = set(maps["input0"].dims)
    rows = {dim for dim in scores if iterators[dim] is IteratorType.PARALLEL}
    for j in range(outputs):
        used = set(maps[f"output{j}"].dims)
        reduced = [dim for dim in sorted(used) if iterators[dim] is IteratorType.REDUCTION]
        if reduced:
            raise OpError(
                f"{_NAME}: the indexing map of output{j} has d{reduced[0]}, a reduction dim"
            )
        if j == 0 and used != rows:
            raise OpError(
                f"{_NAME}: the indexing map of output0, the maximum, uses {_dims(used)};"
                f" expected the parallel dims of input0, {_dims(rows)}"
            )
        if j in rescaled and not rows <= used:
            raise OpError(
                f"{_NAME}: the indexing map of output{j} uses {_dims(used)}; as it is rescaled"
                f" with the maximum, it must have {_dims(rows)}"
            )


def _check_yields(op: ExpReduction) -> None:
    count = len(op.inputs)
    first = op.regions[0]
    if not first.body.same_as(first.parameters[count]):
        raise OpError(
            f"{_NAME}: region's yield 0 is {first.text}; expected arg{count}, the maximum unchanged"
        )
    for j in op.accumulators():
        region = op.regions[j]
        names = _variables(region.body)
        for other, parameter in enumerate(region.parameters[count:]):
            if other != j and parameter.name in names:
                raise OpError(
                    f"{_NAME}: region's yield {j} reads {parameter.name}, an element of"
                    f" output{other}; of the outputs it may read its own only, arg{count + j}"
                )
        for dim in op.reduced(j):
            if op.iterator_types[dim] is IteratorType.PARALLEL:
                reader = next(i for i in op.reads(j) if dim in op.maps[f"input{i}"].dims)
                raise OpError(
                    f"{_NAME}: region's yield {j} reads input{reader} along d{dim}, a parallel dim"
                    f" that the indexing map of output{j} lacks; expected a reduction dim"
                )


def _dims(dims: set[int]) -> str:
    return "{" + ", ".join(f"d{dim}" for dim in sorted(dims)) + "}"
