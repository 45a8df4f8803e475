"""The CPU kernel of top-k: the dialect's results, ties and NaN on hard shapes, in all forms."""

import dataclasses

import numpy as np
import pytest

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.schedules.cpu.topk.topk_rule import CpuTopk
from tvm_iree_ext.targets.cpu import cpu_features
from tvm_iree_ext.targets.names import make_target

RULE = CpuTopk()
TARGET = make_target("llvm")
WORST = {">": -np.inf, "<": np.inf}
forms = pytest.mark.parametrize("form", ["ordered", "heap", "select"])
packs = pytest.mark.skipif(
    not {4, 8} <= cpu_features(TARGET).compressed_bytes,
    reason="this CPU packs no lanes",
)


def batches(lanes):
    """Batches of 112 numbers, two of which take as much as ``lanes`` words do."""
    tile = {"vectors": 2, "rows": 14 * 16 // lanes}
    return {"algorithm": "batches", "register_tile": tile, "vector_lanes": lanes}


BATCHES = batches(cpu_features(TARGET).lanes(32))


def operands(values, k, region=">", *, axis=-1, indices=None):
    """Operands of a plain top-k: inits of the worst value and the largest index."""
    shape = list(values.shape)
    shape[axis] = k
    worst = WORST[region]
    if values.dtype.kind in "iub":
        limits = np.iinfo(np.uint8 if values.dtype == bool else values.dtype)
        worst = limits.min if region == ">" else limits.max
    return {
        "values": values,
        **({} if indices is None else {"indices": indices}),
        "output_values_init": np.full(shape, worst, values.dtype),
        "output_indices_init": np.full(shape, 2**31 - 1, np.int32),
    }


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_positions_beyond_the_type_of_indices_wrap(dtype):
    values = np.arange(300, dtype="float32") // 4
    inits = {"values": np.full(5, -np.inf, "float32"), "indices": np.full(5, 100, dtype)}
    op = ops.topk(values, inits["values"], inits["indices"])
    got = build(op)(values, inits["values"], inits["indices"])
    np.testing.assert_array_equal(got[1], np.array([296, 297, 298, 299, 292]).astype(dtype))


def make(given, region=">", *, axis=-1):
    return ops.topk(
        given["values"],
        given["output_values_init"],
        given["output_indices_init"],
        indices=given.get("indices"),
        dimension=axis % given["values"].ndim,
        region=region,
    )


def run(op, given, **changes):
    config = dataclasses.replace(RULE.heuristic(op, TARGET), **changes) if changes else None
    return build(op, config=config)(*given.values())


def check(op, given, **changes):
    """A kernel's results are the reference's."""
    got = run(op, given, **changes)
    for array, right in zip(got, registry.find("topk").reference(op, given).values(), strict=True):
        np.testing.assert_array_equal(array, right)
    return got


def by_sorting(values, k, axis=-1):
    order = np.argsort(-values, axis=axis, kind="stable")
    order = np.take(order, range(k), axis)
    return np.take_along_axis(values, order, axis), order


@pytest.mark.costly
@forms
@pytest.mark.parametrize("region", [">", "<"])
def test_any_number_of_candidates_and_slots(form, region):
    rng = np.random.default_rng(0)
    op = ops.topk(("b", "n"), ("b", "k"), dimension=1, region=region)
    config = dataclasses.replace(RULE.heuristic(op, TARGET), algorithm=form)
    kernel = build(op, config=config)
    for count in (1, 2, 31, 63, 64, 65, 127, 128, 129, 300):
        for k in (1, 2, 7, 33):
            given = operands(rng.integers(-50, 50, (3, count)).astype(np.float32), k, region)
            want = registry.find("topk").reference(op, given).values()
            for array, right in zip(kernel(*given.values()), want, strict=True):
                np.testing.assert_array_equal(array, right)


@forms
def test_k_of_all_candidates_is_a_sort(form):
    values = np.random.default_rng(1).standard_normal((2, 3000), np.float32)
    got = run(make(given := operands(values, 3000)), given, algorithm=form)
    for array, right in zip(got, by_sorting(values, 3000), strict=True):
        np.testing.assert_array_equal(array, right)


@pytest.mark.costly
@forms
def test_ties_go_to_the_smaller_index_whatever_the_order(form):
    rng = np.random.default_rng(2)
    values = rng.integers(0, 3, (4, 500)).astype(np.float32)
    indices = rng.permuted(np.tile(np.arange(500, dtype=np.int32), (4, 1)), axis=1)
    given = operands(values, 20, indices=indices)
    _, where = check(make(given), given, algorithm=form)
    assert (np.diff(where.astype(int), axis=1) > 0).all()


@pytest.mark.costly
@forms
def test_inits_compete(form):
    rng = np.random.default_rng(3)
    given = operands(rng.integers(0, 40, (3, 200)).astype(np.float32), 9)
    best = -np.sort(-rng.integers(20, 45, (3, 9)), axis=1)
    given["output_values_init"] = best.astype(np.float32)
    given["output_indices_init"] = np.sort(rng.integers(0, 400, (3, 9)), axis=1).astype(np.int32)
    check(make(given), given, algorithm=form)


@pytest.mark.parametrize("splits", [1, 3])
def test_inits_out_of_order_take_the_dialects_loop(splits):
    rng = np.random.default_rng(4)
    given = operands(rng.integers(0, 40, (1, 200)).astype(np.float32), 9)
    given["output_values_init"] = rng.integers(0, 45, (1, 9)).astype(np.float32)
    given["output_indices_init"] = rng.integers(0, 400, (1, 9)).astype(np.int32)
    check(make(given), given, splits=splits)


@pytest.mark.costly
@pytest.mark.parametrize("number", range(len(dtypes.FLOATS + dtypes.INTEGERS)))
def test_every_dtype(number):
    dtype, form = (
        (dtypes.FLOATS + dtypes.INTEGERS)[number],
        ("ordered", "heap", "select")[number % 3],
    )
    rng = np.random.default_rng(5)
    kind = dtypes.numpy_dtype(dtype)
    if dtype in dtypes.FLOATS:
        values = rng.standard_normal((2, 400)).astype(kind)
    elif dtype == "bool":
        values = rng.random((2, 400)) < 0.5
    else:
        limits = np.iinfo(kind)
        values = rng.integers(limits.min, limits.max, (2, 400), kind, endpoint=True)
    given = operands(values, 6)
    check(make(given), given, algorithm=form)


@pytest.mark.costly
@pytest.mark.parametrize(
    "form", ["ordered", "heap", "select", pytest.param("batches", marks=packs)]
)
def test_nan_is_never_selected_and_never_displaced(form):
    values = np.random.default_rng(6).standard_normal(1000).astype(np.float32)
    values[::3] = np.nan
    given = operands(values, 5)
    got, where = run(make(given), given, algorithm=form)
    want = np.sort(values[~np.isnan(values)])[::-1][:5]
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(values[where], want)
    given["output_values_init"][1] = np.nan
    got, _ = run(make(given), given, algorithm=form)
    np.testing.assert_array_equal(got, [want[0], np.nan, *want[1:4]])


def by_value_then_index(given, k, sign=1):
    """What goes first of inits and inputs, where no value is NaN; for ``<`` the sign is -1."""
    values = np.concatenate([given["output_values_init"], given["values"]])
    indices = given.get("indices", np.arange(len(given["values"])))
    indices = np.concatenate([given["output_indices_init"], indices])
    order = np.lexsort([indices, -sign * values.astype(np.float64)])[:k]
    return values[order], indices[order]


def hard_lines(rng, n):
    """Lines of which a sample tells much, little, or the wrong thing."""
    place = np.arange(n)
    yield rng.standard_normal(n)
    yield place.astype(float)
    yield -place.astype(float)
    yield np.zeros(n)
    yield rng.integers(-1, 2, n) * 0.0  # zeros of either sign
    yield rng.choice([-np.inf, 1.0, np.inf], n)
    yield rng.standard_normal(n) + 100 * (place % 256 < 16)  # the sample alone
    yield rng.standard_normal(n) - 100 * (place % 256 < 16)
    yield np.where(place % 97 == 5, 1e-40, 1e-45)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("dtype", "splits", "has_indices"),
    [("float32", 1, False), ("float32", 3, True), ("float64", 2, False)],
)
def test_selection_by_digits_of_hard_lines(dtype, splits, has_indices):
    rng = np.random.default_rng(11)
    op = ops.topk(("n",), k="k", indices=("n",) if has_indices else None, dimension=0, dtype=dtype)
    config = dataclasses.replace(RULE.heuristic(op, TARGET), algorithm="select", splits=splits)
    kernel = build(op, config=config)
    for n, k in ((5000, 1500), (20_000, 300), (70, 100)):
        for number, line in enumerate(hard_lines(rng, n)):
            indices = rng.permutation(n).astype(np.int32) - 7 if has_indices else None
            given = operands(line.astype(dtype), k, indices=indices)
            if number % 2:  # inits that compete: some of the line's own values
                inits = -np.sort(-rng.choice(line, k)).astype(dtype)
                given["output_values_init"] = inits
                given["output_indices_init"] = np.arange(k, dtype=np.int32) + n // 2
            for got, want in zip(
                kernel(*given.values()), by_value_then_index(given, k), strict=True
            ):
                np.testing.assert_array_equal(got, want)
                np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["bfloat16", "int64", "uint8", "bool"])
