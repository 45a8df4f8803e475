"""The CPU rule for attention and online attention: which form, with which tiles."""

from tvm import ir, tirx
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import Choice, TuningSpace, form, powers_of_two, refusal
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
from tvm_iree_ext.schedules.cpu.attention.attention_lanes import lanes_kernel
from tvm_iree_ext.schedules.cpu.attention.attention_rows import rows_kernel
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.products.amx import TILE, TILES, fits
from tvm_iree_ext.schedules.cpu.products.dot_products import LEAST_LANES
from tvm_iree_ext.schedules.shared.attention_operands import dynamic_columns
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features

LANES, PAIRS, MATRIX, ROWS = "lanes", "pairs", "tiles", "rows"
"""The forms: pairs is lanes by an instruction that multiplies neighbours, tiles by one of tiles."""

# Accumulators of the lanes form by vector registers: scalars x vectors of query rows.  A step loads
# as many as their sum, so the first tile, with the fewest loads a multiply-add, is the fastest; the
# others fit fewer rows.
_REGISTER_TILES = {16: ((6, 2),), 32: ((6, 4), (8, 3), (8, 2))}

# Rows of a task, which share a tile of keys, and numbers of their query and output that leave room
# in the second cache; keys of a tile, and numbers of them that leave room in the first.
_ROWS, _ROW_NUMBERS = 512, 512 * 256
_KEYS, _KEY_NUMBERS = 96, 96 * 64

# The tiles form: tiles of sums in registers; rows of a task; and vectors of rows and keys whose
# scores are made at once.
_PRODUCT_TILES = 2
_TILED_ROWS = 1024
_TILED_VECTORS, _TILED_KEYS = 2, 256

# Rows, in vectors of them, up to which a tuner tries the form for few.
_MOST_ROWS_IN_VECTORS = 4


