"""Kernels in the table of hot loops: products, convolutions, attention, scheduled for a chip."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.inspection.tile_rounds import Panels, TileReads, in_bands, row_by_row
from tvm_iree_ext.ops import attention, conv_2d
from tvm_iree_ext.schedules.gpu.attention.attention_plan import AttentionPlan
from tvm_iree_ext.schedules.gpu.attention.attention_rule import GpuAttention
from tvm_iree_ext.schedules.gpu.conv_2d.conv_2d_operands import ConvOperands, conv_shape
from tvm_iree_ext.schedules.gpu.conv_2d.conv_2d_warpgroup import conv_windows
from tvm_iree_ext.schedules.gpu.products.matmul import schedule_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_heuristic import matmul_config
from tvm_iree_ext.schedules.gpu.products.matmul_plan import MatmulPlan
from tvm_iree_ext.schedules.gpu.products.matmul_planning import plan_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_shape import (
    MatmulOperands,
    MatmulShape,
    PlainOperands,
)
from tvm_iree_ext.schedules.gpu.products.stream_k import BAND
from tvm_iree_ext.schedules.gpu.products.warpgroup_heuristic import warpgroup_config
from tvm_iree_ext.schedules.gpu.products.warpgroup_kernel import warpgroup_matmul
from tvm_iree_ext.schedules.gpu.products.warpgroup_numbers import chosen_warpgroups
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import plan_warpgroup_matmul
from tvm_iree_ext.schedules.gpu.products.warpgroup_windows import ConvWindows
from tvm_iree_ext.targets.gpu import GpuChip, GpuPart, gpu_chip
from tvm_iree_ext.targets.mma.mma_kinds import Mma, dtype_bits

ORDERS = {"NxK": (1, 0), "KxN": (0, 1)}
"""How B lies in memory: its dims, the contiguous one last."""

ANY_ORDER = "any"
"""The order of a case that has no B."""

_FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz")  # the second is what gfx942 multiplies


@dataclass(frozen=True)
class Bound:
    """Least time of a case on a part: the larger of the two times.

    Attributes:
        part: whose peaks are taken.
        operations_us: of all workgroups' tiles in whole rounds over the cores, at the peak.
        bytes_us: of operands and result, once each, at the memory's bandwidth.
        result_us: of these, the result's.
    """

    part: str
    operations_us: float
    bytes_us: float
    result_us: float

    @property
    def limit(self) -> str:
        """The resource that limits: ``operations`` or ``bytes``."""
        return "operations" if self.operations_us >= self.bytes_us else "bytes"


@dataclass(frozen=True)
class Moved:
    """Bytes of operands and of the result."""

    read: int
    written: int


@dataclass(frozen=True)
class Scheduled:
    """A case on a chip before it is compiled.

    Attributes:
        module: with one function, of which one kernel multiplies.
        config: what was chosen, in words.
        tile: of a workgroup.
        reads: of all workgroups.
        bound: at the peaks of the chip's first part that has the type; None where none has.
    """

    module: ir.IRModule
    config: str
    tile: tuple[int, ...]
    reads: TileReads
    bound: Bound | None


class HotLoopCase(Protocol):
    """A computation that each chip is given."""

    @property
    def orders(self) -> tuple[str, ...]:
        """In which its operands are given."""

    def scheduled(self, target: Target, order: str) -> Scheduled:
        """The kernel for a target.

        Raises:
            ScheduleError: where the chip has none, saying why.
        """


@dataclass(frozen=True)
class HotLoopProduct:
    """A product ``m * k`` by ``k * n``, of the first of ``dtypes`` that the chip multiplies."""

    m: int
    n: int
    k: int
    dtypes: tuple[str, ...]
    result_dtype: str

    @property
    def orders(self) -> tuple[str, ...]:
        """Both of B."""
        return tuple(ORDERS)

    def scheduled(self, target: Target, order: str) -> Scheduled:
        """By the rule for contractions."""
        refused: ScheduleError | None = None
        for dtype in self.dtypes:
            shape = MatmulShape(
                self.m, self.n, self.k, dtype, dtype, self.result_dtype, rhs_order=ORDERS[order]
            )
            if chosen_warpgroups(shape, target):
                operands = PlainOperands(shape)
                return _by_warpgroups(shape, target, operands, "matmul", self._moved(dtype))
            try:
                plan = plan_matmul(shape, target, matmul_config(shape, target))
            except ScheduleError as error:
                refused = refused or error
                continue
            return _scheduled_product(plan, target, PlainOperands(shape), self._moved(dtype))
        assert refused is not None
        raise refused

    def _moved(self, dtype: str) -> Moved:
        written = self.m * self.n * item_bytes(self.result_dtype)
        return Moved(self.k * (self.m + self.n) * item_bytes(dtype), written)


@dataclass(frozen=True)
class Convolution:
    """A convolution of NHWC images of float16 by 3 x 3, padded by 1, with sums as the result."""

    image: tuple[int, int, int, int]
    filters: int

    @property
    def orders(self) -> tuple[str, ...]:
        """That of the filter."""
        return ("KxN",)

    def scheduled(self, target: Target, order: str) -> Scheduled:
        """By the rule for convolutions."""
        taps = (3, 3, self.image[3], self.filters)
        op = conv_2d(self.image, taps, padding=1, dtype="float16", result_dtype="float32")
        shape = conv_shape(op, ("float16", "float16", "float32"))
        *read, written = (
            prod(map(int, one.shape)) * item_bytes(one.dtype) for one in op.signature.operands
        )
        moved = Moved(sum(read), written)
        windows, given = conv_windows(op), ConvOperands(op, shape)
        if windows is not None and chosen_warpgroups(shape, target, windows):
            return _by_warpgroups(shape, target, given, op.entry, moved, windows)
        plan = plan_matmul(shape, target, matmul_config(shape, target))
        return _scheduled_product(plan, target, given, moved)


def _scheduled_product(
    plan: MatmulPlan, target: Target, operands: MatmulOperands, moved: Moved
) -> Scheduled:
    """A product that moves so many bytes."""
    rows, columns, depth = plan.tile
    m, n, k = (int(extent or 0) for extent in (plan.shape.m, plan.shape.n, plan.shape.k))
    grid = (-(-m // rows), -(-n // columns))
    steps = -(-k // (plan.config.splits * depth))
    shared_out = plan.config.workgroups > 0
    order = in_bands(*grid, BAND) if shared_out else row_by_row(*grid, plan.config.splits)
    return Scheduled(
        ir.IRModule({"main": schedule_matmul(plan.shape, target, plan.config, operands)}),
        f"{plan.config.mma_kind} {rows}x{columns}x{depth}, {plan.config.stages}",
        plan.tile,
        _tile_reads(order, plan.tile, steps, plan.mma, shared_out=shared_out),
        _bound(
            plan.chip, plan.shape.lhs_dtype, prod(grid) * plan.config.splits,
            2 * steps * prod(plan.tile), moved,
        ),
    )  # fmt: skip


def _by_warpgroups(
    shape: MatmulShape,
    target: Target,
    operands: MatmulOperands,
    entry: str,
    moved: Moved,
    windows: ConvWindows | None = None,
) -> Scheduled:
    """The same on instructions of a warpgroup."""
    config = warpgroup_config(shape, target, windows)
    plan = plan_warpgroup_matmul(shape, target, config, windows)
    rows, columns, depth = plan.tile
    func = warpgroup_matmul(shape, target, config, operands, windows)
    height, width = plan.grid
    order = (
        (part * height + row, part * width + column)  # each part of K has panels of its own
        for part in range(config.splits)
        for row, column in in_bands(height, width, plan.band)
    )
    return Scheduled(
        ir.IRModule({entry: func}),
        f"{config.mma_kind} {rows}x{columns}x{depth}, {config.stages}",
        plan.tile,
        _tile_reads(order, plan.tile, plan.share, plan.mma),
        _bound(
            gpu_chip(target), shape.lhs_dtype, prod(plan.grid) * config.splits,
            2 * plan.share * prod(plan.tile), moved,
        ),
    )  # fmt: skip


def _tile_reads(
    order: Iterable[Panels], tile: Sequence[int], steps: int, mma: Mma, *, shared_out: bool = False
) -> TileReads:
    """Of tiles of so many steps."""
    rows, columns, depth = tile
    panels = (
        rows * depth * steps * dtype_bits(mma.a) // 8,
        columns * depth * steps * dtype_bits(mma.b) // 8,
    )
    return TileReads(list(order), panels, shared_out)


@dataclass(frozen=True)
class HeadAttention:
    """Attention of float16 without a mask: as many queries as keys."""

    batch: int
    heads: int
    rows: int
    depth: int

    @property
    def orders(self) -> tuple[str, ...]:
        """One."""
        return (ANY_ORDER,)

    def scheduled(self, target: Target, order: str) -> Scheduled:
        """By the rule for attention."""
        shape = (self.batch, self.heads, self.rows, self.depth)
        op = attention(shape, shape, shape, dtype="float16")
        rule = GpuAttention()
        if (reason := rule.applies(op, target)) is not None:
            raise ScheduleError(reason)
        plan = rule.plan(op, target, rule.heuristic(op, target))
        config = f"{plan.config.mma_kind} {plan.rows}x{plan.keys}"
        tile = (plan.rows, plan.keys, plan.config.columns)
        module = rule.lower(op, target, plan.config.lowering())
        return Scheduled(module, config, tile, self._reads(plan), self._bound(plan))

    def _reads(self, plan: AttentionPlan) -> TileReads:
        """Each workgroup's rows of the query, and keys and values of its head."""
        heads, tiles = self.batch * self.heads, -(-self.rows // plan.rows)
        panels = [(head * tiles + tile, head) for head in range(heads) for tile in range(tiles)]
        row_bytes = self.depth * dtype_bits(plan.first.a) // 8
        return TileReads(panels, (plan.rows * row_bytes, 2 * self.rows * row_bytes))

    def _bound(self, plan: AttentionPlan) -> Bound | None:
        workgroups = self.batch * self.heads * -(-self.rows // plan.rows)
        keys = -(-self.rows // plan.keys) * plan.keys
        each = self.batch * self.heads * self.rows * self.depth * dtype_bits(plan.first.a) // 8
        operations = 2 * 2 * plan.rows * keys * self.depth
        return _bound(
            plan.chip, plan.product_dtypes[0], workgroups, operations, Moved(3 * each, each)
        )


def _bound(
    chip: GpuChip, dtype: str, workgroups: int, operations: int, moved: Moved
) -> Bound | None:
    """Roofline bound of workgroups with so many operations each, and so many bytes together."""
    dtype = "float8" if dtype.startswith("float8") else dtype
    part: GpuPart | None = next((p for p in chip.parts if dtype in p.peak_tflops), None)
    if part is None:
        return None
    rounds = -(-workgroups // part.cores)
    return Bound(
        part.name,
        rounds * part.cores * operations / part.peak_tflops[dtype] / 1e6,
        (moved.read + moved.written) / part.bandwidth_tbs / 1e6,
        moved.written / part.bandwidth_tbs / 1e6,
    )


CASES: Mapping[str, HotLoopCase] = {
    "matmul-f16": HotLoopProduct(4096, 4096, 4096, ("float16",), "float32"),
    "matmul-bf16": HotLoopProduct(4096, 4096, 4096, ("bfloat16",), "float32"),
    "matmul-i8": HotLoopProduct(4096, 4096, 4096, ("int8",), "int32"),
    "matmul-fp8": HotLoopProduct(4096, 4096, 4096, _FLOAT8, "float32"),
    "skinny-f16": HotLoopProduct(16, 4096, 4096, ("float16",), "float32"),
    "conv-f16": Convolution((16, 56, 56, 128), 256),
    "attention-f16-d128": HeadAttention(8, 16, 4096, 128),
    "attention-f16-d64": HeadAttention(8, 16, 4096, 64),
}
