"""Kernels that access what is outside of an array, for processes that may crash of it."""

import dataclasses

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.script import tirx as T

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.schedules import dispatch
from tvm_iree_ext.verify import kernel_checks

COUNT = 1000
SIGNATURE = Signature(
    (Operand("x", (COUNT,), "float32"), Operand("y", (COUNT,), "float32", "result"))
)


def moved(load: int = 0, store: int = 0, scratch: int = 0, written: int = COUNT):
    """``y = 2 x`` by way of a workspace, with indices so far off, or not all of it written."""

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((COUNT,), "float32", align=4), y: T.Buffer((COUNT,), "float32", align=4)):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        with T.sblock("root"):
            twice = T.sblock_alloc_buffer((COUNT,), "float32")
            for element in T.serial(written):
                with T.sblock("twice"):
                    ve = T.axis.spatial(COUNT, element)
                    twice[ve + scratch] = T.float32(2) * x[ve + load]
            for element in T.serial(COUNT):
                with T.sblock("store"):
                    ve = T.axis.spatial(COUNT, element)
                    y[ve + store] = twice[ve]

    return main


class OneTooFar:
    """A rule that reads the element behind the one that is meant, of the first operand."""

    name = "one too far"

    def applies(self, op, target):
        return None

    def heuristic(self, op, target):
        return LoweringConfig()

    def lower(self, op, target, config):
        func = op.prim_func()
        first = op.signature.arguments[0].name

        def further(load):
            if load.source.name != first:
                return load
            return tirx.BufferLoad(load.source, [*load.indices[:-1], load.indices[-1] + 1])

        body = tvm_ffi.structural_map(func.body, (TensorLoad, further))
        return ir.IRModule({op.entry: func.with_body(body)})


@dataclasses.dataclass(frozen=True)
class Planted(kernel_checks.RandomCase):
    """A random case whose kernel is of :class:`OneTooFar`."""

    def check(self, run):
        dispatch.RULES = (OneTooFar(),)
        return super().check(run)
