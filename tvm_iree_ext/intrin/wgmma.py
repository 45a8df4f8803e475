"""TensorIntrins of ``wgmma``: four subgroups multiply tiles that lie in shared memory.

B is read from shared memory through a descriptor, A from there or from registers, and the
accumulator is in registers.  Operands in shared memory lie in *atoms*: rows of 16 bytes, or of 32,
64 or 128 bytes whose 16-byte columns are swizzled.  A tile ``[rows, columns]`` (contiguous columns)
is stored as ``[columns / width, rows, width]``, where ``width`` elements are a row of an atom.

    K-major      the columns are K: a tile ``[M, K]`` of A, or ``[N, K]`` of B
    MN-major     the columns are M or N (16-bit types only)

Sources: PTX ISA, wgmma matrix layouts; the strides of the descriptor are those of CUTLASS's
canonical layouts.
"""

import functools
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.intrin import intrin_descriptions as functions
from tvm_iree_ext.intrin.fragments import fragment_shape
from tvm_iree_ext.intrin.intrin_descriptions import Functions, MmaTile
from tvm_iree_ext.intrin.nvidia import words
from tvm_iree_ext.intrin.tensor_intrins import registered
from tvm_iree_ext.layout.analysis import Swizzle
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.targets.mma.mma_kinds import Mma, dtype_bits, tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_kind

_UNIT_BYTES = 16  # descriptors count in these
_ROWS = 8  # of an atom
_MODES = {16: 0, 32: 1, 64: 2, 128: 3}  # swizzle_bytes -> CUtensorMapSwizzle


@dataclass(frozen=True)
class SharedOperand:
    """Shared-memory placement of ``steps`` instructions' tiles of A or B.

    Attributes:
        mma: the kind.
        side: ``lhs`` or ``rhs``.
        steps: instructions along K that one tile serves.
        k_major: whether K is contiguous.
        swizzle_bytes: of a row of an atom: 16 (not swizzled), 32, 64 or 128.
    """

    mma: Mma
    side: str
    steps: int = 1
    k_major: bool = True
    swizzle_bytes: int = 128

    def __post_init__(self) -> None:
        if self.swizzle_bytes not in _MODES:
            raise TargetError(
                f"{self.mma.name}: swizzle of {self.swizzle_bytes} bytes; there are 16 (none), 32,"
                " 64 and 128"
            )
        if not self.k_major and self.bits != 16:
            raise TargetError(
                f"{self.mma.name}: {self.side} of {self.bits} bits must have K contiguous; only"
                " 16-bit types may have M or N"
            )
        if self.tile[1] % self.width:
            raise TargetError(
                f"{self.mma.name}: rows of {self.tile[1]} elements of {self.side} are no multiple"
                f" of the {self.width} of a swizzle of {self.swizzle_bytes} bytes"
            )
        if self.k_major and self.swizzle_bytes > _UNIT_BYTES and self.tile[1] > self.width:
            raise TargetError(
                f"{self.mma.name}: K of {self.tile[1]} is more than the {self.width} elements of"
                f" one swizzled row; take at most {self.steps * self.width // self.tile[1]} steps"
            )

    @property
    def dtype(self) -> str:
        """By the table's name."""
        return self.mma.a if self.side == "lhs" else self.mma.b

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return dtype_bits(self.dtype)

    @property
    def tile(self) -> Ints:
        """Rows and columns of the whole tile; columns are contiguous."""
        depth = self.steps * self.mma.k
        other = self.mma.m if self.side == "lhs" else self.mma.n
        return (other, depth) if self.k_major else (depth, other)

    @property
    def width(self) -> int:
        """Elements of a row of an atom."""
        return self.swizzle_bytes * 8 // self.bits

    @property
    def shape(self) -> Ints:
        """Shape of the buffer: ``[columns / width, rows, width]``, without a first extent of 1."""
        rows, columns = self.tile
        atoms = (columns // self.width,) if columns > self.width else ()
        return (*atoms, rows, self.width)

    @property
    def swizzle(self) -> Swizzle | None:
        """Swizzle of the buffer's accesses; see :mod:`.swizzle`."""
        if self.swizzle_bytes == _UNIT_BYTES:
            return None
        return Swizzle(self.width, _UNIT_BYTES * 8 // self.bits, 128 // self.swizzle_bytes)

    def place(self, row: Any, column: Any) -> list[Any]:
        """Indices in the buffer of the tile's element at a row and column."""
        if self.tile[1] == self.width:
            return [row, column]
        return [column // self.width, row, column % self.width]

    def index(self, outer: Any, k: Any) -> list[Any]:
        """The place of the element at ``outer`` (M or N) and ``k``."""
        return self.place(outer, k) if self.k_major else self.place(k, outer)

    def first(self, step: int) -> int:
        """The element at which an instruction's tile begins."""
        depth = step * self.mma.k
        if not self.k_major:
            return depth * self.width
        return depth // self.width * self.tile[0] * self.width + depth % self.width

    @property
    def strides(self) -> Ints:
        """The descriptor's leading and stride offsets, in units of 16 bytes."""
        group = _ROWS * self.swizzle_bytes // _UNIT_BYTES  # from 8 rows to the next
        atom = self.tile[0] * self.swizzle_bytes // _UNIT_BYTES  # from an atom to the next
        if self.k_major:
            return (atom if self.swizzle_bytes == _UNIT_BYTES else 1, group)
        return (group, atom) if self.swizzle_bytes == _UNIT_BYTES else (atom, group)

    @property
    def key(self) -> str:
        """For names."""
        return f"{'k' if self.k_major else 'mn'}{self.swizzle_bytes}"


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
    mode = _MODES[operand.swizzle_bytes]
    I.evaluate(T.cuda.wgmma.encode_matrix_descriptor(words_.data, pointer, leading, stride, mode))
