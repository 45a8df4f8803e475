"""Clusters: workgroups that run together, as CUDA source says of a kernel.

A schedule binds ``clusterCtaIdx.x`` to the workgroups of a cluster, beside ``blockIdx.x`` of all.
TVM's runtime asks for clusters at the launch.  Ours launches by ``cuLaunchKernel``, which takes
them from the kernel alone: CUDA's guide, *Thread Block Clusters*, and ``cuda.h``,
``CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH``.
"""

import re
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.base.errors import BuildError

AXES = tuple(f"clusterCtaIdx.{axis}" for axis in "xyz")
"""Launch parameters: a cluster's workgroups along each dim."""


def cluster_of(kernel: tirx.PrimFunc) -> tuple[int, int, int] | None:
    """Workgroups of a kernel's clusters along x, y and z; None where it has no clusters.

    Raises:
        BuildError: where their number is not known.
    """
    found: dict[str, Any] = {}

    def see(node: Any) -> None:
        if str(node.attr_key) == "thread_extent" and str(node.node.thread_tag) in AXES:
            found[str(node.node.thread_tag)] = node.value

    tvm_ffi.structural_walk(kernel.body, (tirx.AttrStmt, see))
    if not found:
        return None
    if not all(isinstance(extent, tirx.IntImm) for extent in found.values()):
        raise BuildError("the workgroups of a cluster are no constant number")
    x, y, z = (int(found.get(axis, 1)) for axis in AXES)
    return x, y, z


def with_clusters(source: str, kernels: ir.IRModule) -> str:
    """CUDA source whose kernels say how many workgroups a cluster has."""
    for name, kernel in kernels.functions.items():
        if (extents := cluster_of(kernel)) is not None:
            sizes = ", ".join(map(str, extents))
            before = rf"(__global__ void )(?=[^;{{]*\b{name.name_hint}\()"
            source = re.sub(before, rf"\1__cluster_dims__({sizes}) ", source)
    return source
