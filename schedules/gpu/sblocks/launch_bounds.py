"""Launch bounds for CUDA's compiler: the least workgroups of a kernel that share a core."""

from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

LEAST_WORKGROUPS = "tirx.launch_bounds_min_blocks_per_sm"
"""The attribute of a kernel, given by a statement in it: ``ptxas`` leaves them their registers."""


def with_least_workgroups(func: tirx.PrimFunc, block: str, count: int) -> tirx.PrimFunc:
    """The function with the attribute in the kernel where subgroups execute ``block``."""

    def told(loop: tirx.For) -> tirx.For:
        if loop.thread_binding is None or loop.thread_binding.thread_tag != "threadIdx.y":
            return loop
        if block not in _blocks(loop.body):
            return loop
        body = tirx.AttrStmt(0, LEAST_WORKGROUPS, count, loop.body)
        return tirx.For(
            loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding,
            loop.annotations,
        )  # fmt: skip

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, told)))


def _blocks(body: Any) -> set[str]:
    found: set[str] = set()
    tvm_ffi.structural_walk(body, (s_tir.SBlock, lambda block: found.add(str(block.name_hint))))
    return found
