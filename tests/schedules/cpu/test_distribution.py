"""The CPU kernels of to_layout, to_simt and to_simd: the layout's own arrays, in every form."""

import dataclasses

import numpy as np
import pytest

from tvm_iree_ext import build, layout
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.bench.cases import distribution as bench
from tvm_iree_ext.layout import NestedLayout
from tvm_iree_ext.ops.vector_ext import to_layout, to_simd, to_simt
from tvm_iree_ext.schedules.cpu.distribution_rule import CpuDistribution, CpuToLayout
from tvm_iree_ext.targets.names import make_target

NAMES = [f"iree_vector_ext.{name}" for name in ("to_layout", "to_simt", "to_simd")]
LAYOUTS = {
    "documented": NestedLayout((2, 1), (2, 4), (1, 1), (16, 4), (1, 4), (1, 0), (1, 16)),
    "lanes side by side": NestedLayout((1, 2), (8, 1), (2, 1), (1, 32), (2, 1), (0, 1), (0, 1)),
    "gaps": NestedLayout((1, 1), (2, 1), (1, 1), (4, 8), (1, 2), (0, 0), (1, 16)),
    "strided subgroups": NestedLayout((4, 2), (1, 2), (2, 1), (2, 2), (1, 4), (1, 4), (2, 1)),
    "odd": NestedLayout((3, 2), (1, 1), (1, 2), (5, 1), (1, 3), (1, 3), (1, 0)),
}
every_layout = pytest.mark.parametrize("nested", LAYOUTS.values(), ids=LAYOUTS)


@pytest.mark.costly
@every_layout
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("times", [1, 2])
def test_kernels_give_the_layouts_arrays_and_take_them_back(nested, packed, times):
    hardware = (times * nested.subgroup_period, times * nested.lane_period)
    given = dict(zip(("num_subgroups", "subgroup_size"), hardware, strict=True))
    shape = nested.undistributed_shape
    whole = np.arange(np.prod(shape), dtype="int32").reshape(shape)
    want = layout.to_simt(whole, nested, *hardware, packed=packed)
    parts = build(to_simt(whole, nested, **given, packed=packed))(whole)
    np.testing.assert_array_equal(parts, want)
    np.testing.assert_array_equal(build(to_simd(parts, nested, **given))(parts), whole)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_fewer_subgroups_than_tiles(count):
    """Six tiles; 2 of 3 x 2 subgroups is no digit of the ids."""
    nested = LAYOUTS["odd"]
    whole = np.arange(np.prod(nested.undistributed_shape)).reshape(nested.undistributed_shape)
    given = {"num_subgroups": count, "subgroup_size": 10}
    parts = build(to_simt(whole, nested, **given))(whole)
    np.testing.assert_array_equal(parts, layout.to_simt(whole, nested, count, 10))
    np.testing.assert_array_equal(build(to_simd(parts, nested, **given))(parts), whole)


@pytest.mark.costly
@every_layout
def test_a_tensor_that_ends_before_its_layout(nested):
    full = nested.undistributed_shape
    shape = tuple(extent - 1 - extent // 3 for extent in full)
    hardware = (nested.subgroup_period, nested.lane_period)
    given = dict(zip(("num_subgroups", "subgroup_size"), hardware, strict=True))
    whole = np.random.default_rng(0).standard_normal(shape, "float32")
    padded = np.full(full, -3, "float32")
    padded[tuple(map(slice, shape))] = whole
    parts = build(to_simt(whole, nested, **given, padding=-3))(whole)
    np.testing.assert_array_equal(parts, layout.to_simt(padded, nested, *hardware))
    back = to_simd(parts, nested, **given, result=shape)
    np.testing.assert_array_equal(build(back)(parts), whole)


def test_to_simd_reads_the_first_of_owners_that_disagree():
    nested = NestedLayout((1,), (1,), (1,), (2,), (2,), (0,), (1,))
    parts = np.arange(16, dtype="float32").reshape(2, 4, 2)
    op = to_simd(parts, nested, num_subgroups=2, subgroup_size=4)
    np.testing.assert_array_equal(build(op)(parts), [0, 1, 2, 3])


def test_lanes_that_lie_side_by_side_are_transposed():
    nested, target = LAYOUTS["lanes side by side"], make_target("llvm")
    given = {"num_subgroups": 2, "subgroup_size": 32}
    simt = to_simt(nested.undistributed_shape, nested, **given)
    simd = to_simd(simt.parts_shape, nested, **given)
    for op in (simt, simd):
        assert CpuDistribution().heuristic(op, target).algorithm == "squares"


@pytest.mark.parametrize("shape", [(), (1,), ("n", 3), (300, 700)])
def test_to_layout_leaves_the_value(shape):
    ones = (1,) * len(shape)
    nested = NestedLayout(ones, ones, ones, ones, ones, ones, ones)
    extents = [5 if extent == "n" else extent for extent in shape]
    x = np.random.default_rng(1).standard_normal(extents)
    op = to_layout(shape, nested, dtype="f64")
    np.testing.assert_array_equal(build(op)(np.asarray(x)), x)


@pytest.mark.costly
@pytest.mark.parametrize("case", bench.distribution_cases(), ids=lambda case: case.name)
def test_the_benchmarks_peers_compute_the_same(case):
    values = case.operands()
    judge = case.check(values)
    got = build(case.op)(values["input"])
    assert judge(got) is None
    assert judge(got + 1) is not None
    pytest.importorskip("torch", reason="PyTorch is an optional peer: scripts/setup dev bench")
    assert judge(case.peers[1].make(values)()) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "copy"}, "cpu.distribution: algorithm is 'copy'; expected 'rows'"),
        ({"splits": 0}, "splits is 0; expected a number from 1"),
        ({"workgroup_tile": {}}, r"workgroup_tile\['rows'\] is None; expected a number from 1"),
    ],
)
def test_refuses_a_config(changes, message):
    target, rule = make_target("llvm"), CpuDistribution()
    nested = LAYOUTS["documented"]
    op = to_simt((64, 64), nested, num_subgroups=2, subgroup_size=64)
    config = dataclasses.replace(rule.heuristic(op, target), **changes)
    with pytest.raises(ScheduleError, match=message):
        rule.lower(op, target, config)
    copy = to_layout((64, 64), nested)
    config = dataclasses.replace(CpuToLayout().heuristic(copy, target), algorithm="rows")
    with pytest.raises(ScheduleError, match="algorithm is 'rows'; expected 'copy'"):
        CpuToLayout().lower(copy, target, config)
