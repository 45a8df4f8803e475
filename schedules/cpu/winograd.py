"""The CPU rule for the Winograd transforms: vectors of channels, a few tiles at a time."""

from tvm import ir
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.rule import CpuRule
from tvm_iree_ext.schedules.cpu.winograd_filter import emit_filters
from tvm_iree_ext.schedules.cpu.winograd_image import emit_images
from tvm_iree_ext.schedules.cpu.winograd_row import tiles_at_once, vectors_at_once

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.ops.winograd import Winograd
from tvm_iree_ext.target.cpu import cpu_features

# Below this many flops a launch of the thread pool (3 to 12 us) costs more than it brings.
_SERIAL_FLOPS = 500_000

# Tiles of a row that one task transforms where columns are transposed: a vector of them at least.
_TILES = 8

# Input channels of a filter that one task takes where it has to be transposed.
_CHANNELS = 16


class CpuWinograd(CpuRule):
    """Winograd transforms on an LLVM CPU target: all channels of a vector at once."""

    name = "cpu.winograd"
    lowers = Winograd

    def heuristic(self, op: Winograd, target: Target) -> LoweringConfig:
        """Vectors as wide as the target's; narrower ones where there are fewer channels."""
        lanes = cpu_features(target).lanes(item_bytes(op.compute_dtype) * 8)
        tile = {"channels": _CHANNELS} if op.kind == "filter" else {"tiles": _tiles(op, lanes)}
        return LoweringConfig(
            algorithm="channels",
            workgroup_tile=tile,
            vector_lanes=lanes,
            parallel=bool(op.signature.symbols) or op.flops() > _SERIAL_FLOPS,
        )

    def lower(self, op: Winograd, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        check = self.check(config)
        check.algorithm("channels")
        check.lanes(most=16)
        check.tile("workgroup_tile", "channels" if op.kind == "filter" else "tiles")
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            (emit_filters if op.kind == "filter" else emit_images)(op, config)
        return ir.IRModule({op.entry: builder.get()})


def _tiles(op: Winograd, lanes: int) -> int:
    """Tiles of a row that one task transforms."""
    if not op.channels_last:
        return _TILES
    tiled = op.output if op.kind == "input" else op.input
    channels = tiled.shape[-1]
    blocks = -(-channels // lanes) if isinstance(channels, int) else None
    return tiles_at_once(op, vectors_at_once(op, blocks), lanes * item_bytes(op.compute_dtype))
