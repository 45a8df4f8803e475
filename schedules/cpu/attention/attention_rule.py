"""The CPU rule for attention and online attention: which form, with which tiles."""

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import TuningSpace, form, powers_of_two
from tvm_iree_ext.schedules.cpu.attention.attention_amx_tiles import (
    KEYS,
    tile_product,
    tiles_kernel,
)
from tvm_iree_ext.schedules.cpu.attention.attention_bf16_pairs import (
    copied_operands,
    pairs_kernel,
    pairs_product,
)
from tvm_iree_ext.schedules.cpu.attention.attention_config import (
    LANES,
    MATRIX,
    PAIRS,
    ROWS,
    AttentionConfig,
)
from tvm_iree_ext.schedules.cpu.attention.attention_lanes import lanes_kernel
from tvm_iree_ext.schedules.cpu.attention.attention_rows import rows_kernel
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.products.amx import TILE, TILES, fits
from tvm_iree_ext.schedules.cpu.products.dot_products import LEAST_LANES
from tvm_iree_ext.schedules.shared.attention_operands import dynamic_columns
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features

# Accumulators of the lanes form by vector registers: scalars x vectors of query rows.  A step loads
# as many as their sum, so the first tile, with the fewest loads a multiply-add, is the fastest; the
# others fit fewer rows.
_REGISTER_TILES = {16: ((6, 2),), 32: ((6, 4), (8, 3), (8, 2))}

# Rows of a task, which share a tile of keys; keys of a tile.
_ROWS = 512
_KEYS = 96

# The tiles form: tiles of sums in registers; rows of a task; and vectors of rows and keys whose
# scores are made at once.
_PRODUCT_TILES = 2
_TILED_ROWS = 1024
_TILED_VECTORS, _TILED_KEYS = 2, 256

# What tiles are made for where only a call tells the columns of k1 or n.
_USUAL_COLUMNS = 64

# Rows, in vectors of them, up to which a tuner tries the form for few.
_MOST_ROWS_IN_VECTORS = 4


