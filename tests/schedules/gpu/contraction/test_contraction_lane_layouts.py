"""Contractions whose layouts are given: the instruction that has them, and no other plan."""

from dataclasses import replace

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.layout.transform import broadcast, permute
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.schedules.gpu.contraction.contraction_lane_layouts import config_of_layouts
from tvm_iree_ext.schedules.gpu.contraction.contraction_matrices import ContractionMatrices
from tvm_iree_ext.schedules.gpu.products.matmul_planning import plan_matmul
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.mma.contraction_layouts import contraction_layouts
from tvm_iree_ext.targets.mma.mma_table import mma_kind
from tvm_iree_ext.targets.names import make_target

MFMA, SYNC = "MFMA_F32_16x16x16_F16", "NV_MMA_SYNC_F32_16x8x16_F16"
GFX942, SM_80 = make_target("rocm:gfx942"), make_target("cuda:sm_80")
MAPPED = ("lhs", "rhs", "result")
MATRICES = {"lhs": (0, 2), "rhs": (2, 1), "acc": (0, 1)}  # the dims m, n, k of each


def contraction(
    kind,
    tile,
    subgroups,
    shape=None,
    turned=(),
    column_major=False,
    counted=None,
    given=MATRICES,
    **options,
):
    """A product of matrices, ``turned`` ones of them the other way round, and its arrays."""
    layouts = contraction_layouts(
        mma_kind(kind), "mnk", tile, (*subgroups, 1), column_major=column_major, counted=counted
    )
    shape = shape or tile
    along = {name: MATRICES[name][:: -1 if name in turned else 1] for name in MATRICES}
    laid = {name: getattr(layouts, name) for name in given}
    laid |= {name: permute(laid[name], (1, 0)) for name in turned if name in laid}
    rng = np.random.default_rng(0)
    operands = {
        name: rng.integers(-3, 4, [shape[dim] for dim in along[name]]).astype("float16")
        for name in ("lhs", "rhs")
    }
    maps = [f"(d0, d1, d2) -> (d{a}, d{b})" for a, b in along.values()]
    options = {"mma_kind": kind, "result_dtype": "float32", "layouts": laid, **options}
    op = ops.contraction(*operands.values(), indexing_maps=maps, **options)
    lhs, rhs = (
        one.astype("f4").T if n in turned else one.astype("f4") for n, one in operands.items()
    )
    want = (lhs @ rhs).T if "acc" in turned else lhs @ rhs
    return op, operands, want


def multiplied(op, operands, want, target):
    """The config and the counts of the kernel, whose result is right."""
    config = choose(op, target).heuristic(op, target)
    done = simulate_op(op, target, operands, config).check()
    np.testing.assert_array_equal(done.results["result"], want)
    return config, done.simulations[0].counts


@pytest.mark.parametrize("kind", [MFMA, None])
@pytest.mark.parametrize(
    ("name", "tile", "subgroups", "shape", "target"),
    [
        (MFMA, (32, 32, 32), (1, 2), None, GFX942),
        ("MFMA_F32_32x32x8_F16", (32, 64, 16), (1, 2), (40, 64, 24), GFX942),
        (SYNC, (32, 16, 16), (2, 1), (50, 30, 40), SM_80),
        ("WMMAR3_F32_16x16x16_F16", (16, 32, 16), (1, 1), None, make_target("rocm:gfx1100")),
    ],
)
def test_tiles_subgroups_and_the_instruction_are_the_layouts(
    name, tile, subgroups, shape, target, kind
):
    case = contraction(name, tile, subgroups, shape, mma_kind=kind and name)
    config, counts = multiplied(*case, target)
    assert (config.mma_kind, config.reduction_tile) == (name, {"k": tile[2]})
    assert config.workgroup_tile == dict(zip("mn", tile, strict=False))
    assert config.subgroups == dict(zip("mn", subgroups, strict=False))
    assert counts[name] > 0


@pytest.mark.costly
@pytest.mark.parametrize("target", [GFX942, SM_80])
@pytest.mark.parametrize("turned", [("lhs",), ("rhs", "acc"), ("lhs", "rhs", "acc")])
def test_operands_may_lie_either_way(turned, target):
    name = MFMA if target is GFX942 else SYNC
    config, counts = multiplied(*contraction(name, (32, 16, 32), (2, 1), turned=turned), target)
    assert config.mma_kind == name
    mma = mma_kind(name)
    assert counts[name] == 32 * 16 * 32 // (mma.m * mma.n * mma.k)


@pytest.mark.parametrize("counted", [None, (1, 0, 2)])
@pytest.mark.parametrize("turned", [(), ("lhs", "rhs")])
@pytest.mark.parametrize(("name", "target"), [(MFMA, GFX942), (SYNC, SM_80)])
def test_the_kernels_layouts_are_the_ones_given(name, target, turned, counted):
    case = contraction(name, (32, 16, 32), (2, 2), turned=turned, counted=counted)
    op = case[0]
    matrices = ContractionMatrices(op)
    shape = matrices.shape(("float16", "float16", "float32"))
    plan = plan_matmul(shape, target, config_of_layouts(matrices, shape, target))
    for side, layout in vars(plan.layouts).items():
        if side in MATRICES:
            own = permute(layout, plan.orders[side]) if side in plan.orders else layout
            given = op.layouts.given[side]  # over m, n, k in order: of rhs, n comes first
            assert own == (permute(given, (1, 0)) if side == "rhs" else given)
    multiplied(*case, target)


