"""Ops of operands without elements: results are empty, inits as they came, or sums of no terms."""

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.signature import Signature
from tvm_iree_ext.ops.base.canonical_function import Block
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.base.parameters import Parameters


@dataclass(frozen=True, eq=False)
class OfNothing(Op):
    """What is left of an op: copies of inits, or its canonical TensorIR, of whose loops few run."""

    of: Op
    extent: str = ""
    """One that turns out to be 0, where none is known to be."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """That of the op."""
        return self.of.name

    @property
    def signature(self) -> Signature:
        """That of the op."""
        return self.of.signature

    @property
    def attributes(self) -> dict[str, Any]:
        """Those of the op."""
        return self.of.attributes

    @property
    def inits(self) -> dict[str, str] | None:
        """For each result with elements its init; None where a result has none."""
        known = self.signature.without(self.extent) if self.extent else {}
        return self.signature.of_nothing(known)

    def flops(self, extents: Any = None) -> int:
        """None."""
        return 0

    def prim_func(self) -> tirx.PrimFunc:
        """A block for each result with elements, where they are inits."""
        if self.inits is None:
            return self.of.prim_func()
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            parameters = Parameters.declare(self)
            with I.sblock("root"):
                for result, init in self.inits.items():
                    source, target = (parameters.buffers[name] for name in (init, result))
                    operands = {one.name: one for one in self.signature.results}
                    with Block(f"copy_{result}", parameters, operands[result].shape) as at:
                        I.buffer_store(target, source[tuple(at)], at)
                if not self.inits:
                    I.evaluate(tirx.const(0, "int32"))
        return builder.get()
