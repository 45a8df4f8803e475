"""The smallest kernel of a kind: one workgroup computes one tile, over several steps of K.

What tests compile, run and count for every row of the table; and the shortest example of a schedule
from fragments and TensorIntrins.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.intrin_descriptions import product_loops
from tvm_iree_ext.intrin.tensor_intrins import MmaIntrins, mma_intrins
from tvm_iree_ext.targets.mma.mma_kinds import tvm_dtype

Orders = dict[str, Sequence[int]]

_NAMES = {"lhs": "A", "rhs": "B", "lhs_scale": "A_scale", "rhs_scale": "B_scale", "acc": "C"}


def tile_product(
    name: str,
    *,
    steps: int = 2,
    shared: bool = False,
    transposed: Sequence[str] = (),
    ldmatrix: bool = False,
    column_major: bool = False,
) -> tirx.PrimFunc:
    """A scheduled PrimFunc ``C = A * B`` for one instruction's M and N, and ``steps`` times its K.

    Args:
        name: of a kind with fragments.
        steps: how many instructions follow each other along K.
        shared: stage the operands in shared memory.
        transposed: operands (``lhs``, ``rhs``) whose last two dims lie exchanged in memory; of a
            scaled kind those whose K, blocks and elements of them, comes last instead of first.
        ldmatrix: load them from shared memory by that instruction.
        column_major: with the transposed accumulator.

    Raises:
        TargetError: where the kind does not allow it.
    """
    intrins = mma_intrins(name, column_major=column_major)
    orders = {side: _order(intrins, side, side in transposed) for side in (*intrins.inputs, "acc")}
    sch = s_tir.Schedule(_product(intrins, steps, orders))
    block = sch.get_sblock("product")
    fragments = {}
    for at, side in enumerate(intrins.inputs):
        if shared:
            staged = sch.cache_read(block, at, "shared")
            fragments[side + ".shared"] = staged
        fragments[side] = sch.cache_read(block, at, "local")
        _transform(sch, block, ("read", at), intrins, side, orders[side])
    fragments["acc"] = sch.cache_write(block, 0, "local")
    _transform(sch, block, ("write", 0), intrins, "acc", orders["acc"])

    lead, (m, n, k, *inside) = _loops(sch, block, intrins)
    workgroup, m = sch.split(m, [1, None])
    step = k
    if (width := _first_depth(intrins)) > 1:
        step, k = sch.split(k, [None, width])
        inside = [k, *inside]
    sch.reorder(workgroup, step, *lead, m, n, *inside)
    sch.bind(workgroup, "blockIdx.x")
    inner = lead[0] if lead else m
    sch.reverse_compute_at(fragments["acc"], workgroup, preserve_unit_loops=True)
    _place_copies(sch, fragments, intrins, step, shared)
    for side in intrins.inputs:
        loaded = sch.get_loops(fragments[side])[2]
        scope = "shared" if shared else "global"
        sch.tensorize(loaded, intrins.load(side, scope, order=orders[side], ldmatrix=ldmatrix))
    init = sch.decompose_reduction(block, step)
    sch.tensorize(sch.get_loops(init)[1], intrins.fill())
    sch.tensorize(inner, intrins.multiply())
    sch.tensorize(sch.get_loops(fragments["acc"])[1], intrins.store("global"))
    return sch.mod["main"]


def _place_copies(
    sch: s_tir.Schedule, fragments: Mapping[str, Any], intrins: MmaIntrins, step: Any, shared: bool
) -> None:
    """Copies of all operands go to the front of a step, their fragments follow."""
    for side in reversed(intrins.inputs):
        sch.compute_at(fragments[side], step)
    for side in reversed(intrins.inputs) if shared else ():
        staged = fragments[side + ".shared"]
        sch.compute_at(staged, step, preserve_unit_loops=True, index=-2)
        copied = sch.fuse(*sch.get_loops(staged)[2:])
        _, lane = sch.split(copied, [None, intrins.mma.subgroup_size])
        sch.bind(lane, "threadIdx.x")


def _order(intrins: MmaIntrins, side: str, transposed: bool) -> Sequence[int]:
    """The dims of an operand as they lie in memory."""
    rank = len(intrins.dims(side))
    if not transposed:
        return range(rank)
    if intrins.mma.kind == "scaled":
        return (1, 2, 0) if side == "lhs" else (2, 0, 1)
    return [*range(rank - 2), rank - 1, rank - 2]


def _loops(sch: s_tir.Schedule, block: Any, intrins: MmaIntrins) -> tuple[list[Any], list[Any]]:
    """The product's loops: over blocks, then over M, N and K."""
    loops = list(sch.get_loops(block))
    count = intrins.mma.blocks > 1
    return loops[:count], loops[count:]


def _first_depth(intrins: MmaIntrins) -> int:
    """The extent of the first dim of K in one instruction."""
    dims = intrins.dims("lhs")
    return intrins.tile("lhs")[next(at for at, dim in enumerate(dims) if dim[0] == "K")]


def _product(intrins: MmaIntrins, steps: int, orders: Orders) -> tirx.PrimFunc:
    shapes = {}
    for side, order in orders.items():
        extents = list(intrins.tile(side))
        dims = intrins.dims(side)
        if (depth := next((at for at, dim in enumerate(dims) if dim[0] == "K"), None)) is not None:
            extents[depth] *= steps
        shapes[side] = [extents[dim] for dim in order]
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("main")
        buffers = []
        for side, name in _NAMES.items():
            if side in shapes:
                dtype = tvm_dtype(intrins.operand(side).dtype)
                buffers.append(I.arg(name, I.Buffer(shapes[side], dtype, align=16)))

        def at(side: str, index: list[Any]) -> tuple[Any, ...]:
            return tuple(index[dim] for dim in orders[side])

        with I.sblock("root"):
            product_loops(intrins, buffers, at, name="product", steps=steps, init=True)
    return builder.get()


def _transform(
    sch: s_tir.Schedule,
    block: Any,
    buffer: tuple[str, int],
    intrins: MmaIntrins,
    side: str,
    order: Sequence[int],
) -> None:
    """Lay a cached operand out as fragments, one for each step of K."""
    tile, dims = intrins.tile(side), intrins.dims(side)
    depth = next((at for at, dim in enumerate(dims) if dim[0] == "K"), None)

    def index_map(*memory: Any) -> list[Any]:
        index: list[Any] = [None] * len(tile)
        for at, dim in enumerate(order):
            index[dim] = memory[at]
        steps = []
        if depth is not None:
            steps = [index[depth] // tile[depth]]
            index[depth] = index[depth] % tile[depth]
        return [*steps, *intrins.place(side, index)]

    sch.transform_layout(block, buffer, _with_arity(index_map, len(order)))


def _with_arity(function: Any, count: int) -> Any:
    """TVM asks a function how many indices it takes."""
    if count == 2:
        return lambda i, j: function(i, j)
    return lambda b, i, j: function(b, i, j)
