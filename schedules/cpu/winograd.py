"""The CPU rule for the Winograd transforms: vectors of channels, a few tiles at a time."""

from tvm import ir
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.winograd_filter import FilterLoops
from tvm_iree_ext.schedules.cpu.winograd_image import InputLoops, OutputLoops

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.errors import ScheduleError
from tvm_iree_ext.ops.base import Op
from tvm_iree_ext.ops.winograd import Winograd
from tvm_iree_ext.target.cpu import cpu_features

# Below this many flops a launch of the thread pool (3 to 12 us) costs more than it brings.
_SERIAL_FLOPS = 500_000

# Tiles of a row that one task transforms: their scratch stays in the first two caches.
_TILES = 8

# Input channels of a filter that one task takes where it has to be transposed.
_CHANNELS = 16

_LOOPS = {"input": InputLoops, "filter": FilterLoops, "output": OutputLoops}


class CpuWinograd:
    """Winograd transforms on an LLVM CPU target: all channels of a vector at once."""

    name = "cpu.winograd"

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if not isinstance(op, Winograd):
            return f"{op.name} is not a Winograd transform"
        if target.kind.name != "llvm":
            return f"{target.kind.name} is not a CPU target"
        return None

    def heuristic(self, op: Winograd, target: Target) -> LoweringConfig:
        """Vectors as wide as the target's; narrower ones where there are fewer channels."""
        lanes = cpu_features(target).lanes(item_bytes(op.compute_dtype) * 8)
        tile = {"channels": _CHANNELS} if op.kind == "filter" else {"tiles": _TILES}
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
        lanes = config.vector_lanes
        if config.algorithm != "channels":
            raise ScheduleError(
                f"cpu.winograd: algorithm is {config.algorithm!r}; expected 'channels'"
            )
        if not 1 <= lanes <= 16 or lanes & (lanes - 1):
            raise ScheduleError(
                f"cpu.winograd: vector_lanes is {lanes}; expected a power of two up to 16"
            )
        name = "channels" if op.kind == "filter" else "tiles"
        value = config.workgroup_tile.get(name)
        if not isinstance(value, int) or value < 1:
            raise ScheduleError(
                f"cpu.winograd: workgroup_tile[{name!r}] is {value!r}; expected a number from 1"
            )
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            _LOOPS[op.kind](op, config).emit()
        return ir.IRModule({op.entry: builder.get()})