def test_an_accumulator_by_columns_exchanges_the_factors():
    case = contraction(MFMA, (16, 32, 16), (1, 2), column_major=True)
    assert multiplied(*case, GFX942)[0].column_major


@pytest.mark.costly
@pytest.mark.parametrize("given", [("lhs", "rhs"), ("lhs", "acc"), ("rhs", "acc")])
def test_two_of_three_layouts_say_the_third(given):
    case = contraction(SYNC, (32, 16, 16), (2, 1), given=given)
    assert multiplied(*case, SM_80)[0].subgroups == {"m": 2, "n": 1}


def test_batch_and_outer_digits_may_be_written_for_one_another():
    op, operands, want = contraction(MFMA, (64, 16, 16), (1, 1))
    maps = [str(op.maps[name]) for name in MAPPED]
    lhs = replace(op.layouts.given["lhs"], batch_tile=(1, 1), outer_tile=(4, 1))
    layouts = {"lhs": lhs, "acc": op.layouts.given["acc"]}
    again = ops.contraction(
        *operands.values(), indexing_maps=maps, layouts=layouts, result_dtype="float32"
    )
    assert multiplied(again, operands, want, GFX942)[0].mma_kind == MFMA


def test_batches_and_rows_of_several_dims_are_tiled_along_one():
    own = contraction_layouts(mma_kind(SYNC), "mnk", (16, 16, 16), (1, 2, 1))
    layouts = {"lhs": broadcast(own.lhs, (1,)), "acc": broadcast(own.acc, (1,))}
    rng = np.random.default_rng(0)

    def product(maps, *shapes):
        a, b = (rng.integers(-3, 4, shape).astype("f2") for shape in shapes)
        maps = [f"(b, m, n, k) -> {one}" for one in maps]
        op = ops.contraction(a, b, indexing_maps=maps, layouts=layouts, result_dtype="float32")
        return op, {"lhs": a, "rhs": b}, a.astype("f4") @ b.astype("f4")

    batch = ("(b, m, k)", "(b, k, n)", "(b, m, n)")
    multiplied(*product(batch, (3, 16, 20), (3, 20, 24)), SM_80)
    rows = ("(b, m, k)", "(k, n)", "(b, m, n)")
    multiplied(*product(rows, (3, 16, 20), (20, 24)), SM_80)
    with pytest.raises(ScheduleError, match="a tile of 16 along d1, which runs across rows"):
        choose(product(rows, (3, 17, 20), (20, 24))[0], SM_80)
    layouts = {name: replace(one, batch_tile=(2, 1, 1)) for name, one in layouts.items()}
    with pytest.raises(ScheduleError, match="layouts have tiles of 2 along d0; expected of one"):
        choose(product(batch, (4, 16, 20), (4, 20, 24))[0], SM_80)


def test_a_config_of_other_layouts_is_refused_and_none_is_tuned():
    op, operands, _ = contraction(SYNC, (32, 16, 32), (2, 1))
    rule = choose(op, SM_80)
    config = rule.heuristic(op, SM_80)
    with pytest.raises(ScheduleError, match=r"gpu\.contraction: the op's layouts are those of"):
        rule.lower(op, SM_80, replace(config, workgroup_tile={"m": 64, "n": 16}))
    tried = [rule.space(op, SM_80).config(point) for point in rule.space(op, SM_80).points()]
    assert len(tried) > 3
    assert {(one.mma_kind, str(one.workgroup_tile)) for one in tried} == {
        (config.mma_kind, str(config.workgroup_tile))
    }
    simulate_op(op, SM_80, operands, tried[-1]).check()


@pytest.mark.parametrize(
    ("case", "target", "message"),
    [
        ((MFMA, (32, 16, 16), (2, 1)), SM_80, "sm_80 has no such instruction"),
        (
            ("MFMA_F32_16x16x4_F32", (32, 16, 16), (2, 1)),
            GFX942,
            "its types are float32, float32, float32",
        ),
    ],
)
def test_says_what_the_target_lacks(case, target, message):
    with pytest.raises(ScheduleError, match=message):
        choose(contraction(*case)[0], target)


def test_says_which_layout_is_not_the_instructions():
    op, operands, _ = contraction(SYNC, (32, 16, 16), (2, 1))
    lhs = replace(op.layouts.given["lhs"], thread_strides=(1, 8))

    def made(**options):
        maps = [str(op.maps[name]) for name in MAPPED]
        return ops.contraction(
            *operands.values(), indexing_maps=maps, result_dtype="float32", **options
        )

    layouts = {"lhs": lhs, "acc": op.layouts.given["acc"]}
    with pytest.raises(ScheduleError, match=f"the layout of lhs is .*; {SYNC} has "):
        choose(made(layouts=layouts, mma_kind=SYNC), SM_80)
    with pytest.raises(
        ScheduleError, match=f"no instruction that multiplies .* there are .*{SYNC}"
    ):
        choose(made(layouts=layouts), SM_80)
    with pytest.raises(ScheduleError, match="mma kind 'NV_MMA' is unknown"):
        choose(made(layouts=layouts, mma_kind="NV_MMA"), SM_80)


def test_a_cpu_computes_the_same_without_them():
    op, operands, want = contraction(MFMA, (16, 16, 16), (1, 1))
    np.testing.assert_array_equal(ext.build(op)(*operands.values()), want)
