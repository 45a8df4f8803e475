"""Ops of operands without elements: results are empty, inits as they came, or sums of no terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.base.signature import Signature
from tvm_iree_ext.ops.base.block_nests import BlockNest
from tvm_iree_ext.ops.base.op import Op, UncountedOp, canonical
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.tir.tvm_modules import I, ir_builder, tirx


@dataclass(frozen=True, eq=False)
class OfNothing(UncountedOp):
    """An op on empty operands: copies of inits, or canonical TensorIR of whose loops few run."""

    of: Op
    extent: str = ""
    """One that turns out to be 0, where none is known to be."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """That of the op."""
        return self.of.name

    @property
    def own_numbers(self) -> frozenset[str]:  # type: ignore[override]
        """Those of the op."""
        return self.of.own_numbers

    @property
    def signature(self) -> Signature:
        """That of the op."""
        return self.of.signature

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the op."""
        return self.of.attributes

    @property
    def inits(self) -> dict[str, str] | None:
        """For each result with elements its init; None where a result has none."""
        known = self.signature.without(self.extent) if self.extent else {}
        return self.signature.of_nothing(known)


@canonical.register(OfNothing)
def canonical_of_nothing(op: OfNothing) -> tirx.PrimFunc:
    """A block for each result with elements, where they are inits."""
    if op.inits is None:
        return op.of.prim_func()
    with ir_builder.IRBuilder() as builder, I.prim_func(s_tir=True):
        parameters = Parameters.declare(op)
        with I.sblock("root"):
            for result, init in op.inits.items():
                source, target = (parameters.buffers[name] for name in (init, result))
                operands = {operand.name: operand for operand in op.signature.results}
                with BlockNest(f"copy_{result}", parameters, operands[result].shape) as at:
                    I.buffer_store(target, source[tuple(at)], at)
            if not op.inits:
                I.evaluate(tirx.const(0, "int32"))
    return builder.get()
