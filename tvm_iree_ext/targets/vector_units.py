"""What vectors a target computes and moves: the good shapes, by which a program is unrolled.

Numbers rank alternatives; they are no model of time.
"""

from dataclasses import dataclass

from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.targets.cpu import cpu_features

_X86_TYPES = ("int8", "int16", "int32", "int64", "float32", "float64")
_ARM_TYPES = (*_X86_TYPES, "float16")
_THREAD_TYPES = (*_ARM_TYPES, "bfloat16")


@dataclass(frozen=True)
class VectorUnit:
    """The vectors of one processor: a CPU core, or a thread of a GPU.

    Attributes:
        name: of the instruction set.
        bits: of a vector register, or of what one instruction of a thread computes.
        registers: how many there are; on a GPU of 32 bits each.
        memory_bits: what one instruction loads or stores.
        dtypes: the element types with arithmetic of their own; others are converted.
        transposes: the edges of squares that are transposed in registers.
        matrices: rows x columns of the matrix instructions that a subgroup shares.
    """

    name: str
    bits: int
    registers: int
    memory_bits: int
    dtypes: tuple[str, ...]
    transposes: tuple[int, ...] = ()
    matrices: tuple[tuple[int, int], ...] = ()

    def lanes(self, dtype: str) -> int:
        """How many elements one instruction computes; 0 for a type without arithmetic."""
        if dtype not in self.dtypes:
            return 0
        return max(1, self.bits // (8 * item_bytes(dtype)))

    def memory_lanes(self, dtype: str) -> int:
        """How many elements one instruction loads or stores."""
        return max(1, self.memory_bits // (8 * item_bytes(dtype)))


UNITS: dict[str, VectorUnit] = {
    unit.name: unit
    for unit in (
        VectorUnit("SSE", 128, 16, 128, _X86_TYPES, (4,)),
        VectorUnit("AVX", 256, 16, 256, ("float32", "float64"), (8,)),
        VectorUnit("AVX2", 256, 16, 256, _X86_TYPES, (8,)),
        VectorUnit("AVX-512", 512, 32, 512, _X86_TYPES, (8, 16)),
        VectorUnit("NEON", 128, 32, 128, _ARM_TYPES, (4,)),
        # A thread computes a number, or two of 16 bits, and moves 128 bits at once.
        VectorUnit("CUDA", 32, 255, 128, _THREAD_TYPES, (), ((16, 16),)),
        # Two numbers of 32 bits in one packed instruction.
        VectorUnit("ROCm", 64, 512, 128, _THREAD_TYPES, (), ((16, 16), (32, 32))),
    )
}
"""The known units by name."""


def vector_unit(target: Target) -> VectorUnit:
    """The vectors of a target.

    Raises:
        TargetError: for a kind of target that has no entry in the table.
    """
    kind = target.kind.name
    if kind == "llvm":
        name = cpu_features(target).name
        return UNITS.get(name, UNITS["SSE"])
    known = {"cuda": "CUDA", "rocm": "ROCm"}
    if kind not in known:
        raise TargetError(f"{kind}: no table of vectors; there is one for llvm, cuda, rocm")
    return UNITS[known[kind]]