def test_selection_by_digits_of_other_dtypes(dtype):
    rng = np.random.default_rng(12)
    kind = dtypes.numpy_dtype(dtype)
    values = (100 * rng.random((2, 600)) - 10).astype(np.int8).astype(kind)
    given = operands(values, 50)
    given["output_indices_init"] = np.full((2, 50), 999, np.int16)
    check(make(given), given, algorithm="select")


@pytest.mark.costly
@packs
@pytest.mark.parametrize(("k", "splits"), [(1, 1), (9, 3), (50, 1), (56, 2)])
def test_batches_of_hard_lines(k, splits):
    rng = np.random.default_rng(13)
    for region in ("<", ">") if k == 9 else (">",):
        op = ops.topk(("n",), k=k, dimension=0, region=region)
        config = dataclasses.replace(RULE.heuristic(op, TARGET), splits=splits, **BATCHES)
        kernel = build(op, config=config)
        sign = 1 if region == ">" else -1
        for n in (1, 15, 16, 31, 32, 33, 97, 5000):
            for number, line in enumerate(hard_lines(rng, n)):
                line = sign * line.astype(np.float32)
                given = operands(line, k, region)
                if number % 2:  # inits that compete: some of the line's own values
                    inits = sign * -np.sort(sign * -rng.choice(line, k))
                    given["output_values_init"] = inits
                    given["output_indices_init"] = np.arange(k, dtype=np.int32) + n // 2
                got = kernel(*given.values())
                for array, want in zip(got, by_value_then_index(given, k, sign), strict=True):
                    np.testing.assert_array_equal(array, want)
                    np.testing.assert_array_equal(np.signbit(array), np.signbit(want))


