"""Tiled matrix product by warpgroups (``wgmma``): one copies, the others multiply.

    for tile of rows and columns in blockIdx:
        warpgroup 0, for step of k:                 the others, for step of k:
            wait until slot ``step % stages`` is free    wait until the slot is full
            copy the tiles of lhs and rhs into it        multiply them; wait for the step before
            it is full when the copies have ended        its slot is free
                                                    store the accumulators

Each multiplying warpgroup has rows of its own.  Nobody waits for anybody but at the barriers of the
slots, two for each: ``stages`` steps are under way at once.  Copies are by tensor maps, swizzled as
the instruction's descriptors say and with zeros beyond the edges (``tma``); where rows are no
multiples of 16 bytes, by ``cp.async`` of a warpgroup's lanes, or element by element (``async``).

With ``workgroups``, as many as the chip holds at once take tiles in turns: the steps of the next
tile are copied while accumulators are stored, by way of shared memory that is no slot's.

Where the chip has tensor memory (``tcgen05``), a lane of warpgroup 0 multiplies into it, and
warpgroup 1 stores: :mod:`.warpgroup_tensor_memory`; or a lane multiplies for two workgroups, which
have a tile of twice the rows: :mod:`.warpgroup_pairs`.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import DataType
from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError, TargetError
from tvm_iree_ext.intrin import mbarrier
from tvm_iree_ext.intrin.shared_operands import SharedOperand, either_bits
from tvm_iree_ext.intrin.tcgen05 import COLUMNS
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import padded_shape
from tvm_iree_ext.schedules.gpu.products.stream_k import BAND
from tvm_iree_ext.schedules.gpu.products.warpgroup_tiles import (
    SUBGROUPS,
    AccumulatorStaging,
    WarpgroupTile,
)
from tvm_iree_ext.schedules.gpu.products.warpgroup_windows import ConvWindows
from tvm_iree_ext.targets.gpu import GpuChip, gpu_chip
from tvm_iree_ext.targets.mma.mma_kinds import (
    FROM_SHARED,
    IN_TENSOR_MEMORY,
    Mma,
    dtype_bits,
    tvm_dtype,
)
from tvm_iree_ext.targets.mma.mma_table import mma_kind

WARPGROUP = 128  # lanes
_PAIR = 2  # accumulators side by side in a lane's registers
_ACCESS_BYTES = 16
_MOST_LOADED = 64  # columns of tensor memory that are in registers at once
STEPS = 4
"""Instructions along k of a slot: 128 bytes, the widest swizzle, for every type."""
_SWIZZLES = (128, 64, 32, 16)
_LINE = 128  # bytes
_ATOM_BYTES = 1024  # to which swizzled tiles are aligned
_HELD = {1: 192, 2: 192, 3: 96}
"""Registers of a lane for accumulators, by warpgroups that multiply; it needs others, too.

