"""What an instruction does, as a function of NumPy arrays, by its opcode.

Families of instructions register a *builder* for each opcode.  It looks at an instruction's
modifiers once, and gives an :class:`Operation`: a function, and the types in which it takes and
gives the instruction's operands.  Functions of values know nothing of lanes; those of memory, of
warps and of barriers get the lanes that execute them first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.emulator.ptx.reading.scalar_types import bits_of
from tvm_iree_ext.emulator.ptx.reading.syntax import (
    PtxAddress,
    PtxInstruction,
    PtxOperand,
    PtxRegister,
    RegisterVector,
    ResultPair,
)

Builder = Callable[[PtxInstruction], "PtxOperation"]


@dataclass(frozen=True)
class PtxOperation:
    """A function with its operands.

    Attributes:
        function: of the sources; gives the target, a sequence for several, None for none.
        sources: operands that it takes, and as which type each.
        targets: operands that it gives.
        on_lanes: whether it takes the lanes that execute it before the sources.
        whole_warp: whether all lanes of a warp must execute it together.
        updates: targets that the function writes itself, at a later time; see ``wgmma``.
    """

    function: Callable[..., Any]
    sources: Sequence[tuple[PtxOperand, str]]
    targets: Sequence[tuple[PtxOperand, str]]
    on_lanes: bool = False
    whole_warp: bool = False


BUILDERS: dict[str, Builder] = {}


def instruction(*opcodes: str) -> Callable[[Builder], Builder]:
    """Register the builder of opcodes."""

    def register(builder: Builder) -> Builder:
        for opcode in opcodes:
            BUILDERS[opcode] = builder
        return builder

    return register


def results_of(target: PtxOperand) -> tuple[PtxOperand, ...]:
    """The target, or the two of ``d|p``."""
    return (target.first, target.second) if isinstance(target, ResultPair) else (target,)


def pure(
    one: PtxInstruction, function: Callable[..., Any], takes: Sequence[str], *gives: str
) -> PtxOperation:
    """A function of values: the first operand, or the two of ``d|p``, is what it gives."""
    target, *sources = one.operands
    results = results_of(target)
    return PtxOperation(
        function,
        tuple(zip(sources, takes, strict=True)),
        tuple(zip(results, gives, strict=len(gives) == len(results))),
    )


def on_lanes(
    function: Callable[..., Any],
    sources: Sequence[tuple[PtxOperand, str]],
    targets: Sequence[tuple[PtxOperand, str]] = (),
    *,
    whole_warp: bool = False,
) -> PtxOperation:
    """A function that gets the lanes which execute it first."""
    return PtxOperation(function, tuple(sources), tuple(targets), True, whole_warp)


def items(operand: PtxOperand) -> tuple[PtxOperand, ...]:
    """The operands of a vector, or the one."""
    return operand.items if isinstance(operand, RegisterVector) else (operand,)


def place(operand: PtxOperand) -> tuple[PtxOperand, str, int]:
    """An address: its base with its type, and its offset."""
    if not isinstance(operand, PtxAddress):
        raise TypeError(f"{operand} is no address")
    base = operand.base
    is_short = isinstance(base, PtxRegister) and bits_of(base.type) == 32
    return base, "b32" if is_short else "b64", operand.offset
