"""to_layout in programs: products that have layouts, conversions that are left, notes."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from places import DATA

from tvm_iree_ext.layout import NestedLayout
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.mlir.importer import import_module
from tvm_iree_ext.mlir.reading.reader import read
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.ops.families.distribution.to_layout import ToLayout
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.programs.program_explanation import explain_program
from tvm_iree_ext.programs.program_lowering import program_ops
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program
from tvm_iree_ext.targets.mma.contraction_layouts import contraction_layouts
from tvm_iree_ext.targets.mma.mma_table import mma_kind
from tvm_iree_ext.targets.names import make_target

pytest.importorskip("iree.compiler")

MFMA, SYNC = "MFMA_F32_16x16x16_F16", "NV_MMA_SYNC_F32_16x8x16_F16"
GFX942, SM_80 = "rocm:gfx942", "cuda:sm_80"
SHARED = "<shared_memory_conversion = unit>"
ROWS = NestedLayout((1, 1), (1, 1), (1, 1), (8, 1), (1, 8), (0, 0), (1, 0))
COLUMNS = NestedLayout((1, 1), (1, 1), (1, 1), (1, 8), (8, 1), (0, 0), (0, 1))
ACROSS = NestedLayout((4, 1), (1, 1), (1, 1), (2, 4), (1, 2), (1, 0), (4, 1))
BATCHES = NestedLayout((1, 1), (1, 2), (1, 1), (8, 1), (1, 4), (0, 0), (1, 0))
CONTRACT = """vector.contract {indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
    affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}"""


def laid_out(name, value, layout, kind, options=""):
    return (
        f"  %{name} = iree_vector_ext.to_layout %{value} to layout({layout}) {options} : {kind}\n"
    )


def chain(kind, *, vectors=False, acc=True, after=True, named=True, options="", layouts=None):
    """to_layout of lhs, rhs and sums, their contraction, to_layout of the result, doubled."""
    tile = (32, 16, 32)
    layouts = layouts or contraction_layouts(mma_kind(kind), "mnk", tile, (2, 1, 1))
    m, n, k = tile
    t = "vector" if vectors else "tensor"
    lhs, rhs, sums = f"{t}<{m}x{k}xf16>", f"{t}<{k}x{n}xf16>", f"{t}<{m}x{n}xf32>"
    mma = f" {{mma_kind = #iree_gpu.mma_layout<{kind}>}}" if named else ""
    text = laid_out("lhs", "a", layouts.lhs, lhs, options + mma)
    text += laid_out("rhs", "b", layouts.rhs, rhs, options + mma)
    text += f"  %zero = arith.constant dense<0.0> : {sums}\n"
    text += laid_out("acc", "zero", layouts.acc, sums, mma) if acc else ""
    begin = "%acc" if acc else "%zero"
    text += (
        f"  %sums = {CONTRACT} %lhs, %rhs, {begin} : {lhs}, {rhs} into {sums}\n"
        if vectors
        else f"  %sums = linalg.matmul ins(%lhs, %rhs : {lhs}, {rhs}) outs({begin} : {sums})"
        f" -> {sums}\n"
    )
    text += laid_out("done", "sums", layouts.acc, sums, mma) if after else ""
    end = "%done" if after else "%sums"
    text += f"  %twice = arith.addf {end}, {end} : {sums}\n  return %twice : {sums}\n"
    return import_module(read(f"func.func @f(%a: {lhs}, %b: {rhs}) -> {sums} {{\n{text}}}"))


def factors():
    rng = np.random.default_rng(1)
    return [rng.integers(-3, 4, shape).astype("f2") for shape in ((32, 32), (32, 16))]


def doubled(imported, target):
    """The ops of the program, and the counts of its launches; the result is right."""
    a, b = factors()
    done = simulate_program(imported, target, [a, b]).check()
    np.testing.assert_array_equal(done.results[0], 2 * (a.astype("f4") @ b.astype("f4")))
    found = [op for op, _ in program_ops(imported, make_target(target)).values()]
    return found, [one.counts for one in done.simulations]


@pytest.mark.parametrize(("kind", "target"), [(MFMA, GFX942), (SYNC, SM_80)])
@pytest.mark.parametrize(
    "form",
    [
        {"options": SHARED},
        {"vectors": True, "named": False},
        {"acc": False},
        {"after": False},
    ],
    ids=str,
)
def test_a_chain_is_one_kernel_with_these_layouts(kind, target, form):
    (op,), (counts,) = doubled(chain(kind, **form), target)
    assert isinstance(op, Contraction)
    assert set(op.layouts.given) == {"lhs", "rhs", "acc"}
    mma = mma_kind(kind)
    assert counts[kind] == 32 * 16 * 32 // (mma.m * mma.n * mma.k)
    assert explain_program(chain(kind, **form), target).fallbacks == ()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("mfma_f32_16x16x16_f16", GFX942),  # its subgroups are counted along m first
        ("vmfma_f32_16x16x32_f16", GFX942),
        ("nv_mma_sync_f32_16x8x16_f16", SM_80),
    ],
)
def test_layouts_that_iree_chose_are_multiplied_by(name, target):
    imported = import_program(DATA / "iree_layouts" / f"{name}.mlir")
    rng = np.random.default_rng(0)
    given = [rng.integers(-3, 4, (32, 32)).astype(kind) for kind in ("f2", "f2", "f4")]
    done = simulate_program(imported, target, given).check()
    a, b, c = (one.astype("f4") for one in given)
    want = a @ (b if target is SM_80 else b.T) + c
    np.testing.assert_array_equal(done.results[0], want)
    ((op, _),) = program_ops(imported, make_target(target)).values()
    config = choose(op, make_target(target)).heuristic(op, make_target(target))
    assert config.mma_kind.lower() == name
    assert config.workgroup_tile == {"m": 32, "n": 32}


def test_extents_may_be_those_of_a_call():
    kind = "tensor<?x?xf32>"
    layouts = contraction_layouts(mma_kind(SYNC), "mnk", (32, 16, 32), (2, 1, 1))
    lhs, rhs = ("tensor<?x?xf16>",) * 2
    text = laid_out("lhs", "a", layouts.lhs, lhs) + laid_out("rhs", "b", layouts.rhs, rhs)
    text += f"  %0 = linalg.matmul ins(%lhs, %rhs : {lhs}, {rhs}) outs(%c : {kind}) -> {kind}\n"
    text = f"func.func @f(%a: {lhs}, %b: {rhs}, %c: {kind}) -> {kind} {{\n{text}"
    imported = import_module(read(f"{text}  return %0 : {kind}\n}}"))
    a, b = factors()
    done = simulate_program(imported, SM_80, [a, b, np.ones((32, 16), "f4")]).check()
    np.testing.assert_array_equal(done.results[0], a.astype("f4") @ b.astype("f4") + 1)
    assert [one.counts[SYNC] for one in done.simulations] == [8]


def test_a_target_without_the_instruction_multiplies_by_its_own_and_it_is_noted():
    (op,), (counts,) = doubled(chain(MFMA, vectors=True), SM_80)
    assert op.layouts is None
    assert counts[SYNC]
    (note,) = explain_program(chain(MFMA, vectors=True), SM_80).fallbacks
    assert str(note) == f"vector.contract at 6:11: matmul by {MFMA}: sm_80 has no such instruction"
    assert "layouts unused: vector.contract at" in str(
        explain_program(chain(MFMA, vectors=True), SM_80)
    )


def test_layouts_that_do_not_go_together_are_noted():
    good = contraction_layouts(mma_kind(SYNC), "mnk", (32, 16, 32), (2, 1, 1))
    other = contraction_layouts(mma_kind(SYNC), "mnk", (32, 16, 64), (2, 1, 1))
    (op,), _ = doubled(chain(SYNC, layouts=replace(good, lhs=other.lhs)), SM_80)
    assert op.layouts is None
    (note,) = chain(SYNC, layouts=replace(good, lhs=other.lhs)).fallbacks
    assert note.what == "layouts unused"
    assert note.why.endswith(
        "the layout of rhs has a tile of 32 along d2; expected 64 as that of lhs has"
    )


def test_on_a_cpu_nothing_is_left_of_layouts():
    imported = chain(MFMA, options=SHARED)
    (op,) = (op for op, _ in program_ops(imported, make_target("llvm")).values())
    assert op.layouts is None
    a, b = factors()
    want = 2 * (a.astype("f4") @ b.astype("f4"))
    np.testing.assert_array_equal(build_program(imported)(a, b), want)


def conversions(*layouts, between="", options=()):
    """A value that has these layouts, one after the other."""
    kind, text, value = "vector<8x8xf16>", "", "x"
    said = itertools.zip_longest(layouts, options, fillvalue="")
    for number, (layout, option) in enumerate(said):
        text += laid_out(f"v{number}", value, layout, kind, option)
        value = f"v{number}"
        if between:
            text += f"  %e{number} = {between} %{value}, %{value} : {kind}\n"
            value = f"e{number}"
    text = f"func.func @f(%x: {kind}) -> {kind} {{\n{text}  return %{value} : {kind}\n}}"
    return import_module(read(text))


# Each for one of the targets: the kernels' own tests have both.
@pytest.mark.parametrize(
    ("layouts", "options", "expected", "target"),
    [
        ((ROWS,), [""], [], GFX942),
        ((ROWS, BATCHES), ["", ""], [], SM_80),
        ((ROWS, COLUMNS), ["", ""], ["shuffle"], GFX942),
        ((COLUMNS, ROWS, COLUMNS), ["", "", ""], ["shuffle", "shuffle"], SM_80),
        ((ACROSS, COLUMNS), ["", ""], ["barrier"], GFX942),
        ((ROWS,), [SHARED], ["barrier"], SM_80),
        ((ROWS, BATCHES), ["", SHARED], ["barrier"], GFX942),
    ],
)
def test_what_lanes_exchange_is_a_kernel(layouts, options, expected, target):
    imported = conversions(*layouts, options=options)
    x = np.arange(64, dtype="f2").reshape(8, 8)
    done = simulate_program(imported, target, [x]).check()
    np.testing.assert_array_equal(done.results[0], x)
    found = [next(iter(one.counts), "copy") for one in done.simulations]
    assert [one for one in found if one != "copy"] == expected
    kernels = program_ops(imported, make_target(target)).values()
    assert sum(count for op, count in kernels if isinstance(op, ToLayout)) == len(expected)


def test_elementwise_functions_keep_lanes():
    x = np.arange(64, dtype="f2").reshape(8, 8)
    done = simulate_program(conversions(ROWS, BATCHES, COLUMNS, between="arith.addf"), SM_80, [x])
    np.testing.assert_array_equal(done.check().results[0], 8 * x)
    assert sum("shuffle" in one.counts for one in done.simulations) == 1


def test_a_layout_that_no_workgroup_can_hold_is_noted():
    wide = NestedLayout((1, 1), (1, 1), (1, 1), (8, 8), (1, 1), (0, 0), (8, 1))
    imported = conversions(wide, options=[SHARED])
    (note,) = explain_program(imported, SM_80).fallbacks
    assert note.what == "layouts unused"
    assert "takes a multiple of 64" in note.why
    assert explain_program(imported, GFX942).fallbacks == ()