@pytest.mark.costly
@packs
@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "int8", "uint8", "bool", "int16", "uint16", "int32", "uint32"]
)
def test_batches_of_other_dtypes(dtype):
    rng = np.random.default_rng(14)
    kind = dtypes.numpy_dtype(dtype)
    if dtype in dtypes.FLOATS:
        values = rng.standard_normal((3, 300)).astype(kind)
        values[0, ::3] = np.nan
    else:
        limits = np.iinfo(np.uint8 if dtype == "bool" else kind)
        choices = [limits.min, limits.max, limits.max // 2]
        values = rng.choice(choices, (3, 300)).astype(kind)
        values[1] = choices[0]  # as the inits, with smaller indices
    # Of each width of numbers one has many slots, which are sorted otherwise.
    given = operands(values, 50 if dtype in ("float16", "int8", "uint32") else 7)
    check(make(given), given, **BATCHES)


@packs
def test_batches_skip_lines_that_can_bring_nothing():
    values = np.ones((1, 4000), bool)
    values[0, :3] = False
    given = operands(values, 5)
    _, where = check(make(given), given, **BATCHES)
    assert where.tolist() == [[3, 4, 5, 6, 7]]


@pytest.mark.costly
@pytest.mark.parametrize("splits", [2, 3])
@pytest.mark.parametrize("form", ["ordered", "heap", "select"])
def test_long_lines_are_walked_in_parts(form, splits):
    rng = np.random.default_rng(7)
    values = rng.integers(0, 5000, (1, 70_001)).astype(np.int32)
    given = operands(values.astype(np.float64), 40)
    got = run(make(given), given, algorithm=form, splits=splits)
    for array, right in zip(got, by_sorting(given["values"], 40), strict=True):
        np.testing.assert_array_equal(array, right)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("dtype", "has_indices", "changed"),
    [
        ("float32", True, {}),
        ("float16", False, {}),
        ("int8", True, {}),
        ("float64", False, {"vector_lanes": 4}),
        ("bool", False, {}),
    ],
)
def test_selects_along_a_dim_that_is_not_the_innermost(dtype, has_indices, changed):
    rng = np.random.default_rng(8)
    shape = ("a", "n", "b")
    indices = shape if has_indices else None
    op = ops.topk(shape, ("a", 6, "b"), indices=indices, dimension=1, dtype=dtype)
    kernel = build(op, config=dataclasses.replace(RULE.heuristic(op, TARGET), **changed))
    for sizes in ((1, 300, 3), (1, 1500, 17), (2, 300, 133), (1, 70, 1)):
        values = rng.integers(0, 100, sizes).astype(dtype)
        indices = rng.integers(0, 999, sizes).astype(np.int32) if has_indices else None
        given = operands(values, 6, axis=1, indices=indices)
        want = registry.find("topk").reference(op, given).values()
        for array, right in zip(kernel(*given.values()), want, strict=True):
            np.testing.assert_array_equal(array, right)


