"""An op whose schedule rule makes kernels that do what a config says: also in worker processes.

They import this module when they are sent an op of it.
"""

from collections.abc import Mapping
from typing import Any

from tvm import ir
from tvm.script import tirx as T

from tvm_iree_ext import registry
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.catalog.base.entry import OpEntry, exact
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.schedules import dispatch

N = 1000


class Doubled(Op):
    """Twice a vector."""

    name = "test.doubled"
    signature = Signature((Operand("x", (N,), "float32"), Operand("y", (N,), "float32", "result")))
    attributes: Mapping[str, Any] = {}

    def prim_func(self):
        return kernel(2.0, "labs", 0)

    def flops(self, extents=None):
        return N


def kernel(factor, function, argument):
    @T.prim_func(s_tir=True)
    def doubled(x: T.Buffer((N,), "float32", align=4), y: T.Buffer((N,), "float32", align=4)):
        for i in range(N):
            with T.sblock("y"):
                v = T.axis.spatial(N, i)
                y[v] = x[v] * T.float32(factor)
        T.evaluate(T.call_extern("int64", function, T.int64(argument)))

    return doubled


KERNELS = {
    "right": (2.0, "labs", 0),
    "wrong": (3.0, "labs", 0),
    "crash": (2.0, "raise", 11),
    "hang": (2.0, "sleep", 600),
}


class FaultyRule:
    name = "test.doubled"
    lowers = Doubled

    def applies(self, op, target):
        return None if isinstance(op, Doubled) else "it is for other ops"

    def heuristic(self, op, target):
        return LoweringConfig(algorithm="right")

    def lower(self, op, target, config):
        if config.algorithm == "build crash":
            import os

            os.abort()
        if config.algorithm == "build without memory":
            bytearray(1 << 46)
        if config.algorithm not in KERNELS:
            raise ScheduleError(f"test.doubled: algorithm is {config.algorithm!r}")
        return ir.IRModule({"doubled": kernel(*KERNELS[config.algorithm])})


dispatch.RULES = (FaultyRule(), *dispatch.RULES)
registry.ENTRIES[Doubled.name] = OpEntry(
    name=Doubled.name,
    summary="",
    make=Doubled,
    reference=lambda op, operands: {"y": operands["x"] * 2},
    tolerance=exact,
    random_case=lambda rng: (Doubled(), {}),
    run_example=lambda case, run: {},
)
