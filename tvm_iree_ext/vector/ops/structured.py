"""Structured ops on tensors: a loop nest, affine maps of its operands, and a scalar body.

All are one generic op; the named ones have their maps and body from a table.  ``outs`` gives the
start of the sum and the shape of the result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.vector.ir.affine_maps import AffineMap, Linear
from tvm_iree_ext.vector.ir.combining_kinds import combine
from tvm_iree_ext.vector.ir.core import Block, Operation, Value
from tvm_iree_ext.vector.ir.definition import Definition, RunBlock, register, register_as
from tvm_iree_ext.vector.ir.insertion import Insertion
from tvm_iree_ext.vector.ir.printing import ValueNames
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import ScalarType, Type, extents, scalar
from tvm_iree_ext.vector.ops import checks
from tvm_iree_ext.vector.ops.contract import PARALLEL, REDUCTION, multiply


@dataclass(frozen=True)
class StructuredNest:
    """The iteration space of a structured op: a map for each operand, and the kinds of its dims."""

    maps: tuple[AffineMap, ...]
    iterators: tuple[str, ...]


def _nest(maps: str, reductions: int) -> StructuredNest:
    """A nest from maps over named dims, the last of which are reductions."""
    dims, *results = maps.split("; ")
    parsed = tuple(AffineMap.parse(f"({dims}) -> ({result})") for result in results)
    count = parsed[0].num_dims
    return StructuredNest(parsed, (PARALLEL,) * (count - reductions) + (REDUCTION,) * reductions)


NAMED: dict[str, StructuredNest] = {
    "linalg.matmul": _nest("m, n, k; m, k; k, n; m, n", 1),
    "linalg.batch_matmul": _nest("b, m, n, k; b, m, k; b, k, n; b, m, n", 1),
    "linalg.matmul_transpose_b": _nest("m, n, k; m, k; n, k; m, n", 1),
}
"""Multiply-accumulate ops with fixed maps of lhs, rhs and out."""

_WINDOW = "n, oh, ow, oc, fh, fw, ic; n, oh * {sh} + fh * {dh}, ow * {sw} + fw * {dw}, ic"
CONVOLUTIONS: dict[str, str] = {
    "linalg.conv_2d_nhwc_hwcf": f"{_WINDOW}; fh, fw, ic, oc; n, oh, ow, oc",
    "linalg.conv_2d_nchw_fchw": (
        "n, oc, oh, ow, ic, fh, fw; n, ic, oh * {sh} + fh * {dh}, ow * {sw} + fw * {dw};"
        " oc, ic, fh, fw; n, oc, oh, ow"
    ),
}
"""Convolutions of image and filter, by strides and dilations."""


def nest_of(op: Operation) -> StructuredNest:
    """The nest of a structured op."""
    if op.name == "linalg.generic":
        return StructuredNest(op.attributes["indexing_maps"], op.attributes["iterator_types"])
    if op.name in CONVOLUTIONS:
        (sh, sw), (dh, dw) = op.attributes["strides"], op.attributes["dilations"]
        return _nest(CONVOLUTIONS[op.name].format(sh=sh, sw=sw, dh=dh, dw=dw), 3)
    if op.name == "linalg.fill":
        rank = op.operand("out").rank
        return StructuredNest((AffineMap(rank, ()), AffineMap.identity(rank)), (PARALLEL,) * rank)
    return NAMED[op.name]


def is_structured(op: Operation) -> bool:
    """Whether this is an op of a loop nest on tensors."""
    return op.name.startswith("linalg.") and op.name != "linalg.yield"


def extent_of(nest: StructuredNest, shapes: Sequence[Sequence[Any]]) -> list[Any]:
    """The extent of each dim of the nest, from the operands where the dim stands alone.

    Where several tell it, a number wins; None where no operand has it alone.
    """
    found: list[Any] = [None] * len(nest.iterators)
    for map, shape in zip(nest.maps, shapes, strict=True):
        for dim, extent in zip(map.dims, shape, strict=True):
            if dim is not None and not isinstance(found[dim], int):
                found[dim] = extent
    return found


def reach(result: Linear, sizes: Sequence[int]) -> int:
    """One more than the largest position that an expression takes over the nest."""
    pairs = zip(result.coefficients, sizes, strict=True)
    return sum(by * (size - 1) for by, size in pairs if size and by > 0) + result.constant + 1


def _check_nest(op: Operation, names: Sequence[str]) -> list[Any]:
    """Maps fit operands, and operands one another; the extents of the dims."""
    nest = nest_of(op)
    values = op.operands
    checks.length(op, "indexing_maps", nest.maps, len(values), "operand")
    for name, map, value in zip(names, nest.maps, values, strict=True):
        if map.num_dims != len(nest.iterators) or len(map.results) != value.rank:
            raise op.error(
                "E_MAP",
                f"the map of {name} is {map}; expected {len(nest.iterators)} dims to {value.type}",
            )
    sizes = extent_of(nest, [value.shape for value in values])
    for dim, size in enumerate(sizes):
        if size is None:
            raise op.error("E_MAP", f"no operand has d{dim} alone, so its extent is not known")
    for name, map, value in zip(names, nest.maps, values, strict=True):
        for axis, (result, extent) in enumerate(zip(map.results, value.shape, strict=True)):
            used = [d for d, by in enumerate(result.coefficients) if by]
            if isinstance(extent, str) or any(isinstance(sizes[d], str) for d in used):
                continue
            needed = reach(result, [s if isinstance(s, int) else 1 for s in sizes])
            if (extent != needed) if result.dim is not None else (extent < needed):
                raise op.error(
                    "E_SHAPE_MISMATCH",
                    f"dim {axis} of {name} {value.type} is {extent}; {result}"
                    f" of the nest needs {needed}",
                )
    return sizes


def _check_out(op: Operation, map: AffineMap, iterators: Sequence[str]) -> None:
    parallel = {dim for dim, it in enumerate(iterators) if it == PARALLEL}
    if not map.is_projected_permutation() or set(map.used) != parallel:
        raise op.error("E_MAP", f"the map of an output is {map}; expected each parallel dim once")


def run_nest(
    op: Operation,
    values: Sequence[np.ndarray],
    inputs: int,
    body: Callable[[list[np.ndarray]], list[np.ndarray]],
) -> list[np.ndarray]:
    """The outputs of a nest: one reduction point after the other, all parallel ones at once."""
    nest = nest_of(op)
    arrays = [np.asarray(value) for value in values]
    sizes = extent_of(nest, [array.shape for array in arrays])
    parallel = [d for d, it in enumerate(nest.iterators) if it == PARALLEL]
    reduced = [d for d, it in enumerate(nest.iterators) if it == REDUCTION]
    shape = [sizes[d] for d in parallel]
    grid = dict(zip(parallel, np.indices(shape, sparse=True), strict=True))
    order = [[parallel.index(d) for d in map.used] for map in nest.maps[inputs:]]
    outs = [
        array.transpose(np.argsort(axes))
        for array, axes in zip(arrays[inputs:], order, strict=True)
    ]
    for point in np.ndindex(*(sizes[d] for d in reduced)):
        at: list[Any] = [
            grid[d] if d in grid else point[reduced.index(d)] for d in range(len(sizes))
        ]
        taken = [
            np.broadcast_to(array[tuple(map.at(at))], shape)
            for array, map in zip(arrays[:inputs], nest.maps[:inputs], strict=True)
        ]
        outs = body([*taken, *outs])
    return [
        np.ascontiguousarray(np.broadcast_to(out, shape).transpose(axes))
        for out, axes in zip(outs, order, strict=True)
    ]


@register_as(*NAMED, *CONVOLUTIONS)
class MultiplyAccumulate(Definition):
    """``out += ext(lhs) * ext(rhs)`` over the nest."""

    operands = ("lhs", "rhs", "out")
    written = "out"

    def result_types(self, op: Operation) -> Sequence[Type]:
        lhs, rhs, out = (checks.tensor_of(op, name) for name in self.operands)
        for name in ("strides", "dilations") if op.name in CONVOLUTIONS else ():
            checks.length(op, name, checks.ints(op, name), 2, "spatial dim")
            if min(op.attributes[name]) < 1:
                raise op.error("E_INDEX_RANGE", f"{name} are {op.attributes[name]}; from 1")
        checks.same_dtype(op, "rhs", rhs.dtype, lhs.dtype, "lhs")
        checks.widens(op, "lhs and rhs", lhs.dtype, out.dtype)
        _check_nest(op, self.operands)
        return [out]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        dtype = values[2].dtype

        def body(taken: list[np.ndarray]) -> list[np.ndarray]:
            product = multiply(taken[0].astype(dtype), taken[1].astype(dtype))
            return [combine("add", taken[2], product)]

        return run_nest(op, values, 2, body)

    def reads(self, op: Operation) -> Sequence[Value]:
        return op.operands

    def text(self, op: Operation, names: ValueNames) -> str:
        texts = [f"{name} = {list(value)}" for name, value in op.attributes.items()]
        ins, out = op.operands[:2], op.operand("out")
        return (
            f"ins({names.list(ins)} : {names.types(ins)}) outs({names[out]} : {out.type})"
            f"{names.attributes(texts)}"
        )

    def spelling(self, op: Operation) -> str:
        return f"{self.name.partition('.')[2]} {','.join(extents(v.shape) for v in op.operands)}"


@register
class Fill(Definition):
    """A scalar in every element."""

    name = "linalg.fill"
    operands = ("value", "out")
    written = "out"
    counted = "result"

    def result_types(self, op: Operation) -> Sequence[Type]:
        out = checks.tensor_of(op, "out")
        if op.operand("value").type != ScalarType(out.dtype):
            raise op.error("E_ELEMENT_TYPE", f"value is {op.operand('value').type}; out is {out}")
        return [out]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        return [np.full_like(values[1], values[0])]

    def text(self, op: Operation, names: ValueNames) -> str:
        value, out = op.operands
        return f"ins({names[value]} : {value.type}) outs({names[out]} : {out.type})"


@register
class Generic(Definition):
    """Any nest with a scalar body, which takes an element of each operand."""

    name = "linalg.generic"
    operands = ("ins*", "outs*")

    def result_types(self, op: Operation) -> Sequence[Type]:
        outs = op.group("outs")
        if not outs:
            raise op.error("E_ATTR_LENGTH", "no outs came; expected at least one")
        names = [
            *(f"ins[{i}]" for i in range(len(op.group("ins")))),
            *(f"outs[{i}]" for i in range(len(outs))),
        ]
        for name, value in zip(names, op.operands, strict=True):
            if not value.is_memory or isinstance(value.type, ScalarType):
                raise op.error("E_NOT_A_BUFFER", f"{name} is {value.type}; expected a tensor")
        _check_nest(op, names)
        nest = nest_of(op)
        for one in nest.maps[len(op.group("ins")) :]:
            _check_out(op, one, nest.iterators)
        body = op.body
        types = [scalar(value.dtype) for value in op.operands]
        if [argument.type for argument in body.arguments] != types:
            raise op.error(
                "E_STRUCTURE",
                f"the body takes {ValueNames.types(body.arguments)}; expected"
                f" {', '.join(map(str, types))}",
            )
        yielded = [value.type for value in body.terminator.operands]
        if yielded != types[-len(outs) :]:
            raise op.error(
                "E_ELEMENT_TYPE",
                f"the body yields {', '.join(map(str, yielded))}; expected"
                f" {', '.join(map(str, types[-len(outs) :]))}",
            )
        return [value.type for value in outs]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        return run_nest(op, values, len(op.group("ins")), lambda taken: run_block(op.body, taken))

    def reads(self, op: Operation) -> Sequence[Value]:
        return op.operands

    def writes(self, op: Operation) -> Sequence[Value]:
        return op.group("outs")

    def text(self, op: Operation, names: ValueNames) -> str:
        maps = ", ".join(f"affine_map<{map}>" for map in op.attributes["indexing_maps"])
        iterators = ", ".join(f'"{it}"' for it in op.attributes["iterator_types"])
        ins, outs = op.group("ins"), op.group("outs")
        return (
            f"{{indexing_maps = [{maps}], iterator_types = [{iterators}]}}"
            f" ins({names.list(ins)} : {names.types(ins)})"
            f" outs({names.list(outs)} : {names.types(outs)}) ({names.list(op.body.arguments)})"
        )

    def spelling(self, op: Operation) -> str:
        return f"generic {','.join(extents(v.shape) for v in op.operands)}"


class StructuredOps(Insertion):
    """The builder's structured ops."""

    def fill(self, value: Any, out: Value) -> Value:
        """``value`` in every element of a tensor like ``out``."""
        operands = {"value": self.element(value, out.dtype), "out": out}
        return self.create("linalg.fill", operands).result

    def matmul(self, lhs: Value, rhs: Value, out: Value) -> Value:
        """``out + lhs @ rhs``."""
        return self.create("linalg.matmul", {"lhs": lhs, "rhs": rhs, "out": out}).result

    def batch_matmul(self, lhs: Value, rhs: Value, out: Value) -> Value:
        """``out[b] + lhs[b] @ rhs[b]``."""
        return self.create("linalg.batch_matmul", {"lhs": lhs, "rhs": rhs, "out": out}).result

    def matmul_transpose_b(self, lhs: Value, rhs: Value, out: Value) -> Value:
        """``out + lhs @ rhs.T``."""
        operands = {"lhs": lhs, "rhs": rhs, "out": out}
        return self.create("linalg.matmul_transpose_b", operands).result

    def conv_2d(
        self,
        image: Value,
        filter: Value,
        out: Value,
        *,
        strides: Sequence[int] = (1, 1),
        dilations: Sequence[int] = (1, 1),
        layout: str = "nhwc_hwcf",
    ) -> Value:
        """A convolution without padding; ``layout`` is nhwc_hwcf or nchw_fchw."""
        known = [name.removeprefix("linalg.conv_2d_") for name in CONVOLUTIONS]
        if layout not in known:
            raise VectorError(
                "E_MAP", f"linalg.conv_2d: layout is {layout!r}; expected one of {', '.join(known)}"
            )
        operands = {"lhs": image, "rhs": filter, "out": out}
        attributes = {"strides": tuple(strides), "dilations": tuple(dilations)}
        return self.create(f"linalg.conv_2d_{layout}", operands, attributes).result

    def generic(
        self,
        ins: Sequence[Value],
        outs: Sequence[Value],
        body: Callable[..., Value | Sequence[Value]],
        *,
        indexing_maps: Sequence[AffineMap | str] | None = None,
        iterator_types: Sequence[str] | None = None,
    ) -> list[Value]:
        """A nest with a body, a function of an element of each operand.

        By default it is elementwise: all operands have one shape.
        """
        if not outs:
            raise VectorError("E_ATTR_LENGTH", "linalg.generic: no outs; expected at least one")
        rank = outs[0].rank
        maps = indexing_maps or [AffineMap.identity(rank)] * (len(ins) + len(outs))
        block = Block([scalar(value.dtype) for value in (*ins, *outs)])
        with self.inside(block):
            made = body(*block.arguments)
            self.create("linalg.yield", {"values": made})
        attributes = {
            "indexing_maps": tuple(AffineMap.parse(map) for map in maps),
            "iterator_types": tuple(iterator_types or [PARALLEL] * rank),
        }
        operands = {"ins": ins, "outs": outs}
        return self.create("linalg.generic", operands, attributes, [block]).results
