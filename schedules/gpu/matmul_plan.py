"""What the layouts of an instruction say of a tiled product, before it is scheduled.

Which subgroup has which rows and columns, how the tiles lie in shared memory, how much is accessed
at once, and whether registers and shared memory of the chip have room for it.
"""

from dataclasses import dataclass, replace
from math import prod

from tvm import DataType
from tvm.target import Target
from tvm_iree_ext.schedules.gpu.copies import (
    ChosenPlacement,
    TileAccess,
    choose_placement,
    copy_layout,
    transposing_layout,
)
from tvm_iree_ext.schedules.gpu.matmul_shape import (
    SIDES,
    MatmulShape,
)
from tvm_iree_ext.schedules.layouts import vector_elements

from tvm_iree_ext.errors import ScheduleError
from tvm_iree_ext.intrin.mma import mma_intrins
from tvm_iree_ext.intrin.nvidia import ldmatrix_form
from tvm_iree_ext.layout.analysis import BANK_BYTES, WIDEST_ACCESS_BYTES
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.layout.transform import permute
from tvm_iree_ext.target.gpu import GpuChip, Occupancy, gpu_chip, occupancy, subgroup_size
from tvm_iree_ext.target.mma import Mma, dtype_bits, tvm_dtype
from tvm_iree_ext.target.mma_layouts import ContractionLayouts, contraction_layouts

_OVERHEAD = 40  # registers for addresses and the like
_MORE = 8  # for an epilogue's operands, and integer sums in it; for each dim beyond three, or open
_CONVERTING = {"cuda": 24, "rocm": 64}  # for an operand that is converted: LLVM does all at once
_MADE = {"cuda": 0.0, "rocm": 0.5}  # for each element that a lane makes by a prologue, as above
_AT_ONCE = {"rocm": 64}  # elements that a lane converts in these registers; each other has its own
_NARROW = 32  # for an operand that is read by single elements of less than 32 bits
_ADDRESS = 2  # registers of an address in rows whose length is known at call time
# AMD's subgroups have some hundred scalar registers; LLVM keeps rows' addresses in them.
_SCALAR_REGISTERS = {"rocm": 100}
_MORE_SCALARS = 20  # for extents that are known at call time, or for steps that are shared
_SHARED = 3  # as many for a row where steps are shared: its number in each tile is kept, and sums
_CONDITION = 3  # for one of a row: its limit, which gfx9 has in no instruction, and its lanes
_WITHOUT_FP8_SYNC = ("sm_90", "sm_100")  # only warpgroups, or tensor memory, multiply 8-bit floats


@dataclass(frozen=True)
class MatmulConfig:
    """The numbers of the schedule.

    Attributes:
        mma_kind: the instruction, by the table's name.
        subgroups: of a workgroup, along m and n.
        tiles: instructions of a subgroup, along m and n.
        k_tiles: instructions along k between two copies to shared memory.
        stages: tiles of k that are under way at once: 1 copies, waits and multiplies in turn.
            With asynchronous copies each stage has shared memory of its own; without, as on AMD
            and where a copy transposes, the second waits in registers, and there are no more.
        swizzle: whether rows in shared memory may be permuted; else they are padded alone.
        column_major: exchange A and B in the instruction, so that lanes hold runs of the result's
            rows instead of its columns.
        splits: parts of K that are multiplied at once; a second kernel adds their sums.
        workgroups: that share all tiles, and the steps of the last ones; 0 for one to a tile.
        promote: the operands whose tiles are in shared memory.  Of another one each lane reads
            what it multiplies itself, which costs nothing where no other subgroup has use for it.
    """

    mma_kind: str
    subgroups: tuple[int, int] = (2, 2)
    tiles: tuple[int, int] = (4, 4)
    k_tiles: int = 2
    stages: int = 1
    column_major: bool = False
    swizzle: bool = True
    splits: int = 1
    workgroups: int = 0
    promote: tuple[str, ...] = SIDES

    @property
    def num_subgroups(self) -> int:
        """Of a workgroup."""
        return prod(self.subgroups)


