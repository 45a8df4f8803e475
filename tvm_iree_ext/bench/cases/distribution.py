"""The cases of to_layout, to_simt and to_simd: 1024 x 1024 float32, over 4 subgroups of 64 lanes.

``rows`` is a layout whose lanes hold runs of 16, ``columns`` one whose lanes lie side by side.
Peers permute the dims of the packed shape.
"""

from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Peer, Values
from tvm_iree_ext.bench.base.checks import exactly, normal_operands
from tvm_iree_ext.layout import NestedLayout

ROWS = NestedLayout((4, 1), (16, 16), (1, 1), (16, 4), (1, 16), (1, 0), (1, 16))
COLUMNS = NestedLayout((1, 4), (64, 4), (1, 1), (1, 64), (16, 1), (0, 1), (0, 1))


def distribution_cases() -> tuple[Case, ...]:
    """All of them."""
    layouts = {"rows": ROWS, "columns": COLUMNS}
    return (
        *(simt_case(name, layout) for name, layout in layouts.items()),
        *(simd_case(name, layout) for name, layout in layouts.items()),
        layout_case(ROWS),
    )


def simt_case(name: str, layout: NestedLayout) -> Case:
    """What the lanes hold, packed."""
    shape = layout.undistributed_shape
    op = ops.vector_ext.to_simt(shape, layout, **_hardware(layout), packed=True)

    def view(whole: Any, permute: Any) -> Any:
        return permute(whole.reshape(_by_dim(layout)), _packed_order(layout))

    return _case(f"to_simt_{name}", op, view)


def simd_case(name: str, layout: NestedLayout) -> Case:
    """The whole, from what the lanes hold, packed."""
    hardware = _hardware(layout)
    op = ops.vector_ext.to_simd(
        ops.vector_ext.to_simt(layout.undistributed_shape, layout, **hardware, packed=True)
        .signature.results[0]
        .shape,
        layout,
        **hardware,
    )

    def view(parts: Any, permute: Any) -> Any:
        order = _packed_order(layout)
        sizes = [_by_dim(layout)[axis] for axis in order]
        return permute(parts.reshape(sizes), [order.index(axis) for axis in range(len(order))])

    return _case(f"to_simd_{name}", op, view)


def layout_case(layout: NestedLayout) -> Case:
    """A copy."""
    op = ops.vector_ext.to_layout(layout.undistributed_shape, layout, operand_kind="vector")
    return _case("to_layout", op, lambda whole, permute: whole)


def _hardware(layout: NestedLayout) -> dict[str, Any]:
    return {"num_subgroups": layout.subgroup_period, "subgroup_size": layout.lane_period}


def _by_dim(layout: NestedLayout) -> list[int]:
    """The whole's extents, each dimension cut in five."""
    return [tiles[dim] for dim in range(layout.rank) for tiles in layout.tiles]


def _packed_order(layout: NestedLayout) -> list[int]:
    """The axes of :func:`_by_dim` as subgroups, lanes and packed elements have them."""
    order: list[int] = []
    for level, strides in ((0, layout.subgroup_strides), (3, layout.thread_strides)):
        dims = sorted(range(layout.rank), key=strides.__getitem__, reverse=True)
        order += [5 * dim + level for dim in dims]
    return order + [5 * dim + level for level in (1, 2, 4) for dim in range(layout.rank)]


def _case(name: str, op: Any, view: Any) -> Case:
    (source,) = op.signature.arguments
    shape = op.signature.results[0].shape

    def numpy_call(values: Values) -> Call:
        moved = view(values["input"], np.transpose)
        out = np.empty(shape, np.float32)
        into = out.reshape(moved.shape)

        def call() -> np.ndarray:
            np.copyto(into, moved)
            return out

        return call

    def torch_call(values: Values) -> Call:
        import torch

        moved = view(torch.from_numpy(values["input"]), torch.permute)
        out = torch.empty(shape)
        into = out.reshape(moved.shape)

        def call() -> Any:
            into.copy_(moved)
            return out

        return call

    return Case(
        name=f"{name}_1024x1024",
        op=op,
        operands=normal_operands({"input": source.shape}),
        check=lambda values: exactly(numpy_call(values)()),
        peers=(Peer(NUMPY, numpy_call), Peer(TORCH, torch_call)),
    )
