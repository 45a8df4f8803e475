"""Sums of products among ``linalg``'s loops: the registry's contraction."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import FLOATS, FLOATS8
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.mlir.base.elements import element
from tvm_iree_ext.mlir.base.ir_values import TENSORS, AnyTensor, Value, is_zero, plain
from tvm_iree_ext.mlir.dialects.iree_linalg_ext import map_text
from tvm_iree_ext.mlir.dialects.lane_layouts import without_layouts
from tvm_iree_ext.mlir.dialects.linalg_generic import Loops, dims_of, is_projection
from tvm_iree_ext.mlir.dialects.linalg_scaled import scaled_contraction
from tvm_iree_ext.mlir.dialects.registry_calls import call_op, type_of
from tvm_iree_ext.mlir.importing.imported import LAYOUTS_UNUSED
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder
from tvm_iree_ext.mlir.importing.relax_types import ELEMENTWISE
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.tir.tir_expressions import cast


class PlainLoops(Exception):
    """Raised for loops that no op of the registry computes: says why."""


_HOLDING = {**dict.fromkeys(FLOATS8, "float16"), "int4": "int8"}
_WIDEN = ("arith.extf", "arith.extsi", "arith.sitofp")
_SUMS = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}


def is_sum_of_products(block: form.ParsedBlock) -> bool:
    """Whether a region yields its last argument plus the product of the two others, converted.

    All conversions are to wider types, or of signed integers, to floats that may not hold all of
    them: those of bytes alone are certain to be exact.
    """
    if len(block.arguments) != 3 or any(op.name == "linalg.index" for op in block.operations):
        return False
    made = {id(op.results[0]): op for op in block.operations[:-1] if op.results}
    (yielded,) = block.operations[-1].operands or (None,)
    total = made.get(id(yielded))
    if total is None or total.name not in _SUMS:
        return False
    left, right, sums = block.arguments
    parts = [value for value in total.operands if value is not sums]
    if len(parts) != 1 or (product := made.get(id(parts[0]))) is None:
        return False
    if product.name != _SUMS[total.name]:
        return False

    def source(value: form.ParsedValue) -> form.ParsedValue:
        while (op := made.get(id(value))) is not None and op.name in _WIDEN:
            (value,) = op.operands
        return value

    factors = [source(value) for value in product.operands]
    return factors in ([left, right], [right, left])


def check_types(factors: Sequence[AnyTensor], result: AnyTensor) -> None:
    """PlainLoops where the registry's ops do not multiply what the factors hold to the result."""
    kinds = [one.element.name for one in factors]
    floats, whole = (*FLOATS, *FLOATS8), ("int8", "int4")
    if any(kind in floats for kind in kinds):
        fits = result.element.name in FLOATS and all(kind in (*floats, *whole) for kind in kinds)
    else:
        fits = all(kind in whole for kind in kinds) and result.element.name == "int32"
    if not fits:
        raise PlainLoops(
            f"{' times '.join(kinds)} in {result.element.name}; expected floats, or int8 and int4"
            " in int32"
        )


def as_factor(scope: Scope, value: AnyTensor) -> AnyTensor:
    """A tensor in a type that every target multiplies, and that holds the same numbers.

    Floats of 8 bits become float16: which of them a GPU multiplies as such an import does not know.
    """
    kind = _HOLDING.get(value.element.name)
    if kind is None:
        return value
    wide = element(kind)
    kernel = PrimFuncBuilder(scope, "factors", [value], [(value.shape, wide)], ELEMENTWISE)
    with kernel:
        kernel.block(
            "factors",
            value.shape,
            lambda at: kernel.store(
                0, cast(kernel.element(value, [*at.values()]), wide.held), [*at.values()]
            ),
        )
    return kernel.results[0]


