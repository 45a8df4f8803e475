"""Instructions and tiles for products that were never tuned, by a model of their cost."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from tvm import DataType
from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError, TargetError
from tvm_iree_ext.intrin.fragments import fragment_lanes
from tvm_iree_ext.layout.analysis import Placement, coalescing
from tvm_iree_ext.schedules.gpu.products.matmul_cost import MatmulTiling, cost_us
from tvm_iree_ext.schedules.gpu.products.matmul_kinds import DEPTH_BYTES, multiplying_kinds
from tvm_iree_ext.schedules.gpu.products.matmul_plan import MatmulPlan
from tvm_iree_ext.schedules.gpu.products.matmul_planning import laid_out_matmul, plan_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_registers import MatmulRegisters
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import MatmulConfig
from tvm_iree_ext.schedules.gpu.products.matmul_turns import config_by_turns
from tvm_iree_ext.targets.gpu import GpuChip, gpu_chip, occupancy, subgroup_size
from tvm_iree_ext.targets.mma.contraction_layouts import contraction_layouts
from tvm_iree_ext.targets.mma.fma_kinds import FMA_TYPES, fma_kind, fma_lanes, fma_name
from tvm_iree_ext.targets.mma.mma_kinds import Mma, dtype_bits, tvm_dtype

_TILES = (
    (256, 256),
    (256, 128),
    (128, 128),
    (64, 256),
    (128, 64),
    (64, 128),
    (64, 64),
    (32, 32),
    (1, 1),
)
"""The most rows and columns of a workgroup."""
# Parts of K; of whole tiles only such as need no predicates.
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_MOST_SUMS = 256 * 128  # of a workgroup of four subgroups of 64 lanes
_STAGES = 2  # for which costs are compared
_LEAST_STEPS = 4  # tiles of K in each part of it
_ACCESS_BITS = 128
_LANE_ROWS = 8  # of 32-bit words, and columns, of a lane that multiplies by itself
_FEW_ROWS = 2  # instructions along m, for rhs to be read without shared memory
_TYPICAL = 4096  # what an extent that is known at call time counts as
_TYPICAL_GROUPS = 16
# Subgroups of a scheduler that copy tiles themselves, for some to multiply while others wait.
_HIDING = 4
_WIDE = 64  # lanes of a subgroup
_GAIN = 0.9  # of the time, below which workgroups share tiles: costs are rough

Pair = tuple[int, int]
Costs = dict[MatmulConfig, float]
Waiting = tuple[float, float, int] | None


def matmul_kind(shape: MatmulShape, target: Target) -> Mma:
    """The instruction for a product's types: fragments in accesses of 16 bytes, then the fewest.

    Raises:
        ScheduleError: when the chip has none, naming the types that it multiplies.
    """
    wanted = (shape.lhs_dtype, shape.rhs_dtype, shape.result_dtype)
    if by_lanes(wanted, target):
        return _lanes_kind(shape, subgroup_size(target))
    offered = multiplying_kinds(target)
    if wanted not in offered:
        types = sorted({"*".join(types[:2]) for types in offered})
        raise ScheduleError(
            f"matmul: {gpu_chip(target).name} has no instruction for {wanted[0]} * {wanted[1]} in"
            f" {wanted[2]}; it multiplies {', '.join(types) or 'nothing'}"
        )
    return max(offered[wanted], key=lambda mma: (_run_bits(mma), mma.kind == "native", mma.flops))


def by_lanes(types: tuple[str, str, str], target: Target) -> bool:
    """Whether products of these types are multiply-adds of lanes: the chip has nothing better."""
    same = types[0] == types[1] == types[2]
    known = types[2] in map(tvm_dtype, FMA_TYPES)
    return same and known and types not in multiplying_kinds(target)


def _lanes_kind(shape: MatmulShape, size: int) -> Mma:
    """The kind of lane tile with as many rows and columns as the product has for a lane."""
    dtype = next(one for one in FMA_TYPES if tvm_dtype(one) == shape.result_dtype)
    most = _LANE_ROWS * 32 // dtype_bits(dtype)
    rows, columns = (
        min(most, 1 << (-(-(extent or _TYPICAL) // count) - 1).bit_length())
        for extent, count in zip((shape.m, shape.n), fma_lanes(size), strict=True)
    )
    along = ("MK"[shape.lhs_order[-1]], "KN"[shape.rhs_order[-1]])
    return fma_kind(fma_name(dtype, rows, columns, size, *along))


def _run_bits(mma: Mma) -> int:
    """How much of an operand's row a lane reads at once."""
    assert mma.lhs is not None
    return min(_ACCESS_BITS, mma.lhs.element[-1] * dtype_bits(mma.a))