With as many, ``ptxas`` 13.5 spills nothing on ``sm_90a``: float16, 192 columns, two tiles of one or
two warpgroups, or one of three.
"""
COPIES = ("tma", "async")
"""How tiles are copied."""
GUESSED_ROWS = 8192
"""Rows, where they are known at call time."""
_GUESSED_IMAGES = 8  # likewise


@dataclass(frozen=True)
class WarpgroupConfig:
    """The numbers of a product by warpgroups.

    Attributes:
        mma_kind: the instruction.
        consumers: warpgroups that multiply, one below the other; 1 with tensor memory.
        tiles: instructions of each along the rows.
        columns: and along the columns, of the same operand of shared memory.
        stages: steps of k that are under way at once.
        copies: ``tma`` or ``async``.
        pad: the operands that are first copied to rows of whole accesses.
        workgroups: that take tiles in turns; 0 for one to a tile, or to a part of K of it.
        splits: parts of K that are multiplied at once; a second kernel adds their sums.
    """

    mma_kind: str
    consumers: int = 2
    tiles: int = 1
    stages: int = 4
    copies: str = "tma"
    pad: tuple[str, ...] = ()
    columns: int = 1
    workgroups: int = 0
    splits: int = 1


@dataclass(frozen=True)
class WarpgroupPlan:
    """The plan of a product by warpgroups.

    Attributes:
        groups: how many products.
        extents: m, n and k of each; m is a guess where it is known at call time.
        tile: rows, columns and depth of a workgroup's step, or of a pair's.
        shared: the tiles of ``lhs`` and ``rhs`` in a slot.
        memory: bytes of shared memory that a workgroup may have.
        windows: where rows are pixels of a convolution.
    """

    shape: MatmulShape
    config: WarpgroupConfig
    mma: Mma
    groups: int
    extents: Ints
    tile: Ints
    shared: dict[str, WarpgroupTile]
    memory: int
    windows: ConvWindows | None = None

    @property
    def slot_bytes(self) -> int:
        """Bytes of a step's tiles."""
        return sum(tile.nbytes for tile in self.shared.values())

    @property
    def in_tensor_memory(self) -> bool:
        """Whether sums lie there."""
        return self.mma.kind in IN_TENSOR_MEMORY

    @property
    def sum_columns(self) -> int:
        """Columns of tensor memory that a tile's sums take."""
        return self.config.tiles * self.mma.n

    @property
    def part_rows(self) -> int:
        """Rows of an instruction's sums that a workgroup has."""
        return self.mma.m // self.mma.workgroups

    @property
    def halves(self) -> int:
        """Tiles whose sums are in tensor memory at once."""
        return 2 if self.config.workgroups else 1

    def columns(self, halves: int) -> int:
        """Columns of tensor memory that are taken with the sums of so many tiles."""
        return halves * self.sum_columns

    @property
    def slot_end(self) -> int:
        """Bytes from the begin of a slot to the end of what lies in it."""
        last = self.shared["rhs"]
        return last.offset + last.nbytes

    @property
    def further_words(self) -> int:
        """Behind the slots' barriers: one of all that multiply; or those of the halves of tensor
        memory, and its address.
        """
        return 2 * self.halves + 1 if self.in_tensor_memory else 1

    @property
    def staging(self) -> AccumulatorStaging:
        """Accumulators in the slots, or behind them, as many columns at once as there is room for.

        They are behind the slots where the next tile is copied to these meanwhile.
        """
        itemsize = dtype_bits(self.mma.c) // 8
        room, offset = self.config.stages * slot_stride(self), 0
        if self.config.workgroups:
            offset = -(-_slots_bytes(self) // _LINE) * _LINE
            room = self.memory - offset
        rows = self.mma.m // (SUBGROUPS * self.mma.workgroups)
        run = _ACCESS_BYTES // itemsize if self.in_tensor_memory else _PAIR
        pad = run if self.in_tensor_memory else 2 * _ACCESS_BYTES // itemsize
        parts = -(-self.mma.n // _MOST_LOADED) if self.in_tensor_memory else 1
        while True:
            found = AccumulatorStaging(self.mma.n // parts, parts, itemsize, offset, rows, run, pad)
            if found.nbytes(self.config.consumers) <= room or self.mma.n // parts % 16:
                return found
            parts *= 2

    @property
    def lanes(self) -> int:
        """Lanes of a workgroup."""
        return WARPGROUP * (1 + self.config.consumers)

    @property
    def steps(self) -> int:
        """Along k."""
        if self.windows is not None:
            return self.windows.steps(self.tile[2])
        return -(-self.extents[2] // self.tile[2])

    @property
    def share(self) -> int:
        """Steps of a part of K; of the last one, perhaps fewer."""
        return -(-self.steps // self.config.splits)

    def row_tiles(self, rows: Any, batch: Any) -> Any:
        """Tiles of so many rows, or of the pixels of so many images."""
        if self.windows is None:
            return -(-rows // self.tile[0])
        return -(-self.windows.boxes(batch) // self.shared["lhs"].count)

    @property
    def grid(self) -> Ints:
        """Tiles of rows and of columns."""
        batch = (self.windows.image[0] or _GUESSED_IMAGES) if self.windows else 1
        return (self.row_tiles(self.extents[0], batch), -(-self.extents[1] // self.tile[1]))

    @property
    def band(self) -> int:
        """Rows of tiles that workgroups go through column by column."""
        return BAND * max(1, self.tile[1] // self.tile[0])

    def matrix(self, side: str, rows: Any) -> tuple[Any, ...]:
        """Extents of ``lhs`` or ``rhs``, as it lies in memory: after the groups, if several.

        ``rows`` are m, a number or an expression.
        """
        _, n, k = self.extents
        own = (rows, k) if side == "lhs" else (k, n)
        across, along = (own[dim] for dim in self.shape.order(side))
        return (*self._groups, across, self.shape.pitch(side) or along)

    @property
    def _groups(self) -> Ints:
        return (self.groups,) if self.groups > 1 else ()

    def tensor_map(self, side: str, rows: Any, batch: Any = 1) -> mbarrier.TensorMapDescriptor:
        """Tensor map of ``lhs`` or ``rhs``; ``rows`` as of :meth:`matrix`, ``batch`` the images.

        Raises:
            TargetError: where the tensor memory unit cannot copy it.
        """
        tile = self.shared[side]
        _, box, _ = tile.boxes[0]
        extents, lead = self.matrix(side, rows), tuple(1 for _ in self._groups)
        steps: Ints = ()
        if self.windows is not None:
            channels, filters = self.windows.image[3], self.extents[1]
            if side == "lhs":
                extents, lead = (batch, *self.windows.image[1:]), self.windows.box[:2]
                box = (self.windows.box[2], box[1])
                steps = (1, *self.windows.strides, 1)
            else:
                extents, lead = (prod(self.windows.kernel), channels, filters), (1,)
        return mbarrier.TensorMapDescriptor(
            side, self.shape.memory_dtype(side), extents, (*lead, *box),
            tile.operand.swizzle_bytes, steps,
        )  # fmt: skip


def plan_warpgroup_matmul(
    shape: MatmulShape,
    target: Target,
    config: WarpgroupConfig,
    windows: ConvWindows | None = None,
) -> WarpgroupPlan:
    """Derive the tiles of a product, and check them against the chip.

    ``windows`` say where the rows are, where they are pixels.

    Raises:
        ScheduleError: for what the chip, the instruction or shared memory cannot have.
    """
    kind = config.mma_kind
    chip, mma = gpu_chip(target), mma_kind(kind)
    where = f"matmul by {kind}"
    if config.pad and (windows is not None or config.copies != "tma"):
        raise ScheduleError(
            f"{where}: pad is {list(config.pad)}; it is for matrices that tensor maps copy"
        )
    turned = [side for side in SIDES if side in config.pad and turns(mma, shape, side)]
    shape = padded_shape(shape, config.pad, where, turned)
    if mma.kind not in FROM_SHARED or mma.lhs_scale or not mma.on(chip.name):
        raise ScheduleError(f"{where}: {chip.name} has no such warpgroup instruction")
    dtypes = tuple(tvm_dtype(dtype) for dtype in (mma.a, mma.b, mma.c))
    if dtypes != (shape.lhs_dtype, shape.rhs_dtype, shape.result_dtype):
        raise ScheduleError(f"{where}: its types are {', '.join(dtypes)}")
    rows = shape.m
    if rows is None and shape.lhs_order == (0, 1):
        rows = _GUESSED_IMAGES * prod(windows.output) if windows else GUESSED_ROWS
    extents = tuple(extent for extent in (rows, shape.n, shape.k) if extent is not None)
    own = not any(map(shape.converts, SIDES))
    if len(extents) < 3 or shape.groups is None or not own:
        raise ScheduleError(
            f"{where}: it takes matrices of fixed extents, but for rows that lie along k, in the"
            " types that it multiplies"
        )
    if config.copies not in COPIES:
        raise ScheduleError(f"{where}: copies {config.copies!r}; there are {', '.join(COPIES)}")
    if mma.workgroups > 1 and (config.tiles != 1 or config.workgroups % mma.workgroups):
        raise ScheduleError(
            f"{where}: {config.tiles} tiles by {config.workgroups} workgroups; pairs have one tile,"
            " and are two workgroups each"
        )
    instructions = config.tiles * config.columns
    if config.consumers not in _HELD or instructions < 1 or config.stages < 2:
        raise ScheduleError(
            f"{where}: {config.consumers} consumers, {config.tiles} tiles, {config.stages} stages;"
            f" expected 1 to {max(_HELD)}, 1 or more, and 2 or more"
        )
    if mma.kind == "warpgroup":
        held = (instructions + sums_apart(mma)) * mma.operand("acc").registers
        if held > (limit := _HELD[config.consumers]):
            raise ScheduleError(
                f"{where}: accumulators take {held} registers of a lane; there are {limit} for"
                f" {config.consumers} consumers"
            )
    majors = {"lhs": shape.lhs_order == (0, 1), "rhs": shape.rhs_order == (1, 0)}
    shared, tile = slot_tiles(mma, config, majors)
    memory = chip.shared_memory_bytes
    plan = WarpgroupPlan(shape, config, mma, shape.groups, extents, tile, shared, memory, windows)
    check_limits(plan, chip, where)
    return plan


def slot_tiles(
    mma: Mma, config: WarpgroupConfig, majors: dict[str, bool]
) -> tuple[dict[str, WarpgroupTile], Ints]:
    """A slot's tiles, by operand of which ``majors`` say whether K is contiguous; the extents.

    Raises:
        ScheduleError: for what the instruction cannot read.
    """
    counts = {"lhs": config.consumers * config.tiles, "rhs": config.columns}
    shared, offset = {}, 0
    try:
        for side in SIDES:
            operand = _widest(mma, side, majors[side])
            shared[side] = WarpgroupTile(operand, counts[side], offset)
            offset += -(-shared[side].nbytes // _ATOM_BYTES) * _ATOM_BYTES
    except TargetError as error:
        raise ScheduleError(f"matmul by {error}") from error
    depth = STEPS * shared["lhs"].operand.depth
    return shared, (counts["lhs"] * mma.m, counts["rhs"] * mma.n, depth)


def check_limits(plan: WarpgroupPlan, chip: GpuChip, where: str) -> None:
    """Check a plan against the chip.

    Raises:
        ScheduleError: for what it cannot have.
    """
    config, windows = plan.config, plan.windows
    if plan.groups * config.splits > chip.max_grid[1]:
        many = f"{plan.groups} groups" + (f" of {config.splits} parts" * (config.splits > 1))
        raise ScheduleError(f"{where}: {many}; a grid has {chip.max_grid[1]}")
    _check_tensor_memory(plan, where)
    _check_splits(plan, where)
    size = shared_bytes(plan)
    if size > chip.shared_memory_bytes:
        raise ScheduleError(
            f"{where}: {config.stages} stages of tiles take {size} bytes of shared memory;"
            f" there are {chip.shared_memory_bytes}"
        )
    if config.copies == "tma":
        for side in SIDES:
            try:
                plan.tensor_map(side, plan.extents[0], windows.image[0] or 1 if windows else 1)
            except TargetError as error:
                raise ScheduleError(f"{where}: {error}") from error


def _check_tensor_memory(plan: WarpgroupPlan, where: str) -> None:
    if not plan.in_tensor_memory:
        return
    config = plan.config
    if (config.consumers, config.columns, config.copies) != (1, 1, "tma") or plan.windows:
        raise ScheduleError(
            f"{where}: {config.consumers} consumers, {config.columns} columns, copies"
            f" {config.copies!r}; with sums in tensor memory there is one of each, and tensor maps"
            " of matrices"
        )
    if (taken := plan.columns(plan.halves)) > COLUMNS:
        scales = " and scales" if plan.mma.lhs_scale else ""
        raise ScheduleError(
            f"{where}: sums{scales} take {taken} columns of tensor memory; there are {COLUMNS}"
        )


def _check_splits(plan: WarpgroupPlan, where: str) -> None:
    splits = plan.config.splits
    if splits == 1:
        return
    if plan.windows is not None or plan.shape.m is None or plan.config.workgroups:
        raise ScheduleError(
            f"{where}: {splits} splits; only products of known rows, of which each workgroup has"
            " one tile, are in parts"
        )
    if (splits - 1) * plan.share >= plan.steps:
        raise ScheduleError(f"{where}: {splits} splits of {plan.steps} steps leave parts empty")


def turns(mma: Mma, shape: MatmulShape, side: str) -> bool:
    """Whether an instruction takes an operand turned: K contiguous."""
    along = {"lhs": (0, 1), "rhs": (1, 0)}[side]
    return shape.order(side) != along and DataType(shape.dtype(side)).bits not in either_bits(mma)


def sums_apart(mma: Mma) -> bool:
    """Whether the sums of a step are added to those before by the lanes.

    An H100's warpgroups add products of 8-bit floats with some 14 bits. Of 4096 products of normal
    numbers the sums are 1.6e-3 off, by their norm, where all are added so, 2.5e-4 where 128 are,
    and float32's sums 1e-7; cuBLASLt's are the same in kind (`scripts/gpu-day`).
    """
    return mma.kind == "warpgroup" and mma.a.startswith("f8")


def slot_stride(plan: WarpgroupPlan) -> int:
    """Bytes from a slot to the next: atoms of swizzled rows are aligned to what they span."""
    return -(-plan.slot_end // _ATOM_BYTES) * _ATOM_BYTES


def shared_bytes(plan: WarpgroupPlan) -> int:
    """Bytes of shared memory of a workgroup."""
    if not plan.config.workgroups:
        return _slots_bytes(plan)
    staging = plan.staging
    return staging.offset + staging.nbytes(plan.config.consumers)


def _slots_bytes(plan: WarpgroupPlan) -> int:
    """Bytes of the slots, two barriers for each, and further words."""
    words = 2 * plan.config.stages + plan.further_words
    return plan.config.stages * slot_stride(plan) + words * mbarrier.BYTES


def _widest(mma: Mma, side: str, k_major: bool) -> SharedOperand:
    """The operand in the widest atoms of which its rows are multiples."""
    plain = SharedOperand(mma, side, STEPS, k_major, _SWIZZLES[-1])
    row_bytes = plain.tile[1] * plain.bits // 8
    for swizzle_bytes in _SWIZZLES[:-1]:
        if row_bytes == swizzle_bytes or (not k_major and row_bytes % swizzle_bytes == 0):
            return SharedOperand(mma, side, STEPS, k_major, swizzle_bytes)
    return plain
