"""Compiler barriers that keep the order of a kernel's code: assembly of no instructions.

In a long body LLVM moves sums down to where they are used, and what was loaded for them waits on
the stack.  What is stored it also keeps for what loads it later, in a register or on the stack.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules.emit import Expr
from tvm_iree_ext.targets.cpu import CpuFeatures

_VECTOR_BITS = (128, 256, 512)
_TYPES = {"float32": ("float", 32), "float64": ("double", 64)}

_CODE = """
define internal {vector} @{settled}({vector} %value) alwaysinline {{
  %same = call {vector} asm sideeffect "", "=v,0"({vector} %value)
  ret {vector} %same
}}

define internal void @{stored}() alwaysinline {{
  call void asm sideeffect "", "~{{memory}}"()
  ret void
}}

define internal void @{aligned}() alwaysinline {{
  %slot = alloca {vector}, align {bytes}
  call void asm sideeffect "", "r"(ptr %slot)
  ret void
}}
"""


@dataclass(frozen=True)
class CompilerBarriers:
    """Compiler barriers in AVX code whose vectors have ``lanes`` elements."""

    lanes: int
    dtype: str

    @staticmethod
    def of(features: CpuFeatures, lanes: int, dtype: str) -> "CompilerBarriers | None":
        """None for what is no register, and without AVX, where nobody has measured it."""
        bits = lanes * _TYPES[dtype][1] if dtype in _TYPES else 0
        whole = bits in _VECTOR_BITS and bits <= features.vector_bits
        return CompilerBarriers(lanes, dtype) if whole and features.name.startswith("AVX") else None

    @contextmanager
    def declared(self) -> Iterator[None]:
        """Kernel code that may use the barriers."""
        vector = f"<{self.lanes} x {_TYPES[self.dtype][0]}>"
        names = {what: self._name(what) for what in ("settled", "stored", "aligned")}
        code = _CODE.format(vector=vector, bytes=self.lanes * _TYPES[self.dtype][1] // 8, **names)
        with I.attr(tirx.const(0, "int32"), "pragma_import_llvm", code):
            yield

    def settled(self, value: Expr) -> Expr:
        """A vector that is computed before all that is loaded, stored or settled later."""
        return tirx.call_extern(f"{self.dtype}x{self.lanes}", self._name("settled"), value)

    def stored(self) -> None:
        """All stores are done before what is loaded later, which is loaded from memory."""
        I.evaluate(tirx.call_extern("void", self._name("stored")))

    def aligned(self) -> None:
        """Vectors that this function leaves on the stack are aligned: as one of them has to be."""
        I.evaluate(tirx.call_extern("void", self._name("aligned")))

    def _name(self, what: str) -> str:
        return f"tvm_iree_ext_{what}_{self.dtype}x{self.lanes}"
