"""The CPU rule for top-k: how candidates are kept, with which numbers."""

import math
from dataclasses import replace

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.ops.base.comparators import region_dtype
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import Choice, TuningSpace, form, refusal
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.base.parallel import outweighs_launch
from tvm_iree_ext.schedules.cpu.topk.topk_batches import batches_kernel, kept_rows
from tvm_iree_ext.schedules.cpu.topk.topk_scan import scan_kernel
from tvm_iree_ext.schedules.cpu.topk.topk_select import select_kernel
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features

# A line of so many candidates and more is walked by several cores.
_LONG = 65536

# Up to here, moving half the slots for a candidate is cheaper than a heap's jumps; measured.
_FEW_SLOTS = 12
# A heap is looked at for every candidate that is let in: narrow vectors let in fewer that lose.
_HEAP_VECTOR_BYTES = 32
_MOST_SLOTS = 1024  # beyond, a tuner need not try

# From where on selecting by digits is faster, and for lines of what length; measured.  A heap lets
# in some k log(n / k) candidates, digits are passes over all n.
_MANY = 48
_SPREAD = 4  # candidates for the square of k

# Up to so many candidates for one that is kept, most vectors have one in them that is listed.
_SPARSE = 64

# Bits of a digit: few passes, with counters that fit in the first cache; for lines below a length,
# few counters; measured.
_DIGIT_BITS = 11
_SHORT, _SHORT_DIGIT_BITS = 2048, 8

# Vectors that are sorted at once: those kept twice, so that sorts are few, and some more; measured.
_ROWS_KEPT, _MORE_ROWS = 2, 2
_MOST_ROWS = 64  # beyond, they are in memory more than in registers
_BLOCK = 8  # vectors
_LINES = 4  # of the cache, of strewn lines that are walked together; measured

_MOST_VECTORS = 64
_LARGEST_DIGIT_BITS = 16


