"""TensorIntrins of ``wgmma``: four subgroups multiply tiles that lie in shared memory.

B is read from shared memory through a descriptor (:mod:`.shared_operands`), A from there or from
registers, and the accumulator is in registers.
"""

import functools
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.intrin import intrin_descriptions as functions
from tvm_iree_ext.intrin.fragments import fragment_shape
from tvm_iree_ext.intrin.intrin_descriptions import Functions, MmaTile
from tvm_iree_ext.intrin.nvidia import words
from tvm_iree_ext.intrin.shared_operands import SWIZZLE_MODES, SharedOperand
from tvm_iree_ext.intrin.tensor_intrins import registered
from tvm_iree_ext.targets.mma.mma_kinds import Mma, dtype_bits, tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_kind


class WgmmaIntrins(MmaTile):
    """The names of a warpgroup kind's TensorIntrins; each is registered when first asked for."""

    def __post_init__(self) -> None:
        if self.mma.kind != "warpgroup":
            raise TargetError(f"{self.mma.name}: no warpgroup kind; it is {self.mma.kind}")
        super().__post_init__()

    @property
    def _prefix(self) -> str:
        return f"tvm_iree_ext.{self.mma.name}"

    def fill(self) -> str:
        """The accumulator's fragment set to zero."""
        return registered(f"{self._prefix}.fill", lambda: functions.fill_functions(self))

    def store(self, scope: str = "global", *, widest_bytes: int = functions.WIDEST_BYTES) -> str:
        """The accumulator's fragment into row-major memory of its own type."""
        name = f"{self._prefix}.store.{scope}.{widest_bytes}B"
        return registered(name, lambda: functions.store_functions(self, scope, widest_bytes))

    def load_lhs(self, scope: str = "shared", *, order: Sequence[int] = (0, 1)) -> str:
        """A's tile of one instruction from memory into its fragment."""
        name = f"{self._prefix}.load_lhs.{scope}.{''.join(map(str, order))}"
        made = functools.partial(
            functions.load_functions, self, "lhs", scope, tuple(order), False,
            functions.WIDEST_BYTES,
        )  # fmt: skip
        return registered(name, made)

    def multiply(self, rhs: SharedOperand, lhs: SharedOperand | None = None) -> str:
        """``acc += lhs * rhs`` over ``rhs.steps`` instructions, and wait for them.

        ``lhs`` says how A lies in shared memory; without it A is in fragments
        ``[steps, subgroup, lane, register]``, without ``steps`` where it is 1.
        """
        if lhs is not None and lhs.steps != rhs.steps:
            raise TargetError(f"{self.mma.name}: {lhs.steps} steps of lhs, {rhs.steps} of rhs")
        source = lhs.key if lhs else "registers"
        name = f"{self._prefix}.mma{rhs.steps}.{source}.{rhs.key}"
        return registered(name, lambda: _multiply(self, lhs, rhs))


@functools.cache
def wgmma_intrins(name: str) -> WgmmaIntrins:
    """The TensorIntrins of a warpgroup kind.

    Raises:
        TargetError: for a kind that is unknown, or of one subgroup.
    """
    return WgmmaIntrins(mma_kind(name))


