"""Attention by warpgroups (``wgmma``): one copies, the others multiply.

    warpgroup 0:                          the others, with 64 rows each:
        copy the query                        wait for the query
        for tile of keys:                     for tile of keys:
            wait until its slot is free           wait for the keys; start S = Q K
            copy the keys, then the values        wait for the last values; start O += P V
                                                  S has come; free the keys' slot
                                                  mask, maximum, exp2(S - maximum)
                                                  O has come; free the values' slot
                                                  P = what exp2 gave; rescale O
                                              O += P V for the last tile; O / sum

S is read from shared memory, P from registers; the softmax of a tile hides behind the second
product of the tile before. The tensor memory unit copies boxes of 64 columns, swizzled as the
instruction's descriptors say, with zeros beyond the arrays. A warp holds of an accumulator what it
would of many ``m16n8k16``, so that all but copies and products is the other kernel's, with warps as
subgroups.

Where the chip has tensor memory (``tcgen05``), a lane of warpgroup 0 multiplies into it, and the
others turn scores into weights, with 128 rows each: :mod:`.attention_tensor_memory`.
"""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError, TargetError
from tvm_iree_ext.intrin import mbarrier
from tvm_iree_ext.intrin.shared_operands import SharedOperand
from tvm_iree_ext.intrin.tcgen05 import COLUMNS
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules.gpu.attention.attention_config import (
    WARPGROUP_ALGORITHM,
    GpuAttentionConfig,
)
from tvm_iree_ext.schedules.gpu.attention.attention_plan import AttentionPlan
from tvm_iree_ext.schedules.gpu.attention.attention_products import product_dtypes
from tvm_iree_ext.targets.gpu import gpu_chip
from tvm_iree_ext.targets.mma.mma_kinds import FROM_SHARED, Mma, dtype_bits, tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_kinds

WARPGROUP = 128  # lanes
SUBGROUPS = 4  # of a warpgroup
_LANES = 32
BOX_COLUMNS = 64  # of 16 bits: rows of 128 bytes, the widest swizzle
_SWIZZLE_BYTES = 128
_WARP_KINDS = {
    "float16": "NV_MMA_SYNC_F32_16x8x16_F16",
    "bfloat16": "NV_MMA_SYNC_F32_16x8x16_BF16",
}
"""What a warp's part of an instruction is made of."""
_KEYS = (128, 64)
_STAGES = 2
_HELD = 200
"""Registers of a lane for scores, weights and outputs.

A guess, fitted on no compiler's report: of 255, some 50 are left for addresses and the softmax.  Of
tiles of 64 or 128 keys and of multiples of 64 columns, those that take most have 192; the next, of
128 keys and 256 columns, would take 224.
"""
_FEW_ROWS = 64  # of which the other kernel leaves less idle


