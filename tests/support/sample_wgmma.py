"""The smallest kernel of a warpgroup kind: four subgroups compute one tile, B in shared memory."""

from typing import Any

from tvm import s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.intrin_descriptions import product_loops
from tvm_iree_ext.intrin.shared_operands import SharedOperand
from tvm_iree_ext.intrin.wgmma import WgmmaIntrins, wgmma_intrins
from tvm_iree_ext.layout.analysis import Swizzle
from tvm_iree_ext.targets.mma.mma_kinds import Mma, tvm_dtype


def warpgroup_product(
    name: str,
    *,
    steps: int = 2,
    rounds: int = 2,
    lhs_in_registers: bool = False,
    lhs_k_major: bool = True,
    rhs_k_major: bool = True,
    swizzle_bytes: int = 0,
) -> tuple[tirx.PrimFunc, dict[str, Swizzle]]:
    """A scheduled PrimFunc ``C = A * B``, and the swizzles of its shared buffers.

    Args:
        name: of a warpgroup kind.
        steps: instructions along K for each tile in shared memory.
        rounds: tiles along K.
        lhs_in_registers: load A's fragments from its tile.
        lhs_k_major: whether A is ``[M, K]`` in memory, else ``[K, M]``.
        rhs_k_major: whether B is ``[N, K]`` in memory, else ``[K, N]``.
        swizzle_bytes: of both tiles; 0 for the widest that fits.

    Raises:
        TargetError: where the kind does not allow it.
    """
    intrins = wgmma_intrins(name)
    mma = intrins.mma
    majors = {"lhs": lhs_k_major, "rhs": rhs_k_major}
    operands = {
        side: SharedOperand(
            mma, side, steps, major, swizzle_bytes or _widest(mma, side, steps, major)
        )
        for side, major in majors.items()
    }
    sch = s_tir.Schedule(_product(intrins, operands, rounds))
    block = sch.get_sblock("product")
    staged, fragments = {}, None
    for at, side in enumerate(("lhs", "rhs")):
        staged[side] = sch.cache_read(block, at, "shared")
        if side == "lhs" and lhs_in_registers:
            fragments = sch.cache_read(block, at, "local")
            sch.transform_layout(block, ("read", at), _fragment_map(intrins, operands["lhs"]))
        else:
            sch.transform_layout(block, ("read", at), _shared_map(operands[side]))
    result = sch.cache_write(block, 0, "local")
    sch.transform_layout(block, ("write", 0), lambda m, n: intrins.place("acc", [m, n]))

    m, n, k = sch.get_loops(block)
    workgroup, m = sch.split(m, [1, None])
    k_round, k = sch.split(k, [rounds, None])
    sch.reorder(workgroup, k_round, m, n, k)
    sch.bind(workgroup, "blockIdx.x")
    sch.reverse_compute_at(result, workgroup, preserve_unit_loops=True)
    if fragments is not None:
        sch.compute_at(fragments, k_round)
    for tile in reversed(staged.values()):
        sch.compute_at(tile, k_round, index=-2)
        _, group, lane = sch.split(sch.fuse(*sch.get_loops(tile)[2:]), [None, 4, 32])
        sch.bind(group, "threadIdx.y")
        sch.bind(lane, "threadIdx.x")
    if fragments is not None:
        rows, depth = sch.get_loops(fragments)[2:]
        if lhs_k_major:
            step, depth = sch.split(depth, [steps, None])
            sch.reorder(step, rows, depth)
            order = (0, 1)
        else:
            step, rows = sch.split(rows, [steps, None])
            order = (1, 0)
        sch.tensorize(rows, intrins.load_lhs("shared", order=order))
    init = sch.decompose_reduction(block, k_round)
    sch.tensorize(sch.get_loops(init)[1], intrins.fill())
    lhs = None if lhs_in_registers else operands["lhs"]
    sch.tensorize(m, intrins.multiply(operands["rhs"], lhs))
    sch.tensorize(sch.get_loops(result)[1], intrins.store("global"))
    names = {"lhs": "A_shared", "rhs": "B_shared"}
    swizzles = {
        names[side]: swizzle
        for side, operand in operands.items()
        if (swizzle := operand.swizzle) and not (side == "lhs" and lhs_in_registers)
    }
    return sch.mod["main"], swizzles


def _widest(mma: Mma, side: str, steps: int, k_major: bool) -> int:
    """The widest swizzle whose rows fit the tile: exactly, where K is contiguous."""
    plain = SharedOperand(mma, side, steps, k_major, 16)
    row_bytes = plain.tile[1] * plain.bits // 8
    fitting = [size for size in (128, 64, 32) if row_bytes % size == 0]
    if k_major:
        fitting = [size for size in fitting if size == row_bytes]
    return fitting[0] if fitting else 16


def _shared_map(operand: SharedOperand) -> Any:
    rows, columns = operand.tile

    def index_map(row: Any, column: Any) -> list[Any]:
        if operand.k_major:
            return [column // columns, *operand.place(row, column % columns)]
        return [row // rows, *operand.place(row % rows, column)]

    return index_map


def _fragment_map(intrins: WgmmaIntrins, operand: SharedOperand) -> Any:
    depth = intrins.mma.k
    steps = operand.steps

    def index_map(first: Any, second: Any) -> list[Any]:
        m, k = (first, second) if operand.k_major else (second, first)
        inner = [k // depth % steps] if steps > 1 else []
        return [k // (depth * steps), *inner, *intrins.place("lhs", [m, k % depth])]

    return index_map


def _product(
    intrins: WgmmaIntrins, operands: dict[str, SharedOperand], rounds: int
) -> tirx.PrimFunc:
    mma = intrins.mma
    depth = rounds * operands["rhs"].steps * mma.k
    shapes = {
        "lhs": (mma.m, depth) if operands["lhs"].k_major else (depth, mma.m),
        "rhs": (mma.n, depth) if operands["rhs"].k_major else (depth, mma.n),
        "acc": (mma.m, mma.n),
    }
    dtypes = {"lhs": mma.a, "rhs": mma.b, "acc": mma.c}

    def at(side: str, index: list[Any]) -> tuple[Any, ...]:
        swapped = (side == "lhs" and not operands["lhs"].k_major) or (
            side == "rhs" and operands["rhs"].k_major
        )
        return tuple(reversed(index) if swapped else index)

    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("main")
        buffers = [
            I.arg(name, I.Buffer(shapes[side], tvm_dtype(dtypes[side]), align=16))
            for name, side in (("A", "lhs"), ("B", "rhs"), ("C", "acc"))
        ]
        with I.sblock("root"):
            steps = rounds * operands["rhs"].steps
            product_loops(intrins, buffers, at, name="product", steps=steps, init=True)
    return builder.get()
