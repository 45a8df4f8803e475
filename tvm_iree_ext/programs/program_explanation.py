"""What becomes of a program's operations: the kernels, and what fell to plain loops and why."""

from dataclasses import dataclass

from tvm_iree_ext.mlir.importing.imported import Fallback, Imported
from tvm_iree_ext.programs.program_lowering import fused_program
from tvm_iree_ext.runtime.manifest import ProgramKernel
from tvm_iree_ext.targets.names import TargetLike, make_target


@dataclass(frozen=True)
class Explanation:
    """How a program is cut into kernels for a CPU.

    Attributes:
        fallbacks: operations that are like an op of the registry and became plain loops, and those
            behind or in front of a contraction or convolution that are kernels of their own.
        kernels: each with the operations that it computes.
    """

    fallbacks: tuple[Fallback, ...]
    kernels: tuple[ProgramKernel, ...]

    def __str__(self) -> str:
        lines = [f"plain loops: {fallback}" for fallback in self.fallbacks]
        for kernel in self.kernels:
            lines.append(f"kernel {kernel.name}: {kernel.computes}")
            lines += [f"  {source}" for source in kernel.sources]
        return "\n".join(lines)


def explain_program(imported: Imported, target: TargetLike = "llvm") -> Explanation:
    """How a program is cut into kernels for a CPU; nothing is scheduled or compiled.

    Raises:
        TargetError: for a target that is not known.

    >>> print(ext.explain_program(ext.mlir.import_program("model.mlir")))    # doctest: +SKIP
    """
    fused = fused_program(imported, make_target(target))
    fallbacks = dict.fromkeys((*imported.fallbacks, *fused.fallbacks))
    return Explanation(tuple(fallbacks), fused.with_compiled_loops().kernels())
