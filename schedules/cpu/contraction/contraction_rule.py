"""The CPU rule for contractions: blocks for the caches, shared out to the cores."""

from collections.abc import Sequence

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import TuningSpace
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.contraction.contraction_amx_tiles import TileLoops
from tvm_iree_ext.schedules.cpu.contraction.contraction_config import (
    MATRIX,
    PANELS,
    ContractionConfig,
)
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
from tvm_iree_ext.schedules.cpu.contraction.contraction_space import contraction_space
from tvm_iree_ext.schedules.cpu.contraction.contraction_sums import without_scratch
from tvm_iree_ext.schedules.cpu.products import amx
from tvm_iree_ext.schedules.cpu.products.amx import TILE, TILES, TileProduct
from tvm_iree_ext.schedules.cpu.products.dot_products import LEAST_LANES
from tvm_iree_ext.schedules.cpu.products.register_tiles import EXACT_DEPTH
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

    def usual(self, op: Contraction, target: Target) -> ContractionConfig:
        """Register tiles that fit the target, blocks that fit its caches and share out evenly."""
        features, plan = cpu_features(target), ContractionPlan(op)
        parallel = self.is_large(op)
        return panels_config(plan, features, parallel)

    def space(self, op: Contraction, target: Target) -> TuningSpace:
        """Blocks, register tiles, depth, what is packed; the panels, too, for few rows."""
        features, plan = cpu_features(target), ContractionPlan(op)
        usual = self.usual(op, target)
        many = panels_config(plan, features, usual.parallel, in_place=False)
        other = many if usual.algorithm != many.algorithm else None

        return contraction_space(plan, usual, other, features, self.refusals(op, target))

    def vectors_held(self, config: ContractionConfig) -> int:
        """Sums, a row of b beside them, and a scalar of a that is in all lanes."""
        return 0 if config.algorithm == MATRIX else (config.rows + 1) * config.vectors + 1

    def parse(self, op: Contraction, target: Target, config: LoweringConfig) -> ContractionConfig:
        """The rule's numbers in a config."""
        check, plan = self.check(config), ContractionPlan(op)
        vectors = vector_form(plan)
        if vectors is None or config.algorithm != vectors:
            return parse_panels(plan, check, cpu_features(target), *([vectors] if vectors else []))
        typed = ContractionConfig.parse(check, vectors)
        check.power_of_two("register_tile['rows']", typed.rows)
        return typed

    def kernel(self, op: Contraction, target: Target, config: ContractionConfig) -> tirx.PrimFunc:
        """The function of ``op``, with loops for few rows where their number is not known."""
        plan, features = ContractionPlan(op), cpu_features(target)
        few = _few_rows(op, features) if config.algorithm != vector_form(plan) else {}
        factors = neighbour_products(plan, features).get(config.algorithm)
        with IRBuilder() as builder, I.prim_func():
            operands = ContractionOperands(plan)
            loops = _loops(plan, operands, config, features, factors)
            others = [(one, _loops(one, operands, few[one], features)) for one in few]
            _emit(operands, others, loops)
        return builder.get()


def _few_rows(op: Contraction, features: CpuFeatures) -> dict[ContractionPlan, ContractionConfig]:
    """Plans for few rows where their number is not known, with configs."""
    if ContractionPlan(op).extent(ContractionPlan(op).m) is not None:
        return {}
    plans = [ContractionPlan(op, rows) for rows in _FEW_UNKNOWN]
    found = ((plan, few_config(plan, features, features.cores)) for plan in plans)
    return {plan: config for plan, config in found if config}


def _loops(
    plan: ContractionPlan,
    operands: ContractionOperands,
    config: ContractionConfig,
    features: CpuFeatures,
    factors: Neighbours | None = None,
) -> Loops:
    if config.algorithm == vector_form(plan):
        return VectorLoops(plan, operands, config, features)
    return panel_loops(plan, operands, config, factors)


def panel_loops(
    plan: ContractionPlan,
    operands: ContractionOperands,
    config: ContractionConfig,
    factors: Neighbours | None,
) -> PanelLoops:
    """The blocks of a config, by an instruction if there is one."""
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


def parse_panels(
    plan: ContractionPlan, check: ConfigCheck, features: CpuFeatures, *others: str
) -> ContractionConfig:
    """The numbers of a config of panels.

    Raises:
        ScheduleError: for a config that the panels cannot use; ``others`` are forms to be named.
    """
    products = neighbour_products(plan, features)
    typed = ContractionConfig.parse(check, PANELS, *reversed(products), *others)
    form, tile, m, n, k = typed.algorithm, typed.tile, typed.block_m, typed.block_n, typed.block_k
    dot = products.get(form)
    if dot:
        check.lanes(TILE if form == MATRIX else LEAST_LANES, features.lanes(32))
        k = typed.multiple(check, "block_k", dot.group, "words")
    elif plan.op.accumulator_dtype == "int32":
        typed.expect(check, "block_k", k <= EXACT_DEPTH, f"1 to {EXACT_DEPTH}")
    if form == MATRIX:
        high = typed.multiple(check, "rows", TILE, "tiles")
        check.need(
            amx.fits(high, tile.vectors),
            f"{high} by {tile.vectors} tiles do not fit {TILES} registers of tiles",
        )
    for name in sorted({"lhs", "rhs"} - set(typed.promote)):
        fits = not dot and (name == plan.a or reads_in_place(plan, tile, m, n))
        typed.expect(check, "promote", fits, f"{name} among them")
    high, wide = rounded_blocks(plan, tile, m, n)
    places = plan.count(plan.depth)
    single = places is not None and places <= typed.block_k
    sums = 0 if without_scratch(plan, tile.lanes, single) else high * wide
    packed = high if form == MATRIX or plan.b not in typed.promote else rows_at_once(tile, high)
    scratch = (sums + (packed + wide) * (k + tile.lanes)) * item_bytes(plan.product_dtype)
    check.need(
        scratch <= _LARGEST_SCRATCH_BYTES,
        f"blocks of {m} x {n} take {scratch} bytes a thread;"
        f" expected at most {_LARGEST_SCRATCH_BYTES}",
    )
    return typed
