"""Some lanes of a vector moved to its front, and vectors of which a part counts.

AVX-512 has an instruction that does it.  AVX2 has one that takes lanes in any order, and the order
is read from a table, by which lanes are moved.

Lanes are selected by a comparison of unsigned integers.  TVM has no vector of bits to name them
with, so the kernel imports functions of LLVM's own language, which are inlined.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules.emit import Expr, Index, i64

# Vectors of 512 bits: ``front`` of values and a mask.
_INSTRUCTION = """
declare {V} @llvm.x86.avx512.mask.compress.{v}({V}, {V}, {M})

define internal {V} @{name}_front({V} %values, {M} %mask) alwaysinline {{
  %front = call {V} @llvm.x86.avx512.mask.compress.{v}({V} %values, {V} zeroinitializer, {M} %mask)
  ret {V} %front
}}
"""

# Vectors of 256 bits: an order of its 8 words for each mask, a byte for each of them.
_TABLE = """
@{name}_orders = private unnamed_addr constant [{masks} x i64] [{orders}], align 64
declare <8 x i32> @llvm.x86.avx2.permd(<8 x i32>, <8 x i32>)

define internal {V} @{name}_front({V} %values, {M} %mask) alwaysinline {{
  %bits = bitcast {M} %mask to {B}
  %number = zext {B} %bits to i64
  %place = getelementptr [{masks} x i64], ptr @{name}_orders, i64 0, i64 %number
  %bytes = load <8 x i8>, ptr %place, align 8
  %order = zext <8 x i8> %bytes to <8 x i32>
  %words = bitcast {V} %values to <8 x i32>
  %moved = call <8 x i32> @llvm.x86.avx2.permd(<8 x i32> %words, <8 x i32> %order)
  %front = bitcast <8 x i32> %moved to {V}
  ret {V} %front
}}
"""

_CODE = """
declare {V} @llvm.masked.load.{v}.p0(ptr, i32, {M}, {V})
declare {V} @llvm.masked.gather.{v}.v{n}p0(<{n} x ptr>, i32, {M}, {V})
declare void @llvm.masked.store.{v}.p0({V}, ptr, i32, {M})
declare {B} @llvm.ctpop.{B}({B})
declare {T} @llvm.vector.reduce.umin.{v}({V})
declare {T} @llvm.vector.reduce.umax.{v}({V})

define internal {M} @{name}_first(i64 %count) alwaysinline {{
  %narrow = trunc i64 %count to i32
  %one = insertelement <{n} x i32> poison, i32 %narrow, i32 0
  %all = shufflevector <{n} x i32> %one, <{n} x i32> poison, <{n} x i32> zeroinitializer
  %mask = icmp slt <{n} x i32> <{iota}>, %all
  ret {M} %mask
}}

define internal {V} @{name}_packed({V} %values, {V} %left, {V} %right, i64 %count) alwaysinline {{
  %first = call {M} @{name}_first(i64 %count)
  %less = icmp {less} {V} %left, %right
  %mask = and {M} %less, %first
  %packed = call {V} @{name}_front({V} %values, {M} %mask)
  ret {V} %packed
}}

define internal {V} @{name}_packed_others(
    {V} %values, {V} %left, {V} %right, i64 %count) alwaysinline {{
  %first = call {M} @{name}_first(i64 %count)
  %others = icmp {others} {V} %left, %right
  %mask = and {M} %others, %first
  %packed = call {V} @{name}_front({V} %values, {M} %mask)
  ret {V} %packed
}}

define internal i64 @{name}_count({V} %left, {V} %right, i64 %count) alwaysinline {{
  %first = call {M} @{name}_first(i64 %count)
  %less = icmp {less} {V} %left, %right
  %mask = and {M} %less, %first
  %bits = bitcast {M} %mask to {B}
  %number = call {B} @llvm.ctpop.{B}({B} %bits)
  %wide = zext {B} %number to i64
  ret i64 %wide
}}

define internal void @{name}_pack(
    ptr %place, {V} %values, {V} %left, {V} %right, i64 %count) alwaysinline {{
  %packed = call {V} @{name}_packed({V} %values, {V} %left, {V} %right, i64 %count)
  %number = call i64 @{name}_count({V} %left, {V} %right, i64 %count)
  call void @{name}_store(ptr %place, {V} %packed, i64 %number)
  ret void
}}

define internal {V} @{name}_load(ptr %place, {V} %others, i64 %count) alwaysinline {{
  %mask = call {M} @{name}_first(i64 %count)
  %values = call {V} @llvm.masked.load.{v}.p0(ptr %place, i32 {align}, {M} %mask, {V} %others)
  ret {V} %values
}}

define internal {V} @{name}_gather(ptr %place, {V} %at) alwaysinline {{
  %all = call {M} @{name}_first(i64 {n})
  %places = getelementptr {T}, ptr %place, {V} %at
  %values = call {V} @llvm.masked.gather.{v}.v{n}p0(
      <{n} x ptr> %places, i32 {align}, {M} %all, {V} poison)
  ret {V} %values
}}

define internal void @{name}_store(ptr %place, {V} %values, i64 %count) alwaysinline {{
  %mask = call {M} @{name}_first(i64 %count)
  call void @llvm.masked.store.{v}.p0({V} %values, ptr %place, i32 {align}, {M} %mask)
  ret void
}}

