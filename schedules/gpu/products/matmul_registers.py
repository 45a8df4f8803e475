"""Registers of a lane that a product will need, foreseen before a compiler counts them.

What is multiplied and summed follows from the layouts.  The rest is a fit, made by hand: enough to
refuse tiles that would spill, and to tell how many workgroups a core will have.  A compiler takes
more where there is room, and fewer where it makes do: ``BEYOND`` says by how many, and a test holds
it against the compilers' reports.
"""

from dataclasses import dataclass
from math import prod

from tvm import DataType

from tvm_iree_ext.schedules.gpu.products.matmul_plan import MatmulPlan
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES
from tvm_iree_ext.targets.gpu import Occupancy, occupancy

BEYOND = {
    "sm_80": (-82, 46),
    "sm_86": (-72, 16),
    "sm_89": (-72, 16),
    "sm_90": (-72, 54),
    "sm_100": (-46, 8),
    "sm_110": (-74, -22),
    "sm_120": (-40, -12),
    "gfx908": (-130, -24),
    "gfx90a": (-192, 36),
    "gfx942": (-200, 32),
    "gfx950": (-201, 117),
    "gfx1100": (-107, 6),
    "gfx1102": (-114, 22),
    "gfx1201": (-90, 38),
    "gfx1250": (-174, 38),
}
"""Registers of a lane that were reported beyond those foreseen: the fewest and the most, by chip.

Of products of :mod:`~tvm_iree_ext.inspection.resource_sweep_cases` with the heuristic's tiles, all
types and open extents among them: 18 or 19 for sm_80 and for each chip of AMD but gfx1102, 12 for
sm_90, 11 for sm_110 (of known extents), six or seven for the others.  By NVRTC and ``ptxas`` 13.5,
for sm_110 13.0, and by LLVM 22, that of TVM 0.27; November 2026.  The fewest are of prologues, of
8-bit floats that are converted, and of doubles (sm_110); the most are of 16 rows (NVIDIA), of
doubles, and of extents that the call tells (AMD).  One product spilled, a register: f16*f32 on
gfx1250.
"""

_OVERHEAD = 40  # for addresses and the like
_MORE = 8  # for an epilogue's operands, and integer sums in it; for each dim beyond three, or open
_CONVERTING = {"cuda": 24, "rocm": 64}  # for an operand that is converted: LLVM does all at once
_MADE = {"cuda": 0.0, "rocm": 0.5}  # for each element that a lane makes by a prologue, as above
_BOTH_MADE = 64  # where LLVM makes both operands, for 32 lanes: 34 were spilt on gfx1100
_AT_ONCE = {"rocm": 64}  # elements that a lane converts in these registers; each other has its own
_NARROW = 32  # for an operand that is read by single elements of less than 32 bits
_ADDRESS = 2  # registers of an address in rows whose length is known at call time
_MORE_SCALARS = 20  # for extents that are known at call time, or for steps that are shared
_SHARED = 3  # as many for a row where steps are shared: its number in each tile is kept, and sums
# For what lanes of a subgroup of 32 read by themselves, of extents that are open or no whole tiles:
_OWN_READS = 32  # 27 registers were spilt on gfx1201
_CONDITION = 3  # for one of a row: its limit, where no comparison has it, and its lanes


