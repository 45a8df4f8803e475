"""The CPU rule for contractions: blocks for the caches, shared out to the cores."""

from collections.abc import Sequence

from tvm import ir
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import TuningSpace, refusal
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.contraction.contraction_amx_tiles import TileLoops
from tvm_iree_ext.schedules.cpu.contraction.contraction_few_rows import VectorLoops, vector_form
from tvm_iree_ext.schedules.cpu.contraction.contraction_heuristic import (
    few_config,
    neighbour_products,
    panels_config,
    reads_in_place,
)
from tvm_iree_ext.schedules.cpu.contraction.contraction_packing import Neighbours
from tvm_iree_ext.schedules.cpu.contraction.contraction_panels import (
    PanelLoops,
    rounded_blocks,
    rows_at_once,
)
from tvm_iree_ext.schedules.cpu.contraction.contraction_plan import (
    ContractionOperands,
    ContractionPlan,
)
from tvm_iree_ext.schedules.cpu.contraction.contraction_space import (
    MATRIX,
    PANELS,
    contraction_space,
)
from tvm_iree_ext.schedules.cpu.contraction.contraction_sums import without_scratch
from tvm_iree_ext.schedules.cpu.products import amx
from tvm_iree_ext.schedules.cpu.products.amx import TILE, TILES, TileProduct
from tvm_iree_ext.schedules.cpu.products.dot_products import LEAST_LANES
from tvm_iree_ext.schedules.cpu.products.register_tiles import EXACT_DEPTH, RegisterTile
from tvm_iree_ext.schedules.emit import i64
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features

# Rows up to which a kernel for any number of them has code of its own.
_FEW_UNKNOWN = (1, 8)

_LARGEST_SCRATCH_BYTES = 64 << 20


Loops = PanelLoops | VectorLoops