define internal {T} @{name}_smallest({V} %values) alwaysinline {{
  %result = call {T} @llvm.vector.reduce.umin.{v}({V} %values)
  ret {T} %result
}}

define internal {T} @{name}_largest({V} %values) alwaysinline {{
  %result = call {T} @llvm.vector.reduce.umax.{v}({V} %values)
  ret {T} %result
}}
"""


@dataclass(frozen=True)
class Compress:
    """The functions for vectors of ``lanes`` unsigned integers of ``bits``: 512 bits or 256.

    Where a count is given, only so many of the first lanes are loaded, stored or selected; those
    of memory beyond them are not touched.  ``or_equal`` takes what is equal for less, too.
    """

    bits: int
    lanes: int
    or_equal: bool = False

    @property
    def keeps_others(self) -> bool:
        """Whether the lanes that are not moved to the front follow, in their order, too."""
        return not self._has_instruction

    @property
    def _has_instruction(self) -> bool:
        return self.bits * self.lanes == 512

    @contextmanager
    def declared(self) -> Iterator[None]:
        """Kernel code in which the functions may be used."""
        code = (_INSTRUCTION if self._has_instruction else _TABLE) + _CODE
        # Of 32 lanes a table would have 2^32 orders: there is an instruction, and none is made.
        orders = [] if self._has_instruction else self._orders()
        code = code.format(
            V=f"<{self.lanes} x i{self.bits}>",
            v=f"v{self.lanes}i{self.bits}",
            M=f"<{self.lanes} x i1>",
            B=f"i{self.lanes}",
            T=f"i{self.bits}",
            n=self.lanes,
            iota=", ".join(f"i32 {lane}" for lane in range(self.lanes)),
            align=self.bits // 8,
            less="ule" if self.or_equal else "ult",
            others="ugt" if self.or_equal else "uge",
            name=self._name,
            masks=1 << self.lanes,
            orders=", ".join(f"i64 {order}" for order in orders),
        )
        with I.attr(tirx.const(0, "int32"), "pragma_import_llvm", code):
            yield

    def packed(self, values: Expr, left: Expr, right: Expr, count: Index | None = None) -> Expr:
        """The values where left is less than right, in the first lanes."""
        return self._pure(self._vector, "packed", values, left, right, self._lanes(count))

    def packed_others(
        self, values: Expr, left: Expr, right: Expr, count: Index | None = None
    ) -> Expr:
        """The values where left is not less than right, in the first lanes."""
        return self._pure(self._vector, "packed_others", values, left, right, self._lanes(count))

    def count(self, left: Expr, right: Expr, count: Index | None = None) -> Expr:
        """In how many lanes left is less than right."""
        return self._pure("int64", "count", left, right, self._lanes(count))

    def pack(
        self, buffer: Any, place: Expr, values: Expr, left: Expr, right: Expr, count: Index
    ) -> None:
        """Store the values where left is less than right, and nothing else."""
        self._call("pack", self._at(buffer, place), values, left, right, self._lanes(count))

    def load(self, buffer: Any, place: Expr, others: Expr, count: Index) -> Expr:
        """A vector from memory, and ``others`` in its last lanes."""
        at = self._at(buffer, place)
        return tirx.call_extern(self._vector, f"{self._name}_load", at, others, i64(count))

    def gather(self, buffer: Any, at: Expr) -> Expr:
        """The elements of a buffer at the places in a vector, which are less than 2^31."""
        place = self._at(buffer, i64(0))
        return I.Bind(tirx.call_extern(self._vector, f"{self._name}_gather", place, at))

    def store(self, buffer: Any, place: Expr, values: Expr, count: Index) -> None:
        """Store the first lanes of a vector."""
        self._call("store", self._at(buffer, place), values, i64(count))

    def smallest(self, values: Expr) -> Expr:
        """The smallest of a vector's elements."""
        return self._pure(f"uint{self.bits}", "smallest", values)

    def largest(self, values: Expr) -> Expr:
        """The largest of a vector's elements."""
        return self._pure(f"uint{self.bits}", "largest", values)

    def _orders(self) -> Iterator[int]:
        """For each mask, which words go first, a byte for each; selected lanes are in the front."""
        words = self.bits // 32
        for mask in range(1 << self.lanes):
            lanes = sorted(range(self.lanes), key=lambda lane: not mask >> lane & 1)
            order = [lane * words + word for lane in lanes for word in range(words)]
            yield sum(word << 8 * place for place, word in enumerate(order))

    @property
    def _name(self) -> str:
        return f"tvm_iree_ext_compress_{self.bits}x{self.lanes}"

    @property
    def _vector(self) -> str:
        return f"uint{self.bits}x{self.lanes}"

    def _lanes(self, count: Index | None) -> Expr:
        return i64(self.lanes if count is None else count)

    def _at(self, buffer: Any, place: Expr) -> Expr:
        return tirx.address_of(buffer[i64(place)])

    def _pure(self, dtype: str, function: str, *values: Expr) -> Expr:
        return tirx.call_pure_extern(dtype, f"{self._name}_{function}", *values)

    def _call(self, function: str, *values: Expr) -> None:
        I.evaluate(tirx.call_extern("void", f"{self._name}_{function}", *values))
