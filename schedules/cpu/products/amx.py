"""Intel's AMX: registers that hold tiles, and instructions that multiply them.

A thread has eight tiles of 16 rows of 16 words of 32 bits.  A word holds neighbours in depth, two
bfloat16 or four int8, and one instruction does

    sums[i, j] += sum over words k, neighbours g of a[i, k][g] * b[k, j][g]

so rows of ``a`` lie in memory as they are, and of ``b`` neighbours in depth lie together.  Sums of
bfloat16 are in float32, where numbers below its smallest normal one count as 0; of int8 in int32.

Linux has room for these registers in a process that has asked for it, and ends one that has not:
a kernel asks when it is called, and fails where the answer is no.  How large tiles are is a
thread's own setting, made by each task.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import KERNEL_ERROR
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known
from tvm_iree_ext.targets.cpu import CpuFeatures

TILE = 16
"""Rows of a tile, and words in a row."""

TILES = 8
"""Tiles of a thread."""

_WORD_BYTES = 4
_UNROLLED_STEPS = 4


@dataclass(frozen=True)
class TilePlace:
    """A tile in memory: its first element, and from one row to the next, in words."""

    buffer: Any
    index: tuple[Index, ...]
    stride: int


@dataclass(frozen=True)
class TileProduct:
    """One instruction, by what it multiplies: ``group`` neighbours of ``dtype`` in a word."""

    dtype: str
    group: int
    sums: str
    intrinsic: str

    def multiply(
        self,
        *,
        rows: int,
        columns: int,
        depth: Index,
        a: Callable[[int, Expr], TilePlace],
        b: Callable[[Expr, int], TilePlace],
        sums: Callable[[int, int], TilePlace],
        carried: bool,
    ) -> None:
        """``sums(i, j) = sum_k a(i, k) * b(k, j)``, of tiles; ``carried`` adds it to what is there.

        All sums, a column of a and a row of b are in registers: see :func:`fits`.
        """
        places = [(i, j) for i in range(rows) for j in range(columns)]
        first_a, first_b = rows * columns, rows * columns + rows
        for i, j in places:
            if carried:
                _load(i * columns + j, sums(i, j))
            else:
                _call("tilezero", _number(i * columns + j))
        steps = known(depth)
        unrolled = steps is not None and steps <= _UNROLLED_STEPS
        with (I.unroll if unrolled else I.serial)(i64(0), i64(depth)) as k:
            for j in range(columns):
                _load(first_b + j, b(k, j))
            for i in range(rows):
                _load(first_a + i, a(i, k))
                for j in range(columns):
                    tiles = (i * columns + j, first_a + i, first_b + j)
                    _call(self.intrinsic, *map(_number, tiles))
        for i, j in places:
            place = sums(i, j)
            _call("tilestored64", _number(i * columns + j), *_memory(place))


def fits(rows: int, columns: int) -> bool:
    """Whether the tiles of a product of so many are registers."""
    return rows * columns + rows + columns <= TILES


_KNOWN = (
    TileProduct("bfloat16", 2, "float32", "tdpbf16ps"),
    TileProduct("int8", 4, "int32", "tdpbssd"),
)


def tile_product(features: CpuFeatures, dtype: str) -> TileProduct | None:
    """The instruction for factors of a type, where the CPU has one."""
    return next((one for one in _KNOWN if one.dtype == dtype in features.tile_dtypes), None)


@contextmanager
def declared() -> Iterator[None]:
    """Kernel code in which tasks may use tiles."""
    with I.attr(tirx.const(0, "int32"), "pragma_import_llvm", _CODE):
        granted = I.Bind(tirx.call_extern("int64", _ASK))
        with I.Assert(granted != i64(0), _REFUSED, KERNEL_ERROR):
            yield


@contextmanager
def configured() -> Iterator[None]:
    """Code of a task that uses tiles."""
    I.evaluate(tirx.call_extern("void", _CONFIGURE))
    yield
    _call("tilerelease")


def _load(tile: int, place: TilePlace) -> None:
    _call("tileloadd64", _number(tile), *_memory(place))


def _memory(place: TilePlace) -> tuple[Expr, Expr]:
    first = tirx.address_of(place.buffer[tuple(map(i64, place.index))])
    return first, i64(place.stride * _WORD_BYTES)


def _number(tile: int) -> Expr:
    return tirx.const(tile, "int8")


def _call(name: str, *arguments: Expr) -> None:
    I.evaluate(tirx.call_llvm_intrin("void", f"llvm.x86.{name}", *arguments))


_REFUSED = (
    "the kernel multiplies tiles (AMX), and the system does not let this process use them:"
    " build for a target without amx-tile"
)

_ASK, _CONFIGURE = "tvm_iree_ext_ask_for_tiles", "tvm_iree_ext_configure_tiles"

# Palette 1, then bytes of a row of each tile from byte 16 on, then rows of each from byte 48 on.
_SIZES = bytes(
    [1]
    + [0] * 15
    + [TILE * _WORD_BYTES, 0] * TILES
    + [0] * (32 - 2 * TILES)
    + [TILE] * TILES
    + [0] * (16 - TILES)
)

_SIZES_TEXT = "".join(f"\\{byte:02x}" for byte in _SIZES)

# arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), until it has been granted once.
_CODE = f"""
@{_ASK}_granted = internal global i64 0
@{_CONFIGURE}_sizes = internal constant [64 x i8] c"{_SIZES_TEXT}"

declare void @llvm.x86.ldtilecfg(ptr)

define internal i64 @{_ASK}() {{
entry:
  %before = load atomic i64, ptr @{_ASK}_granted monotonic, align 8
  %asked = icmp ne i64 %before, 0
  br i1 %asked, label %done, label %ask
ask:
  %status = call i64 asm sideeffect "syscall",
    "={{rax}},{{rax}},{{rdi}},{{rsi}},~{{rcx}},~{{r11}},~{{memory}}"(i64 158, i64 4131, i64 18)
  %is_granted = icmp eq i64 %status, 0
  %now = zext i1 %is_granted to i64
  store atomic i64 %now, ptr @{_ASK}_granted monotonic, align 8
  br label %done
done:
  %granted = phi i64 [ %before, %entry ], [ %now, %ask ]
  ret i64 %granted
}}

define internal void @{_CONFIGURE}() alwaysinline {{
  call void @llvm.x86.ldtilecfg(ptr @{_CONFIGURE}_sizes)
  ret void
}}
"""
