"""What becomes of a program's operations: the kernels, and what fell to plain loops and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tvm_iree_ext.mlir.importing.imported import Fallback
from tvm_iree_ext.programs.base import relax_passes
from tvm_iree_ext.programs.memory_plan import FunctionMemory, memory_of, memory_text
from tvm_iree_ext.programs.owned_memory import owned_memory
from tvm_iree_ext.programs.program_constants import Constants
from tvm_iree_ext.programs.program_lowering import fused_program
from tvm_iree_ext.programs.program_sources import ProgramLike, program_of
from tvm_iree_ext.runtime.manifest import ProgramKernel
from tvm_iree_ext.targets.names import TargetLike, make_target


@dataclass(frozen=True)
class Explanation:
    """How a program is cut into kernels for a CPU.

    Attributes:
        fallbacks: operations that are like an op of the registry and became plain loops, those
            behind or in front of a contraction or convolution that are kernels of their own, and
            those whose layouts the target's kernel does not have.
        kernels: each with the operations that it computes.
        memory: what a call takes, by function, where extents are known.
    """

    fallbacks: tuple[Fallback, ...]
    kernels: tuple[ProgramKernel, ...]
    memory: Mapping[str, FunctionMemory] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{fallback.what}: {fallback}" for fallback in self.fallbacks]
        for kernel in self.kernels:
            lines.append(f"kernel {kernel.name}: {kernel.computes}")
            lines += [f"  {source}" for source in kernel.sources]
        lines += memory_text(self.memory)
        return "\n".join(lines)


def explain_program(program: ProgramLike, target: TargetLike = "llvm") -> Explanation:
    """How a program is cut into kernels for a CPU; nothing is scheduled or compiled.

    Args:
        program: what ``build`` takes of programs.
        target: see :mod:`tvm_iree_ext.targets.names`; by default this machine's CPU.

    Raises:
        BuildError: for a module that ``build`` would not take.
        TargetError: for a target that is not known.

    >>> print(ext.explain_program(ext.mlir.import_program("model.mlir")))    # doctest: +SKIP
    """
    imported = program_of(program)
    fused = fused_program(imported, make_target(target)).with_compiled_loops()
    fallbacks = dict.fromkeys((*imported.fallbacks, *fused.fallbacks))
    mod = owned_memory(
        fused.module, fused.ops, fused.parameters, imported, Constants(), is_gpu=False
    ).module
    kernels = replace(fused, module=mod).kernels()
    return Explanation(tuple(fallbacks), kernels, memory_of(relax_passes.plan(mod)))