class CpuAttention(CpuRule):
    """Attention on an LLVM CPU target, by the online softmax over tiles of keys."""

    name = "cpu.attention"
    lowers = Attention

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if (reason := super().applies(op, target)) is not None or not isinstance(op, Attention):
            return reason
        return dynamic_columns(op)

    def heuristic(self, op: Attention, target: Target) -> LoweringConfig:
        """Tiles that keep accumulators in registers and the tiles of a step in the L2 cache."""
        features = cpu_features(target)
        lanes = features.lanes(item_bytes(op.compute_dtype) * 8)
        rows = _static_count(op, "m")
        # With few rows most lanes would be idle.  Measured: the forms break even at some 10 rows
        # of 16 lanes, and at 16 where the other form has to convert key and value first.
        in_place = _reads_in_place(op, "key") and _reads_in_place(op, "value")
        if rows is not None and rows <= (max(lanes // 2, 1) if in_place else lanes):
            return self._rows_config(op, features, lanes)
        return self._lanes_config(op, features, lanes, _forms(op, features)[0])

    def space(self, op: Attention, target: Target) -> TuningSpace:
        """Tiles of rows and keys, register tiles, what is copied first; rows for few of them."""
        features, usual = cpu_features(target), self.heuristic(op, target)
        full = features.lanes(item_bytes(op.compute_dtype) * 8)
        lanes = Choice("vector_lanes", (max(full // 2, 1), full))
        promote = Choice("promote", ((), ("key",), ("value",), ("key", "value")))
        parallel = Choice("parallel", (False, True))
        sums = tuple(range(1, 13))
        unit = ("register_tile.m", "vector_lanes")
        found = _forms(op, features)
        forms = [
            form(
                self._lanes_config(op, features, full, one),
                Choice("register_tile.k2", sums),
                Choice("register_tile.n", sums),
                Choice("register_tile.m", (1, 2, 3, 4)),
                Choice("workgroup_tile.m", (1, 2, 3, 4, 6, 8, 12), unit),
                Choice("reduction_tile.k2", (4, 6, 8, 11, 12, 16, 24, 32), ("register_tile.k2",)),
                lanes,
                promote,
                parallel,
            )
            for one in found
            if one != MATRIX
        ]
        if MATRIX in found:
            tiles = Choice("register_tile.k2", (1, 2, 3)), Choice("register_tile.n", (1, 2, 3))
            forms.append(
                form(
                    self._lanes_config(op, features, full, MATRIX),
                    *tiles,
                    Choice("register_tile.m", (1, 2, 3)),
                    Choice("workgroup_tile.m", (1, 2, 4, 8, 12, 16, 24, 32), unit),
                    Choice("reduction_tile.k2", (64, 96, 128, 192, 256, 384, 512)),
                    parallel,
                )
            )
        rows = _static_count(op, "m")
        if rows is not None and rows <= _MOST_ROWS_IN_VECTORS * full:
            cores = features.cores
            forms.append(
                form(
                    self._rows_config(op, features, full),
                    Choice("reduction_tile.k2", powers_of_two(2, 32), ("vector_lanes",)),
                    Choice("register_tile.n", sums),
                    Choice("splits", tuple(sorted({1, 2, cores, 2 * cores, 4 * cores}))),
                    lanes,
                    promote,
                    parallel,
                )
            )

        def accept(config: LoweringConfig) -> str | None:
            tile = config.register_tile
            most = max(tile.get("n", 1), tile.get("k2", 1)) * tile.get("m", 1)
            needed = most + tile.get("m", 0) + 1
            if config.algorithm != MATRIX and needed > features.vector_registers:
                return f"{needed} vectors do not fit {features.vector_registers} registers"
            return refusal(lambda: _check(op, self.check(config), features))

        return TuningSpace.of(usual, forms, accept)

    def _lanes_config(
        self, op: Attention, features: CpuFeatures, lanes: int, algorithm: str
    ) -> LoweringConfig:
        # An element is read once for each register tile: what makes that dear is done once.
        promote = tuple(name for name in ("key", "value") if not _reads_in_place(op, name))
        tiles = _REGISTER_TILES[features.vector_registers]
        m = _static_count(op, "m")
        rows, vectors = min(tiles, key=lambda tile: -(m or 0) % (tile[1] * lanes))
        small = op.count("k1") * _KEYS <= _KEY_NUMBERS
        tile_m = min(_ROWS, _ROW_NUMBERS // (op.count("k1") + op.count("n")))
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
        return LoweringConfig(
            algorithm=algorithm,
            workgroup_tile={"m": tile_m},
            reduction_tile={"k2": tile_k2},
            register_tile={"k2": rows, "n": rows, "m": vectors},
            vector_lanes=lanes,
            promote=promote,
            parallel=self.is_large(op),
        )

    def _rows_config(self, op: Attention, features: CpuFeatures, lanes: int) -> LoweringConfig:
        points, keys = _static_count(op, "b"), _static_count(op, "k2")
        splits = features.cores
        if points is not None:
            # The fewest splits that share the work evenly.
            even = (s for s in range(1, 9) if points * s % features.cores == 0)
            splits = 1 if points >= 8 * features.cores else next(even, features.cores)
        if keys is not None:
            splits = max(1, min(splits, keys // 128))
        return LoweringConfig(
            algorithm=ROWS,
            workgroup_tile={"m": op.count("m")},
            reduction_tile={"k2": 128},
            register_tile={"n": min(8, features.vector_registers - 4)},
            vector_lanes=lanes,
            promote=tuple(name for name in ("key", "value") if not _in_vectors(op, name, lanes)),
            splits=splits,
            parallel=self.is_large(op),
            stages=1 if features.fetches_second else 2,
        )

    def lower(self, op: Attention, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        func = self._lower(op, cpu_features(target), config)
        return ir.IRModule({op.entry: func})

    def _lower(self, op: Attention, features: CpuFeatures, config: LoweringConfig) -> tirx.PrimFunc:
        _check(op, self.check(config), features)
        if config.algorithm == PAIRS and (dot := pairs_product(op, features)):
            return pairs_kernel(op, config, dot)
        if config.algorithm == MATRIX and (product := tile_product(op, features)):
            return tiles_kernel(op, config, product)
        return (rows_kernel if config.algorithm == ROWS else lanes_kernel)(op, config)


def _forms(op: Attention, features: CpuFeatures) -> list[str]:
    """The forms for many rows that there are for an op, the fastest first."""
    by_instruction = {MATRIX: tile_product(op, features), PAIRS: pairs_product(op, features)}
    return [*(form for form, found in by_instruction.items() if found), LANES]


_LARGEST_SCRATCH_BYTES = 64 * 1024 * 1024

# The tiles that each form takes: field of the config -> roles.
_LANES_TILES = {
    "workgroup_tile": ("m",),
    "reduction_tile": ("k2",),
    "register_tile": ("k2", "m", "n"),
}
_TILES: dict[str, dict[str, tuple[str, ...]]] = {
    LANES: _LANES_TILES,
    PAIRS: _LANES_TILES,
    MATRIX: _LANES_TILES,
    ROWS: {"workgroup_tile": ("m",), "reduction_tile": ("k2",), "register_tile": ("n",)},
}


def _check(op: Attention, check: ConfigCheck, features: CpuFeatures) -> None:
    """Raise ScheduleError for a config that the kernels cannot use."""
    config, expect = check.config, check.expect
    found = _forms(op, features)
    form = check.algorithm(*(form for form in _TILES if form in found or form == ROWS))
    least = {PAIRS: LEAST_LANES, MATRIX: TILE}.get(form)
    lanes = check.lanes(least, features.lanes(32)) if least else check.lanes()
    splits = check.splits()
    for field, roles in _TILES[form].items():
        tiles = getattr(config, field)
        for role in roles:
            check.tile(field, role)
        expect(set(tiles) == set(roles), field, dict(tiles), f"tiles for {', '.join(roles)}")
    expect(isinstance(config.parallel, bool), "parallel", config.parallel, "a bool")
    promoted = set(config.promote)
    expect(promoted <= {"key", "value"}, "promote", config.promote, "some of key and value")
    m, k2 = config.workgroup_tile["m"], config.reduction_tile["k2"]
    if form == PAIRS:
        copied = copied_operands(op)
        expect(promoted >= copied, "promote", config.promote, f"{' and '.join(sorted(copied))}")
        expect(k2 % 2 == 0, "reduction_tile['k2']", k2, "a multiple of 2 (pairs)")
    if form == MATRIX:
        expect(promoted == {"key", "value"}, "promote", config.promote, "key and value in tiles")
        expect(k2 % KEYS == 0, "reduction_tile['k2']", k2, f"a multiple of {KEYS} (a tile)")
        for role in ("k2", "n"):
            tiles = config.register_tile[role], config.register_tile["m"]
            check.need(
                fits(*tiles),
                f"{tiles[0]} by {tiles[1]} tiles do not fit {TILES} registers of tiles",
            )
    if form != ROWS:
        expect(splits == 1, "splits", splits, f"1 in the {form} form")
        registers = config.register_tile
        unit, lines = registers["m"] * lanes, registers["k2"] * (TILE if form == MATRIX else 1)
        for name, value, multiple, why in (
            ("workgroup_tile['m']", m, unit, "vectors of a register tile"),
            ("reduction_tile['k2']", k2, lines, "rows of a register tile"),
        ):
            expect(value % multiple == 0, name, value, f"a multiple of {multiple} ({why})")
    else:
        expect(k2 % lanes == 0, "reduction_tile['k2']", k2, f"a multiple of {lanes} (lanes)")
        check.count("stages", config.stages, 2)
        static = _static_count(op, "m") is not None
        check.need(static, "'rows' needs a static number of rows")
        expect(m == op.count("m"), "workgroup_tile['m']", m, f"{op.count('m')}, the rows")
        for name in ("key", "value"):
            check.need(
                _in_vectors(op, name, lanes) or name in promoted,
                f"'rows' reads {name} in vectors of {lanes} columns; promote it",
            )
    columns = op.count("k1") + op.count("n")
    part = m if form == ROWS else config.register_tile["m"] * lanes
    scratch = (columns * (m + k2) + 2 * part * k2) * item_bytes(op.compute_dtype)
    check.need(
        scratch <= _LARGEST_SCRATCH_BYTES,
        f"tiles of {m} rows and {k2} keys take {scratch} bytes a thread;"
        f" expected at most {_LARGEST_SCRATCH_BYTES}",
    )


def _static_count(op: Attention, role: str) -> int | None:
    """The points of a role, where all its extents are numbers."""
    if any(isinstance(op.extents[dim], str) for dim in op.dims[role]):
        return None
    return op.count(role)


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