@dataclass(frozen=True)
class MatmulPlan:
    """What the layouts say of a product before it is scheduled.

    Attributes:
        tile: rows, columns and depth of a workgroup's tile.
        layouts: of the operands, with their dims as they lie in memory.
        placements: of the operands' tiles in shared memory.
        runs: elements that a lane accesses at once in ``lhs``, ``rhs`` and ``result``.
        ldmatrix: the operands that are loaded by it.
        orders: of the dims of ``lhs`` and ``rhs`` where they are multiplied from; where one is not
            that of global memory, the copy transposes.
        interleave: columns that lie side by side in memory and belong to as many instructions, the
            same lane's: it reads them at once where ``rhs`` is in registers.
    """

    shape: MatmulShape
    config: MatmulConfig
    mma: Mma
    chip: GpuChip
    tile: Ints
    layouts: ContractionLayouts
    placements: dict[str, ChosenPlacement]
    runs: dict[str, int]
    ldmatrix: frozenset[str]
    orders: dict[str, Ints]
    interleave: int = 1

    @property
    def direct(self) -> frozenset[str]:
        """The operands whose tiles are in registers alone."""
        return frozenset(SIDES).difference(self.config.promote)

    @property
    def asynchronous(self) -> bool:
        """Whether copies go past the registers, where nothing can be transposed or converted."""
        if self.direct:
            return False
        worked = any(self.transposes(side) or self.converts(side) for side in SIDES)
        return "cp.async" in self.chip.async_copy_bits and not worked

    @property
    def through_registers(self) -> frozenset[str]:
        """The operands whose tiles stop in registers on their way: to wait, or to be turned."""
        if self.config.stages > 1 and not self.asynchronous:
            return frozenset(SIDES)
        return frozenset(side for side in SIDES if self.transposes(side))

    def converts(self, side: str) -> bool:
        """Whether the copy of an operand's tile does."""
        return self.shape.converts(side)

    def transposes(self, side: str) -> bool:
        """Whether the copy of an operand's tile does."""
        return self.orders[side] != self.shape.order(side)

    @property
    def scope(self) -> str:
        """Of shared memory."""
        return "shared.dyn" if self.chip.kind == "cuda" else "shared"

    @property
    def shared_memory_bytes(self) -> int:
        """Of a workgroup."""
        return self.stages * sum(placement.bytes for placement in self.placements.values())

    @property
    def has_bank_conflicts(self) -> bool:
        """Whether shared memory takes more passes than its accesses are wide."""
        return any(placement.excess for placement in self.placements.values())

    @property
    def stages(self) -> int:
        """Tiles of an operand in shared memory at once."""
        return self.config.stages if self.asynchronous else 1

    def tile_bytes(self, side: str) -> int:
        """Of an operand's tile in shared memory, without padding."""
        return prod(self.tile_shape(side)) * self.element_bytes(side)

    def row_bytes(self, side: str) -> int:
        """Of a row of it, as it lies there."""
        return self.tile_shape(side, self.orders[side])[-1] * self.element_bytes(side)

    @property
    def registers(self) -> int:
        """32-bit registers of a lane for fragments, and for what waits to be multiplied."""
        m, n = self.config.tiles
        lhs, rhs, acc = self.mma.lhs, self.mma.rhs, self.mma.acc
        assert lhs is not None  # all three are checked by plan_matmul
        assert rhs is not None
        assert acc is not None
        # What is read in less than 32 bits has a register of its own until it is stored.
        waiting = sum(
            self._loads(side) * (self._waiting(side) + _ADDRESS * self._open(side))
            for side in self.through_registers - self.direct
        )
        words = 3 if self._by_conversion else 1
        fragments = 0
        for side, count, operand in (("lhs", m, lhs), ("rhs", n, rhs)):
            # What is multiplied of a whole step of K, and what waits meanwhile.
            times = 2 * self.config.k_tiles if side in self.direct else words
            fragments += times * count * operand.registers
        return m * n * acc.registers + fragments + waiting

    @property
    def has_scalar_registers(self) -> bool:
        """Whether LLVM is reckoned not to keep addresses in lanes of vector registers."""
        return self.scalar_registers <= _SCALAR_REGISTERS.get(self.chip.kind, self.scalar_registers)

    @property
    def scalar_registers(self) -> int:
        """Of a subgroup, for addresses of rows that are at no known distance from each other.

        Where a subgroup reads a part of one row at a time: else they are in the lanes' registers.
        """
        found = 0
        for side in SIDES:
            rows, length = self.tile_shape(side)
            if self._ends_in_tile(side):
                found += _CONDITION * self._loads(side)
            elif length >= self.runs[side] * self.mma.subgroup_size:
                found += self._row_address(side, rows) * -(-rows // self.config.num_subgroups)
        unknown = self.config.workgroups > 0 or self.has_open_rows
        return found + _MORE_SCALARS * unknown

    def _ends_in_tile(self, side: str) -> bool:
        """Whether K ends inside a tile whose rows are along it: on gfx9 each has its own limit."""
        k, along_k = self.shape.k, getattr(self.mma, side).dims.index("K")
        ends = k is not None and k % self.tile[2] > 0 and self.shape.order(side)[0] == along_k
        return ends and self.chip.name.startswith("gfx9")

    def _row_address(self, side: str, rows: int) -> int:
        """Registers for that of one row of a tile: one where rows beyond the last are the last."""
        extent, kept = self.shape.extents(side)[0], _SHARED if self.config.workgroups else 1
        return kept * (_ADDRESS if self._open(side) else int(extent is None or extent % rows > 0))

    def _waiting(self, side: str) -> int:
        """Registers for what is read of an operand at once, and for what is beside it."""
        return -(-self.runs[side] * self.memory_bits(side) // 32) + self._beside(side)

    def _beside(self, side: str) -> int:
        """Registers for what is beside the elements that are read of an operand at once."""
        prologue, run = self.shape.prologue(side), self.runs[side]
        if prologue is None:
            return 0
        counts = {name: 1 if name in prologue.alike else run for name in prologue.beside}
        return sum(
            -(-counts[name] * DataType(dtype).bits // 32) for name, dtype in prologue.beside.items()
        )

    def _loads(self, side: str) -> int:
        """Accesses of a lane to global memory, for an operand's tile."""
        lanes = self.config.num_subgroups * self.mma.subgroup_size
        return -(-prod(self.tile_shape(side)) // (self.runs[side] * lanes))

    @property
    def has_open_rows(self) -> bool:
        """Whether an operand's are of a length that is known at call time."""
        return any(map(self._open, SIDES))

    def _open(self, side: str) -> bool:
        """Whether rows of an operand are of a length that is known at call time."""
        return self.shape.extents(side)[-1] is None

    @property
    def _by_conversion(self) -> bool:
        """Whether ``ptxas`` makes halves of 8-bit floats first, which take twice the registers."""
        return self.chip.name.rstrip("a") in _WITHOUT_FP8_SYNC and self.mma.a.startswith("f8")

    @property
    def other_registers(self) -> int:
        """Of a lane for addresses and the like, and for what conversions have on the way."""
        shape = self.shape
        converting = sum(map(self.converts, SIDES)) * _CONVERTING[self.chip.kind]
        for side in set(SIDES) - self.through_registers:
            converting += self._loads(side) * self._beside(side)
        narrow = sum(self.runs[side] * self.memory_bits(side) < 32 for side in SIDES) * _NARROW
        more = (shape.epilogue_bits > 0) * (1 + shape.result_dtype.startswith("int"))
        more += shape.more_dims + (shape.m, shape.n, shape.k).count(None)
        usual, most = _OVERHEAD + converting + narrow + more * _MORE, self.chip.max_registers // 2
        at_once = sum(self._loads(side) * self.runs[side] for side in SIDES if self.converts(side))
        found = min(usual, most) + max(0, at_once - _AT_ONCE.get(self.chip.kind, at_once))
        if usual < most:  # else what a prologue makes is among so many, which are rarely taken
            made = (self._loads(side) * self.runs[side] for side in SIDES if shape.prologue(side))
            found += int(_MADE[self.chip.kind] * sum(made))
        return found

    @property
    def occupancy(self) -> Occupancy:
        """Of a core, as far as registers can be foreseen.

        Raises:
            TargetError: where not even one workgroup would fit.
        """
        return occupancy(
            self.chip,
            registers=min(self.registers + self.other_registers, self.chip.max_registers),
            shared_memory_bytes=self.shared_memory_bytes,
            lanes=self.config.num_subgroups * self.mma.subgroup_size,
            subgroup_size=self.mma.subgroup_size,
        )

    def tile_shape(self, side: str, order: Ints | None = None) -> Ints:
        """The tile of ``lhs`` or ``rhs``, by default as it lies in global memory."""
        rows, columns, depth = self.tile
        own = (rows, depth) if side == "lhs" else (depth, columns)
        return tuple(own[dim] for dim in order or self.shape.order(side))

    def element_bytes(self, side: str) -> int:
        """Of an element of ``lhs`` or ``rhs``."""
        return dtype_bits(getattr(self.mma, side).dtype) // 8

    def memory_bits(self, side: str) -> int:
        """Of an element of ``lhs``, ``rhs`` or ``result`` in memory."""
        return DataType(self.shape.memory_dtype(side)).bits

    def shared_run(self, side: str) -> int:
        """The most elements that a lane of the copy writes to shared memory at once."""
        run = min(self.runs[side], WIDEST_ACCESS_BYTES // self.element_bytes(side))
        # CUDA has arithmetic on vectors of four elements at most.
        return min(run, 4) if self.converts(side) and self.chip.kind == "cuda" else run

    def written_run(self, side: str) -> int:
        """Elements that it writes at once where its tile lies."""
        widths = self.placements[side].widths
        narrowest = (
            widths[0] // self.element_bytes(side) if len(widths) > 1 else self.shared_run(side)
        )
        return min(self.shared_run(side), narrowest)

    def copy(self, side: str) -> NestedLayout:
        """The layout of the copy of an operand's tile, as it lies in global memory."""
        if side in self.direct:
            own: NestedLayout = getattr(self.layouts, side)
            return permute(own, (1, 0)) if self.transposes(side) else own
        make = transposing_layout if self.transposes(side) else copy_layout
        count, size = self.config.num_subgroups, self.mma.subgroup_size
        bits = self.memory_bits(side)
        return make(self.tile_shape(side), bits, count, size, run=self.runs[side])


def plan_matmul(shape: MatmulShape, target: Target, config: MatmulConfig) -> MatmulPlan:
    """Derive the layouts of a product and check them against the chip.

    Raises:
        ScheduleError: for a config that the chip or the shape cannot have, saying why.
    """
    plan = _placed(_laid_out(shape, target, config))
    if plan.shared_memory_bytes > plan.chip.shared_memory_bytes:
        plan = _placed(plan, padded=False)
    _check_memory(plan, plan.shared_memory_bytes)
    return plan


def check_matmul(shape: MatmulShape, target: Target, config: MatmulConfig) -> None:
    """The checks of :func:`plan_matmul` without its search for placements, which takes longest.

    Raises:
        ScheduleError: as there.
    """
    plan = _laid_out(shape, target, config)
    if all(plan.row_bytes(side) % _alignment(plan, side) == 0 for side in config.promote):
        _check_memory(plan, plan.stages * sum(map(plan.tile_bytes, config.promote)))
    else:  # rows that must be padded, by as much as is found
        plan_matmul(shape, target, config)


def _laid_out(shape: MatmulShape, target: Target, config: MatmulConfig) -> MatmulPlan:
    """The plan but for the placements."""
    chip, mma = gpu_chip(target), mma_intrins(config.mma_kind).mma
    _check(shape, target, chip, mma, config)
    (sm, sn), (tm, tn) = config.subgroups, config.tiles
    tile = (sm * tm * mma.m, sn * tn * mma.n, config.k_tiles * mma.k)
    orders = {side: _shared_order(shape, mma, side) for side in SIDES}
    lhs, rhs = (
        tuple(loops[dim] for dim in orders[side])
        for side, loops in zip(SIDES, ((0, 2), (2, 1)), strict=True)
    )
    layouts = contraction_layouts(
        mma, "mnk", tile, (sm, sn, 1), lhs=lhs, rhs=rhs, column_major=config.column_major
    )
    plan = MatmulPlan(shape, config, mma, chip, tile, layouts, {}, {}, frozenset(), orders)
    plan = _interleaved(plan)
    runs, ldmatrix = {}, set()
    for side in SIDES:
        operand = getattr(mma, side)
        # A lane's own part of a row, where it copies no other's.
        row = plan.copy(side).element_tile if side in plan.direct else plan.tile_shape(side)
        runs[side] = vector_elements(plan.memory_bits(side), row[-1], shape.row(side))
        if side in plan.direct:
            continue
        if mma.vendor == "nvidia" and ldmatrix_form(operand, orders[side]) is not None:
            ldmatrix.add(side)
    widest = max(dtype_bits(mma.c), plan.memory_bits("result"), shape.epilogue_bits)
    runs["result"] = vector_elements(widest, plan.layouts.acc.element_tile[-1], shape.row("result"))
    plan = replace(plan, runs=runs, ldmatrix=frozenset(ldmatrix))
    _check_registers(plan)
    return plan


def _placed(plan: MatmulPlan, *, padded: bool = True) -> MatmulPlan:
    """With the placements of both operands, whose rows may be padded or not."""
    placements = {side: _placement(plan, side, padded) for side in plan.config.promote}
    return replace(plan, placements=placements)


def _interleaved(plan: MatmulPlan) -> MatmulPlan:
    """With the columns of a lane side by side, where it reads them by itself.

    Which column of memory is which of an instruction is free, if ``rhs`` and the sums agree.
    """
    shape, count = plan.shape, plan.config.tiles[1]
    if "rhs" not in plan.direct or shape.rhs_order[-1] != 1:
        return plan
    most = 8 * WIDEST_ACCESS_BYTES // plan.memory_bits("rhs")
    run = min(most, count & -count)
    assert plan.layouts.rhs is not None
    layouts = replace(
        plan.layouts,
        rhs=_side_by_side(plan.layouts.rhs, plan.orders["rhs"].index(1), run),
        acc=_side_by_side(plan.layouts.acc, 1, run),
    )
    return replace(plan, layouts=layouts, interleave=run)


def _side_by_side(layout: NestedLayout, dim: int, run: int) -> NestedLayout:
    """Of each ``run`` batches along a dim, an element each, with neighbours in a lane."""

    def scaled(tile: Ints, to: int) -> Ints:
        return (*tile[:dim], to, *tile[dim + 1 :])

    return replace(
        layout,
        batch_tile=scaled(layout.batch_tile, layout.batch_tile[dim] // run),
        element_tile=scaled(layout.element_tile, layout.element_tile[dim] * run),
    )


def _shared_order(shape: MatmulShape, mma: Mma, side: str) -> Ints:
    """The order in which a lane's run of K is contiguous.

    ``ldmatrix`` transposes elements of 16 bits itself.
    """
    operand, order = getattr(mma, side), shape.order(side)
    along_k = operand.dims.index("K")
    if order[-1] == along_k or operand.element[along_k] == 1 or dtype_bits(operand.dtype) >= 32:
        return order
    if mma.vendor == "nvidia" and dtype_bits(operand.dtype) > 8:
        return order
    return order[::-1]


def _check(
    shape: MatmulShape, target: Target, chip: GpuChip, mma: Mma, config: MatmulConfig
) -> None:
    size = subgroup_size(target)
    lanes = config.num_subgroups * size
    dtypes = tuple(tvm_dtype(dtype) for dtype in (mma.a, mma.b, mma.c))
    counts = (*config.subgroups, *config.tiles, config.k_tiles)
    reasons = {
        f"{chip.name} has no such instruction": not mma.on(chip.name),
        f"it is for subgroups of {mma.subgroup_size} lanes, the target's have {size}": (
            mma.subgroup_size != size
        ),
        "it multiplies several blocks at once": mma.blocks > 1,
        "it is shared by several subgroups": mma.num_subgroups > 1,
        f"its types are {', '.join(dtypes)}": (
            dtypes != (shape.lhs_dtype, shape.rhs_dtype, shape.result_dtype)
        ),
        f"{lanes} lanes; a workgroup has at most {chip.max_lanes}": lanes > chip.max_lanes,
        f"counts {counts} start at 1": min(counts) < 1,
        f"{config.splits} splits, and {config.workgroups} workgroups that share steps of K": (
            config.splits > 1 and config.workgroups > 0
        ),
        f"promote is {list(config.promote)}; expected some of {', '.join(SIDES)}": (
            not set(config.promote) <= set(SIDES)
        ),
        "lhs is read by columns; expected among those promoted": (
            "lhs" not in config.promote and shape.lhs_order[-1] == 0
        ),
        f"{config.workgroups} workgroups share steps of K, which are not known": (
            config.workgroups > 0 and shape.k is None
        ),
        "its A and B are not each other's transposes": (
            config.column_major and not mma.column_major
        ),
    }
    for reason, holds in reasons.items():
        if holds:
            raise ScheduleError(f"matmul by {mma.name}: {reason}")


def _check_registers(plan: MatmulPlan) -> None:
    chip, most = plan.chip, 8 if plan.asynchronous else 2
    if not 1 <= plan.config.stages <= most:
        raise ScheduleError(
            f"matmul by {plan.mma.name}: {plan.config.stages} stages; expected 1 to {most},"
            f" as the copies are {'' if plan.asynchronous else 'not '}asynchronous"
        )
    resident = -(-plan.config.num_subgroups // chip.simds_per_core)
    held = min(chip.max_registers, chip.register_file // resident)
    if plan.registers + plan.other_registers > held:
        raise ScheduleError(
            f"matmul by {plan.mma.name}: {plan.registers} registers of a lane for fragments;"
            f" {chip.name} has {held}, of which {plan.other_registers} are for the rest"
        )


def _check_memory(plan: MatmulPlan, size: int) -> None:
    chip = plan.chip
    if size > chip.shared_memory_bytes:
        raise ScheduleError(
            f"matmul by {plan.mma.name}: tiles of {size} bytes;"
            f" a workgroup of {chip.name} has {chip.shared_memory_bytes} of shared memory"
        )


def _placement(plan: MatmulPlan, side: str, padded: bool) -> ChosenPlacement:
    """How an operand's tile lies in shared memory, by what is done with it."""
    shape, bits = plan.tile_shape(side, plan.orders[side]), 8 * plan.element_bytes(side)
    count, size = plan.config.num_subgroups, plan.mma.subgroup_size
    copy = _written(plan, side)
    accesses = []
    if copy.undistributed_shape == shape:
        narrower, run_bytes = not plan.asynchronous, _written_bytes(plan, side)
        accesses.append(TileAccess(copy, count, size, run_bytes, narrower=narrower))
    if side in plan.ldmatrix:
        accesses.append(TileAccess(_matrix_rows(shape, 128 // bits), 1, 8, 16))
    else:
        accesses.append(TileAccess(getattr(plan.layouts, side), count, size))
    return choose_placement(
        shape,
        bits // 8,
        accesses,
        banks=plan.chip.banks,
        limit_bytes=None if padded else prod(shape) * bits // 8,
        alignment_bytes=_alignment(plan, side),
        swizzles=plan.config.swizzle,
        block_rows=_rows_read_together(plan, side),
    )


def _written(plan: MatmulPlan, side: str) -> NestedLayout:
    """The layout of the copy, as the tile lies in shared memory."""
    return permute(plan.copy(side), (1, 0)) if plan.transposes(side) else plan.copy(side)


def _written_bytes(plan: MatmulPlan, side: str) -> int:
    """What a lane writes at once."""
    run = min(_written(plan, side).element_tile[-1], plan.shared_run(side))
    return run * plan.element_bytes(side)


def _alignment(plan: MatmulPlan, side: str) -> int:
    """Bytes that rows in shared memory are aligned to."""
    if side in plan.ldmatrix:
        return 16
    # Writes that are no part of the costs keep their width.
    shape = plan.tile_shape(side, plan.orders[side])
    fixed = plan.asynchronous or _written(plan, side).undistributed_shape != shape
    return _written_bytes(plan, side) if fixed else BANK_BYTES


def _rows_read_together(plan: MatmulPlan, side: str) -> int:
    """Rows of a tile that one instruction takes."""
    mma = plan.mma
    own = (mma.m, mma.k) if side == "lhs" else (mma.k, mma.n)
    return own[plan.orders[side][0]]


def _matrix_rows(shape: Ints, run: int) -> NestedLayout:
    """What ``ldmatrix`` reads at once: 8 rows of 16 bytes, by 8 lanes."""
    steps = (shape[0] // 8, shape[1] // run)
    return NestedLayout((1, 1), steps, (1, 1), (8, 1), (1, run), (0, 0), (1, 0))