class CpuContraction(CpuRule):
    """Contractions on an LLVM CPU target."""

    name = "cpu.contraction"
    lowers = Contraction

    def heuristic(self, op: Contraction, target: Target) -> LoweringConfig:
        """Register tiles that fit the target, blocks that fit its caches and share out evenly."""
        features, plan = cpu_features(target), ContractionPlan(op)
        parallel = self.is_large(op)
        return panels_config(plan, features, parallel)

    def space(self, op: Contraction, target: Target) -> TuningSpace:
        """Blocks, register tiles, depth, what is packed; the panels, too, for few rows."""
        features, plan = cpu_features(target), ContractionPlan(op)
        usual = self.heuristic(op, target)
        many = panels_config(plan, features, usual.parallel, in_place=False)
        other = many if usual.algorithm != many.algorithm else None

        def check(config: LoweringConfig) -> str | None:
            return refusal(lambda: self._check(plan, features, config))

        return contraction_space(plan, usual, other, features, check)

    def lower(self, op: Contraction, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        plan = ContractionPlan(op)
        factors = self._check(plan, cpu_features(target), config)
        few = _few_rows(op, cpu_features(target)) if config.algorithm != vector_form(plan) else {}
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            operands = ContractionOperands(plan)
            loops = _loops(plan, operands, config, factors)
            _emit(operands, [(one, _loops(one, operands, few[one])) for one in few], loops)
        return ir.IRModule({op.entry: builder.get()})

    def _check(
        self, plan: ContractionPlan, features: CpuFeatures, config: LoweringConfig
    ) -> Neighbours | None:
        """The instruction that a config's panels take; ScheduleError for one that is not fit."""
        check, vectors = self.check(config), vector_form(plan)
        if vectors and config.algorithm == vectors:
            check.lanes()
            check.tile("workgroup_tile", "n")
            check.power_of_two("register_tile['rows']", config.register_tile.get("rows", 0))
            return None
        return check_panels(plan, check, features, *([vectors] if vectors else []))


def _few_rows(op: Contraction, features: CpuFeatures) -> dict[ContractionPlan, LoweringConfig]:
    """Where rows are not known: how so many at most are multiplied, by their number."""
    if ContractionPlan(op).extent(ContractionPlan(op).m) is not None:
        return {}
    plans = [ContractionPlan(op, rows) for rows in _FEW_UNKNOWN]
    found = ((plan, few_config(plan, features, features.cores)) for plan in plans)
    return {plan: config for plan, config in found if config}


def _loops(
    plan: ContractionPlan,
    operands: ContractionOperands,
    config: LoweringConfig,
    factors: Neighbours | None = None,
) -> Loops:
    if config.algorithm == vector_form(plan):
        return VectorLoops(plan, operands, config)
    return panel_loops(plan, operands, config, factors)


def panel_loops(
    plan: ContractionPlan,
    operands: ContractionOperands,
    config: LoweringConfig,
    factors: Neighbours | None,
) -> PanelLoops:
    """The blocks of a config, by the instruction that :func:`check_panels` found."""
    if isinstance(factors, TileProduct):
        return TileLoops(plan, operands, config, factors)
    return PanelLoops(plan, operands, config, factors)


def _emit(
    operands: ContractionOperands, few: Sequence[tuple[ContractionPlan, Loops]], loops: Loops
) -> None:
    """The first loops that serve the rows that there are."""
    if not few:
        loops.emit()
        return
    (plan, first), *rest = few
    with I.If(i64(operands.extent(plan.m)) <= i64(plan.most_rows or 0)):
        with I.Then():
            first.emit()
        with I.Else():
            _emit(operands, rest, loops)


def check_panels(
    plan: ContractionPlan, check: ConfigCheck, features: CpuFeatures, *others: str
) -> Neighbours | None:
    """The instruction that a config's panels take, if any.

    Raises:
        ScheduleError: for a config that the panels cannot use; ``others`` are forms to be named.
    """
    config, products = check.config, neighbour_products(plan, features)
    form = check.algorithm(PANELS, *reversed(products), *others)
    dot = products.get(form)
    least = TILE if form == MATRIX else LEAST_LANES
    lanes = check.lanes(least, features.lanes(32)) if dot else check.lanes()
    m, n = (check.tile("workgroup_tile", role) for role in ("m", "n"))
    exact = plan.op.accumulator_dtype == "int32" and not dot
    k = check.tile("reduction_tile", "k", EXACT_DEPTH if exact else None)
    if dot:
        whole = k % dot.group == 0
        check.expect(whole, "reduction_tile['k']", k, f"a multiple of {dot.group}")
        k //= dot.group
    rows, vectors = (check.tile("register_tile", role) for role in ("rows", "vectors"))
    tile = RegisterTile(rows, vectors, lanes)
    if form == MATRIX:
        whole = rows % TILE == 0
        check.expect(whole, "register_tile['rows']", rows, f"a multiple of {TILE} (tiles)")
        check.need(
            amx.fits(rows // TILE, vectors),
            f"{rows // TILE} by {vectors} tiles do not fit {TILES} registers of tiles",
        )
    for name in sorted({"lhs", "rhs"} - set(config.promote)):
        fits = not dot and (name == plan.a or reads_in_place(plan, tile, m, n))
        check.expect(fits, "promote", list(config.promote), f"{name} among them")
    known = set(config.promote) <= {"lhs", "rhs"}
    check.expect(known, "promote", list(config.promote), "lhs and rhs at most")
    high, wide = rounded_blocks(plan, tile, m, n)
    places = plan.count(plan.depth)
    single = places is not None and places <= config.reduction_tile["k"]
    sums = 0 if without_scratch(plan, lanes, single) else high * wide
    packed = high if form == MATRIX or plan.b not in config.promote else rows_at_once(tile, high)
    scratch = (sums + (packed + wide) * (k + lanes)) * item_bytes(plan.product_dtype)
    check.need(
        scratch <= _LARGEST_SCRATCH_BYTES,
        f"blocks of {m} x {n} take {scratch} bytes a thread;"
        f" expected at most {_LARGEST_SCRATCH_BYTES}",
    )
    return dot
