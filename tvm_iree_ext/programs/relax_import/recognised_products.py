"""Sums of products among a Relax module's own functions: the registry's contraction.

Loops of TE, TensorIR or of Relax's operators are one where they add, over some of their axes, the
product of two operands, each of whose axes goes along one of the loops':

    result[b, m, n] += float32(lhs[b, m, k]) * float32(rhs[n, k])

Axes of extent 1 go along none: operands and result are taken without them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE, Fallback
from tvm_iree_ext.mlir.importing.places import Place
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.programs.base.relax_passes import prim_functions
from tvm_iree_ext.programs.base.tir_calls import is_tir_call
from tvm_iree_ext.programs.relax_import.relax_ops import OpCalls, operand_types, rewritten, shaped
from tvm_iree_ext.schedules.shared.loops.loops_combiners import combiner_of
from tvm_iree_ext.schedules.shared.loops.loops_nests import LoopNest, loads_of, nests_of
from tvm_iree_ext.tir.tir_expressions import Expr, known


class NoProduct(Exception):
    """Raised for loops that are no contraction: says why."""


class NearProduct(NoProduct):
    """Raised for loops that add products, and are no contraction all the same."""


@dataclass(frozen=True)
class ProductLoops:
    """A function that is a contraction.

    Attributes:
        factors: the numbers of the parameters that are multiplied.
        maps: of the factors and the result, over the axes of extents other than 1.
        kept: for each of these three, its axes of such extents.
    """

    factors: tuple[int, int]
    maps: tuple[IndexingMap, IndexingMap, IndexingMap]
    kept: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def product_of(function: tirx.PrimFunc) -> ProductLoops:
    """The contraction that a function is.

    Raises:
        NoProduct: for any other, with the reason.
    """
    form = nests_of(function)
    if form is None or len(form.nests) != 1:
        raise NoProduct("it is not one nest of loops around blocks")
    (nest,) = form.nests
    store = _sum(nest)
    factors = _factors(_element(nest), str(store.value.ty.dtype))
    parameters = list(function.params)
    accesses = [*((one.source, one.indices) for one in factors), (store.buffer, store.indices)]
    if any(buffer not in parameters for buffer, _ in accesses):
        raise NoProduct("a factor or the result is memory of its own")
    dims = {axis.var: number for number, axis in enumerate(nest.axes)}
    extents = [axis.extent for axis in nest.axes]
    places = [_places(buffer, indices, dims, extents) for buffer, indices in accesses]
    homes = [{dim for dim in one if dim is not None} for one in places]
    for dim in range(len(nest.axes)):
        if sum(dim in home for home in homes) < 2:
            raise NearProduct(f"only one of its operands goes along {nest.axes[dim].var.name}")
    lhs, rhs, result = (
        IndexingMap(len(dims), tuple((dim,) for dim in one if dim is not None)) for one in places
    )
    kept = [tuple(at for at, dim in enumerate(one) if dim is not None) for one in places]
    numbers = [parameters.index(one.source) for one in factors]
    return ProductLoops((numbers[0], numbers[1]), (lhs, rhs, result), (kept[0], kept[1], kept[2]))


def _sum(nest: LoopNest) -> Any:
    """The store of a sum that begins with 0."""
    if len(nest.stores) != 1 or len(nest.init) != 1 or nest.cells or not nest.reduced:
        raise NoProduct("it is no sum")
    (store,), (first,) = nest.stores, nest.init
    if known(first.value) != 0 and not _is_zero(first.value):
        raise NoProduct("its sums begin with another number than 0")
    return store


def _is_zero(value: Any) -> bool:
    return isinstance(value, tirx.FloatImm) and float(value.value) == 0


def _element(nest: LoopNest) -> Expr:
    """What a sum adds at a point."""
    (store,) = nest.stores
    combiner = combiner_of(store.value, store.buffer)
    if combiner is None or not isinstance(combiner.value, tirx.Add):
        raise NoProduct("it does not add to what is there")
    return combiner.element


def _factors(element: Expr, dtype: str) -> list[Any]:
    """The loads of the two factors, whose product is of the sum's type."""
    if isinstance(element, tirx.Cast) and _is_wider(element):
        element = element.value
    if not isinstance(element, tirx.Mul):
        raise NoProduct("it adds something other than products")
    if str(element.ty.dtype) != dtype and "int" in dtype:
        raise NearProduct("its products wrap before they are added")
    found = []
    for factor in (element.a, element.b):
        while isinstance(factor, tirx.Cast) and _is_wider(factor):
            factor = factor.value
        if not isinstance(factor, ir.TensorLoad) or loads_of(list(factor.indices)):
            raise NearProduct("a factor is no element of an operand")
        found.append(factor)
    return found


