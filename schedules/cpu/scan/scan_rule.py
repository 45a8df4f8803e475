"""The CPU rule for scans: which form, with which tiles."""

from dataclasses import replace
from math import gcd

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.scan import Scan
from tvm_iree_ext.schedules.base.space import TuningSpace, form, powers_of_two
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.emit.streaming_stores import streams
from tvm_iree_ext.schedules.cpu.scan.scan_columns import begin_in_parts, columns_kernel
from tvm_iree_ext.schedules.cpu.scan.scan_config import ScanConfig
from tvm_iree_ext.schedules.cpu.scan.scan_prefix import prefix_kernel
from tvm_iree_ext.schedules.cpu.scan.scan_rows import lanes_kernel, rows_kernel
from tvm_iree_ext.schedules.shared.lines import held_dtype, static_lines
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features

# What a tile has of a row at least, in vectors.
_LEAST_VECTORS = 4

# Wider vectors of small types would need shuffles across all of a register, which are slow.
_MOST_LANES = 16

# TVM turns these types into others while it lowers, and not what is known by its address.
_LOWERED = ("bool", "bfloat16")

_FORMS = {
    "columns": columns_kernel,
    "lanes": lanes_kernel,
    "rows": rows_kernel,
    "prefix": prefix_kernel,
}


class CpuScan(CpuRule):
    """Scans on an LLVM CPU target."""

    name = "cpu.scan"
    lowers = Scan

    def usual(self, op: Scan, target: Target) -> ScanConfig:
        """In vectors wherever the order of the op allows, on all cores where it pays."""
        features = cpu_features(target)
        outer, length, inner = static_lines(op.type.shape, op.dimension)
        item = item_bytes(op.type.dtype)
        held_bits = item_bytes(held_dtype(op.type.dtype)) * 8
        lanes = min(features.shuffled_bits // held_bits, _MOST_LANES)
        parallel = self.is_large(op)
        if inner != 1:
            lanes = features.lanes(held_bits)
            # A row is read again one step later: it and the next fit the first cache.
            tile = max(features.first_cache_bytes // 4 // item // lanes, 1) * lanes
            if outer is not None and inner is not None:
                # Tiles alike, as many as cores share evenly.
                share = features.cores // gcd(outer, features.cores)
                tiles = -(-inner // (tile * share)) * share
                tile = max(-(-inner // (tiles * lanes)), _LEAST_VECTORS) * lanes
            streaming = _streams(op, target, min(tile, inner or 0))
            # Unless a later row is fetched, reads and non-temporal stores take turns.  Elements
            # of rows that begin anywhere are computed one by one at the ends of a tile, which takes
            # long where they are converted.
            converted = held_dtype(op.type.dtype) != op.type.dtype
            in_parts = begin_in_parts(inner, tile, op.type.dtype)
            return ScanConfig(
                "columns",
                columns=tile,
                lanes=lanes,
                parallel=parallel,
                fetch_ahead=streaming and (in_parts or not converted),
                streaming=streaming,
            )
        short = length is not None and length < 4 * lanes
        few = outer is not None and outer < 4
        if op.in_order or (short and not few):
            # With few lines most lanes would be idle: a step of one is as fast as one of four.
            algorithm = "rows" if few else "lanes"
            streaming = algorithm == "lanes" and _streams(op, target, length)
            return ScanConfig(
                algorithm,
                lanes=lanes,
                parallel=parallel,
                fetch_ahead=streaming and _fetches_rows(features),
                streaming=streaming,
            )
        chunk = _chunk(features, item)
        splits = 1
        if outer is not None and outer < 2 * features.cores:
            splits = features.cores if length is None or length >= 2 * chunk else 1
        return ScanConfig(
            "prefix",
            length=chunk,
            vectors=4,
            lanes=lanes,
            splits=splits,
            parallel=parallel,
            streaming=_streams(op, target, length),
        )

    def space(self, op: Scan, target: Target) -> TuningSpace:
        """The forms that the op takes: chunks of a line, vectors of a step, who shares a line."""
        usual, features = self.usual(op, target), cpu_features(target)
        cores = features.cores
        choice = ScanConfig.choice
        lanes = choice("lanes", (usual.lanes // 2, usual.lanes))
        parallel = choice("parallel", (False, True))
        streaming = choice("streaming", (False, True))
        if usual.algorithm == "columns":
            tile = choice("columns", (2, 4, 8, 16, 32, 64, 128), ("lanes",))
            forms = [form(usual.lowering(), lanes, tile, parallel, streaming)]
        else:
            whole = replace(
                usual,
                algorithm="prefix",
                length=_chunk(features, item_bytes(op.type.dtype)),
                vectors=4,
                splits=1,
            )
            shared = replace(whole, splits=cores)
            lines = replace(whole, algorithm="lanes", vectors=0, length=0)
            rows = replace(lines, algorithm="rows", streaming=False)
            vectors = choice("vectors", (1, 2, 4, 8))
            chunk = choice("length", powers_of_two(16, 4096), ("lanes", "vectors"))
            splits = choice("splits", (cores, 2 * cores, 4 * cores))
            forms = [
                form(shared.lowering(), lanes, vectors, chunk, splits, streaming),
                form(whole.lowering(), lanes, vectors, parallel, streaming),
                form(lines.lowering(), lanes, parallel, streaming),
                form(rows.lowering(), parallel),
            ]
        return TuningSpace.of(usual.lowering(), forms, self.refusals(op, target))

    def parse(self, op: Scan, target: Target, config: LoweringConfig) -> ScanConfig:
        """The rule's numbers in a config; the order of the op decides which forms there are."""
        forms = ["columns"]
        if static_lines(op.type.shape, op.dimension)[2] == 1:
            forms += ["lanes", "rows", "prefix"][: 2 if op.in_order else 3]
        check = self.check(config)
        typed = ScanConfig.parse(check, *forms)
        form, streaming, dtype = typed.algorithm, typed.streaming, op.type.dtype
        check.need(form != "rows" or not streaming, "'rows' does not store non-temporally")
        check.need(dtype not in _LOWERED or not streaming, f"{dtype} is not stored non-temporally")
        fits = not typed.fetch_ahead or (form in ("columns", "lanes") and streaming)
        check.need(fits, "two stages are for columns or lanes stored non-temporally")
        if form == "prefix" and typed.splits > 1:
            check.tile("workgroup_tile", "length")
            typed.multiple(check, "length", typed.lanes * typed.vectors, "vectors * lanes")
        return typed

    def kernel(self, op: Scan, target: Target, config: ScanConfig) -> tirx.PrimFunc:
        """The function of ``op`` in the config's form."""
        return _FORMS[config.algorithm](op, config)


def _chunk(features: CpuFeatures, item: int) -> int:
    """Elements of a chunk of a line: it, its output and the next ones fit the second cache."""
    return features.second_cache_bytes // 4 // item


def _fetches_rows(features: CpuFeatures) -> bool:
    """Whether rows that are read side by side are fetched while outputs are streamed.

    On an Ice Lake, whose hardware foresees them, scans take 2 to 5 % longer with it.
    """
    return features.vector_bits < 512 or features.fetches_second


def _streams(op: Scan, target: Target, run: int | None) -> bool:
    """Whether outputs, so many of them one after the other, are better stored non-temporally."""
    return op.type.dtype not in _LOWERED and streams(op, target, run)
