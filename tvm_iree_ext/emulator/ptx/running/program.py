"""A kernel as blocks of steps: what the interpreter runs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.ptx.reading.syntax import PtxInstruction

EXIT = 1 << 30
"""The number of the block after the last one: lanes there have ended."""

SPECIAL = (
    "tid", "ntid", "ctaid", "nctaid", "laneid", "warpid", "nwarpid", "smid", "lanemask_eq",
    "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt", "dynamic_smem_size",
    "total_smem_size", "cluster_ctarank", "cluster_nctarank", "clusterid", "nclusterid",
    "cluster_ctaid", "cluster_nctaid", "is_explicit_cluster", "clock", "clock64",
)  # fmt: skip
"""Special registers that are known."""


@dataclass(frozen=True)
class PtxStep:
    """An instruction of a block: a function over slots of the register file."""

    function: Callable[..., Any]
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    on_lanes: bool
    whole_warp: bool
    guard: int
    guard_negated: bool
    instruction: PtxInstruction


@dataclass
class PtxBlock:
    """Steps that are executed without a pause, and where they lead.

    Attributes:
        condition: the slot of the predicate by which ``branch`` is taken; -1: always.
        branch: the block to which a branch leads; EXIT where lanes end.
        following: the next block.
        table: blocks by the number in ``condition``, of an indexed branch.
        wait: the step for which lanes may have to wait; it is alone in its block.
        reads: slots that it reads before it writes them.
        writes: slots that it writes and that are read later.
    """

    number: int
    steps: list[PtxStep] = field(default_factory=list)
    condition: int = -1
    negated: bool = False
    branch: int | None = None
    following: int = EXIT
    table: tuple[int, ...] = ()
    wait: PtxStep | None = None
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Preload:
    """A slot that has its value from the launch: a special register, a symbol or a parameter.

    ``kind`` is ``special``, ``symbol`` or ``parameter``; a parameter has an offset and a type.
    """

    slot: int
    kind: str
    name: str
    offset: int = 0
    type: str = ""


@dataclass
class PtxProgram:
    """A kernel as blocks.

    ``initial`` are the slots of constants, ``storage`` the types of all slots.
    """

    name: str
    blocks: list[PtxBlock]
    storage: list[np.dtype]
    initial: dict[int, Any]
    preloads: list[Preload]
    local_bytes: int
    local_places: dict[str, int]

    @property
    def has_warpgroups(self) -> bool:
        """Whether warps multiply together, by fours."""
        steps = (step for block in self.blocks for step in block.steps)
        return any(step.instruction.opcode == "wgmma" for step in steps)
