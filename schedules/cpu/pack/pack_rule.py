"""The CPU rule for pack and unpack: which form, and how the work is shared."""

from math import prod

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.codegen.cpu.non_temporal_stores import PART_BYTES
from tvm_iree_ext.ops.families.pack import Packing
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.emit.streaming_stores import begins_parts, streams
from tvm_iree_ext.schedules.cpu.pack.pack_config import PackConfig
from tvm_iree_ext.schedules.cpu.pack.pack_kernel import PackedRun, pack_kernel, runs
from tvm_iree_ext.targets.cpu import cpu_features

# A square of vectors is transposed in registers: beyond 16 they do not hold it.
_LARGEST_SQUARE = 16

# What one task should move at least, so that finding its place costs little.
_TASK_BYTES = 1 << 14

# Of a dim that both operands walk without tiles, a task takes so many positions at a time.
_RUN = {"rows": 2048, "transpose": 64}


class CpuPack(CpuRule):
    """Pack and unpack on an LLVM CPU target: runs of elements copied, or squares transposed."""

    name = "cpu.pack"
    lowers = Packing

    def usual(self, op: Packing, target: Target) -> PackConfig:
        """Copies where one dim is contiguous in both operands, and transposition elsewhere."""
        features = cpu_features(target)
        lanes = features.lanes(item_bytes(op.unpacked.dtype) * 8)
        packed, unpacked = runs(op)
        algorithm = "rows" if packed == unpacked else "transpose"
        run = _RUN[algorithm]
        if algorithm == "transpose":
            lengths = [_length(op, one, run) for one in (packed, unpacked)]
            lanes = _power_of_2(min(lanes, _LARGEST_SQUARE, *lengths))
        streaming = algorithm == "rows" and _streams(op, unpacked, target)
        fetch_ahead = streaming and _walks_tiles_in_order(op, unpacked)
        if fetch_ahead:
            # A vector across two lines that come from the second cache waits for both; of parts,
            # where arrays begin at multiples of them, there is none.
            lanes = min(lanes, max(PART_BYTES // item_bytes(op.unpacked.dtype), 1))
        return PackConfig(
            algorithm,
            run=run,
            tiles=_tiles_of_a_task(op, features.cores),
            lanes=lanes,
            parallel=self.is_large(op),
            streaming=streaming,
            fetch_ahead=fetch_ahead,
        )

    def parse(self, op: Packing, target: Target, config: LoweringConfig) -> PackConfig:
        """The rule's numbers in a config."""
        packed, unpacked = runs(op)
        check = self.check(config)
        # The operands' innermost dims decide.
        typed = PackConfig.parse(check, "rows" if packed == unpacked else "transpose")
        if typed.algorithm == "transpose":
            check.lanes(most=_LARGEST_SQUARE)  # of a square that is transposed in registers
            check.need(not typed.streaming, "squares are not stored non-temporally")
        else:
            tile = op.tile(packed.dim)
            check.need(
                isinstance(tile, int) or not typed.streaming,
                f"tiles of {tile}, known when it is called, are not stored non-temporally",
            )
        fits = typed.streaming and _walks_tiles_in_order(op, unpacked)
        wanted = "two stages are for unpacked rows stored non-temporally"
        check.need(fits or not typed.fetch_ahead, wanted)
        return typed

    def kernel(self, op: Packing, target: Target, config: PackConfig) -> tirx.PrimFunc:
        """The function of ``op``."""
        return pack_kernel(op, config, cpu_features(target))


def _streams(op: Packing, run: PackedRun, target: Target) -> bool:
    """Whether runs of the result are better stored non-temporally."""
    shape, tile = op.unpacked.shape, op.tile(run.dim)
    if op.packs and run.inner:
        return begins_parts(tile, op.unpacked.dtype) and streams(op, target)
    in_rows = run.dim == len(shape) - 1  # a task has many tiles of the last dim
    return streams(op, target, shape[run.dim] if in_rows or not run.inner else tile)


def _walks_tiles_in_order(op: Packing, run: PackedRun) -> bool:
    """Whether rows of an unpacked result cross tiles that lie one after the other."""
    last = len(op.unpacked.shape) - 1
    return not op.packs and run.inner and op.outer_axis(run.dim) == last


def _length(op: Packing, run: PackedRun, longest: int) -> int:
    """How long a run is at most."""
    extent = op.tile(run.dim) if run.inner else op.unpacked.shape[run.dim]
    return min(extent, longest) if isinstance(extent, int) else longest


def _power_of_2(number: int) -> int:
    """The largest that is not above ``number``."""
    return 1 << (number.bit_length() - 1)


def _tiles_of_a_task(op: Packing, cores: int) -> int:
    """How many tiles along the last unpacked dim one task takes."""
    rank = len(op.unpacked.shape)
    outer = [op.packed.shape[op.outer_axis(dim)] for dim in range(rank)]
    tile = prod(t if isinstance(t, int) else 16 for t in op.inner_tiles)
    least = max(1, _TASK_BYTES // (tile * item_bytes(op.unpacked.dtype)))
    leading, last = outer[:-1], outer[-1]
    if not isinstance(last, int):
        return 4 * least
    numbers = [e for e in leading if isinstance(e, int)]
    if len(numbers) == len(leading):
        shares = -(-4 * cores // prod(numbers))
        return max(min(least, last), -(-last // shares))
    return last
