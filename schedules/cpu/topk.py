"""The CPU rule for top-k: how candidates are kept, with which numbers."""

import math

from tvm import ir
from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.rule import ConfigCheck, CpuRule
from tvm_iree_ext.schedules.cpu.topk_scan import topk_kernel

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.ops.order import region_dtype
from tvm_iree_ext.ops.topk import Topk
from tvm_iree_ext.signature import Extent
from tvm_iree_ext.target.cpu import cpu_features

# Below this many candidates a launch of the thread pool (3 to 12 us) costs more than it brings.
_SERIAL_CANDIDATES = 16384

# A line of so many candidates and more is walked by several cores.
_LONG = 65536

# Up to here, moving half the slots for a candidate is cheaper than a heap's jumps.
_FEW_SLOTS = 128

_MOST_VECTORS = 64


class CpuTopk(CpuRule):
    """Top-k on an LLVM CPU target."""

    name = "cpu.topk"
    lowers = Topk

    def heuristic(self, op: Topk, target: Target) -> LoweringConfig:
        """Slots in order where they are few, blocks that are worth a look at their maximum."""
        features = cpu_features(target)
        shape = op.types["values"].shape
        few = isinstance(op.k, int) and op.k <= _FEW_SLOTS
        # The more is let in, the smaller the blocks that are then walked singly.
        vectors = 8 if isinstance(op.k, int) and op.k <= 16 else 4
        others = _known(shape[: op.dimension] + shape[op.dimension + 1 :])
        long = isinstance(op.candidates, str) or op.candidates >= _LONG
        splits = 1
        if (
            long
            and op.order is not None
            and others is not None
            and others < features.cores
            and _in_one_piece(op)
        ):
            splits = -(-features.cores // others)
        total = _known(shape)
        return LoweringConfig(
            algorithm="ordered" if few else "heap",
            workgroup_tile={"candidates": 1024},
            register_tile={"vectors": vectors},
            vector_lanes=features.lanes(item_bytes(region_dtype(op.types["values"].dtype)) * 8),
            splits=splits,
            parallel=total is None or total >= _SERIAL_CANDIDATES,
        )

    def lower(self, op: Topk, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        _check(op, self.check(config))
        return ir.IRModule({op.entry: topk_kernel(op, config)})


def _known(shape: tuple[Extent, ...]) -> int | None:
    """The product of extents, where all are numbers."""
    numbers = [extent for extent in shape if isinstance(extent, int)]
    return math.prod(numbers) if len(numbers) == len(shape) else None


def _in_one_piece(op: Topk) -> bool:
    return _known(op.types["values"].shape[op.dimension + 1 :]) == 1


def _check(op: Topk, check: ConfigCheck) -> None:
    check.algorithm("ordered", "heap")
    check.tile("register_tile", "vectors", _MOST_VECTORS)
    check.tile("workgroup_tile", "candidates")
    check.lanes()
    single = check.splits() == 1
    check.need(single or _in_one_piece(op), "splits need the dim to be the innermost")
    check.need(single or op.order is not None, "splits need a plain comparison")
