"""The CPU rule for top-k: how candidates are kept, with which numbers."""

import math
from dataclasses import replace

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.ops.base.comparators import region_dtype
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.space import TuningSpace, form
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.base.parallel import outweighs_launch
from tvm_iree_ext.schedules.cpu.topk.topk_batches import batches_kernel, kept_rows
from tvm_iree_ext.schedules.cpu.topk.topk_config import MOST_ROWS, TopkConfig
from tvm_iree_ext.schedules.cpu.topk.topk_scan import scan_kernel
from tvm_iree_ext.schedules.cpu.topk.topk_select import select_kernel
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features

# A line of so many candidates and more is walked by several cores.
_LONG = 65536

# Up to here, moving half the slots for a candidate is cheaper than a heap's jumps; measured.
_FEW_SLOTS = 12
# A heap is looked at for every candidate: narrow vectors insert fewer that lose.
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
_BLOCK = 8  # vectors
_LINES = 4  # of the cache, of strewn lines that are walked together; measured


class CpuTopk(CpuRule):
    """Top-k on an LLVM CPU target."""

    name = "cpu.topk"
    lowers = Topk

    def usual(self, op: Topk, target: Target) -> TopkConfig:
        """Batches where they can be; else digits where many are kept, slots where few are."""
        features = cpu_features(target)
        shape = op.types["values"].shape
        few = isinstance(op.k, int) and op.k <= _FEW_SLOTS
        batches = _suits_batches(op, features)
        selects = not batches and _suits_select(op) and _keeps_many(op)
        # The more is inserted, the smaller the blocks that are then walked singly.
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
        algorithm, rows = "select" if selects else "ordered" if few else "heap", 0
        if batches:
            algorithm = "batches"
            most = _ROWS_KEPT * kept_rows(int(op.k), _piece(features)) + _MORE_ROWS
            rows = min(most, MOST_ROWS)
        lanes = features.lanes(_item(op) * 8)
        if algorithm == "heap":
            lanes = min(lanes, _HEAP_VECTOR_BYTES // _item(op))
        return TopkConfig(
            algorithm,
            vectors=vectors,
            digit_bits=bits,
            rows=rows,
            candidates=1024,
            columns=0 if _in_one_piece(op) else _columns(op, features.cores),
            lanes=lanes,
            splits=splits,
            parallel=total is None or outweighs_launch(self.name, total),
        )

    def space(self, op: Topk, target: Target) -> TuningSpace:
        """How candidates are kept, the blocks that are looked at, the digits, who shares a line."""
        usual, features = self.usual(op, target), cpu_features(target)
        cores, widest = features.cores, features.lanes(_item(op) * 8)
        choice = TopkConfig.choice
        vectors = choice("vectors", (1, 2, 4, 8, 16))
        lanes = choice("lanes", (max(widest // 2, 1), widest))
        splits = choice("splits", (1, cores, 2 * cores, 4 * cores))
        parallel = choice("parallel", (False, True))
        tile = choice("candidates", (256, 512, 1024, 2048, 4096, 16384))
        scanned = (vectors, lanes, splits, parallel, tile)
        kept = {
            "ordered": scanned,
            "heap": scanned,
            "select": (vectors, lanes, parallel, choice("digit_bits", tuple(range(6, 14)))),
        }
        if _suits_batches(op, features):
            rows = choice("rows", (4, 6, 8, 12, 16, 24, 32, 48, 64))
            kept["batches"] = (vectors, lanes, rows, splits, parallel)
        # Each form keeps the numbers that it does not read as the heuristic has them.
        bases = {name: replace(usual, algorithm=name) for name in kept}
        bases["select"] = replace(bases["select"], splits=1)
        forms = [form(bases[name].lowering(), *kept[name]) for name in kept]
        accept = self.refusals(op, target)

        def refused(config: LoweringConfig) -> str | None:
            many = not isinstance(op.k, int) or op.k > _MOST_SLOTS
            if config.algorithm == "ordered" and many:
                return f"k is {op.k}: a candidate would move too many slots"
            return accept(config)

        return TuningSpace.of(usual.lowering(), forms, refused)

    def parse(self, op: Topk, target: Target, config: LoweringConfig) -> TopkConfig:
        """The rule's numbers in a config."""
        check, features = self.check(config), cpu_features(target)
        typed = TopkConfig.parse(check, "ordered", "heap", "select", "batches")
        single = typed.splits == 1
        if typed.algorithm == "batches":
            piece, wanted = _piece(features), "a plain comparison of values of 4 bytes or fewer"
            check.need(
                _suits_batches(op, features),
                f"'batches' needs {wanted}, along the innermost dim, numbered by the op in 4 bytes,"
                f" a known k up to {MOST_ROWS // _ROWS_KEPT * piece // 2}, and a CPU that packs 4"
                " bytes",
            )
            kept = kept_rows(int(op.k), piece)
            least = kept + max(0 if single else kept, 2)
            check.need(typed.rows >= least, f"'batches' sorts at least {least} rows here")
            whole = typed.vectors * typed.lanes % piece == 0
            check.need(whole, f"'batches' takes blocks of multiples of {piece}")
        elif typed.algorithm == "select":
            wanted = "a plain comparison, along the innermost dim"
            check.need(_suits_select(op), f"'select' needs {wanted}")
        else:
            if not _in_one_piece(op):
                check.tile("workgroup_tile", "columns")
            check.need(single or _in_one_piece(op), "splits need the dim to be the innermost")
            check.need(single or op.order is not None, "splits need a plain comparison")
        return typed

    def kernel(self, op: Topk, target: Target, config: TopkConfig) -> tirx.PrimFunc:
        """The function of ``op`` in the config's form."""
        if config.algorithm == "batches":
            return batches_kernel(op, config, _piece(cpu_features(target)))
        return (select_kernel if config.algorithm == "select" else scan_kernel)(op, config)


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
        and _ROWS_KEPT * kept_rows(op.k, _piece(features)) <= MOST_ROWS
    )


def _piece(features: CpuFeatures) -> int:
    """Words of 4 bytes in a vector of which lanes are packed."""
    return features.lanes(32)
