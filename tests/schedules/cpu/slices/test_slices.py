"""The CPU kernels of scatter and gather: every algorithm, hard indices, large inputs."""

import dataclasses
import re

import ml_dtypes
import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.errors import CallError, ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.runtime import tvm_runtime
from tvm_iree_ext.schedules.cpu.slices.gather_rule import CpuGather
from tvm_iree_ext.schedules.cpu.slices.scatter_rule import CpuScatter
from tvm_iree_ext.targets.names import make_target

RNG = np.random.default_rng(11)
TARGET = make_target("llvm")
ROWS = {"algorithm": "rows", "splits": 4, "workgroup_tile": {"batch": 1024, "rows": 2}}


def check(op, *arguments, kernel=None):
    """Run a kernel of ``op`` and compare with the reference, exactly; returns the result."""
    operands = dict(zip((o.name for o in op.signature.arguments), arguments, strict=True))
    (want,) = registry.find(op.name).reference(op, operands).values()
    got = (kernel or build(op))(*arguments)
    np.testing.assert_array_equal(got, want)
    return got


def config_of(op, **changes):
    rule = CpuScatter() if op.name.endswith("scatter") else CpuGather()
    return dataclasses.replace(rule.heuristic(op, TARGET), **changes)


def configured(op, **changes):
    return build(op, config=config_of(op, **changes))


def numbers(*shape, dtype="float32"):
    return RNG.integers(-9, 9, shape).astype(dtype)


@pytest.mark.costly
@pytest.mark.parametrize("region", ["add", "arg0 - arg1", "arg0", "max"])
@pytest.mark.parametrize("splits", [1, 2, 8])
@pytest.mark.parametrize(("algorithm", "width"), [("rows", 1), ("rows", 5), ("columns", 40)])
def test_repeats_are_applied_in_order_by_every_algorithm(algorithm, width, splits, region):
    updates, original = numbers(2500, width), numbers(30, width)
    indices = RNG.integers(-2, 32, 2500).astype("int32")
    op = ops.scatter(updates, indices, original, region=region, unique_indices=False)
    tile = {"batch": 1024, "rows": 2}
    kernel = configured(
        op, algorithm=algorithm, splits=splits, workgroup_tile=tile, parallel=splits > 1
    )
    check(op, updates, indices, original, kernel=kernel)


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_a_thread_that_is_alone_owns_all_rows(index_dtype):
    updates, original = numbers(3000, 5), numbers(70, 5)
    indices = RNG.integers(-2, 72, 3000).astype(index_dtype)
    op = ops.scatter(updates, indices, original, region="arg0 - arg1", unique_indices=False)
    kernel = configured(op, parallel=True, **ROWS)
    for count in range(1, tvm_runtime.available_processors() + 1):
        with tvm_runtime.threads(count):
            check(op, updates, indices, original, kernel=kernel)


def test_how_many_threads_there_are_is_asked_where_tasks_may_be_theirs():
    op = ops.scatter((3000, 5), (3000, 1), (70, 5), region="add", unique_indices=False)
    for parallel in (True, False):
        config = config_of(op, parallel=parallel, **ROWS)
        script = CpuScatter().lower(op, TARGET, config).script()
        assert ("runtime.NumThreads" in script) == parallel


def test_rows_are_searched_in_the_width_of_indices():
    op = ops.scatter((3000, 5), (3000, 1), (70, 5), region="add", unique_indices=False)
    target = make_target("llvm:haswell")
    cpu_pipeline.register()
    module = CpuScatter().lower(op, target, config_of(op, parallel=True, **ROWS))
    library = tvm.compile(module, target, tir_pipeline=cpu_pipeline.CPU_PIPELINE)
    found = set(re.findall(r"vpcmpeq[dq]", library.mod.inspect_source("asm")))
    assert found == {"vpcmpeqd"}


@pytest.mark.costly
@pytest.mark.parametrize("splits", [1, 2, 7])
@pytest.mark.parametrize("window", [(1, 1, 3), (2, 3, 3), (5, 2, 3), (2, 3), (3,)])
def test_windows_over_indexed_dims_that_overlap(window, splits):
    original = numbers(9, 8, 3)
    updates = numbers(200, *window)
    indices = RNG.integers(-1, 8, (200, 2)).astype("int64")
    op = ops.scatter(
        updates, indices, original, dimension_map=(1, 0), region="arg0 - arg1", unique_indices=False
    )
    kernel = configured(op, algorithm="ranges", splits=splits, parallel=splits > 1)
    check(op, updates, indices, original, kernel=kernel)


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 5000])
def test_unique_indices_in_any_number(count):
    updates, original = numbers(count, 3), numbers(6000, 3)
    indices = RNG.permutation(6000)[:count].astype("int32")
    op = ops.scatter(updates, indices, original, region="add")
    check(op, updates, indices, original, kernel=configured(op, splits=3, parallel=True))


