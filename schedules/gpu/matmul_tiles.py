"""The matrix product as blocks over whole tiles, before anything is scheduled.

lhs_registers, ...   the tiles of lhs and rhs on their way, where they stop in registers
lhs_tile, rhs_tile   what is multiplied, in shared memory; 0 beyond the edge
product              the accumulator, in registers
result               the accumulator, as far as the result reaches
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.nested import Ints


@dataclass(frozen=True)
class MatmulShape:
    """``result[m, n] = sum over k of lhs[m, k] * rhs[k, n]``.

    Attributes:
        m, n, k: extents.
        lhs_dtype, rhs_dtype, result_dtype: TVM's names; sums are of the result's type.
        lhs_order, rhs_order: the dims of an operand as they lie in memory, the contiguous one last:
            ``(1, 0)`` for ``lhs[k, m]`` and ``rhs[n, k]``.
    """

    m: int
    n: int
    k: int
    lhs_dtype: str
    rhs_dtype: str
    result_dtype: str
    lhs_order: Ints = (0, 1)
    rhs_order: Ints = (0, 1)

    def extents(self, side: str) -> Ints:
        """Extents of ``lhs`` or ``rhs``, as it lies in memory."""
        own = (self.m, self.k) if side == "lhs" else (self.k, self.n)
        return tuple(own[dim] for dim in self.order(side))

    def order(self, side: str) -> Ints:
        """The order of the dims of ``lhs`` or ``rhs`` in memory."""
        return self.lhs_order if side == "lhs" else self.rhs_order


def matmul_blocks(
    shape: MatmulShape,
    tile: Ints,
    runs: dict[str, int],
    scope: str,
    orders: dict[str, Ints],
    registers: frozenset[str],
) -> tirx.PrimFunc:
    """The func ``matmul(lhs, rhs, result)``.

    Args:
        shape: of the product.
        tile: of a workgroup: rows, columns and depth; operands are padded to multiples of it.
        runs: elements of ``lhs``, ``rhs`` and ``result`` that may be accessed at once: they divide
            the rows.
        scope: of shared memory; ``shared.dyn`` where a kernel has more than 48 KiB on CUDA.
        orders: of the dims of ``lhs`` and ``rhs`` in shared memory.
        registers: the operands whose tiles stop in registers on their way.
    """
    rows, columns, depth = (
        -(-extent // part) * part
        for extent, part in zip((shape.m, shape.n, shape.k), tile, strict=True)
    )
    whole = {"lhs": (rows, depth), "rhs": (depth, columns)}
    tiles: dict[str, Any] = {}
    dtype = shape.result_dtype
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("matmul")
        lhs = I.arg("lhs", _buffer(shape.extents("lhs"), shape.lhs_dtype))
        rhs = I.arg("rhs", _buffer(shape.extents("rhs"), shape.rhs_dtype))
        result = I.arg("result", _buffer((shape.m, shape.n), dtype))
        with I.sblock("root"):
            for side, source in (("lhs", lhs), ("rhs", rhs)):
                dtype_of, order = str(source.dtype), shape.order(side)
                if side in registers:
                    padded = tuple(whole[side][dim] for dim in order)
                    waiting = I.sblock_alloc_buffer(padded, dtype_of, scope="local")
                    _copy_padded(f"{side}_registers", source, waiting, runs[side])
                    source = waiting
                padded = tuple(whole[side][dim] for dim in orders[side])
                tiles[side] = I.sblock_alloc_buffer(padded, dtype_of, scope=scope)
                IRBuilder.name(shared_name(side), tiles[side])
                if order == orders[side]:
                    _copy_padded(f"{side}_tile", source, tiles[side], runs[side])
                else:
                    _copy_transposed(f"{side}_tile", source, tiles[side])
            accumulator = I.sblock_alloc_buffer((rows, columns), dtype, scope="local")
            with I.grid(rows, columns, depth) as loops, I.sblock("product"):
                i, j = I.axis.spatial(rows, loops[0]), I.axis.spatial(columns, loops[1])
                k = I.axis.reduce(depth, loops[2])
                with I.init():
                    I.buffer_store(accumulator, tirx.const(0, dtype), [i, j])
                first, second = (
                    _cast(tiles[side][tuple(index[dim] for dim in orders[side])], dtype)
                    for side, index in (("lhs", (i, k)), ("rhs", (k, j)))
                )
                I.buffer_store(accumulator, accumulator[i, j] + first * second, [i, j])
            # Over whole tiles, too, so that what a lane holds never depends on the edge.
            with I.grid(rows, columns) as loops, I.sblock("result"):
                i, j = I.axis.spatial(rows, loops[0]), I.axis.spatial(columns, loops[1])
                I.reads(accumulator[i, j])
                I.writes(result[i, j])
                # As wide numbers, of which the simplifier concludes nothing: else it would
                # leave out of the accumulator's index what is 0 for all that are inside.
                inside = _inside([i, j], accumulator, result, runs["result"], "int64")
                with ExitStack() as stack:
                    if inside is not None:
                        stack.enter_context(I.If(inside))
                        stack.enter_context(I.Then())
                    I.buffer_store(result, accumulator[i, j], [i, j])
    return builder.get()


def shared_name(side: str) -> str:
    """What the tile of ``lhs`` or ``rhs`` in shared memory is called."""
    return f"{side}_shared"


def _buffer(shape: Sequence[int], dtype: str) -> Any:
    return I.Buffer(shape, dtype)


def _cast(value: Any, dtype: str) -> Any:
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)


def _copy_padded(name: str, source: Any, target: Any, run: int) -> None:
    """``target = source``, and 0 beyond the source; ``run`` elements are inside, or all outside."""
    with I.grid(*target.shape) as loops, I.sblock(name):
        at = [I.axis.spatial(e, loop) for e, loop in zip(target.shape, loops, strict=True)]
        value = source[tuple(at)]
        inside = _inside(at, target, source, run)
        if inside is not None:
            value = tirx.if_then_else(inside, value, tirx.const(0, str(source.dtype)))
        I.buffer_store(target, value, at)


def _copy_transposed(name: str, source: Any, target: Any) -> None:
    with I.grid(*target.shape) as loops, I.sblock(name):
        at = [I.axis.spatial(e, loop) for e, loop in zip(target.shape, loops, strict=True)]
        I.buffer_store(target, source[tuple(reversed(at))], at)


def _inside(
    at: Sequence[Any], padded: Any, buffer: Any, run: int, dtype: str = "int32"
) -> Any | None:
    """Whether an index of ``padded`` is one of ``buffer``, the same for each run of elements."""
    inside: Any = None
    for dim, (index, extent) in enumerate(zip(at, buffer.shape, strict=True)):
        if int(extent) == int(padded.shape[dim]):
            continue
        step = run if dim == len(at) - 1 else 1
        number = index // step
        if dtype != "int32":
            number = tirx.Cast(dtype, number)
        condition = number < tirx.const(int(extent) // step, dtype)
        inside = condition if inside is None else tirx.And(inside, condition)
    return inside