def _multiply(tile: MmaTile, lhs: SharedOperand | None, rhs: SharedOperand) -> Functions:
    mma = tile.mma
    steps = rhs.steps
    fragment = tile.operand("acc")

    def header() -> list[Any]:
        return [
            _shared("lhs", lhs) if lhs else _lhs_fragments(tile, steps),
            _shared("rhs", rhs),
            functions.fragment_argument("acc", fragment),
        ]

    def at(side: str, index: list[Any]) -> tuple[Any, ...]:
        if side == "acc":
            return tuple(tile.place("acc", index))
        if side == "rhs":
            k, n = index
            return tuple(rhs.index(n, k))
        m, k = index
        if lhs is not None:
            return tuple(lhs.index(m, k))
        step = [k // mma.k] if steps > 1 else []
        return (*step, *tile.place("lhs", [m, k % mma.k if steps > 1 else k]))

    def description() -> None:
        buffers = header()
        with I.sblock("root"):
            functions.product_accesses(buffers)
            functions.product_loops(tile, buffers, at, name="mma", steps=steps)

    def implementation() -> None:
        a, b, acc = buffers = header()
        with I.sblock("root"), ExitStack() as stack:
            functions.product_accesses(buffers)
            lanes = functions.MmaLanes(mma, stack)
            _issue(tile, lhs, rhs, a, b, acc, lanes)

    return functions.make_function(description), functions.make_function(implementation)


def _shared(name: str, operand: SharedOperand) -> Any:
    buffer = I.Buffer(
        operand.shape, tvm_dtype(operand.dtype), scope="shared", align=16, offset_factor=1
    )
    return I.arg(name, buffer)


def _lhs_fragments(tile: MmaTile, steps: int) -> Any:
    operand = tile.operand("lhs")
    shape = fragment_shape(operand)
    buffer = I.Buffer(
        (steps, *shape) if steps > 1 else shape,
        tvm_dtype(operand.dtype),
        scope="local",
        align=max(1, dtype_bits(operand.dtype) // 8),
        offset_factor=1,
    )
    return I.arg("lhs", buffer)


def _issue(
    tile: MmaTile,
    lhs: SharedOperand | None,
    rhs: SharedOperand,
    a: Any,
    b: Any,
    acc: Any,
    lanes: functions.MmaLanes,
) -> None:
    mma, operand = tile.mma, tile.operand("acc")
    load, store = lanes.registers(acc, operand)
    held = words(operand, load)
    registers = held
    in_place = mma.c == "f32"
    if not in_place:
        carried = I.alloc_buffer((len(held),), "uint32", scope="local")
        for place, word in enumerate(held):
            I.buffer_store(carried, word, [place])
        registers = [carried[place] for place in range(len(held))]
    # What was written to shared memory by ordinary stores is read past them.
    I.evaluate(T.ptx["fence.proxy.async.shared::cta"]())
    I.evaluate(T.ptx["wgmma.fence.sync.aligned"]())
    for step in range(rhs.steps):
        if lhs is None:
            first = [step] if rhs.steps > 1 else []
            read, _ = lanes.registers(a, tile.operand("lhs"), first)
            left = words(tile.operand("lhs"), read)
        else:
            left = [_descriptor(a, lhs, step)]
        right = _descriptor(b, rhs, step)
        I.evaluate(T.ptx[mma.ptx](*registers, *left, right, True, *immediates(mma, lhs, rhs)))
    I.evaluate(T.ptx["wgmma.commit_group.sync.aligned"]())
    I.evaluate(T.ptx["wgmma.wait_group.sync.aligned"](0))
    if not in_place:
        each = operand.elements_per_lane // len(held)
        dtype = tvm_dtype(mma.c) + (f"x{each}" if each > 1 else "")
        for place, register in enumerate(registers):
            store(each * place, each, tirx.reinterpret(dtype, register))


def immediates(mma: Mma, lhs: SharedOperand | None, rhs: SharedOperand) -> list[int]:
    """Signs, and which operands have M or N contiguous, as far as the instruction has them."""
    if mma.c == "i32":
        return []
    signs = [1, 1]
    if dtype_bits(mma.a) != 16:
        return signs
    left = [] if lhs is None else [int(not lhs.k_major)]
    return [*signs, *left, int(not rhs.k_major)]


def _descriptor(buffer: Any, operand: SharedOperand, step: int) -> Any:
    words_ = I.alloc_buffer((1,), "uint64", scope="local")
    encode_descriptor(words_, buffer.access_ptr("r", offset=operand.first(step)), operand)
    return words_[0]


def encode_descriptor(words_: Any, pointer: Any, operand: SharedOperand) -> None:
    """Put into ``words_[0]`` what the instruction is to know of a tile that begins at a pointer.

    Adding n moves the tile by 16 n bytes.
    """
    leading, stride = operand.strides
    mode = SWIZZLE_MODES[operand.swizzle_bytes]
    I.evaluate(T.cuda.wgmma.encode_matrix_descriptor(words_.data, pointer, leading, stride, mode))
