"""Descriptions and implementations of the TensorIntrins of a matrix instruction.

A description says in plain loops which element of memory is which element of a fragment, or what
the product is.  An implementation binds ``threadIdx.x`` to the lanes of a subgroup, and
``threadIdx.y`` to the subgroups that share the instruction.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.intrin import amd, amd_sparse, fma_intrins, fragments, nvidia
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.targets.mma.mma_kinds import Mma, MmaOperand, dtype_bits, tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_table

WIDEST_BYTES = 16

Functions: TypeAlias = tuple[tirx.PrimFunc, tirx.PrimFunc]
"""A description and an implementation."""


def exchanged(mma: Mma) -> Mma:
    """The kind to call with A and B exchanged: the same, or that of the exchanged types.

    Raises:
        TargetError: where the accumulator of the exchanged call is not the transposed one.
    """
    if not mma.column_major:
        raise TargetError(f"{mma.name}: its A and B are not each other's transposes")
    if mma.a == mma.b:
        return mma
    shape = (mma.kind, mma.arch, mma.m, mma.n, mma.k, mma.b, mma.a, mma.c)
    for other in mma_table().values():
        if shape == (
            other.kind, other.arch, other.m, other.n, other.k, other.a, other.b, other.c
        ):  # fmt: skip
            return other
    raise TargetError(f"{mma.name}: no kind multiplies {mma.b} by {mma.a}")


@dataclass(frozen=True)
class MmaTile:
    """One instruction's tile: what its buffers hold, and where each element of a fragment lies.

    ``column_major`` exchanges A and B in the call, so that the accumulator's fragment is that of
    the transposed product: a lane then holds a run of a row where it held one of a column.
    """

    mma: Mma
    column_major: bool = False

    def __post_init__(self) -> None:
        if self.column_major:
            exchanged(self.mma)

    def operand(self, side: str) -> MmaOperand:
        """The operand as its buffers hold it."""
        return fragments.packed(self.mma.operand(side))

    def place(self, side: str, index: Sequence[Any]) -> list[Any]:
        """Lane and register of the element at ``index`` within one instruction's tile.

        ``index`` has the operand's dims: M and K, K and N, M and N, after the blocks.
        """
        index = list(index)
        if side == "acc" and self.column_major:
            index[-2:] = index[:-3:-1]
        found = fragments.place(self.operand(side), index)
        return [tirx.const(x, "int32") if isinstance(x, int) else x for x in found]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The operands that are multiplied, in the order of the TensorIntrin's parameters."""
        scaled = self.mma.kind == "scaled"
        return ("lhs", "rhs", "lhs_scale", "rhs_scale") if scaled else ("lhs", "rhs")

    def dims(self, side: str) -> tuple[str, ...]:
        """The dims of an operand, by name."""
        if self.mma.kind == "warpgroup" and side == "rhs":  # which is in no registers
            return ("K", "N")
        return self.mma.operand(side).dims

    def tile(self, side: str) -> Ints:
        """The extents of the operand's tile in memory."""
        return self.operand(side).extents


