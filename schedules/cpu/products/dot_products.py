"""Instructions that multiply neighbours and add up the products: two bfloat16, or four int8.

    sums[lane] += a[lane, 0] * b[lane, 0] + a[lane, 1] * b[lane, 1] + ...

Both factors are vectors of words of 32 bits, the first neighbour in the lowest bits.  TVM rewrites
bfloat16 before LLVM sees it, and has no word for these instructions: the kernel imports functions
of LLVM's own language, which are inlined.

* bfloat16 pairs are summed in float32; numbers below its smallest normal one count as 0.
* int8 fours are of an unsigned and a signed factor, exactly, and int32 wraps.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules.emit import Expr
from tvm_iree_ext.targets.cpu import CpuFeatures

LEAST_LANES = 4
"""The instructions have vectors of 128 bits at least."""


@dataclass(frozen=True)
class DotProduct:
    """One instruction, by what it multiplies.

    ``dtype`` is that of neighbours, of which there are ``group`` in a word, and ``sums`` that of
    sums.  ``rounding`` is the instruction that makes neighbours of two vectors of sums, if any.
    """

    dtype: str
    group: int
    sums: str
    intrinsic: str
    sum_type: str
    factor_type: str
    rounding: str = ""

    @property
    def is_mixed(self) -> bool:
        """Whether the first factor is unsigned, and the second signed."""
        return self.dtype == "int8"

    @contextmanager
    def declared(self, lanes: int) -> Iterator[None]:
        """Kernel code in which :meth:`add` and :meth:`rounded` may be used with so many lanes."""
        sums, factors = (
            f"<{lanes} x {self.sum_type}>",
            f"<{lanes * self.group} x {self.factor_type}>",
        )
        words, callee = f"<{lanes} x i32>", f"@{self.intrinsic}.{lanes * 32}"
        code = f"""
declare {sums} {callee}({sums}, {factors}, {factors})

define internal {sums} @{self._name(lanes)}({sums} %sums, {words} %a, {words} %b) alwaysinline {{
  %x = bitcast {words} %a to {factors}
  %y = bitcast {words} %b to {factors}
  %result = call {sums} {callee}({sums} %sums, {factors} %x, {factors} %y)
  ret {sums} %result
}}
"""
        if self.rounding:
            callee = f"@{self.rounding}.{lanes * 32}"
            order = ", ".join(f"i32 {i}, i32 {i + lanes}" for i in range(lanes))
            code += f"""
declare {factors} {callee}({sums}, {sums})

define internal {words} @{self._name(lanes)}_rounded({sums} %low, {sums} %high) alwaysinline {{
  %halves = call {factors} {callee}({sums} %high, {sums} %low)
  %pairs = shufflevector {factors} %halves, {factors} poison, <{lanes * 2} x i32> <{order}>
  %result = bitcast {factors} %pairs to {words}
  ret {words} %result
}}
"""
        with I.attr(tirx.const(0, "int32"), "pragma_import_llvm", code):
            yield

    def add(self, sums: Expr, a: Expr, b: Expr, lanes: int) -> Expr:
        """``sums`` and the products of two vectors of words; of int8, ``a`` is unsigned."""
        return tirx.call_pure_extern(f"{self.sums}x{lanes}", self._name(lanes), sums, a, b)

    def rounded(self, low: Expr, high: Expr, lanes: int) -> Expr:
        """Words of two vectors of sums, rounded to the nearest neighbours."""
        return tirx.call_pure_extern(f"uint32x{lanes}", f"{self._name(lanes)}_rounded", low, high)

    def _name(self, lanes: int) -> str:
        return f"tvm_iree_ext_dot_{self.dtype}_{lanes}"


PAIRS = DotProduct(
    "bfloat16",
    2,
    "float32",
    "llvm.x86.avx512bf16.dpbf16ps",
    "float",
    "bfloat",
    "llvm.x86.avx512bf16.cvtne2ps2bf16",
)
_KNOWN = (PAIRS, DotProduct("int8", 4, "int32", "llvm.x86.avx512.vpdpbusd", "i32", "i8"))


def dot_product_of(features: CpuFeatures, dtype: str) -> DotProduct | None:
    """The instruction for factors of a type, where the CPU has one."""
    return next((o for o in _KNOWN if o.dtype == dtype in features.dot_dtypes), None)