@pytest.mark.parametrize(
    ("region", "axis"),
    [("abs(arg0) >= abs(arg1)", 1), ("abs(arg0) > abs(arg1)", 0), ("arg0 > arg1 + 3", 1)],
)
def test_other_comparators_take_the_dialects_loop(region, axis):
    rng = np.random.default_rng(9)
    values = rng.integers(-20, 20, (2, 90) if axis else (90, 2)).astype(np.float32)
    given = operands(values, 4, axis=axis)
    given["output_values_init"][:] = 0
    check(make(given, region, axis=axis), given)


@pytest.mark.costly
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("sign", ["<", ">"])
def test_of_equal_values_the_first_is_selected_whatever_the_comparator(axis, sign):
    values = np.random.default_rng(11).integers(-5, 6, (3, 90) if axis else (90, 3), "int32")
    given = operands(values, 7, sign, axis=axis)
    order = np.argsort(-values if sign == ">" else values, axis=axis, kind="stable")
    first = np.take(order, np.arange(7), axis)
    want = np.take_along_axis(values, first, axis), first
    shapes = given["output_values_init"], given["output_indices_init"]
    for region in (sign, f"{sign}=", f"arg0 * 2 {sign}= arg1 * 2"):
        for op in (
            ops.topk(values, *shapes, dimension=axis, region=region),
            ops.topk_v2(values, *shapes, dimension=axis, region=region, is_sorted=True),
        ):
            for array, right in zip(build(op)(*given.values()), want, strict=True):
                np.testing.assert_array_equal(array, right)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "uint64"])
def test_indices_of_any_integer_type(dtype):
    given = operands(np.random.default_rng(10).standard_normal(90).astype(np.float32), 4)
    given["output_indices_init"] = np.full(4, 127, dtype)
    check(make(given), given)


def test_a_dynamic_k_above_the_number_of_candidates_keeps_the_inits():
    op = ops.topk(("n",), ("k",), dimension=0)
    given = operands(np.array([1.0, 2.0], np.float32), 4)
    values, where = build(op)(*given.values())
    assert values.tolist() == [2.0, 1.0, -np.inf, -np.inf]
    assert where.tolist() == [1, 0, 2**31 - 1, 2**31 - 1]