class CpuTopk(CpuRule):
    """Top-k on an LLVM CPU target."""

    name = "cpu.topk"
    lowers = Topk

    def heuristic(self, op: Topk, target: Target) -> LoweringConfig:
        """Batches where they can be; else digits where many are kept, slots where few are."""
        features = cpu_features(target)
        shape = op.types["values"].shape
        few = isinstance(op.k, int) and op.k <= _FEW_SLOTS
        batches = _suits_batches(op, features)
        selects = not batches and _suits_select(op) and _keeps_many(op)
        # The more is let in, the smaller the blocks that are then walked singly.
        vectors = _BLOCK if batches or (isinstance(op.k, int) and op.k <= 16) else _BLOCK // 2
        if selects and _lists_much(op):
            vectors = 1
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
        short = isinstance(op.candidates, int) and op.candidates < _SHORT
        bits = _SHORT_DIGIT_BITS if short else _DIGIT_BITS
        total = _known(shape)
        tile = {"vectors": vectors, "digit_bits": bits}
        if batches:
            algorithm = "batches"
            most = _ROWS_KEPT * kept_rows(int(op.k), _piece(features)) + _MORE_ROWS
            tile["rows"] = min(most, _MOST_ROWS)
        else:
            algorithm = "select" if selects else "ordered" if few else "heap"
        lanes = features.lanes(_item(op) * 8)
        if algorithm == "heap":
            lanes = min(lanes, _HEAP_VECTOR_BYTES // _item(op))
        walked = {"candidates": 1024}
        if not _in_one_piece(op):
            walked["columns"] = _columns(op, features.cores)
        return LoweringConfig(
            algorithm=algorithm,
            workgroup_tile=walked,
            register_tile=tile,
            vector_lanes=lanes,
            splits=splits,
            parallel=total is None or outweighs_launch(self.name, total),
        )

    def space(self, op: Topk, target: Target) -> TuningSpace:
        """How candidates are kept, the blocks that are looked at, the digits, who shares a line."""
        usual, features = self.heuristic(op, target), cpu_features(target)
        cores, widest = features.cores, features.lanes(_item(op) * 8)
        vectors = Choice("register_tile.vectors", (1, 2, 4, 8, 16))
        lanes = Choice("vector_lanes", (max(widest // 2, 1), widest))
        splits = Choice("splits", (1, cores, 2 * cores, 4 * cores))
        parallel = Choice("parallel", (False, True))
        tile = Choice("workgroup_tile.candidates", (256, 512, 1024, 2048, 4096, 16384))
        digits = Choice("register_tile.digit_bits", tuple(range(6, 14)))
        rows = Choice("register_tile.rows", (4, 6, 8, 12, 16, 24, 32, 48, 64))
        # Each form keeps the numbers that it does not read as the heuristic has them.
        scans = form(replace(usual, algorithm="ordered"), vectors, lanes, splits, parallel, tile)
        heaps = form(replace(usual, algorithm="heap"), vectors, lanes, splits, parallel, tile)
        selects = form(
            replace(usual, algorithm="select", splits=1), vectors, lanes, parallel, digits
        )

        forms = [scans, heaps, selects]
        if _suits_batches(op, features):
            kept = replace(usual, algorithm="batches")
            forms.append(form(kept, vectors, lanes, rows, splits, parallel))

        def refused(config: LoweringConfig) -> str | None:
            many = not isinstance(op.k, int) or op.k > _MOST_SLOTS
            if config.algorithm == "ordered" and many:
                return f"k is {op.k}: a candidate would move too many slots"
            return refusal(lambda: _check(op, target, self.check(config)))

        return TuningSpace.of(usual, forms, refused)

    def lower(self, op: Topk, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        _check(op, target, self.check(config))
        if config.algorithm == "batches":
            kernel = batches_kernel(op, config, _piece(cpu_features(target)))
        else:
            kernel = (select_kernel if config.algorithm == "select" else scan_kernel)(op, config)
        return ir.IRModule({op.entry: kernel})


def _item(op: Topk) -> int:
    """Bytes of an element as it is compared."""
    return item_bytes(region_dtype(op.types["values"].dtype))


def _known(shape: tuple[Extent, ...]) -> int | None:
    """The product of extents, where all are numbers."""
    numbers = [extent for extent in shape if isinstance(extent, int)]
    return math.prod(numbers) if len(numbers) == len(shape) else None


def _in_one_piece(op: Topk) -> bool:
    return _known(op.types["values"].shape[op.dimension + 1 :]) == 1


def _columns(op: Topk, cores: int) -> int:
    """How many strewn lines are walked together: of one line of the cache, or more of them.

    Of lines that begin inside a line of the cache, few would have most of them fetched twice.
    """
    shape = op.types["values"].shape
    line = emit.LINE_BYTES // item_bytes(op.types["values"].dtype)
    outer, inner = _known(shape[: op.dimension]), _known(shape[op.dimension + 1 :])
    wide = _LINES * line
    if outer is None or inner is None or outer * -(-inner // wide) >= 2 * cores:
        return wide
    return line


def _keeps_many(op: Topk) -> bool:
    """Whether what is kept is many, and no small part of a line."""
    if not isinstance(op.k, int) or op.k < _MANY:
        return False
    return isinstance(op.candidates, str) or op.candidates <= _SPREAD * op.k**2


def _lists_much(op: Topk) -> bool:
    """Whether most vectors of a line have elements that are listed."""
    sizes = op.k, op.candidates
    k, candidates = (extent if isinstance(extent, int) else None for extent in sizes)
    return k is not None and candidates is not None and candidates < _SPARSE * k


def _suits_select(op: Topk) -> bool:
    """Whether the form that selects by digits takes an op."""
    return op.order is not None and _in_one_piece(op)


def _suits_batches(op: Topk, features: CpuFeatures) -> bool:
    """Whether the form that sorts candidates in batches takes an op."""
    return (
        _suits_select(op)
        and not op.has_indices
        and (not op.has_output_indices or item_bytes(op.index_dtype) == 4)
        and item_bytes(op.types["values"].dtype) <= 4
        and {4, 8} <= features.compressed_bytes
        and isinstance(op.k, int)
        and _ROWS_KEPT * kept_rows(op.k, _piece(features)) <= _MOST_ROWS
    )


def _piece(features: CpuFeatures) -> int:
    """Words of 4 bytes in a vector of which lanes are packed."""
    return features.lanes(32)


def _check(op: Topk, target: Target, check: ConfigCheck) -> None:
    splits = check.splits()
    single = splits == 1
    form = check.algorithm("ordered", "heap", "select", "batches")
    vectors = check.tile("register_tile", "vectors", _MOST_VECTORS)
    lanes = check.lanes()
    if form == "batches":
        features = cpu_features(target)
        piece, wanted = _piece(features), "a plain comparison of values of 4 bytes or fewer"
        check.need(
            _suits_batches(op, features),
            f"'batches' needs {wanted}, along the innermost dim, numbered by the op in 4 bytes, a"
            f" known k up to {_MOST_ROWS // _ROWS_KEPT * piece // 2}, and a CPU that packs 4 bytes",
        )
        rows, kept = check.tile("register_tile", "rows", _MOST_ROWS), kept_rows(int(op.k), piece)
        least = kept + max(kept if splits > 1 else 0, 2)
        check.need(rows >= least, f"'batches' sorts at least {least} rows here")
        check.need(vectors * lanes % piece == 0, f"'batches' takes blocks of multiples of {piece}")
        return
    if form == "select":
        check.tile("register_tile", "digit_bits", _LARGEST_DIGIT_BITS)
        check.need(_suits_select(op), "'select' needs a plain comparison, along the innermost dim")
        return
    check.tile("workgroup_tile", "candidates")
    if not _in_one_piece(op):
        check.tile("workgroup_tile", "columns")
    check.need(single or _in_one_piece(op), "splits need the dim to be the innermost")
    check.need(single or op.order is not None, "splits need a plain comparison")