@dataclass(frozen=True)
class MatmulRegisters:
    """Foreseen registers of a product: 32-bit ones of a lane, and a subgroup's scalar ones."""

    plan: MatmulPlan

    @property
    def occupancy(self) -> Occupancy:
        """Occupancy of a core.

        Raises:
            TargetError: where not even one workgroup would fit.
        """
        chip, size = self.plan.chip, self.plan.mma.subgroup_size
        return occupancy(
            chip,
            registers=min(self.total, chip.max_registers),
            shared_memory_bytes=self.plan.shared_memory_bytes,
            lanes=self.plan.config.num_subgroups * size,
            subgroup_size=size,
        )

    @property
    def total(self) -> int:
        """Registers of a lane."""
        return self.fragments + self.others

    @property
    def fragments(self) -> int:
        """Registers of a lane for fragments, and for what waits to be multiplied."""
        plan, mma = self.plan, self.plan.mma
        m, n = plan.config.tiles
        lhs, rhs, acc = mma.lhs, mma.rhs, mma.acc
        assert lhs is not None  # all three are checked when it is planned
        assert rhs is not None
        assert acc is not None
        # What is read in less than 32 bits has a register of its own until it is stored.
        waiting = sum(
            self.loads(side) * (self._waiting(side) + _ADDRESS * plan.shape.has_open_rows(side))
            for side in plan.through_registers - plan.direct
        )
        words = 3 if self._by_conversion else 1
        fragments = 0
        for side, count, operand in (("lhs", m, lhs), ("rhs", n, rhs)):
            # What is multiplied of a whole step of K, and what waits meanwhile.
            times = 2 * plan.config.k_tiles if side in plan.direct else words
            if plan.by_turns:
                times *= plan.config.k_tiles
            fragments += times * count * operand.registers
        return m * n * acc.registers + fragments + waiting

    @property
    def others(self) -> int:
        """Registers of a lane for addresses and the like, and for values in conversion."""
        plan, shape = self.plan, self.plan.shape
        converting = sum(map(plan.converts, SIDES)) * _CONVERTING[plan.chip.kind]
        for side in set(SIDES) - plan.through_registers:
            converting += self.loads(side) * self._beside(side)
        narrow = sum(plan.runs[side] * plan.memory_bits(side) < 32 for side in SIDES) * _NARROW
        ends = None in (shape.n, shape.k) or bool((shape.k or 0) % plan.tile[2])
        own = _OWN_READS * bool(plan.direct and ends and plan.mma.subgroup_size == 32)
        more = (shape.epilogue_bits > 0) * (1 + shape.result_dtype.startswith("int"))
        more += shape.more_dims + (shape.m, shape.n, shape.k).count(None)
        usual = _OVERHEAD + own + converting + narrow + more * _MORE
        most = plan.chip.max_registers // 2
        at_once = sum(self.loads(side) * plan.runs[side] for side in SIDES if plan.converts(side))
        found = min(usual, most) + max(0, at_once - _AT_ONCE.get(plan.chip.kind, at_once))
        if usual < most:  # else what a prologue makes is among so many, which are rarely taken
            made = (self.loads(side) * plan.runs[side] for side in SIDES if shape.prologue(side))
            found += int(_MADE[plan.chip.kind] * sum(made))
        narrow_lanes = plan.chip.kind == "rocm" and plan.mma.subgroup_size == 32
        if narrow_lanes and all(map(shape.prologue, SIDES)):
            found += _BOTH_MADE
        return found

    @property
    def scalars_suffice(self) -> bool:
        """Whether LLVM is reckoned not to keep addresses in lanes of vector registers."""
        limit = self.plan.chip.scalar_registers
        return not limit or self.scalars <= limit

    @property
    def scalars(self) -> int:
        """Scalar registers of a subgroup for addresses of rows at no known distance from others.

        Where a subgroup reads a part of one row at a time: else they are in the lanes' registers.
        """
        plan, found = self.plan, 0
        for side in SIDES:
            rows, length = plan.tile_shape(side)
            if self._ends_in_tile(side):
                found += _CONDITION * self.loads(side)
            elif length >= plan.runs[side] * plan.mma.subgroup_size:
                found += self._row_address(side, rows) * -(-rows // plan.config.num_subgroups)
        unknown = plan.config.workgroups > 0 or any(map(plan.shape.has_open_rows, SIDES))
        return found + _MORE_SCALARS * unknown

    def _ends_in_tile(self, side: str) -> bool:
        """Whether K ends inside a tile whose rows are along it, and each keeps its own limit."""
        plan, k = self.plan, self.plan.shape.k
        along_k = getattr(plan.mma, side).dims.index("K")
        ends = k is not None and k % plan.tile[2] > 0 and plan.shape.order(side)[0] == along_k
        return ends and not plan.chip.compares_with_constants

    def _row_address(self, side: str, rows: int) -> int:
        """Registers for that of one row of a tile: one where rows beyond the last are the last."""
        shape, kept = self.plan.shape, _SHARED if self.plan.config.workgroups else 1
        extent = shape.extents(side)[0]
        beyond = int(extent is None or extent % rows > 0)
        return kept * (_ADDRESS if shape.has_open_rows(side) else beyond)

    def _waiting(self, side: str) -> int:
        """Registers for what is read of an operand at once, and for what is beside it."""
        plan = self.plan
        return -(-plan.runs[side] * plan.memory_bits(side) // 32) + self._beside(side)

    def _beside(self, side: str) -> int:
        """Registers for what is beside the elements that are read of an operand at once."""
        prologue, run = self.plan.shape.prologue(side), self.plan.runs[side]
        if prologue is None:
            return 0
        counts = {name: 1 if name in prologue.alike else run for name in prologue.beside}
        return sum(
            -(-counts[name] * DataType(dtype).bits // 32) for name, dtype in prologue.beside.items()
        )

    def loads(self, side: str) -> int:
        """Accesses of a lane to global memory, for an operand's tile."""
        plan = self.plan
        lanes = plan.config.num_subgroups * plan.mma.subgroup_size
        return -(-prod(plan.tile_shape(side)) // (plan.runs[side] * lanes))

    @property
    def _by_conversion(self) -> bool:
        """Whether ``ptxas`` makes halves of 8-bit floats first, which take twice the registers."""
        return self.plan.mma.a in self.plan.chip.mma_by_conversion