REFUSED = {
    "algorithm": (
        {"algorithm": "sort"},
        "algorithm is 'sort'; expected one of ordered, heap, select, batches",
    ),
    "vectors": ({"register_tile": {}}, r"register_tile\['vectors'\] is None; expected 1 to 64"),
    "tile": (
        {"algorithm": "heap", "workgroup_tile": {}},
        r"workgroup_tile\['candidates'\] is None; expected",
    ),
    "digits": (
        {"algorithm": "select", "register_tile": {"vectors": 1, "digit_bits": 17}},
        r"register_tile\['digit_bits'\] is 17; expected 1 to 16",
    ),
    "lanes": ({"vector_lanes": 6}, "vector_lanes is 6; expected a power of two"),
    "splits": ({"splits": 0}, "splits is 0; expected a number from 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_a_config(case):
    changes, message = REFUSED[case]
    op = ops.topk((1000,), k=2, dimension=0)
    with pytest.raises(ScheduleError, match=message):
        RULE.lower(op, TARGET, dataclasses.replace(RULE.heuristic(op, TARGET), **changes))


@pytest.mark.parametrize(("region", "dimension"), [("abs(arg0) > abs(arg1)", 1), (">", 0)])
def test_refuses_to_select_by_digits(region, dimension):
    op = ops.topk((30, 40), k=2, dimension=dimension, region=region)
    config = dataclasses.replace(RULE.heuristic(op, TARGET), algorithm="select")
    with pytest.raises(ScheduleError, match="'select' needs a plain comparison, along the inn"):
        RULE.lower(op, TARGET, config)


def test_refuses_batches():
    def lower(op, cpu="x86-64-v4", **changes):
        target = make_target({"kind": "llvm", "mcpu": cpu})
        config = dataclasses.replace(RULE.heuristic(op, target), **(batches(16) | changes))
        RULE.lower(op, target, config)

    def topk(k=2, **how):
        return ops.topk((4, 900), dimension=1, k=k, **how)

    for op, cpu in (
        (topk(), "sandybridge"),
        (topk(129), "x86-64-v3"),
        (topk(dtype="float64"), "x86-64-v4"),
        (topk(257), "x86-64-v4"),
        (topk("k"), "x86-64-v4"),
        (topk(indices=(4, 900)), "x86-64-v4"),
        (topk(output_indices=TensorType((4, 2), "i64")), "x86-64-v4"),
        (ops.topk((900, 4), dimension=0, k=2), "x86-64-v4"),
    ):
        with pytest.raises(ScheduleError, match="'batches' needs a plain comparison of values"):
            lower(op, cpu)
    with pytest.raises(ScheduleError, match="'batches' sorts at least 15 rows here"):
        lower(topk(100))
    with pytest.raises(ScheduleError, match="'batches' takes blocks of multiples of 16"):
        lower(topk(), vector_lanes=4)


def test_takes_batches_where_the_cpu_packs():
    def form(cpu, *shape, **how):
        op = ops.topk(shape, dimension=len(shape) - 1, **how)
        return RULE.heuristic(op, make_target({"kind": "llvm", "mcpu": cpu})).algorithm

    assert form("x86-64-v4", 64, "n", k=1) == form("x86-64-v4", 1000, k=256) == "batches"
    assert form("x86-64-v4", 1000, k=257) == form("x86-64-v3", 1000, k=129) == "select"
    assert form("x86-64-v3", 64, "n", k=1) == form("x86-64-v3", 1000, k=128) == "batches"
    assert form("sandybridge", 1000, k=8) == form("x86-64-v4", 99, k=8, dtype="int64") == "ordered"


def test_refuses_parts_of_strewn_lines():
    op = ops.topk(TensorType((1000, 2), "f32"), k=2, dimension=0)
    config = dataclasses.replace(RULE.heuristic(op, TARGET), splits=2)
    with pytest.raises(ScheduleError, match="splits need the dim to be the innermost"):
        RULE.lower(op, TARGET, config)


def test_applies_to_topk_on_a_cpu():
    assert RULE.applies(ops.topk((4,), k=1, dimension=0), TARGET) is None
    assert "is not Topk" in RULE.applies(ops.sort((4,), dimension=0), TARGET)