def _is_wider(cast: tirx.Cast) -> bool:
    """Whether a conversion keeps every number: between floats, or between signed integers."""
    kinds = [str(one.ty.dtype) for one in (cast.value, cast)]
    bits = [int("".join(c for c in kind if c.isdigit()) or 0) for kind in kinds]
    alike = all("float" in kind for kind in kinds) or all(kind.startswith("int") for kind in kinds)
    return alike and bits[0] <= bits[1]


def _places(
    buffer: Any, indices: Sequence[Expr], dims: dict[ir.Var, int], extents: Sequence[Expr]
) -> list[int | None]:
    """For each axis of an operand the loop that goes along all of it; None for one element."""
    found: list[int | None] = []
    for index, extent in zip(indices, buffer.ty.shape, strict=True):
        if known(index) == 0 and known(extent) == 1:
            found.append(None)
        elif index in dims and tvm_ffi.structural_equal(extents[dims[index]], extent):
            found.append(dims[index])
        else:
            raise NearProduct(f"it goes along {buffer.name} by {index} of {extent}")
    if len({dim for dim in found if dim is not None}) < sum(dim is not None for dim in found):
        raise NearProduct(f"it goes along a diagonal of {buffer.name}")
    return found


@relax.expr_functor.mutator
class RecognisedProducts(relax.PyExprMutator):
    """Calls the registry's contraction in the place of functions that are one."""

    def __init__(self, mod: ir.IRModule, calls: OpCalls) -> None:
        super().__init__(mod)
        self._mod, self._calls = mod, calls
        self._products: dict[str, ProductLoops | None] = {}
        self.fallbacks: list[Fallback] = []
        self._functions = {v.name_hint: f for v, f in prim_functions(mod).items()}

    def run(self) -> ir.IRModule:
        """The module; functions that nothing calls any more stay in it."""
        return rewritten(self, self._mod)

    def visit_call_(self, call: ir.Call) -> ir.Expr:
        """A call of a function."""
        call = super().visit_call_(call)
        if not is_tir_call(call) or not isinstance(call.ty_args[0], relax.TensorType):
            return call
        product = self._product(call.args[0].name_hint)
        made = None if product is None else self._contraction(product, call)
        return call if made is None else made

    def _product(self, name: str) -> ProductLoops | None:
        if name not in self._products:
            function = self._functions.get(name)
            self._products[name] = None
            if function is not None and OP_ATTRIBUTE not in (function.attrs or {}):
                try:
                    self._products[name] = product_of(function)
                except NearProduct as why:
                    self.fallbacks.append(Fallback(Place(name), str(why)))
                except NoProduct:
                    pass  # loops that are like no op of the registry
        return self._products[name]

    def _contraction(self, product: ProductLoops, call: Any) -> ir.Expr | None:
        arguments, result = list(call.args[1].fields), call.ty_args[0]
        shape = [result.shape.values[axis] for axis in product.kept[2]]
        factors = [arguments[number] for number in product.factors]
        kinds = [
            relax.TensorType([one.ty.shape.values[axis] for axis in kept], str(one.ty.dtype))
            for one, kept in zip(factors, product.kept[:2], strict=True)
        ]
        lhs, rhs = operand_types(kinds)
        try:
            op = ops.contraction(
                lhs, rhs, indexing_maps=product.maps, result_dtype=str(result.dtype)
            )
        except OpError:
            return None
        flat = [self._shaped(v, k.shape.values) for v, k in zip(factors, kinds, strict=True)]
        kind = relax.TensorType(shape, str(result.dtype))
        (made,) = self._calls(self.builder_, op, flat, [kind])
        return self._shaped(made, result.shape.values)

    def _shaped(self, value: Any, shape: Sequence[Any]) -> Any:
        """A tensor by another shape, as a view."""
        if len(value.ty.shape.values) == len(shape):
            return value
        return shaped(self.builder_, value, shape)
