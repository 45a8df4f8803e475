"""Operands of an exp_reduction while a kernel is emitted: fused dims, weights, regions."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.codegen.vector_math import NEGATIVE_EXP2
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.base.regions import Region
from tvm_iree_ext.ops.families.exp_reduction.exp_reduction import ExpReduction
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import At, Expr, Index, IterationSpace, OperandView, i64, serial
from tvm_iree_ext.schedules.shared.exp_reduction_plan import Accumulation, ReductionPlan

_LOG2E = math.log2(math.e)


@dataclass(frozen=True)
class ReductionOperands:
    """The PrimFunc's operands while it is built, addressed by the fused dims of a plan."""

    op: ExpReduction
    plan: ReductionPlan
    space: IterationSpace
    views: Mapping[str, OperandView]

    @staticmethod
    def declare(op: ExpReduction, plan: ReductionPlan) -> Parameters:
        """Name the PrimFunc under construction and add the parameters of ``op`` to it."""
        parameters = Parameters.declare(op)
        if not any("exp" in region.text for region in op.regions):
            I.func_attr({NEGATIVE_EXP2: True})  # every exponent is a score less the maximum
        return parameters

    @staticmethod
    def of(op: ExpReduction, plan: ReductionPlan, parameters: Parameters) -> "ReductionOperands":
        """The operands, inside the root block: their memory by its fused shape."""
        extents = [
            emit.product([parameters.extent(extent) for extent in group]) for group in plan.extents
        ]
        space = IterationSpace(tuple(extents))
        views = {}
        for operand in op.signature.operands:
            if operand.role == "scalar":
                continue
            name = operand.name.replace("init", "output").replace("result", "output")
            one, buffer = plan.maps[name], parameters.buffers[operand.name]
            shape = [i64(extents[axis[0]]) for axis in one.axes]
            if len(shape) != len(operand.shape):
                size = item_bytes(operand.dtype)
                buffer = I.decl_buffer(shape, operand.dtype, data=buffer.data, align=size)
                IRBuilder.name(operand.name, buffer)
            views[operand.name] = OperandView(buffer, one, space)
        return ReductionOperands(op, plan, space, views)

    def const(self, value: float) -> Expr:
        """A number of the compute type."""
        return tirx.const(value, self.op.compute_dtype)

    @property
    def lowest(self) -> Expr:
        """The most negative finite number of the compute type."""
        return tirx.min_value(self.op.compute_dtype)

    def power(self, difference: Expr) -> Expr:
        """The weight for a score less the maximum: never above 1."""
        if self.op.score_domain == "natural":
            difference = difference * self.const(_LOG2E)
        return tirx.exp2(difference)

    def element(self, name: str, dtype: str, at: At) -> Expr:
        """An operand's element, as a region takes it."""
        view = self.views[name]
        if dtype == "bool":
            return view.load(at, "int8") != tirx.const(0, "int8")
        return view.load(at, dtype)

    def call(
        self,
        region: Region,
        at: At,
        weight: Expr | None = None,
        own: tuple[int, Expr] | None = None,
    ) -> Expr:
        """Value of a region at a point, for a weight and the element of output ``own[0]``."""
        arguments: list[Any] = list(region.parameters)
        for i in self.plan.reads(region):
            dtype = str(region.parameters[i].ty.dtype)
            arguments[i] = weight if i == 0 else self.element(f"input{i}", dtype, at)
        if own is not None:
            arguments[len(self.op.inputs) + own[0]] = own[1]
        return region(*arguments)

    def state_dtype(self, output: int) -> str:
        """The type in which an output accumulates."""
        return str(self.op.regions[output].body.ty.dtype)

    def init(self, one: Accumulation, at: At) -> Expr:
        """The element that an output starts from."""
        return self.element(f"init{one.output}", self.state_dtype(one.output), at)

    def is_rescaled(self, one: Accumulation) -> bool:
        """Whether an output is rescaled with the maximum."""
        return one.output in self.op.exp_reduced_operands


def lane_loop(lanes: int) -> Any:
    """A loop over the lanes of a vector, or over the single element that is left."""
    return emit.vector_loop(lanes) if lanes > 1 else serial(1)


def along(length: Index, lanes: int, piece: Callable[[Index, int], None]) -> None:
    """``piece(place, lanes)`` for whole vectors of a run, then for single elements."""
    exact = emit.known(length)
    if exact is not None:
        length = exact
    whole = exact // lanes if exact is not None else tirx.floordiv(i64(length), i64(lanes))
    with serial(whole) as block:
        piece(block * lanes, lanes)
    with serial(length, whole * lanes) as place:
        piece(place, 1)