def _memory(name: str, operand: MmaOperand, order: Sequence[int], scope: str) -> Any:
    shape = [operand.extents[dim] for dim in order]
    dtype = tvm_dtype(operand.dtype)
    strides = [tirx.Var(f"{name}_stride{dim}", "int32") for dim in range(len(shape) - 1)]
    buffer = I.Buffer(
        shape, dtype, scope=scope, strides=[*strides, 1], offset_factor=1,
        align=max(1, dtype_bits(operand.dtype) // 8),
    )  # fmt: skip
    return I.arg(name, buffer)


def fragment_argument(name: str, operand: MmaOperand) -> Any:
    """A parameter: the fragment of one instruction's operand."""
    dtype = tvm_dtype(operand.dtype)
    align = max(1, dtype_bits(operand.dtype) // 8)
    shape = fragments.fragment_shape(operand)
    buffer = I.Buffer(shape, dtype, scope="local", offset_factor=1, align=align)
    return I.arg(name, buffer)


def make_function(body: Callable[[], None]) -> tirx.PrimFunc:
    """The PrimFunc that ``body`` emits."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        body()
    return builder.get()


def _whole(buffer: Any) -> Any:
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]


class MmaLanes:
    """The lanes that run an implementation: ``threadIdx.x``, and ``threadIdx.y`` of several."""

    def __init__(self, mma: Mma, stack: ExitStack) -> None:
        self.size = mma.subgroup_size
        self.lane = stack.enter_context(I.thread_binding(0, mma.subgroup_size, "threadIdx.x"))
        self.group: Any = 0
        if mma.num_subgroups > 1:
            self.group = stack.enter_context(I.thread_binding(0, mma.num_subgroups, "threadIdx.y"))

    def registers(
        self, buffer: Any, operand: MmaOperand, first: Sequence[Any] = ()
    ) -> tuple[nvidia.Load, nvidia.Store]:
        """Access to a lane's registers; ``first`` are the indices before subgroup and lane."""
        parts = fragments.fragment_lanes(operand)
        lane = self.lane if parts == self.size else fragments.fragment_lane(operand, self.lane)
        lead = [*first, *([self.group] if prod(operand.subgroup) > 1 else []), lane]

        def load(start: int, count: int) -> Any:
            index = (*lead, _ramp(start, count))
            return buffer[index]

        def store(start: int, count: int, value: Any) -> None:
            I.buffer_store(buffer, value, [*lead, _ramp(start, count)])

        return load, store


def _ramp(start: Any, count: int) -> Any:
    return tirx.Ramp(start, tirx.const(1, "int32"), count) if count > 1 else start


def load_functions(
    tile: MmaTile, side: str, scope: str, order: Ints, by_ldmatrix: bool, widest: int
) -> Functions:
    """From memory, its dims in ``order``, into the fragment of ``side``."""
    operand = tile.operand(side)

    def description() -> None:
        source, fragment = (
            _memory("source", operand, order, scope),
            fragment_argument("fragment", operand),
        )
        with I.sblock("root"):
            I.reads(_whole(source))
            I.writes(_whole(fragment))
            _copy(tile, side, fragment, source, order, into_memory=False)

    def implementation() -> None:
        source, fragment = (
            _memory("source", operand, order, scope),
            fragment_argument("fragment", operand),
        )
        with I.sblock("root"), ExitStack() as stack:
            I.reads(_whole(source))
            I.writes(_whole(fragment))
            lanes = MmaLanes(tile.mma, stack)
            _, store = lanes.registers(fragment, operand)
            if by_ldmatrix:
                form = nvidia.ldmatrix_form(operand, order)
                assert form is not None  # checked when it was asked for
                nvidia.ldmatrix(
                    operand, form, lanes.lane, lambda at: _pointer(source, at, order), store
                )
                return
            for start, count, index in _runs(operand, lanes, order[-1], widest):
                at = [index[dim] for dim in order]
                at[-1] = _ramp(at[-1], count)
                store(start, count, source[tuple(at)])

    return make_function(description), make_function(implementation)


def _pointer(source: Any, at: Sequence[Any], order: Ints) -> Any:
    """The address of an element; not ``address_of``, which TVM takes for no read of the buffer."""
    offset = sum((at[dim] * stride for dim, stride in zip(order, source.strides, strict=True)), 0)
    return source.access_ptr("r", offset=offset)


def _runs(
    operand: MmaOperand, lanes: MmaLanes, fastest: int, widest: int
) -> list[tuple[int, int, list[Any]]]:
    """First register, count and index of each access that moves a lane's registers."""
    length = fragments.run(operand, fastest)
    bits = dtype_bits(operand.dtype)
    count = next(n for n in range(length, 0, -1) if length % n == 0 and n * bits <= 8 * widest)
    return [
        (start, count, fragments.coords(operand, lanes.lane, lanes.group, start))
        for start in range(0, operand.elements_per_lane, count)
    ]


def _copy(
    tile: MmaTile, side: str, fragment: Any, memory: Any, order: Ints, *, into_memory: bool
) -> None:
    """The loops that describe a copy between memory and a fragment."""
    extents = [tile.tile(side)[dim] for dim in order]
    with _axes(extents, "copy") as axes:
        index: list[Any] = [None] * len(order)
        for at, dim in enumerate(order):
            index[dim] = axes[at]
        inside = (fragment, tile.place(side, index))
        outside = (memory, axes)
        (source, place_), (target, at_) = (inside, outside) if into_memory else (outside, inside)
        I.reads(source[tuple(place_)])
        I.writes(target[tuple(at_)])
        I.buffer_store(target, source[tuple(place_)], at_)


@contextmanager
def _axes(extents: Sequence[int], name: str, reductions: int = 0) -> Iterator[list[Any]]:
    """A block over ``extents``, and its axes; one of extent 1 is no axis, as in a schedule.

    The last ``reductions`` axes are summed over.
    """
    with ExitStack() as stack:
        wide = [extent for extent in extents if extent > 1]
        loops = list(stack.enter_context(I.grid(*wide)))
        stack.enter_context(I.sblock(name))
        axes: list[Any] = []
        for at, extent in enumerate(extents):
            kind = I.axis.spatial if at < len(extents) - reductions else I.axis.reduce
            axes.append(kind(extent, loops.pop(0)) if extent > 1 else tirx.const(0, "int32"))
        yield axes


def store_functions(tile: MmaTile, scope: str, widest: int) -> Functions:
    """From the accumulator's fragment into row-major memory."""
    operand = tile.operand("acc")
    order = tuple(range(len(operand.dims)))

    def header() -> tuple[Any, Any]:
        return fragment_argument("fragment", operand), _memory("target", operand, order, scope)

    def description() -> None:
        fragment, target = header()
        with I.sblock("root"):
            I.reads(_whole(fragment))
            I.writes(_whole(target))
            _copy(tile, "acc", fragment, target, order, into_memory=True)

    def implementation() -> None:
        fragment, target = header()
        with I.sblock("root"), ExitStack() as stack:
            I.reads(_whole(fragment))
            I.writes(_whole(target))
            lanes = MmaLanes(tile.mma, stack)
            load, _ = lanes.registers(fragment, operand)
            fastest = order[-2] if tile.column_major else order[-1]
            for start, count, index in _runs(operand, lanes, fastest, widest):
                if tile.column_major:
                    index[-2:] = index[:-3:-1]
                at = [*index[:-1], _ramp(index[-1], count)]
                I.buffer_store(target, load(start, count), at)

    return make_function(description), make_function(implementation)


def fill_functions(tile: MmaTile) -> Functions:
    """The accumulator's fragment set to zero."""
    operand = tile.operand("acc")
    zero = tirx.const(0, tvm_dtype(operand.dtype))

    def description() -> None:
        fragment = fragment_argument("fragment", operand)
        with I.sblock("root"):
            I.reads()
            I.writes(_whole(fragment))
            with _axes(tile.tile("acc"), "fill") as axes:
                where = tile.place("acc", axes)
                I.reads()
                I.writes(fragment[tuple(where)])
                I.buffer_store(fragment, zero, where)

    def implementation() -> None:
        fragment = fragment_argument("fragment", operand)
        with I.sblock("root"), ExitStack() as stack:
            I.reads()
            I.writes(_whole(fragment))
            _, store = MmaLanes(tile.mma, stack).registers(fragment, operand)
            count = min(operand.elements_per_lane, WIDEST_BYTES * 8 // dtype_bits(operand.dtype))
            for start in range(0, operand.elements_per_lane, count):
                store(start, count, tirx.Broadcast(zero, count) if count > 1 else zero)

    return make_function(description), make_function(implementation)


def multiply_functions(tile: MmaTile) -> Functions:
    """The instruction, or the several of a virtual kind, on fragments."""
    mma = tile.mma
    operands = {side: tile.operand(side) for side in (*tile.inputs, "acc")}

    def header() -> list[Any]:
        return [fragment_argument(name, operand) for name, operand in operands.items()]

    def description() -> None:
        buffers = header()
        with I.sblock("root"):
            product_accesses(buffers)
            product_loops(tile, buffers, lambda *at: tuple(tile.place(*at)), name="mma")

    def implementation() -> None:
        buffers = header()
        with I.sblock("root"), ExitStack() as stack:
            product_accesses(buffers)
            lanes = MmaLanes(mma, stack)
            registers = {
                side: lanes.registers(buffer, operand)
                for buffer, (side, operand) in zip(buffers, operands.items(), strict=True)
            }
            multiply(tile, registers, lanes.lane)

    return make_function(description), make_function(implementation)


def multiply(
    tile: MmaTile, registers: Mapping[str, tuple[nvidia.Load, nvidia.Store]], lane: Any
) -> None:
    """Emit the instruction, or the several of a virtual kind, on a lane's registers by side."""
    mma = tile.mma
    operands = {side: tile.operand(side) for side in registers}
    load, store = registers["acc"]
    if mma.kind == "virtual_sparse":
        a, b = (registers[side][0] for side in ("lhs", "rhs"))
        call = functools.partial(amd.sparse_call, mma)
        amd_sparse.multiply(mma, a, b, load, store, lane, call)
        return
    if mma.kind == "fma":
        fma_intrins.multiply_add(mma, registers["lhs"][0], registers["rhs"][0], load, store)
        return
    kind = _base(exchanged(mma) if tile.column_major else mma)
    sides = ["rhs", "lhs"] if tile.column_major else ["lhs", "rhs"]
    for number in range(_calls(mma)):
        first, second = (_sliced(registers[side][0], number, operands[side], mma) for side in sides)
        if mma.vendor == "nvidia":
            nvidia.mma_sync(kind, first, second, load, store)
            continue
        counts = [operands[side].elements_per_lane // _calls(mma) for side in sides]
        scales = [registers[f"{side}_scale"][0](0, 1) for side in sides if mma.kind == "scaled"]
        count = operands["acc"].elements_per_lane
        value = amd.call(kind, first(0, counts[0]), second(0, counts[1]), load(0, count), scales)
        store(0, count, value)


def product_accesses(buffers: Sequence[Any]) -> None:
    """Declare the reads and writes of a product of whole buffers."""
    *inputs, acc = buffers
    I.reads(*map(_whole, (acc, *inputs)))
    I.writes(_whole(acc))


def _calls(mma: Mma) -> int:
    return int(mma.composed_of["count"]) if mma.composed_of else 1


def _base(mma: Mma) -> Mma:
    return mma_table()[mma.composed_of["base"]] if mma.composed_of else mma


def _sliced(load: nvidia.Load, call: int, operand: MmaOperand, mma: Mma) -> nvidia.Load:
    """The registers of one of the native calls of a virtual kind."""
    first = call * (operand.elements_per_lane // _calls(mma))
    return lambda start, count: load(first + start, count)


def product_loops(
    tile: MmaTile,
    buffers: Sequence[Any],
    at: Callable[[str, list[Any]], tuple[Any, ...]],
    *,
    name: str,
    steps: int = 1,
    init: bool = False,
) -> None:
    """Emit the product as one block over M, N and ``steps`` times K, after the blocks if any.

    ``buffers`` are of the tile's inputs and acc; ``at`` gives the place in a side's buffer of an
    element by its index in the operand's dims.
    """
    mma = tile.mma
    extents = {"M": mma.m, "N": mma.n}
    if "B" in tile.operand("acc").dims:
        extents = {"B": mma.blocks} | extents
    inside = dict(zip(tile.dims("lhs"), tile.tile("lhs"), strict=True))
    depth = [dim for dim in inside if dim[0] == "K"]
    extents |= {dim: inside[dim] * (steps if dim == depth[0] else 1) for dim in depth}
    dtype = tvm_dtype(mma.c)
    with _axes(list(extents.values()), name, reductions=len(depth)) as axes:
        axis = dict(zip(extents, axes, strict=True))
        sides = (*tile.inputs, "acc")
        places = [at(side, [axis[dim] for dim in tile.dims(side)]) for side in sides]
        *given, old = (buffer[where] for buffer, where in zip(buffers, places, strict=True))
        I.reads(*([] if init else [old]), *given)
        I.writes(old)
        acc, at_c = buffers[-1], list(places[-1])
        if init:
            with I.init():
                I.buffer_store(acc, tirx.const(0, dtype), at_c)
        total = old
        lhs, rhs = map(_numbers, given, (mma.a, mma.b))
        scales = [_cast(value, dtype) for value in given[2:]]
        for a, b in zip(lhs, rhs, strict=True):
            factors = [_cast(a, dtype), _cast(b, dtype), *scales]
            total = total + functools.reduce(operator.mul, factors)
        I.buffer_store(acc, total, at_c)


def _numbers(value: Any, dtype: str) -> list[Any]:
    """The elements of a buffer's element: of a byte that holds two of 4 bits, low then high."""
    if dtype_bits(dtype) != 4:
        return [value]
    four = tirx.const(4, "int8")
    if dtype == "i4":
        return [(value << four) >> four, value >> four]
    return [_four_bit_float(value), _four_bit_float(value >> four)]


def _four_bit_float(value: Any) -> Any:
    """The low four bits of a byte, a sign, two bits of exponent and one of fraction, as float32."""
    word = tirx.Cast("int32", value)
    bits = ((word & 8) << 28) | ((word & 7) << 22)
    return tirx.reinterpret("float32", bits) * tirx.const(2.0**126, "float32")


def _cast(value: Any, dtype: str) -> Any:
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)