def matmul_config(shape: MatmulShape, target: Target) -> MatmulConfig:
    """The config for a product: the largest tiles, of no more than it needs, that fit the chip.

    Raises:
        ScheduleError: when nothing fits, with what the last attempt lacked.
    """
    search = _Search(shape, target)
    apart, config = search.best(search.costs())
    if not _known(shape) or not search.cores:
        return config
    turned = config_by_turns(shape, target)
    if turned is not None and turned[0] < apart:
        return turned[1]
    shared = search.costs_of_shares(_GAIN * apart)
    best = min(shared, key=lambda one: shared[one], default=config)
    return best if shared.get(best, apart) < _GAIN * apart else config


def shared_out_config(shape: MatmulShape, target: Target) -> MatmulConfig:
    """The config for a product with rows or columns that only a call tells.

    Nobody knows how many tiles there will be.  On NVIDIA's chips they are shared out to as many
    workgroups as the chip holds: the products of 128 tokens in a GPT-2 block have 6 to 24 tiles,
    of an H100's 132 cores.

    Raises:
        ScheduleError: when nothing fits, with what the last attempt lacked.
    """
    config = matmul_config(shape, target)
    if _known(shape) or shape.k is None or target.kind.name != "cuda" or config.workgroups:
        return config
    search = _Search(shape, target)
    return search.shared_out(config) if search.cores else config