@dataclass(frozen=True)
class WarpgroupAttention:
    """The plan of a kernel by warpgroups.

    Attributes:
        plan: of warps: all that does not multiply or copy.
        first, second: the instructions; each warpgroup has the rows of one.
        depth, columns: k1 and n, padded to boxes.
    """

    plan: AttentionPlan
    first: Mma
    second: Mma
    depth: int
    columns: int

    @property
    def consumers(self) -> int:
        """Warpgroups with rows of their own: that multiply them, or weigh them."""
        return self.plan.subgroups // SUBGROUPS

    @property
    def in_tensor_memory(self) -> bool:
        """Whether scores, weights and outputs lie there."""
        return self.first.kind == "tensor_memory"

    @property
    def sum_columns(self) -> int:
        """Columns of tensor memory: scores, in whose place weights come, and outputs."""
        return self.consumers * (self.plan.keys + self.columns)

    def scores_column(self, consumer: int) -> int:
        """The first column of a warpgroup's scores."""
        return consumer * self.plan.keys

    def outputs_column(self, consumer: int) -> int:
        """The first column of a warpgroup's outputs."""
        return self.consumers * self.plan.keys + consumer * self.columns

    @property
    def stages(self) -> int:
        """Tiles of keys and of values that are under way at once."""
        return self.plan.config.stages

    @property
    def extents(self) -> dict[str, Ints]:
        """Rows and columns in shared memory of each operand's tile."""
        return {
            "query": (self.plan.rows, self.depth),
            "key": (self.plan.keys, self.depth),
            "value": (self.plan.keys, self.columns),
        }

    def nbytes(self, name: str) -> int:
        """Of an operand's tile."""
        return 2 * prod(self.extents[name])

    def offset(self, name: str) -> int:
        """The first byte of an operand's first tile: tiles are multiples of what swizzles span."""
        found = 0
        for other, count in (("query", 1), ("key", self.stages), ("value", self.stages)):
            if other == name:
                return found
            found += count * self.nbytes(other)
        return found

    @property
    def further_words(self) -> int:
        """Of tensor memory: barriers of each warpgroup's scores and weights, and its address."""
        return 2 * self.consumers + 1 if self.in_tensor_memory else 0

    @property
    def words(self) -> int:
        """Behind the tiles: the query's barrier, of each slot of keys and of values one for "full"
        and one for "free", and further ones.
        """
        return 1 + 4 * self.stages + self.further_words

    @property
    def shared_bytes(self) -> int:
        """Of a workgroup."""
        return self.offset("end") + self.words * mbarrier.BYTES

    @property
    def query(self) -> SharedOperand:
        """A warpgroup's rows of a box."""
        return SharedOperand(self.first, "lhs", BOX_COLUMNS // self.first.k, True, _SWIZZLE_BYTES)

    @property
    def key(self) -> SharedOperand:
        """A box."""
        return SharedOperand(self.first, "rhs", BOX_COLUMNS // self.first.k, True, _SWIZZLE_BYTES)

    @property
    def value(self) -> SharedOperand:
        """All boxes of a tile."""
        steps = self.plan.keys // self.second.k
        return SharedOperand(self.second, "rhs", steps, False, _SWIZZLE_BYTES)

    def tensor_map(self, name: str, shape: tuple[Any, ...]) -> mbarrier.TensorMapDescriptor:
        """Of an operand whose array has a shape.

        Raises:
            TargetError: where the tensor memory unit cannot copy it.
        """
        rows, _ = self.extents[name]
        axis = row_axis(self.plan.op, name)
        box = [1] * len(shape)
        box[axis], box[-1] = rows, BOX_COLUMNS
        return mbarrier.TensorMapDescriptor(
            name, self.plan.op.types[name].dtype, shape, tuple(box), _SWIZZLE_BYTES
        )


def row_axis(op: Attention, name: str) -> int:
    """The axis of query, key or value along which rows of a tile lie."""
    (dim,) = op.dims["m" if name == "query" else "k2"][-1:]
    return [tuple(axis) for axis in op.maps[name].axes].index((dim,))


def _obstacle(op: Attention) -> str | None:
    """Why the tensor memory unit cannot copy the operands as the kernel wants them."""
    if "key_lengths" in op.maps:
        return "it copies whole tiles of keys, and what is behind a length may be anything"
    dtypes = {op.types[name].dtype for name in ("query", "key", "value")}
    if len(dtypes) > 1 or dtypes != set(product_dtypes(op)) or dtypes - set(_WARP_KINDS):
        return "operands are not all float16, or all bfloat16"
    for name in ("query", "key", "value"):
        axes = [tuple(axis) for axis in op.maps[name].axes]
        columns, rows = op.dims["n" if name == "value" else "k1"], op.dims["k2"]
        rows = op.dims["m"][-1:] if name == "query" else rows
        if len(columns) != 1 or axes[-1] != columns or len(rows) != 1 or rows not in axes:
            return f"{name} has no axis of rows, or its columns are not the last"
        if not 2 <= len(axes) <= 5:
            return f"{name} has {len(axes)} axes; a tensor map has 2 to 5"
    return None


def _of_a_warp(kind: Mma, dtype: str) -> Mma:
    """What a warp's part of an instruction is made of."""
    if kind.kind == "warpgroup":
        return mma_kind(_WARP_KINDS[dtype])
    # Of sums in tensor memory each lane of a warp loads a row, and multiplied is what it stores.
    acc = replace(kind.operand("acc"), subgroup=(1, 1), sstrides=(0, 0))
    lhs = replace(
        acc, dims=("M", "K"), dtype=kind.a, outer=(1, kind.k), elements_per_lane=kind.k,
        registers=kind.k * dtype_bits(kind.a) // 32,
    )  # fmt: skip
    return replace(kind, m=_LANES, num_subgroups=1, lhs=lhs, acc=acc)


def _overfull(kernel: WarpgroupAttention) -> str | None:
    """What has no room in registers, or in tensor memory."""
    keys, columns = kernel.plan.keys, kernel.columns
    if kernel.in_tensor_memory:
        if kernel.sum_columns > COLUMNS:
            return (
                f"{keys} keys and {columns} columns of {kernel.consumers} warpgroups take"
                f" {kernel.sum_columns} columns of tensor memory; there are {COLUMNS}"
            )
        return None
    held = keys // 2 + keys // 4 + columns // 2
    if held > _HELD:
        return (
            f"{keys} keys and {columns} columns take {held} registers of a lane; there are {_HELD}"
        )
    return None


def plan_warpgroups(
    op: Attention, target: Target, config: GpuAttentionConfig
) -> WarpgroupAttention:
    """Derive a kernel's tiles, and check them against the chip.

    Raises:
        ScheduleError: for what the op, the chip or the instructions cannot have, saying why.
    """
    where = f"gpu.attention by {config.mma_kind}"
    chip = gpu_chip(target)
    if (reason := _obstacle(op)) is not None:
        raise ScheduleError(f"{where}: {reason}")
    dtype = op.types["query"].dtype
    rows, keys = config.rows, config.keys
    depth, columns = (-(-op.count(role) // BOX_COLUMNS) * BOX_COLUMNS for role in ("k1", "n"))
    kinds = {
        kind.n: kind for kind in _kinds(target) if kind.c == "f32" and tvm_dtype(kind.a) == dtype
    }
    columns = next((n for n in sorted(kinds) if n >= columns and n % BOX_COLUMNS == 0), columns)
    consumers = config.subgroups // SUBGROUPS
    each = 128 if mma_kind(config.mma_kind).kind == "tensor_memory" else 64
    reasons = {
        f"{chip.name} has no warpgroup instruction of {keys} and of {columns} columns"
        f" for {dtype}": (
            not {keys, columns} <= set(kinds)
        ),
        f"{rows} rows are not {each} for each of 1 or 2 warpgroups": (
            (consumers, config.subgroups) not in ((1, SUBGROUPS), (2, 2 * SUBGROUPS))
            or rows != each * consumers
        ),
        f"{config.stages} stages; expected 2 or more": config.stages < 2,
    }  # fmt: skip
    for reason, holds in reasons.items():
        if holds:
            raise ScheduleError(f"{where}: {reason}")
    if kinds[keys].name != config.mma_kind:
        raise ScheduleError(f"{where}: the instruction of {keys} keys is {kinds[keys].name}")
    loaded = BOX_COLUMNS if each == WARPGROUP else columns  # of a row's output at once
    first, second = (_of_a_warp(kinds[n], dtype) for n in (keys, loaded))
    config = replace(config, columns=columns)
    plan = AttentionPlan(op, config, chip, first.subgroup_size, first, second, False, 1)
    found = WarpgroupAttention(plan, kinds[keys], kinds[columns], depth, columns)
    if (reason := _overfull(found)) is not None:
        raise ScheduleError(f"{where}: {reason}")
    if found.shared_bytes > chip.shared_memory_bytes:
        raise ScheduleError(
            f"{where}: tiles take {found.shared_bytes} bytes of shared memory; there are"
            f" {chip.shared_memory_bytes}"
        )
    try:
        for name in ("query", "key", "value"):
            shape = op.types[name].shape
            found.tensor_map(name, tuple(1 if isinstance(e, str) else e for e in shape))
    except TargetError as error:
        raise ScheduleError(f"{where}: {error}") from error
    return found


def _kinds(target: Target) -> list[Mma]:
    """The instructions of a chip for one workgroup."""
    return [kind for kind in mma_kinds(target, FROM_SHARED) if kind.workgroups == 1]


def chosen_warpgroups(op: Attention, target: Target) -> GpuAttentionConfig | None:
    """The config by warpgroups; None where the chip has none, or the other kernel is better."""
    kinds = _kinds(target)
    if not kinds or _obstacle(op):
        return None
    rows = op.extents[op.dims["m"][-1]]
    if not isinstance(rows, str) and rows < _FEW_ROWS:
        return None
    each = kinds[0].m
    for consumers in (2, 1) if isinstance(rows, str) or rows > each else (1,):
        for keys in _KEYS:
            for kind in kinds:
                config = GpuAttentionConfig(
                    WARPGROUP_ALGORITHM,
                    rows=each * consumers,
                    columns=op.count("n"),
                    keys=keys,
                    subgroups=SUBGROUPS * consumers,
                    promote=("query", "key", "value"),
                    mma_kind=kind.name,
                    stages=_STAGES,
                )
                try:
                    plan_warpgroups(op, target, config)
                except ScheduleError:
                    continue
                return config
    return None