def test_all_updates_on_one_element():
    updates, indices = numbers(100_000), np.full(100_000, 5, "int32")
    op = ops.scatter(updates, indices, (20_000,), region="add", unique_indices=False)
    got = build(op)(updates, indices, np.zeros(20_000, "float32"))
    assert got[5] == updates.sum(dtype=np.float64)
    assert not np.delete(got, 5).any()


def test_a_sum_of_floats_is_the_same_every_time():
    updates = RNG.standard_normal(200_000).astype("float32")
    indices = RNG.integers(0, 9000, 200_000).astype("int32")
    original = np.zeros(9000, "float32")
    op = ops.scatter(updates, indices, original, region="add", unique_indices=False)
    kernel = build(op)
    first = kernel(updates, indices, original)
    want = original.copy()
    np.add.at(want, indices, updates)  # one after another
    np.testing.assert_array_equal(first, want)
    for _ in range(5):
        np.testing.assert_array_equal(kernel(updates, indices, original), first)


def test_nan_infinities_and_negative_zero_move_untouched():
    values = np.array([np.nan, np.inf, -np.inf, -0.0], "float32")
    indices = np.array([3, 2, 1, 0], "int32")
    moved = build(ops.scatter(values, indices, values))(values, indices, values)
    np.testing.assert_array_equal(moved.view("int32"), values[::-1].view("int32"))
    taken = build(ops.gather(values, indices))(values, indices)
    np.testing.assert_array_equal(taken.view("int32"), values[::-1].view("int32"))


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("rows", [7, "rows"])
def test_no_index_however_large_leaves_the_tensor(dtype, rows):
    """Neither in a sum with the window's extent, which would wrap, nor after a conversion."""
    info = np.iinfo(dtype)
    wrong = [info.max, info.max - 1, info.min if info.min else info.max, 7, 6, 5]
    indices = np.array([*wrong, 2], dtype)
    updates = numbers(7, 3, 4)
    original = np.pad(numbers(7, 4), ((50, 50), (0, 0)), constant_values=77)
    inner = original[50:57]
    op = ops.scatter(
        updates, TensorType((7,), dtype), TensorType((rows, 4), "float32"), unique_indices=False
    )
    out = np.full_like(original, 77)
    build(op)(updates, indices, inner, out=out[50:57])
    want = inner.copy()
    want[2:5] = updates[6]
    np.testing.assert_array_equal(out[50:57], want)
    assert (out[:50] == 77).all()
    assert (out[57:] == 77).all()
    gather = ops.gather(TensorType((rows, 4), "float32"), indices, output=updates)
    got = build(gather)(inner, indices, updates)
    np.testing.assert_array_equal(got[:6], updates[:6])
    np.testing.assert_array_equal(got[6], inner[2:5])