class CpuAttention(CpuRule):
    """Attention on an LLVM CPU target, by the online softmax over tiles of keys."""

    name = "cpu.attention"
    lowers = Attention

    def usual(self, op: Attention, target: Target) -> AttentionConfig:
        """Tiles that keep accumulators in registers and the tiles of a step in the second cache."""
        features = cpu_features(target)
        lanes = features.lanes(item_bytes(op.compute_dtype) * 8)
        rows = _static_count(op, "m")
        # With few rows most lanes would be idle.  Measured: the forms break even at some 10 rows
        # of 16 lanes, and at 16 where the other form has to convert key and value first.
        in_place = _reads_in_place(op, "key") and _reads_in_place(op, "value")
        few = rows is not None and rows <= (max(lanes // 2, 1) if in_place else lanes)
        if few and dynamic_columns(op) is None:
            return self._rows_config(op, features, lanes)
        return self._lanes_config(op, features, lanes, _forms(op, features)[0])

    def space(self, op: Attention, target: Target) -> TuningSpace:
        """Tiles of rows and keys, register tiles, what is copied first; rows for few of them."""
        features, choice = cpu_features(target), AttentionConfig.choice
        full = features.lanes(item_bytes(op.compute_dtype) * 8)
        lanes = choice("lanes", (max(full // 2, 1), full))
        promote = choice("promote", ((), ("key",), ("value",), ("key", "value")))
        parallel = choice("parallel", (False, True))
        sums = tuple(range(1, 13))
        unit = ("vectors", "lanes")
        found = _forms(op, features)
        forms = [
            form(
                self._lanes_config(op, features, full, one).lowering(),
                choice("keys_at_once", sums),
                choice("columns_at_once", sums),
                choice("vectors", (1, 2, 3, 4)),
                choice("rows", (1, 2, 3, 4, 6, 8, 12), unit),
                choice("keys", (4, 6, 8, 11, 12, 16, 24, 32), ("keys_at_once",)),
                lanes,
                promote,
                parallel,
            )
            for one in found
            if one != MATRIX
        ]
        if MATRIX in found:
            forms.append(
                form(
                    self._lanes_config(op, features, full, MATRIX).lowering(),
                    choice("keys_at_once", (1, 2, 3)),
                    choice("columns_at_once", (1, 2, 3)),
                    choice("vectors", (1, 2, 3)),
                    choice("rows", (1, 2, 4, 8, 12, 16, 24, 32), unit),
                    choice("keys", (64, 96, 128, 192, 256, 384, 512)),
                    parallel,
                )
            )
        rows = _static_count(op, "m")
        few = rows is not None and rows <= _MOST_ROWS_IN_VECTORS * full
        if few and dynamic_columns(op) is None:
            cores = features.cores
            forms.append(
                form(
                    self._rows_config(op, features, full).lowering(),
                    choice("keys", powers_of_two(2, 32), ("lanes",)),
                    choice("columns_at_once", sums),
                    choice("splits", tuple(sorted({1, 2, cores, 2 * cores, 4 * cores}))),
                    lanes,
                    promote,
                    parallel,
                )
            )

        return TuningSpace.of(self.heuristic(op, target), forms, self.refusals(op, target))

    def vectors_held(self, config: AttentionConfig) -> int:
        """Accumulators, and the factors of one step."""
        if config.algorithm == MATRIX:
            return 0
        if config.algorithm == ROWS:
            return config.columns_at_once + 1
        return (max(config.columns_at_once, config.keys_at_once) + 1) * config.vectors + 1

    def _lanes_config(
        self, op: Attention, features: CpuFeatures, lanes: int, algorithm: str
    ) -> AttentionConfig:
        # An element is read once for each register tile: what makes that dear is done once.
        promote = tuple(name for name in ("key", "value") if not _reads_in_place(op, name))
        tiles = _REGISTER_TILES[features.vector_registers]
        m = _static_count(op, "m")
        rows, vectors = min(tiles, key=lambda tile: -(m or 0) % (tile[1] * lanes))
        # Keys leave room in the first cache, rows of query and output in the second: three quarters
        # and half of them have so many numbers of 32 bits.
        key_numbers = features.first_cache_bytes * 3 // 16
        row_numbers = features.second_cache_bytes // 8
        k1, n = (_columns(op, role) for role in ("k1", "n"))
        small = k1 * _KEYS <= key_numbers
        tile_m = min(_ROWS, row_numbers // (k1 + n))
        tile_k2 = _KEYS if small else _KEYS // 2
        if algorithm == PAIRS:
            promote = tuple(sorted(copied_operands(op)))
        if algorithm == MATRIX:
            promote, rows, tile_m = ("key", "value"), _PRODUCT_TILES, _TILED_ROWS
            vectors, tile_k2 = _TILED_VECTORS, _TILED_KEYS
        unit = vectors * lanes
        tile_m = max(unit, tile_m // unit * unit)
        points = _static_count(op, "b")
        while points and m and tile_m > unit and points * -(-m // tile_m) < 2 * features.cores:
            tile_m = max(unit, tile_m // 2 // unit * unit)
        return AttentionConfig(
            algorithm,
            rows=tile_m,
            keys=tile_k2,
            keys_at_once=rows,
            columns_at_once=rows,
            vectors=vectors,
            lanes=lanes,
            promote=promote,
            parallel=self.is_large(op),
        )

    def _rows_config(self, op: Attention, features: CpuFeatures, lanes: int) -> AttentionConfig:
        points, keys = _static_count(op, "b"), _static_count(op, "k2")
        splits = features.cores
        if points is not None:
            # The fewest splits that share the work evenly.
            even = (s for s in range(1, 9) if points * s % features.cores == 0)
            splits = 1 if points >= 8 * features.cores else next(even, features.cores)
        if keys is not None:
            splits = max(1, min(splits, keys // 128))
        return AttentionConfig(
            ROWS,
            rows=op.count("m"),
            keys=32 if op.paged else 128,  # what is fetched stands beside it
            columns_at_once=min(8, features.vector_registers - 4),
            lanes=lanes,
            promote=tuple(name for name in ("key", "value") if not _in_vectors(op, name, lanes)),
            splits=splits,
            parallel=self.is_large(op),
            # What is in pages is fetched in one stage, too, as the table says.
            fetch_ahead=not features.fetches_second and not op.paged,
        )

    def parse(self, op: Attention, target: Target, config: LoweringConfig) -> AttentionConfig:
        """The rule's numbers in a config."""
        features, check = cpu_features(target), self.check(config)
        found = [*_forms(op, features), *([ROWS] if dynamic_columns(op) is None else [])]
        typed = AttentionConfig.parse(check, *(form for form in _ORDER if form in found))
        if least := {PAIRS: LEAST_LANES, MATRIX: TILE}.get(typed.algorithm):
            check.lanes(least, features.lanes(32))
        read = typed.lowering()
        for field in ("workgroup_tile", "reduction_tile", "register_tile"):
            given, tiles = getattr(config, field), getattr(read, field)
            check.expect(given == tiles, field, dict(given), f"tiles for {', '.join(tiles)}")
        (_check_rows if typed.algorithm == ROWS else _check_many)(op, check, typed)
        m, k2 = typed.rows, typed.keys
        columns = _columns(op, "k1") + _columns(op, "n")
        part = m if typed.algorithm == ROWS else typed.vectors * typed.lanes
        scratch = (columns * (m + k2) + 2 * part * k2) * item_bytes(op.compute_dtype)
        check.need(
            scratch <= _LARGEST_SCRATCH_BYTES,
            f"tiles of {m} rows and {k2} keys take {scratch} bytes a thread;"
            f" expected at most {_LARGEST_SCRATCH_BYTES}",
        )
        return typed

    def kernel(self, op: Attention, target: Target, config: AttentionConfig) -> tirx.PrimFunc:
        """The function of ``op`` in the config's form."""
        features = cpu_features(target)
        if config.algorithm == PAIRS and (dot := pairs_product(op, features)):
            return pairs_kernel(op, config, dot)
        if config.algorithm == MATRIX and (product := tile_product(op, features)):
            return tiles_kernel(op, config, product)
        return (rows_kernel if config.algorithm == ROWS else lanes_kernel)(op, config)


def _forms(op: Attention, features: CpuFeatures) -> list[str]:
    """The forms for many rows that there are for an op, the fastest first."""
    if dynamic_columns(op) is not None:
        return [LANES]
    by_instruction = {MATRIX: tile_product(op, features), PAIRS: pairs_product(op, features)}
    return [*(form for form, found in by_instruction.items() if found), LANES]


_LARGEST_SCRATCH_BYTES = 64 * 1024 * 1024

_ORDER = (LANES, PAIRS, MATRIX, ROWS)


def _check_many(op: Attention, check: ConfigCheck, typed: AttentionConfig) -> None:
    """Check a config of the forms for many rows."""
    form, promoted, sums = typed.algorithm, set(typed.promote), 1
    if form == PAIRS:
        copied = copied_operands(op)
        typed.expect(check, "promote", promoted >= copied, " and ".join(sorted(copied)))
        typed.multiple(check, "keys", 2, "pairs")
    if form == MATRIX:
        typed.expect(check, "promote", promoted == {"key", "value"}, "key and value in tiles")
        typed.multiple(check, "keys", KEYS, "a tile")
        sums = TILE
        for across in (typed.keys_at_once, typed.columns_at_once):
            check.need(
                fits(across, typed.vectors),
                f"{across} by {typed.vectors} tiles do not fit {TILES} registers of tiles",
            )
    typed.expect(check, "splits", typed.splits == 1, f"1 in the {form} form")
    typed.multiple(check, "rows", typed.vectors * typed.lanes, "vectors of a register tile")
    typed.multiple(check, "keys", typed.keys_at_once * sums, "rows of a register tile")


def _check_rows(op: Attention, check: ConfigCheck, typed: AttentionConfig) -> None:
    """Check a config of the form for few rows."""
    lanes, rows = typed.lanes, op.count("m")
    typed.multiple(check, "keys", lanes, "lanes")
    check.need(_static_count(op, "m") is not None, "'rows' needs a static number of rows")
    typed.expect(check, "rows", typed.rows == rows, f"{rows}, the rows")
    for name in ("key", "value"):
        check.need(
            _in_vectors(op, name, lanes) or name in typed.promote,
            f"'rows' reads {name} in vectors of {lanes} columns; promote it",
        )


def _static_count(op: Attention, role: str) -> int | None:
    """The points of a role, where all its extents are numbers."""
    if any(isinstance(op.extents[dim], str) for dim in op.dims[role]):
        return None
    return op.count(role)


def _columns(op: Attention, role: str) -> int:
    """The columns of k1 or n; where a call tells them, what is usual."""
    known = _static_count(op, role)
    return _USUAL_COLUMNS if known is None else known


def _in_vectors(op: Attention, name: str, lanes: int) -> bool:
    """Whether a row of key or value is vectors of columns next to each other."""
    role = "k1" if name == "key" else "n"
    last = op.maps[name].axes[-1] if op.maps[name].axes else ()
    contiguous = len(op.dims[role]) == 1 and last[-1:] == op.dims[role]
    return contiguous and op.count(role) >= lanes


def _reads_in_place(op: Attention, name: str) -> bool:
    """Whether single elements of key or value need neither a conversion nor a division."""
    simple = all(len(op.dims[role]) <= 1 for role in ("k1", "k2", "n"))
    return op.types[name].dtype == op.compute_dtype and simple
