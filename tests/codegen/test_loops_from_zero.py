"""Loops that begin elsewhere, one in another."""

import numpy as np
import tvm
from tvm.script import tirx as T

from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.targets.names import make_target


@T.prim_func
def counted(counts: T.Buffer((8,), "int64")):
    for outer in range(T.int64(1), T.int64(5)):
        counts[outer] = T.int64(0)
        for inner in range(T.int64(1), T.int64(1) + T.min(T.int64(3), T.int64(6) - outer)):
            counts[outer] = counts[outer] + inner


def test_an_extent_inside_hangs_on_where_the_loop_outside_is():
    """Of 3, 3, 3 and 2 steps; TVM alone takes 3 in the last."""
    cpu_pipeline.register()
    kernel = tvm.compile(
        tvm.IRModule({"main": counted.with_attr("global_symbol", "main")}),
        target=make_target("llvm"),
        tir_pipeline=cpu_pipeline.CPU_PIPELINE,
    )
    counts = np.full(8, -1, "int64")
    kernel["main"](counts)
    steps = [min(3, 6 - outer) for outer in range(1, 5)]
    assert counts.tolist() == [-1, *(sum(range(1, 1 + n)) for n in steps), -1, -1, -1]
