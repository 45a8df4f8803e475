"""Calls of the registry's ops in a Relax module, in the place of operators without loops."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import ir, relax, tirx

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.programs.base.relax_passes import relax_functions, with_functions

Lower = Callable[[relax.BlockBuilder, relax.Call], ir.Expr]
"""How ``LegalizeOps`` lowers an operator."""


class OpCalls:
    """The ops that a module calls, by the keys that mark their functions."""

    def __init__(self) -> None:
        self.ops: dict[str, Op] = {}

    def key_of(self, op: Op) -> str:
        """A key of its own for a function of an op."""
        key = f"{op.entry}_{len(self.ops)}"
        self.ops[key] = op
        return key

    def __call__(
        self,
        builder: relax.BlockBuilder,
        op: Op,
        operands: Sequence[ir.Expr],
        results: Sequence[relax.TensorType],
    ) -> list[ir.Expr]:
        """What an op gives for operands, of these types.

        Raises:
            OpError: for elements that the op's function has as words, and Relax as numbers.
        """
        check_numbers(op)
        key = self.key_of(op)
        function = op.prim_func().with_attr(OP_ATTRIBUTE, key).without_attr("global_symbol")
        called = relax.call_tir(builder.add_func(function, key), list(operands), list(results))
        given = builder.emit(called)
        if len(results) == 1:
            return [given]
        return [builder.emit(relax.TupleGetItem(given, i)) for i in range(len(results))]


def check_numbers(op: Op) -> None:
    """Raise OpError for an op whose function takes words where Relax has numbers."""
    if op.in_words is not op:
        raise OpError(f"{op}: a module of Relax has no words for the elements")


def operand_types(kinds: Sequence[relax.TensorType]) -> list[TensorType]:
    """The types of tensors as an op takes them: an extent that is no number has a name."""
    names: dict[str, str] = {}

    def extent(one: Any) -> int | str:
        if isinstance(one, tirx.IntImm):
            return int(one)
        return names.setdefault(str(one), f"n{len(names)}")

    return [TensorType(tuple(map(extent, one.shape.values)), str(one.dtype)) for one in kinds]


def axis_of(call: relax.Call) -> int:
    """The axis along which an operator works, from 0."""
    rank: Any = len(call.args[0].ty.shape.values)
    return int(call.attrs.axis) % rank


def by_default(builder: relax.BlockBuilder, call: relax.Call) -> ir.Expr:
    """What TVM lowers an operator to."""
    return call.op.get_attr("FLegalize")(builder, call)


def shaped(builder: relax.BlockBuilder, value: Any, shape: Sequence[Any]) -> Any:
    """A tensor by another shape, as a view."""
    return builder.emit(relax.op.reshape(value, relax.ShapeExpr(list(shape))))


def rewritten(mutator: Any, mod: ir.IRModule) -> ir.IRModule:
    """The module whose Relax functions a ``PyExprMutator`` of it went through."""
    changed = {var: mutator.visit_expr(one) for var, one in relax_functions(mod).items()}
    return with_functions(mutator.builder_.get(), changed)
