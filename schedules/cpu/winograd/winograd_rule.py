"""The CPU rule for the Winograd transforms: vectors of channels, a few tiles at a time."""

from math import prod

from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.winograd.winograd import Winograd
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.products.register_tiles import SAME_SETS_BYTES
from tvm_iree_ext.schedules.cpu.winograd.winograd_config import WinogradConfig
from tvm_iree_ext.schedules.cpu.winograd.winograd_kernels import emit_filters, emit_images
from tvm_iree_ext.schedules.cpu.winograd_transforms.winograd_row import (
    tiles_at_once,
    vectors_at_once,
)
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features

# Tiles of a row that one task transforms where columns are transposed: a vector of them at least.
_TILES = 8

# Input channels of a filter that one task takes where it has to be transposed.
_CHANNELS = 16


class CpuWinograd(CpuRule):
    """Winograd transforms on an LLVM CPU target: all channels of a vector at once."""

    name = "cpu.winograd"
    lowers = Winograd

    def usual(self, op: Winograd, target: Target) -> WinogradConfig:
        """Vectors as wide as the target's; narrower ones where there are fewer channels."""
        features = cpu_features(target)
        lanes = features.lanes(item_bytes(op.compute_dtype) * 8)
        if op.kind == "filter" and features.vector_bits == 256 and _crowds(op):
            lanes = min(emit.LINE_BYTES // item_bytes(op.output.dtype), 2 * lanes)
        filters = op.kind == "filter"
        return WinogradConfig(
            "channels",
            channels=_CHANNELS if filters else 0,
            tiles=0 if filters else _tiles(op, lanes, features),
            lanes=lanes,
            parallel=self.is_large(op),
        )

    def parse(self, op: Winograd, target: Target, config: LoweringConfig) -> WinogradConfig:
        """The rule's numbers in a config."""
        check = self.check(config)
        typed = WinogradConfig.parse(check, "channels")
        check.tile("workgroup_tile", "channels" if op.kind == "filter" else "tiles")
        return typed

    def emit(self, op: Winograd, config: WinogradConfig, features: CpuFeatures) -> None:
        """Emit the function of ``op``."""
        (emit_filters if op.kind == "filter" else emit_images)(op, config)


def _crowds(op: Winograd) -> bool:
    """Whether the places of a tile of filters drive each other out of the first cache.

    Two vectors of half a line each then fetch it twice, so a task takes both at once.  Measured
    with AVX2: at 1 KiB lines at once are 1.4 times as fast, at 2 and 4 1.6 to 2, at 512 bytes 0.8
    to 1, where two vectors are only more than registers hold.
    """
    places = op.output.shape[len(op.dims) :]
    if not op.channels_last or not all(isinstance(extent, int) for extent in places):
        return False
    return prod(places) * item_bytes(op.output.dtype) % SAME_SETS_BYTES == 0


def _tiles(op: Winograd, lanes: int, features: CpuFeatures) -> int:
    """Tiles of a row that one task transforms."""
    if not op.channels_last:
        return _TILES
    tiled = op.output if op.kind == "input" else op.input
    channels = tiled.shape[-1]
    blocks = -(-channels // lanes) if isinstance(channels, int) else None
    size = lanes * item_bytes(op.compute_dtype)
    return tiles_at_once(op, vectors_at_once(op, blocks), size, features)