class _Search:
    """The configs for a product by what they cost; see :mod:`.matmul_cost`."""

    def __init__(self, shape: MatmulShape, target: Target) -> None:
        self.shape, self.target = shape, target
        self.mma, self.chip = matmul_kind(shape, target), gpu_chip(target)
        self.cores = self.chip.parts[0].cores if self.chip.parts else 0
        m, n, k = (extent or _TYPICAL for extent in (shape.m, shape.n, shape.k))
        groups = shape.groups or _TYPICAL_GROUPS
        self.typical = replace(shape, m=m, n=n, k=k, groups=groups)
        self.m, self.n, self.k = m, n, k
        bytes_per_k = self.mma.k * dtype_bits(self.mma.a) // 8
        self.k_tiles = max(1, min(DEPTH_BYTES // bytes_per_k, -(-k // self.mma.k)))
        self.column_major = _column_major(self.mma)
        self.waiting: dict[tuple[Pair, Pair], list[tuple[int, Waiting]]] = {}

    def costs(self) -> Costs:
        """Cost of each tile, with K in parts."""
        depth, k = self.k_tiles * self.mma.k, self.k
        most = max(1, k // (_LEAST_STEPS * depth)) if _known(self.shape) else 1
        splits = [
            splits
            for splits in _SPLITS
            if splits <= most and not (k % depth == 0 and k // depth % splits)
        ]
        return {
            MatmulConfig(self.mma.name, subgroups, tiles, splits=parts): self._cost(
                subgroups, tile, parts
            )
            for (subgroups, tiles, tile), parts in product(self._tilings(), splits)
        }

    def costs_of_shares(self, below: float) -> Costs:
        """Cost of each tile, with all tiles and steps shared out to the resident workgroups.

        Those that cost no less than ``below`` even with one workgroup for each core are left out.
        """
        found: Costs = {}
        for subgroups, tiles, tile in self._tilings():
            if self._cost(subgroups, tile, 1, self.cores) >= below:
                continue
            try:
                config = self.shared_out(MatmulConfig(self.mma.name, subgroups, tiles))
            except ScheduleError:
                continue
            found[config] = self._cost(subgroups, tile, 1, config.workgroups)
        return found

    def shared_out(self, config: MatmulConfig) -> MatmulConfig:
        """With all tiles and steps shared out to as many workgroups as the chip holds.

        Raises:
            ScheduleError: when they do not fit, with what they lack.
        """
        plan = self.staged(replace(config, workgroups=self.cores))
        workgroups = self.cores * MatmulRegisters(plan).occupancy.workgroups_per_core
        return replace(plan.config, workgroups=workgroups)

    def best(self, costs: Costs) -> tuple[float, MatmulConfig]:
        """The cheapest that fits the chip, and what it costs.

        One that lacks scalar registers is slower, and for products that have no other.

        Raises:
            ScheduleError: when nothing fits, with what the last attempt lacked.
        """
        refused: ScheduleError | None = None
        for lean, config in product((True, False), sorted(costs, key=lambda one: costs[one])):
            try:
                return costs[config], self.staged(config, lean=lean).config
            except ScheduleError as error:
                refused = error
        raise refused or ScheduleError("matmul: no tiles fit")

    def staged(self, config: MatmulConfig, *, lean: bool = True) -> MatmulPlan:
        """With the stages and the depth for which there is room.

        Args:
            config: of which the rest is taken.
            lean: whether it must have its scalar registers.

        Raises:
            ScheduleError: when there is none, with what the last attempt lacked.
        """
        forms = _forms(self.shape, self.chip, self.mma, config)
        try:
            return self._planned(forms, (self.k_tiles, -(-self.k_tiles // 2)), lean)
        except ScheduleError:
            if self.shape.k is not None:
                raise
        # All lanes may copy more than a tile of an open K has: fewer lanes of deeper tiles do not.
        return self._planned([replace(config, subgroups=(1, 1))], (2 * self.k_tiles,), lean)

    def _planned(
        self, forms: Sequence[MatmulConfig], depths: Sequence[int], lean: bool
    ) -> MatmulPlan:
        """The best of some forms, stages and depths.

        Raises:
            ScheduleError: when none fits, with what the last lacked.
        """
        best: tuple[tuple[bool, float, bool], MatmulPlan] | None = None
        refused: ScheduleError | None = None
        for form, stages, depth in product(forms, (3, 2, 1), depths):
            chosen = replace(form, k_tiles=depth, stages=stages, column_major=self.column_major)
            if stages == 1 and best is not None and best[0][1]:
                break  # a tile under way is worth more than subgroups
            try:
                plan = plan_matmul(self.shape, self.target, chosen)
            except ScheduleError as error:
                refused = error
                continue
            if plan.by_turns:  # for what is ordered for it: see matmul_turns
                continue
            if lean and not MatmulRegisters(plan).scalars_suffice:
                refused = ScheduleError(f"matmul by {self.mma.name}: too few scalar registers")
                continue
            faults = (_alone(plan), self._lacking(plan), plan.has_bank_conflicts)
            if best is None or faults < best[0]:
                best = faults, plan
            if not any(faults):
                break
        if best is None:
            assert refused is not None
            raise refused
        return best[1]

    def _lacking(self, plan: MatmulPlan) -> float:
        """Subgroups of a scheduler that are too few to multiply while others wait for copies."""
        few = plan.config.subgroups[0] * plan.config.tiles[0] <= _FEW_ROWS
        if few or not _waits_for_copies(plan) or not self.cores:
            return 0
        rows, columns, _ = plan.tile
        parts = plan.config.workgroups or plan.config.splits * -(-self.m // rows) * -(
            -self.n // columns
        )
        each = plan.config.num_subgroups / self.chip.simds_per_core
        wanted = min(_HIDING, each * max(1, parts // self.cores))
        return max(0.0, wanted - _kept(plan, plan.shared_memory_bytes))

    def _waiting(self, subgroups: Pair, tiles: Pair) -> list[tuple[int, Waiting]]:
        """Of each depth that is tried, in instructions: what a subgroup waits for."""
        found: list[tuple[int, Waiting]] = []
        if subgroups[0] * tiles[0] <= _FEW_ROWS:  # of few rows memory is waited for, not products
            return [(self.k_tiles, None)]
        for depth in dict.fromkeys((self.k_tiles, -(-self.k_tiles // 2))):
            config = MatmulConfig(self.mma.name, subgroups, tiles, depth, _STAGES)
            try:
                plan = laid_out_matmul(self.shape, self.target, config)
            except ScheduleError:
                continue
            if not _waits_for_copies(plan):
                break
            kept = _kept(plan, sum(map(plan.tile_bytes, SIDES)))
            each = subgroups[0] * subgroups[1] / self.chip.simds_per_core
            if kept:
                found.append((depth, (each, kept, depth * max(tiles))))
        return found or [(self.k_tiles, None)]

    def _tilings(self) -> list[tuple[Pair, Pair, Pair]]:
        """Subgroups, instructions of each, and elements of a workgroup's tiles."""
        mma, m, n = self.mma, self.m, self.n
        found: dict[tuple[Pair, Pair, Pair], None] = {}
        for rows, columns in _TILES:
            sums = rows * columns * dtype_bits(mma.c) // 32
            if sums > _MOST_SUMS and (mma.subgroup_size != 32 or dtype_bits(mma.c) > 32):
                continue
            subgroups = _subgroups(mma, m, n, rows, columns)
            tiles = (
                _tiles(m, subgroups[0], mma.m, rows),
                _tiles(n, subgroups[1], mma.n, columns),
            )
            tile = (subgroups[0] * tiles[0] * mma.m, subgroups[1] * tiles[1] * mma.n)
            found[subgroups, tiles, tile] = None
        return list(found)

    def _cost(self, subgroups: Pair, tile: Pair, splits: int, workgroups: int = 0) -> float:
        lanes = subgroups[0] * subgroups[1] if self.mma.kind == "fma" else 0
        widths = [DataType(self.shape.memory_dtype(side)).bits / 8 for side in SIDES]
        tiles = (tile[0] // (subgroups[0] * self.mma.m), tile[1] // (subgroups[1] * self.mma.n))
        if (subgroups, tiles) not in self.waiting:
            self.waiting[subgroups, tiles] = self._waiting(subgroups, tiles)
        return min(
            cost_us(
                self.typical,
                self.chip,
                MatmulTiling(
                    *tile, depth * self.mma.k, _STAGES, splits, lanes, workgroups, waiting
                ),
                (widths[0], widths[1]),
            )
            for depth, waiting in self.waiting[subgroups, tiles]
        )


def _forms(shape: MatmulShape, chip: GpuChip, mma: Mma, config: MatmulConfig) -> list[MatmulConfig]:
    """A tile of a workgroup in other hands, the best first.

    With so few rows that a subgroup has them all, nobody else multiplies what it reads of rhs: on
    its way through shared memory it would only cost instructions.  Asynchronous copies cost fewer,
    and an instruction whose lanes hold the same elements would have them read more than once.
    """
    rows, columns = (a * b for a, b in zip(config.subgroups, config.tiles, strict=True))
    run = _ACCESS_BITS // dtype_bits(mma.b)
    whole = shape.rhs_order[-1] == 0 or shape.row("rhs") % run == 0
    converted = any(map(shape.converts, SIDES))
    past_registers = "cp.async" in chip.async_copy_bits
    if rows > _FEW_ROWS or past_registers or mma.kind == "fma" or converted or not whole:
        return [config]
    assert mma.lhs is not None
    assert mma.rhs is not None
    if any(fragment_lanes(one) < mma.subgroup_size for one in (mma.lhs, mma.rhs)):
        return [config]
    across = min(run, columns & -columns)
    direct = replace(
        config,
        subgroups=(1, columns // across),
        tiles=(rows, across),
        promote=() if shape.lhs_order[-1] == 1 else ("lhs",),
    )
    return [direct, config]


def _alone(plan: MatmulPlan) -> bool:
    """Whether asynchronous copies leave a scheduler one subgroup, which waits for every answer."""
    if not plan.asynchronous or plan.config.num_subgroups < plan.chip.simds_per_core:
        return False
    workgroups = plan.chip.shared_memory_per_core_bytes // (
        plan.shared_memory_bytes + plan.chip.shared_memory_reserved_bytes
    )
    return workgroups * plan.config.num_subgroups < 2 * plan.chip.simds_per_core


def _waits_for_copies(plan: MatmulPlan) -> bool:
    """Whether a subgroup copies what it multiplies through its registers, and waits for it.

    Of subgroups of 64 lanes, on which the costs of waits were fitted: a scheduler keeps few.
    """
    copies = not plan.direct and "cp.async" not in plan.chip.async_copy_bits
    return copies and plan.mma.kind != "fma" and plan.mma.subgroup_size == _WIDE


def _kept(plan: MatmulPlan, shared_bytes: int) -> float:
    """Subgroups that a scheduler keeps, as far as is foreseen; 0 where none fits."""
    try:
        found = occupancy(
            plan.chip,
            registers=min(MatmulRegisters(plan).total, plan.chip.max_registers),
            shared_memory_bytes=shared_bytes,
            lanes=plan.config.num_subgroups * plan.mma.subgroup_size,
            subgroup_size=plan.mma.subgroup_size,
        )
    except TargetError:
        return 0.0
    return found.subgroups_per_simd


def _known(shape: MatmulShape) -> bool:
    return None not in (shape.m, shape.n, shape.k, shape.groups)


def _subgroups(mma: Mma, m: int, n: int, rows: int, columns: int) -> tuple[int, int]:
    """A workgroup's, where the product has room for them.

    Those of 32 lanes have registers for 64 rows and columns of sums, and more of them share what is
    copied.  Few rows have no more of them instead: what a subgroup loads of lhs serves all its
    columns.  Where lanes multiply, a subgroup's rows and columns are many: small tiles have fewer
    subgroups.
    """
    narrow = mma.subgroup_size == 32 and min(m, rows) >= 256
    down = 4 if mma.kind == "fma" or narrow else 2
    across = 4 if narrow and columns >= 256 else 2
    if mma.kind == "fma":
        down, across = max(1, min(down, rows // mma.m)), max(1, min(across, columns // mma.n))
    return min(down, -(-m // mma.m)), min(across, -(-n // mma.n))


def _column_major(mma: Mma) -> bool:
    """Whether lanes store the transposed accumulator in fewer segments of memory, or accesses."""
    costs = {}
    for column_major in (False, True) if mma.column_major else (False,):
        acc = contraction_layouts(
            mma, "mnk", (mma.m, mma.n, mma.k), (1, 1, 1), column_major=column_major
        ).acc
        row = Placement(acc.undistributed_shape, dtype_bits(mma.c) // 8)
        cost = coalescing(acc, row, 1, mma.subgroup_size, segment_bytes=64)
        costs[column_major] = (cost.total, cost.instructions)
    return min(costs, key=lambda key: costs[key])


def _tiles(extent: int, subgroups: int, native: int, most: int) -> int:
    """Instructions of a subgroup along a dim: as many as the extent or the tile has room for."""
    return max(1, min(most // (subgroups * native), -(-extent // (subgroups * native))))