def contraction(scope: Scope, loops: Loops) -> list[Value] | None:
    """The result by the registry's contraction; None for loops that are none.

    Why loops are none that multiply operands and add is noted.
    """
    if (scaled := scaled_contraction(scope, loops)) is not None:
        return scaled
    try:
        _check(loops)
    except PlainLoops as why:
        if loops.reduced and _multiplies_operands(loops):
            scope.program.fell_back(str(why))
        return None
    lhs, rhs = loops.inputs
    (out,) = loops.outputs
    bare, layouts = without_layouts(scope, {"lhs": lhs, "rhs": rhs, "acc": out})
    lhs, rhs = (as_factor(scope, bare[name]) for name in ("lhs", "rhs"))
    out = bare["acc"]
    maps = [map_text(one) for one in (*loops.input_maps, *loops.output_maps)]
    try:
        made = product(scope, (lhs, rhs), maps, out, is_zero(out), layouts)
    except PlainLoops as why:
        scope.program.fell_back(str(why))
        return None
    operands: dict[str, Value] = {"lhs": lhs, "rhs": rhs, "init": out}
    return call_op(scope, made, operands, [out])


def _check(loops: Loops) -> None:
    """PlainLoops, with the reason, where loops are no contraction."""
    maps = [*loops.input_maps, *loops.output_maps]
    if len(loops.inputs) != 2 or len(loops.outputs) != 1:
        counts = f"{len(loops.inputs)} operands and {len(loops.outputs)} results"
        raise PlainLoops(f"{counts}; a contraction has 2 and 1")
    if not is_sum_of_products(loops.block):
        raise PlainLoops("its region does more than to add products of its two operands")
    if not all(isinstance(one, TENSORS) for one in loops.inputs) or not loops.reduced:
        raise PlainLoops("an operand is a scalar, or no dim is reduced")
    for one in maps:
        if not is_projection(one):
            raise PlainLoops(f"an operand goes along {one}; a contraction's axes are each one dim")
    homes = [dims_of(one) for one in maps]
    for dim in range(len(loops.extents)):
        if sum(dim in home for home in homes) < 2:
            raise PlainLoops(f"only one operand has d{dim}; each dim of a contraction is of two")
    if any(isinstance(plain(one), int) and int(plain(one)) == 0 for one in loops.extents):
        raise PlainLoops("a dim has extent 0")
    lhs, rhs = loops.inputs
    (out,) = loops.outputs
    check_types((lhs, rhs), out)


def product(
    scope: Scope,
    factors: tuple[AnyTensor, AnyTensor],
    maps: Sequence[str],
    out: AnyTensor,
    begins_with_zero: bool,
    layouts: Mapping[str, Any] | None = None,
) -> Op:
    """The contraction of two tensors, whose sums begin with ``out``.

    ``layouts`` are the arguments for these, which are left out with a note where they do not fit.

    Raises:
        PlainLoops: for shapes that it does not take, which plain loops do.
    """
    given: dict[str, Any] = {} if begins_with_zero else {"init": type_of(scope, out)}

    def made(**layouts: Any) -> Op:
        return ops.contraction(
            type_of(scope, factors[0]),
            type_of(scope, factors[1]),
            indexing_maps=maps,
            result_dtype=out.element.storage[0],
            **given,
            **layouts,
        )

    try:
        plain_product = made()
    except OpError as error:
        raise PlainLoops(str(error)) from error
    try:
        return made(**layouts) if layouts else plain_product
    except OpError as error:
        scope.program.fell_back(str(error), LAYOUTS_UNUSED)
        return plain_product


def _multiplies_operands(loops: Loops) -> bool:
    """Whether the region adds products whose factors come from different operands."""
    block, count = loops.block, len(loops.inputs)
    made = {id(op.results[0]): op for op in block.operations[:-1] if op.results}
    reads = {id(argument): {place} for place, argument in enumerate(block.arguments[:count])}
    for op in block.operations[:-1]:
        found = set().union(*(reads.get(id(one), set()) for one in op.operands))
        reads.update((id(result), found) for result in op.results)
    for yielded in block.operations[-1].operands:
        total = made.get(id(yielded))
        for part in total.operands if total is not None and total.name in _SUMS else ():
            product = made.get(id(part))
            if product is not None and product.name in _SUMS.values():
                left, right = (reads.get(id(one), set()) for one in product.operands)
                if left and right and not left & right:
                    return True
    return False