@pytest.mark.costly
@pytest.mark.parametrize("count", [3, 40_000])
@pytest.mark.parametrize("make", ["scatter", "gather"])
def test_an_error_comes_before_anything_is_written(make, count):
    indices = RNG.permutation(count).astype("int32")
    if make == "scatter":
        op = ops.scatter((count,), (count,), (count,), mask=(count,), out_of_range="error")
    else:
        op = ops.gather((count,), (count,), mask=(count,), output=(count,), out_of_range="error")
    kernel = build(op)
    values, mask = numbers(count), np.ones(count, "bool")
    arguments = [values, indices, mask, values]
    check(op, *arguments, kernel=kernel)
    for wrong in (-1, count):
        indices[count // 2] = wrong
        out = np.full(count, 55, "float32")
        with pytest.raises(CallError, match=f"{make}: indices are out of range; nothing was writ"):
            kernel(*arguments, out=out)
        assert (out == 55).all()
    mask[count // 2] = False  # what is masked is not looked at
    check(op, *arguments, kernel=kernel)


def test_only_the_lowest_bit_of_an_int8_mask_counts():
    mask = np.array([0, 1, 2, 3, -1, -2], "int8")
    updates, indices = numbers(6) + 20, np.arange(6, dtype="int32")
    op = ops.scatter(updates, indices, (6,), mask=mask)
    got = build(op)(updates, indices, mask, np.zeros(6, "float32"))
    np.testing.assert_array_equal(got != 0, mask & 1)


@pytest.mark.costly
@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float64", "int8", "uint16", "int64", "bool"]
)
def test_dtypes(dtype):
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    updates, original = (RNG.integers(0, 5, shape).astype(kind) for shape in ((300, 3), (40, 3)))
    indices = RNG.integers(0, 40, 300).astype("int32")
    region = "xor" if dtype == "bool" else "add"
    op = ops.scatter(updates, indices, original, region=region, unique_indices=False)
    check(op, updates, indices, original)
    check(ops.gather(original, indices), original, indices)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float32", "int64"])
@pytest.mark.parametrize("width", [512, 517, 2000])
def test_long_rows_are_moved_whole_and_those_left_out_are_not_touched(dtype, width):
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    table = RNG.integers(0, 2, (40, width)).astype(kind)
    init = RNG.integers(0, 2, (21, width)).astype(kind)
    indices = RNG.integers(0, 40, (21, 1)).astype("int32")
    mask = RNG.integers(0, 2, 21).astype(bool)
    indices[~mask] = 2**31 - 1
    for order in (slice(None), slice(None, None, -1)):  # the last is touched, and is not
        op = ops.gather(table, indices, mask=mask, output=init)
        check(op, table, indices[order], mask[order], init)


def test_numbers_in_a_text_are_of_the_elements_type():
    updates, indices = numbers(4, dtype="int8"), np.arange(4, dtype="int32")
    op = ops.scatter(updates, indices, updates, region="select(arg0 > 2, 1, -arg1 * 3)")
    check(op, updates, indices, updates)


def test_one_kernel_serves_every_size():
    op = ops.scatter(
        ("n", "w"), ("n", 1), ("rows", "w"), region="add", unique_indices=False, mask=("n",)
    )
    kernel = build(op)
    for count, width, rows in ((1, 1, 1), (3000, 7, 5), (50, 300, 90), (2049, 1, 100_000)):
        updates, original = numbers(count, width), numbers(rows, width)
        indices = RNG.integers(-1, rows + 1, (count, 1)).astype("int32")
        mask = RNG.random(count) < 0.8
        check(op, updates, indices, mask, original, kernel=kernel)
    op = ops.gather(("rows", "w"), ("n",))
    kernel = build(op)
    for count, width, rows in ((1, 1, 1), (3000, 7, 5), (50, 300, 90)):
        indices = RNG.integers(-1, rows + 1, count).astype("int32")
        check(op, numbers(rows, width), indices, kernel=kernel)


def test_inconsistent_extents_are_refused():
    kernel = build(ops.scatter(("n", "w"), ("n", 1), ("rows", "w")))
    with pytest.raises(CallError, match=r"indices axis 0 has extent 4; expected 5 \(n, from upd"):
        kernel(numbers(5, 2), np.zeros((4, 1), "int32"), numbers(9, 2))


@pytest.mark.parametrize("count", [1, 3])
def test_few_large_windows(count):
    source = numbers(4, 100_003)
    indices = np.array([3, 0, 2][:count], "int32")
    op = ops.gather(source, indices)
    assert CpuGather().heuristic(op, TARGET).algorithm == "columns"
    taken = check(op, source, indices)
    op = ops.scatter(taken, indices, source, region="add", unique_indices=False)
    assert CpuScatter().heuristic(op, TARGET).algorithm == "columns"
    check(op, taken, indices, source)


def test_a_million_elements_of_sixteen_million():
    updates = numbers(1_000_000)
    indices = RNG.integers(0, 16_000_000, 1_000_000).astype("int32")
    original = np.zeros(16_000_000, "float32")
    op = ops.scatter(updates, indices, original, region="add", unique_indices=False)
    got = build(op)(updates, indices, original)
    np.testing.assert_array_equal(got, np.bincount(indices, updates, 16_000_000))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "atomics"}, "algorithm is 'atomics'; expected one of batch, rows, columns"),
        ({"algorithm": "batch", "splits": 2}, "'batch' with several splits loses updates"),
        ({"algorithm": "rows", "splits": 3}, "splits is 3; expected a power of two"),
        ({"splits": 0}, "splits is 0; expected a number from 1"),
        ({"workgroup_tile": {"batch": 8}}, r"workgroup_tile\['rows'\] is None; expected a number"),
        (
            {"algorithm": "rows", "workgroup_tile": {"batch": 9, "rows": 3}},
            r"workgroup_tile\['rows'\] is 3; expected a power of two",
        ),
    ],
)
def test_refuses_configs_of_scatter_that_do_not_fit(changes, message):
    op = ops.scatter((5, 3), (5,), (4, 3), unique_indices=False)
    with pytest.raises(ScheduleError, match=message):
        configured(op, **changes)


def test_refuses_other_configs_that_do_not_fit():
    window = ops.scatter((5, 2, 3), (5, 1), (4, 3), unique_indices=False)
    with pytest.raises(ScheduleError, match="'columns' needs a window that covers no indexed dim"):
        configured(window, algorithm="columns")
    gather = ops.gather((4, 3), (5,))
    with pytest.raises(ScheduleError, match="algorithm is 'rows'; expected one of batch, columns"):
        configured(gather, algorithm="rows")
    with pytest.raises(ScheduleError, match="splits is 0; expected a number from 1"):
        configured(gather, splits=0)
